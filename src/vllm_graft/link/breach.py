# A breach becomes a finding when the plan is made; until then it may still be repaired.
"""A breach of contract: what donor code asks for and the base does not give."""

from dataclasses import dataclass

from vllm_graft.values.finding import Severity, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A use that the base does not satisfy as it is."""

    code: str
    module: str
    line: int
    wanted: str
    found: str
    severity: Severity = "blocked"
    remedy: str = "choose a donor whose release is nearer to the base, or another route"
    guard: str = ""
    unit: str = ""
    """Dotted unit that it was found in."""
    about: str = ""
    """Dotted definition of the donor, or member of one, that it is about; empty: only a place."""
    met_at: Site | None = None
    """Where the base meets that, if not in its own definition of the same name."""

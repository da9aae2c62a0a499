# What a donor itself cannot serve on CPU, with the reason: recorded in controls.toml, and shown again by the full
# matrix. About these architectures no token test can say anything.
"""The architectures that a donor cannot serve here."""

from collections.abc import Mapping
from dataclasses import dataclass

from listing import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One architecture that some donors cannot serve on CPU."""

    architecture: str
    donors: tuple[str, ...]
    reason: str
    """Stands in what the donor raises."""
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Architectures that a base cannot serve on CPU however well they are grafted, shown on one of its own."""

    base: str
    architectures: tuple[str, ...]
    witness: str
    """The name of a tiny model that the base registers itself."""
    reason: str
    """Stands in what the base raises for the witness."""
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Architectures that a donor has and whose graft into a base is refused, rightly: the reason was read by hand."""

    base: str
    architectures: tuple[str, ...]
    donors: tuple[str, ...]
    reason: str
    """Stands in what the plan says."""
    means: str


def refusal_of(base: str, donor: str, architecture: str) -> Refusal | None:
    """Give why the plan for this graft has to be blocked, if it has."""
    found = [
        refusal
        for refusal in listed("controls.toml", "refusal", Refusal)
        if refusal.base == base
        and donor in refusal.donors
        and architecture in refusal.architectures
    ]
    return found[0] if found else None


def witness_for(base: str, architecture: str) -> Witness | None:
    """Give what shows that this base cannot serve this architecture, if it cannot."""
    found = [
        witness
        for witness in listed("controls.toml", "witness", Witness)
        if witness.base == base and architecture in witness.architectures
    ]
    return found[0] if found else None


def not_runnable(donor: str) -> Mapping[str, Control]:
    """Give the controls of one donor by architecture."""
    controls = listed("controls.toml", "control", Control)
    return {entry.architecture: entry for entry in controls if donor in entry.donors}

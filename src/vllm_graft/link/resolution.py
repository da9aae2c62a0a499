# The values that decide.py works with.
"""How a name is satisfied, and what is brought for it."""

import re
from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.link.index import Found
from vllm_graft.values.plan import ResolutionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a donor definition is satisfied."""

    kind: ResolutionKind
    module: str
    """Where the grafted base has it; empty where blocked."""
    name: str
    reason: str
    base: Found | None = None
    """The base's counterpart, where there is one."""


@dataclass(slots=True)
class Taken:
    """A donor module that the graft takes."""

    module: str
    target: str
    kind: Literal["donor", "beside"]
    why: str
    roots: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Derivation:
    """An engine class of the base that gets members of the donor's."""

    donor: Found
    base: Found
    members: dict[str, Found] = field(default_factory=dict[str, Found])
    """Member → the donor class that provides it."""
    reasons: list[str] = field(default_factory=list[str])


def version_suffix(version: str) -> str:
    """Give a version as part of a module name: ``0_17_1``."""
    return re.sub(r"\W+", "_", version.partition("+")[0])


def whereabouts(found: Found, counterpart: Found) -> str:
    """Say where the base has a definition, if not where the donor has it."""
    if counterpart.module != found.module:
        return f"the base has it in {counterpart.module}"
    return "" if counterpart.name == found.name else f"the base calls it {counterpart.name}"


def as_any(blocked: Decision) -> Decision:
    """Let ``typing.Any`` stand for what is only named in annotations: no annotation is a contract."""
    reason = f"only annotations name it; {blocked.reason}"
    return Decision(kind="adapted", module="typing", name="Any", reason=reason)


def unneeded(found: Found) -> Decision:
    """Leave out what no code asks for that will run."""
    return Decision(
        kind="blocked",
        module="",
        name=found.name,
        reason="only code that runs on other platforms asks for it",
    )


def listed(names: tuple[str, ...], most: int = 3) -> str:
    """Name the first few definitions of models, and say how many more there are."""
    shown = ", ".join(n.removeprefix("vllm.model_executor.models.") for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

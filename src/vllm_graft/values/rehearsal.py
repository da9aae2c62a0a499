# What a rehearsal showed: each gate with how it ended, how long it took and on what it was controlled.
"""What a rehearsal of an image showed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

REHEARSAL_SCHEMA = "vllm-graft/rehearsal/1"

GateOutcome = Literal["passed", "failed", "not runnable here"]
"""``not runnable here``: what the base knows already does not pass either, so that nothing is shown of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that a gate found wrong."""

    code: str
    """``vllm-graft explain CODE`` says more."""
    wanted: str
    found: str
    cause: str
    """What is known of it; empty where nothing is."""
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """How one gate ended."""

    gate: str
    rung: str
    """``P4 import`` and so on."""
    shows: str
    """What it shows where it passes."""
    outcome: GateOutcome
    milliseconds: int
    """With its control."""
    why: str
    """Of ``not runnable here``: what the control ended with."""
    faults: tuple[Fault, ...]
    facts: Mapping[str, str]
    """What it saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A whole rehearsal."""

    install: str
    """The image or folder."""
    model: str
    architectures: tuple[str, ...]
    """Of the model, and of its draft where one is planned."""
    grafted: bool
    """Whether the install says of itself what was grafted; else nobody knows which files were changed."""
    control: str
    """The architecture that the base knows, on which each gate is run first."""
    since: str
    """The first rung that was climbed; those below it are not shown."""
    until: str
    vllm: str
    """Version of the vLLM that was asked; empty where it could not be imported."""
    python: str
    platform: str
    """That vLLM found; ``cpu, in place of a GPU`` where it found none."""
    milliseconds: int
    gates: tuple[GateResult, ...]

    @property
    def outcome(self) -> GateOutcome:
        """Give the worst of all."""
        outcomes = {gate.outcome for gate in self.gates}
        if "failed" in outcomes:
            return "failed"
        return "passed" if outcomes == {"passed"} else "not runnable here"

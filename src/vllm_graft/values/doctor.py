"""What ``doctor`` tells."""

from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.values.finding import Severity
from vllm_graft.values.memory_plan import MemoryPlan
from vllm_graft.values.node_facts import NodeFacts
from vllm_graft.values.probe import NotKnown

DOCTOR_SCHEMA = "vllm-graft/doctor/1"

Verb = Literal["build", "ship", "up"]

Role = Literal["head", "worker", "builder", ""]
"""``builder``: it serves nothing, but has the base image; empty: the one node that there is."""

Verdict = Literal["ok", "review", "blocked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """One piece of news about nodes; its code has a row in data/node_rules.toml or data/rules.toml."""

    code: str
    severity: Severity
    """``blocked``: a verb would stop; ``review``: it may, a person should look; ``note``: told for completeness."""
    nodes: tuple[str, ...]
    """Those that it is about; several where it is about what lies between them."""
    stops: tuple[Verb, ...]
    """The verbs that it is about."""
    wanted: str
    found: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """A way from one node to another."""

    sender: str
    receiver: str
    """Names of nodes."""
    interface: str
    """Of the sender; empty where its routes decide."""
    address: str
    """Of the receiver."""
    answered: bool | NotKnown
    """Whether an echo came back."""
    trip: int | None
    """Microseconds there and back, the quickest of three; None where none came back."""
    whole_frames: bool | None
    """Whether packets as large as both ends allow (``mtu``) pass unbroken; None where that was not asked."""
    mtu: int
    """The smaller one of both ends; 0 where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HopFacts:
    """How ``ship`` would send from one node to another."""

    sender: str
    receiver: str
    kind: Literal["push", "pull", "relay"] | NotKnown
    """``push``: the sender logs in on the receiver; ``pull``: the receiver on the sender; ``relay``: neither can, so that all goes
    through this machine."""
    address: str = ""
    """At which the one that is logged in on is reached; empty for ``relay``."""
    interface: str = ""
    """Which has that address."""
    rate: int = 0
    """Bytes a second, measured with 4 MiB; 0: not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatFacts:
    """Where ``up`` would let a node talk to the others."""

    node: str
    address: str
    interface: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One node."""

    name: str
    role: Role
    facts: NodeFacts | NotKnown
    """Why nothing is known, where it was not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """Everything that was asked and what follows from it."""

    verdict: Verdict
    nodes: tuple[NodeReport, ...]
    paths: tuple[PathFacts, ...] = ()
    hops: tuple[HopFacts, ...] = ()
    seats: tuple[SeatFacts, ...] = ()
    """By rank; empty for one node, and where they share no network."""
    memory: MemoryPlan | NotKnown | None = None
    """Whether the model fits, or why that is not known; None: no model is named."""
    findings: tuple[NodeFinding, ...] = field(default_factory=tuple[NodeFinding, ...])
    """Those that would stop a verb last, as a terminal shows them."""

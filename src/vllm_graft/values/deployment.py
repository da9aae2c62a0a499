"""A deployment: one model, served from one image by one to N nodes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.values.memory_plan import MemoryPlan
from vllm_graft.values.probe import NotKnown

UP_SCHEMA = "vllm-graft/up/1"
DOWN_SCHEMA = "vllm-graft/down/1"
DEPLOYMENT_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}", re.ASCII)
"""What a deployment may be called: a part of its containers' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model, as every node has it."""

    name: str
    """What clients call it."""
    mounted: str
    """Folder inside the container at which each member's own ``model_folder`` is seen, read-only."""
    path: str
    """What ``vllm serve`` is given: that folder, or a snapshot in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node of a deployment, and what its container gets that others do not."""

    node: str
    """As the user names it."""
    rank: int
    """0 is the head."""
    address: str
    """On the network that the members share; a deployment of one has loopback's."""
    interface: str
    """The network interface of this node that has the address; empty for a deployment of one."""
    gpus: int
    """That its engine can hand to a container; 0: the ranks run on its CPUs."""
    model_folder: str
    """Folder of this node that is mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything that decides what is served, and nothing that differs from one start of it to the next."""

    name: str
    image: str
    """Name of the image, the same on every node."""
    content: str
    """Canonical digest of its configuration: what is in it."""
    model: ServedModel
    members: tuple[Member, ...]
    """By rank."""
    tensor_parallel: int
    host: str
    """Address of the head at which the API listens."""
    port: int
    args: tuple[str, ...] = ()
    """More words for ``vllm serve``."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of every container, beside those that are a member's own."""

    @property
    def head(self) -> Member:
        """Give the member of rank 0."""
        return self.members[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer of the served model that was looked at."""

    model: str
    """The id under which it was asked for."""
    prompt: str
    text: str
    tokens: int
    """That were generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpStage:
    """One stage of ``up`` before the last, and what came of it."""

    name: Literal["plan", "build", "ship"]
    told: str
    """A sentence for a person."""
    seconds: int


UpOutcome = Literal["serving", "already serving", "not started"]
"""``not started``: a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpReceipt:
    """What serves, where, and what it answered."""

    outcome: UpOutcome
    deployment: Deployment
    digest: str
    """Of the deployment; its containers have it as a label."""
    address: str
    """Where clients ask, such as ``http://10.0.0.1:8000``."""
    reached: bool
    """Whether the address was reached from this machine; if not, only the head itself was seen to answer."""
    seconds: int
    """From the first container to the answer; 0 where nothing was started."""
    stages: tuple[UpStage, ...] = ()
    """Those that there were: without a donor nothing is planned or built, and what is everywhere is not shipped."""
    completion: Completion | None
    """None: a dry run."""
    commands: tuple[str, ...] = ()
    """Of a dry run: every command that would be run, with its reason and node."""
    notes: tuple[str, ...] = ()
    memory: MemoryPlan | NotKnown | None = None
    """What it needs of each node, or why that is not planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenDown:
    """What was taken down on one node."""

    node: str
    containers: tuple[str, ...]
    """By name; empty: there was nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownReceipt:
    """What ``down`` did; each node was asked again afterwards."""

    deployment: str
    dry_run: bool
    nodes: tuple[TakenDown, ...]
    commands: tuple[str, ...] = ()
    """Of a dry run."""
    elsewhere: tuple[str, ...] = ()
    """Nodes that the containers say to be of their deployment too, as they were called where it was started, and that were
    not asked."""

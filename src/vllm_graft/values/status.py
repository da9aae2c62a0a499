"""What is there of deployments, and how it is."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.log import LogEvent

STATUS_SCHEMA = "vllm-graft/status/1"

RankState = Literal["running", "paused", "restarting", "not started", "ended", "gone", "not known"]
"""``gone``: its node answers and has no container of it. ``not known``: its node was not asked, or does not answer."""

Verdict = Literal["serving", "not serving", "nothing there", "not all known"]
"""Of everything that was asked; ``not all known``: a node did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatus:
    """One rank of a deployment."""

    rank: int
    role: Literal["head", "worker"]
    node: str
    """As it was asked; of a rank that was not found, as it was called where the deployment was started."""
    container: str
    """Its name; empty where there is none."""
    state: RankState
    told: str
    """How it is, in words: ``is running``, ``ended with status 1``."""
    since: str
    """When it was started or ended, in UTC, by the clock of its node; empty where that is not known."""
    code: int | None
    """Exit status; absent where it has not ended."""
    cause: LogEvent | None
    """Of one that ended: the first known cause in what it said since it was started, or the first exception where none is known."""
    last: str
    """The last line that it said; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStatus:
    """What the API at the head answered when it was asked through the head itself."""

    address: str
    """Where it listens, as the head reaches it; empty where the head's words do not say."""
    health: int | None
    """Status of ``/health``; absent where nothing answers. 200 is no proof of anything."""
    models: tuple[str, ...]
    """That ``/v1/models`` lists."""
    completes: bool
    """Whether it answered with a completion of the model that was looked at."""
    told: str
    """Why it does not; empty where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStatus:
    """One deployment, as one run of ``up`` made it."""

    name: str
    run: str
    """Of ``up``."""
    digest: str
    """Of the deployment: the same for two starts of the same."""
    image: str
    model: str
    """The name under which it is served."""
    folder: str
    """Of the head, or of another node where the head was not found: what is mounted as the model, or the cache that it is in."""
    nodes: tuple[str, ...]
    """By rank, as they were called where it was started."""
    ranks: tuple[RankStatus, ...]
    api: ApiStatus | None
    """Absent where the head's container does not run, or was not found."""

    @property
    def serves(self) -> bool:
        """Tell whether every rank runs and the model was seen to answer."""
        whole = all(each.state == "running" for each in self.ranks)
        return whole and self.api is not None and self.api.completes


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredNode:
    """A node that did not say what it has."""

    name: str
    code: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport:
    """What was found of deployments on all nodes that were asked."""

    name: str
    """Of the one that was asked for; empty: of every one."""
    nodes: tuple[str, ...]
    """That answered."""
    unanswered: tuple[UnansweredNode, ...]
    deployments: tuple[DeploymentStatus, ...]

    @property
    def verdict(self) -> Verdict:
        """Give it for everything together."""
        if self.unanswered:
            return "not all known"
        if not self.deployments:
            return "nothing there"
        return "serving" if all(each.serves for each in self.deployments) else "not serving"

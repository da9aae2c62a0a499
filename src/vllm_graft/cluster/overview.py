# The labels of a container name all nodes of its deployment: so a rank that is not there is known to be lacking, and is told as
# lacking only where its node was asked and answered.
"""What containers on several nodes are together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.cluster.containers import FoundContainer
from vllm_graft.cluster.launch import said
from vllm_graft.cluster.model_place import FOLDER_PLACE, HUB_PLACE
from vllm_graft.rehearse.log_line import harmless
from vllm_graft.values.log import LogEvent
from vllm_graft.values.status import ApiStatus, DeploymentStatus, RankState, RankStatus

_NEVER = "0001-"
"""How the time begins of what never was. Source: Docker 20.10 to 28 and podman 4, Go's zero time."""
_PORTS = 65536
_MOST_RANKS = 4096
"""That a label is believed to name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRank:
    """A container that was found on a node, and what of its log is told."""

    node: str
    found: FoundContainer
    last: str = ""
    cause: LogEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDeployment:
    """The containers that one run of ``up`` made."""

    name: str
    run: str
    ranks: Mapping[int, SeenRank] = field(default_factory=dict[int, SeenRank])

    @property
    def first(self) -> SeenRank:
        """Give the head, or the lowest rank that was found."""
        return self.ranks[min(self.ranks)]

    @property
    def head(self) -> SeenRank | None:
        """Give the rank that has the API."""
        return self.ranks.get(0)


def seen_deployments(seen: Sequence[SeenRank]) -> tuple[SeenDeployment, ...]:
    """Put together what belongs together; a machine that was asked under two names has its containers once."""
    found: dict[tuple[str, str], dict[int, SeenRank]] = {}
    for each in {one.found.id: one for one in reversed(seen)}.values():
        ranks = found.setdefault((each.found.deployment, each.found.run), {})
        ranks[each.found.rank] = each
    return tuple(
        SeenDeployment(name=name, run=run, ranks=dict(sorted(ranks.items())))
        for (name, run), ranks in sorted(found.items())
    )


def was_never(time: str) -> bool:
    """Tell whether an engine's time is that of something which did not happen."""
    return not time or time.startswith(_NEVER)


def api_place(found: FoundContainer) -> tuple[str, int] | None:
    """Give host and port at which a head was told to listen; None where its words do not say."""
    host, port = said(found.words, "--host"), said(found.words, "--port")
    if not host or port is None or not (port.isascii() and port.isdecimal()):
        return None
    return (host, int(port)) if 0 < int(port) < _PORTS else None


def served_name(found: FoundContainer) -> str:
    """Give the name under which a rank serves its model; empty where its words do not say."""
    return said(found.words, "--served-model-name") or ""


def status_of(
    seen: SeenDeployment, api: ApiStatus | None, answered: Sequence[str], lost: Sequence[str]
) -> DeploymentStatus:
    """Tell how a deployment is; ``answered`` and ``lost``: names of the nodes that were asked."""
    first = seen.first.found
    mounted = dict((place, folder) for folder, place in first.mounts)  # noqa: C402 (turned round)
    number = max(min(len(first.nodes), _MOST_RANKS), *(rank + 1 for rank in seen.ranks), 1)
    return DeploymentStatus(
        name=harmless(seen.name),
        run=harmless(seen.run),
        digest=harmless(first.digest),
        image=harmless(first.image),
        model=harmless(served_name(first)),
        folder=harmless(mounted.get(FOLDER_PLACE) or mounted.get(HUB_PLACE) or ""),
        nodes=tuple(map(harmless, first.nodes)),
        ranks=tuple(_ranks(seen, number, answered, lost)),
        api=api,
    )


def _ranks(
    seen: SeenDeployment, number: int, answered: Sequence[str], lost: Sequence[str]
) -> Iterator[RankStatus]:
    nodes = seen.first.found.nodes
    for rank in range(min(number, _MOST_RANKS)):
        if (one := seen.ranks.get(rank)) is not None:
            yield _found(one)
        else:
            yield _lacking(rank, nodes[rank] if rank < len(nodes) else "", answered, lost)


def _found(seen: SeenRank) -> RankStatus:
    found = seen.found
    state = _state(found)
    has_ended = state == "ended"
    time = found.finished if has_ended else found.started
    return RankStatus(
        rank=found.rank,
        role="worker" if found.rank else "head",
        node=seen.node,
        container=harmless(found.name),
        state=state,
        told=harmless(found.told),
        since="" if was_never(time) else harmless(time),
        code=found.code if has_ended else None,
        cause=seen.cause,
        last=harmless(seen.last),
    )


def _state(found: FoundContainer) -> RankState:
    match found.status:
        case "running" | "paused" | "restarting":
            return found.status
        case "created" | "configured" | "initialized":  # the last two: podman's
            return "not started"
        case _:
            return "ended"


def _lacking(rank: int, node: str, answered: Sequence[str], lost: Sequence[str]) -> RankStatus:
    if node in answered:
        state, told = "gone", "is gone"
    elif node in lost:
        state, told = "not known", "is not known: its node does not answer"
    else:
        state, told = "not known", "is not known: its node was not asked (--node)"
    return RankStatus(
        rank=rank,
        role="worker" if rank else "head",
        node=harmless(node),
        container="",
        state=state,
        told=told,
        since="",
        code=None,
        cause=None,
        last="",
    )

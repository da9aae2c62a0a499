"""What the containers of a deployment, as they are found, leave to be done."""

from collections.abc import Sequence
from typing import Literal

from vllm_graft.cluster.containers import FoundContainer
from vllm_graft.cluster.launch import deployment_digest
from vllm_graft.errors import NodeError
from vllm_graft.values.deployment import Deployment

Standing = Literal["absent", "running", "ended"]
"""``running``: every rank, of this very deployment. ``ended``: something is left that serves nobody."""


def judge_standing(deployment: Deployment, found: Sequence[tuple[FoundContainer, ...]]) -> Standing:
    """Tell how a deployment stands; ``found``: the containers of its name on each node, in the order of the ranks.

    One rank alone cannot come back: what has ended in part is as good as ended.

    Raises:
        NodeError: E579, another one of this name runs; E574, another run of ``up`` is starting one.
    """
    everything = [
        (member.node, each)
        for member, containers in zip(deployment.members, found, strict=True)
        for each in containers
    ]
    if not everything:
        return "absent"
    digest = str(deployment_digest(deployment))
    others = [(node, each) for node, each in everything if each.is_alive and each.digest != digest]
    if others:
        node, other = others[0]
        raise NodeError(
            f"another deployment of the name {deployment.name} runs: {other.name} on {node}, with another image, model or"
            " settings",
            remedy="end it first with `vllm-graft down`, or give this one another [serve] name and port",
            code="E579",
        )
    waiting = [f"{each.name} on {node}" for node, each in everything if each.status == "created"]
    if waiting:
        raise NodeError(
            f"{', '.join(waiting)} was made and not started: another run of `up` is at work, or was ended hard",
            remedy="wait for its end; if there is none, take away what it left with `vllm-graft down`",
            code="E574",
        )
    ranks = [[each.rank for each in containers if each.is_alive] for containers in found]
    is_whole = ranks == [[member.rank] for member in deployment.members]
    return "running" if is_whole else "ended"

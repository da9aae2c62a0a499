# Facts of the nodes and what the user wants become a deployment; or what stands in the way becomes an error. Nothing is asked
# and nothing is started here, so that a dry run and a real one decide by the same code.
"""Decide what is to run where."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.cluster.addresses import LOOPBACK, NodeNetwork, choose_seats
from vllm_graft.cluster.containers import FoundContainer
from vllm_graft.cluster.launch import said
from vllm_graft.cluster.model_place import HUB_PLACE, ModelPlace, WantedModel, served_model
from vllm_graft.cluster.sizes import plan_tensor_parallel
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.image.provenance import PYTHONPATH_LABEL
from vllm_graft.values.deployment import DEPLOYMENT_NAME, Deployment, Member
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.memory_plan import NodeBudget
from vllm_graft.values.node import LOCALHOST, THIS_MACHINE
from vllm_graft.values.node_facts import Listener
from vllm_graft.values.probe import NotKnown
from vllm_graft.values.settings import ServeSettings

MASTER_PORT = 29501
"""From here on a free one is looked for. Source of the number: vLLM 0.12 to 0.31, config/parallel.py (``master_port``)."""

_TRIED = 100
_OWN_WORDS = (
    "--nnodes",
    "-n",
    "--node-rank",
    "-r",
    "--master-addr",
    "--master-port",
    "--headless",
    "--host",
    "--model",
)
"""Arguments of ``vllm serve`` that follow from nodes and settings."""


def _not_asked() -> NotKnown:
    return NotKnown(not_known="it was not asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSurvey:
    """What was asked of a node before anything is started there."""

    node: str
    image: ImageFacts | None
    """None: its engine has none of this name."""
    content: str
    """Canonical digest of the image; empty where there is none."""
    model: ModelPlace
    gpus: int
    network: NodeNetwork
    listeners: tuple[Listener, ...] | None
    """None: it does not say."""
    containers: tuple[FoundContainer, ...]
    """Of the deployment, in whatever state."""
    budget: NodeBudget | NotKnown = field(default_factory=_not_asked)
    """What its GPUs can give."""


def refuse_words(serve: ServeSettings) -> None:
    """Refuse arguments that follow from nodes and settings, keys in the open, and what cannot be done yet.

    Raises:
        RequestError: E222.
    """
    if serve.launcher == "ray":
        raise RequestError(
            '[serve] launcher = "ray" cannot be started by this version',
            remedy='say "native": vLLM 0.12 and later go to several nodes by themselves',
            code="E222",
        )
    words = serve.args
    if told := [name for name in _OWN_WORDS if said(words, name) is not None]:
        raise RequestError(
            f"[serve] args say {', '.join(told)}, which follows from [nodes], [model] and the other keys of [serve]",
            remedy="take it out of args",
            code="E222",
        )
    if said(words, "--api-key") is not None:
        raise RequestError(
            "[serve] args hold an API key, which every user of every node could read",
            remedy="take it out: the API listens on the head alone unless [serve] host says otherwise",
            code="E222",
        )


def deployment_name(serve: ServeSettings, model: str) -> str:
    """Name a deployment: as the user does, or after the model.

    Raises:
        RequestError: E222, an engine takes no such name.
    """
    name = serve.name or re.sub(r"[^a-z0-9_.]+", "-", model.rpartition("/")[2].lower()).strip("-._")
    if DEPLOYMENT_NAME.fullmatch(name) is None:
        raise RequestError(
            f"not a name of a deployment: {name!r}",
            remedy="say [serve] name: up to 63 of a-z, 0-9, '_', '.', '-', a letter or digit first",
            code="E222",
        )
    return name


def compose(
    image: str, wanted: WantedModel, serve: ServeSettings, surveys: Sequence[NodeSurvey]
) -> Deployment:
    """Give the deployment of this image on these nodes, by rank.

    Raises:
        RequestError: E222.
        NodeError: E571 image, E572 network, E578 model.
    """
    content = _one_content(image, surveys)
    names = [each.node for each in surveys]
    model = served_model(
        wanted,
        said(serve.args, "--served-model-name") or "",
        {each.node: each.model for each in surveys},
    )
    tensor_parallel = plan_tensor_parallel(
        serve.tensor_parallel, serve.args, [each.gpus for each in surveys], names
    )
    seats = choose_seats([each.network for each in surveys])
    members = tuple(
        Member(
            node=survey.node,
            rank=rank,
            address=seat.address,
            interface=seat.interface,
            gpus=survey.gpus,
            model_folder=survey.model.mounted,
        )
        for rank, (survey, seat) in enumerate(zip(surveys, seats, strict=True))
    )
    return Deployment(
        name=deployment_name(serve, wanted.text),
        image=image,
        content=content,
        model=model,
        members=members,
        tensor_parallel=tensor_parallel,
        host=serve.host,
        port=serve.port,
        args=serve.args,
        variables=_variables(surveys, is_cached=bool(surveys[0].model.within)),
    )


def _one_content(image: str, surveys: Sequence[NodeSurvey]) -> str:
    absent = [each.node for each in surveys if not each.content]
    if absent:
        raise NodeError(
            f"the engine of {', '.join(absent)} has no image {image}",
            remedy=f"bring it there: vllm-graft ship {image} {' '.join(map(_in_words, absent))}",
            code="E571",
        )
    contents = {each.content for each in surveys}
    if len(contents) > 1:
        told = "".join(f"\n  {each.node}: {each.content}" for each in surveys)
        raise NodeError(
            f"{image} is not the same image on every node:{told}",
            remedy=f"ship the one that is meant to the others: vllm-graft ship {image} NODE…",
            code="E571",
        )
    return surveys[0].content


def _in_words(node: str) -> str:
    return LOCALHOST if node == THIS_MACHINE else node


def _variables(surveys: Sequence[NodeSurvey], *, is_cached: bool) -> Mapping[str, str]:
    """Give the variables of every container: nothing is fetched from elsewhere while it starts."""
    found = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if is_cached:
        found["HF_HUB_CACHE"] = HUB_PLACE
    image = surveys[0].image
    beside = image.labels.get(PYTHONPATH_LABEL, "") if image is not None else ""
    return found | ({"PYTHONPATH": beside} if beside else {})


def refuse_taken(deployment: Deployment, head: NodeSurvey) -> None:
    """Refuse a port at which somebody else listens.

    Raises:
        NodeError: E577.
    """
    for each in head.listeners or ():
        if each.port == deployment.port and _meets(each.address, deployment.host):
            by = f" by {each.process}" if each.process else ""
            raise NodeError(
                f"port {each.port} of {head.node} is taken{by} ({each.address}:{each.port})",
                remedy=f"say another [serve] port, or end what listens there (on {head.node}: sudo ss -ltnp sport = :{each.port})",
                code="E577",
            )


def _meets(listening: str, wanted: str) -> bool:
    everywhere = ("0.0.0.0", "*", "[::]", "::")  # noqa: S104 (compared, not bound)
    bare = listening.partition("%")[0].strip("[]")
    return (
        listening in everywhere
        or bare == "::"
        or wanted in everywhere
        or bare == wanted.strip("[]")
    )


def free_master_port(head: NodeSurvey) -> int:
    """Give a port at which the ranks find one another: one that nobody of the head listens at."""
    taken = {each.port for each in head.listeners or ()}
    ports = range(MASTER_PORT, MASTER_PORT + _TRIED)
    return next((port for port in ports if port not in taken), MASTER_PORT)


def reached_host(host: str) -> str:
    """Give the address at which the head itself reaches an API that listens at ``host``."""
    return {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)  # noqa: S104 (as above)

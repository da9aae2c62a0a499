# `doctor` does not decide a second time what `up` decides: it lets the same functions decide about what the nodes said, and tells
# as findings what they refuse.
"""What ``up`` would refuse, known before."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from vllm_graft.cluster.addresses import NodeNetwork, choose_seats
from vllm_graft.cluster.compose import deployment_name, refuse_words
from vllm_graft.cluster.launch import said
from vllm_graft.cluster.model_place import ModelPlace, WantedModel, served_model
from vllm_graft.cluster.sizes import plan_tensor_parallel
from vllm_graft.errors import GraftError
from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.values.doctor import NodeFinding, SeatFacts
from vllm_graft.values.probe import NotKnown
from vllm_graft.values.settings import ServeSettings


def foresee(
    wanted: WantedModel,
    serve: ServeSettings,
    nodes: Sequence[Seen],
    places: Mapping[str, ModelPlace | GraftError],
) -> Iterator[NodeFinding]:
    """Say what ``up`` would refuse of settings and model (E222, E578).

    ``places``: name of a node → where it has the model, or why it is not there.
    """
    names = tuple(node.name for node in nodes)
    yield from _refused(names, lambda: refuse_words(serve))
    yield from _refused(names, lambda: deployment_name(serve, wanted.text))
    gpus = [_count(node) for node in nodes]
    if None not in gpus:
        counts = [each for each in gpus if each is not None]
        yield from _refused(
            names, lambda: plan_tensor_parallel(serve.tensor_parallel, serve.args, counts, names)
        )
    for name, place in places.items():
        if isinstance(place, GraftError):
            yield refused(place, (name,))
    found = {name: each for name, each in places.items() if isinstance(each, ModelPlace)}
    if found:
        shown = said(serve.args, "--served-model-name") or ""
        yield from _refused(tuple(found), lambda: served_model(wanted, shown, found))


def foresee_seats(nodes: Sequence[Seen]) -> tuple[tuple[SeatFacts, ...], tuple[NodeFinding, ...]]:
    """Give the addresses at which ranks would talk, or say that the nodes share no network (E572)."""
    if len(nodes) < 2:  # noqa: PLR2004 (nobody to talk to)
        return (), ()
    networks = [_network(node) for node in nodes]
    told = [each for each in networks if each is not None]
    if len(told) < len(nodes):
        return (), ()
    try:
        seats = choose_seats(told)
    except GraftError as error:
        return (), (refused(error, tuple(node.name for node in nodes)),)
    return tuple(
        SeatFacts(node=node.name, address=seat.address, interface=seat.interface)
        for node, seat in zip(nodes, seats, strict=True)
    ), ()


def refused(error: GraftError, names: tuple[str, ...]) -> NodeFinding:
    """Say what ``up`` would stop with."""
    return NodeFinding(
        code=error.code,
        severity="blocked",
        nodes=names,
        stops=("up",),
        wanted="what `up` can start",
        found=error.what,
        remedy=error.remedy,
    )


def _refused(names: tuple[str, ...], decide: Callable[[], object]) -> Iterator[NodeFinding]:
    try:
        decide()
    except GraftError as error:
        yield refused(error, names)


def _count(node: Seen) -> int | None:
    gpus = node.facts.gpus
    if not isinstance(gpus, NotKnown):
        return len(gpus)
    return 0 if gpus.is_absent else None


def _network(node: Seen) -> NodeNetwork | None:
    interfaces, routes = node.facts.interfaces, node.facts.routes
    if isinstance(interfaces, NotKnown):
        return None
    return NodeNetwork(
        node=node.name,
        interfaces=interfaces,
        routes=() if isinstance(routes, NotKnown) else routes,
    )

# One payload to several nodes: first the paths, then the stream, then what each node says.
"""Send what nodes lack of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from vllm_graft.errors import GraftError, NodeError
from vllm_graft.fleet.hop import Hop
from vllm_graft.fleet.path import relay
from vllm_graft.fleet.relay import Link, beside, chained, parse_took
from vllm_graft.fleet.ship import is_worth_chaining, not_given, not_taken, runs, was_cut_off
from vllm_graft.image.archive import archive_pieces
from vllm_graft.run.console import Console
from vllm_graft.run.machines import Machine
from vllm_graft.run.path import find_hop
from vllm_graft.run.progress import Progress
from vllm_graft.run.stream import Chain, Streamed, rate_to, stream_archive, stream_command
from vllm_graft.run.threads import at_once
from vllm_graft.values.command import Command
from vllm_graft.workflows.ship_node import NodeState
from vllm_graft.workflows.ship_source import Payload, ShipSource

_MUCH = 256 << 20
"""Bytes from which on it is worth the seconds to look for a faster path from this machine than a node's name leads over."""
LITTLE = 8 << 20
"""Bytes that are sent sooner than a link is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """How sending to one node ended: ``error`` is None where its engine says that it has taken the image in."""

    path: str
    sent: int = 0
    took: int = 0
    error: GraftError | None = None
    told: bool = True
    """Whether the node itself said how it fared; if not, it may do better on another path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A chain of nodes, with the path to each from the one before it; to the first from the sender."""

    nodes: tuple[NodeState, ...]
    hops: tuple[Hop, ...]

    @property
    def rate(self) -> int:
        """Give the bytes a second of the slowest link; 0: not known, or not to be compressed for."""
        if not all(node.unpacks for node in self.nodes):
            return 0
        return min((hop.rate for hop in self.hops if hop.rate), default=0)

    def path(self, number: int, sender: Machine) -> str:
        """Give in words where a node got the image from."""
        before = self.nodes[number - 1].name if number else sender.name
        hop = self.hops[number]
        return before if before == sender.name and sender.node is None else f"{before}, {hop.said}"

    def command(self, tag_links: Sequence[Link]) -> Command:
        """Give what is run on the first node."""
        hops = (None, *self.hops[1:])
        return chained([replace(link, hop=hop) for link, hop in zip(tag_links, hops, strict=True)])


def find_routes(
    payload: Payload, states: Sequence[NodeState], addresses: Mapping[str, str]
) -> tuple[Route, ...]:
    """Give the chains in which the nodes get a payload.

    Raises:
        NodeError: E550, an address that was given leads nowhere.
    """
    first = _first_hop(payload, states[0], addresses)
    one_by_one = payload.kept is not None and not is_worth_chaining(payload.size, first.rate)
    paths: dict[str, Hop] = {}
    if not one_by_one:
        found = at_once(
            lambda pair: _hop(pair[0].machine, pair[1].machine, payload.size, addresses),
            list(pairwise(states)),
        )
        paths = {hop.receiver: hop for hop in found if hop.kind == "push"}
    by_name = {state.name: state for state in states}
    routes: list[Route] = []
    for names in runs(list(by_name), dict.fromkeys(paths, True)):
        head = by_name[names[0]]
        if head is states[0]:
            hop = first
        elif one_by_one:
            hop = replace(first, receiver=head.name)
        else:
            hop = _first_hop(payload, head, addresses)
        hops = (hop, *(paths[name] for name in names[1:]))
        routes.append(Route(nodes=tuple(by_name[name] for name in names), hops=hops))
    return tuple(routes)


def _first_hop(payload: Payload, state: NodeState, addresses: Mapping[str, str]) -> Hop:
    here = payload.sender.node is None
    if here and 0 < payload.size < _MUCH and not addresses:
        hop = relay(payload.sender.name, state.name)
        if payload.size <= LITTLE:
            return hop
        return replace(hop, rate=rate_to(state.machine) if state.rate is None else state.rate)
    return _hop(payload.sender, state.machine, payload.size, addresses)


def _hop(sender: Machine, receiver: Machine, size: int, addresses: Mapping[str, str]) -> Hop:
    """Find a path; where one of the two is lost meanwhile, sending tells of it."""
    try:
        return find_hop(sender, receiver, size=size, addresses=addresses)
    except NodeError as error:
        if error.code == "E550":
            raise
        return relay(sender.name, receiver.name)


def send_all(
    source: ShipSource, payload: Payload, routes: Sequence[Route], console: Console
) -> Mapping[str, Sent]:
    """Send a payload on all routes; gives for each node how that ended.

    Where it is at hand here the routes are served at once; where an engine is to give it, one after the other.
    """

    def one(route: Route) -> Mapping[str, Sent]:
        return _send(source, payload, route, console)

    if payload.kept is None:
        return {name: sent for route in routes for name, sent in one(route).items()}
    return {name: sent for each in at_once(one, routes) for name, sent in each.items()}


def _send(
    source: ShipSource, payload: Payload, route: Route, console: Console
) -> Mapping[str, Sent]:
    links = [state.link(source.tag) for state in route.nodes]
    chain = Chain(
        hop=route.hops[0],
        first=route.nodes[0].machine,
        take=route.command(links),
        rate=route.rate,
    )
    progress = Progress(
        console=console,
        about=", ".join(state.name for state in route.nodes),
        over=route.path(0, payload.sender),
        # Of what may be compressed on its way nobody knows how much it will be.
        total=0 if chain.rate else payload.size,
    )
    paths = [route.path(number, payload.sender) for number in range(len(links))]
    names = [state.name for state in route.nodes]
    try:
        if payload.kept is not None:
            streamed = stream_archive(archive_pieces(payload.kept), chain, progress.at)
        else:
            assert payload.produced is not None, "a payload is one or the other"
            produce = payload.produced(chain.rate)
            streamed = stream_command(produce, payload.sender, chain, progress.at)
    except NodeError as error:
        return {
            name: Sent(path=path, error=error, told=False)
            for name, path in zip(names, paths, strict=True)
        }
    return _read(source, route, links, paths, streamed)


def _read(
    source: ShipSource,
    route: Route,
    links: Sequence[Link],
    paths: Sequence[str],
    streamed: Streamed,
) -> Mapping[str, Sent]:
    answer, tag = streamed.answer, str(source.tag)
    took = {each.name: each.answer for each in parse_took(answer, links)}
    found: dict[str, Sent] = {}
    for number, (state, path) in enumerate(zip(route.nodes, paths, strict=True)):
        error: NodeError | None
        if (said := took.get(state.link_name)) is not None:
            error = not_taken(said, state.engine, tag)
            if error is not None and error.code in ("E530", "E535") and not answer.passed:
                error = not_given(answer.status, beside(answer), source.machine.name, tag)
        else:
            before = route.nodes[number - 1].name if number else source.machine.name
            error = was_cut_off(state.name, before, beside(answer))
        found[state.name] = Sent(
            path=path,
            sent=streamed.sent,
            took=streamed.took,
            error=error,
            told=state.link_name in took,
        )
    return found

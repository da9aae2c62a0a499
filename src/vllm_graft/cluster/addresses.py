# Ranks find one another by addresses. Which interface has one is looked up on each node by itself: two machines of one make may
# call the same cable differently, and the one with the default route is often the slowest.
"""The network over which the members of a deployment talk."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.errors import NodeError
from vllm_graft.values.node_facts import Interface, Route

LOOPBACK = "127.0.0.1"

_Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """What a node says of its network."""

    node: str
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...] = ()
    """Default routes, the one that is taken first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a member is reached by the others."""

    address: str
    interface: str


def choose_seats(nodes: Sequence[NodeNetwork]) -> tuple[Seat, ...]:
    """Give an address for each node, all in one network, in the order of the nodes.

    The fastest network that all are in, as the slowest of them tells it; of several as fast, one that no default route goes
    through. One in which two nodes have the same address connects none of them: so the bridges of engines, which every
    machine has for itself, are left out. Where all that is left is the networks of the default routes, these are taken.

    Raises:
        NodeError: E572, there is none.
    """
    if len(nodes) == 1:
        return (Seat(address=LOOPBACK, interface=""),)
    inside = [dict(_by_network(node)) for node in nodes]
    shared = [
        network
        for network in inside[0]
        if all(network in each for each in inside)
        and len({each[network].address for each in inside}) == len(nodes)
    ]
    if shared:
        best = max(shared, key=lambda network: _merit(network, nodes, inside))
        return tuple(each[best] for each in inside)
    routed = [_by_default_route(node) for node in nodes]
    seats = [seat for seat in routed if seat is not None]
    if len({seat.address for seat in seats}) == len(nodes):
        return tuple(seats)
    if twins := _twins(nodes):
        raise NodeError(
            f"{' and '.join(twins)} are names of one machine, which has all its addresses under each:{''.join(_listed(nodes))}",
            remedy="name each machine once, the head first",
            code="E572",
        )
    raise NodeError(
        f"the nodes share no network:{''.join(_listed(nodes))}",
        remedy="give each an address in one network (IPv4), and see that they reach one another",
        code="E572",
    )


def _twins(nodes: Sequence[NodeNetwork]) -> tuple[str, ...]:
    """Give the nodes that answer with the very addresses of another one."""
    own = [frozenset(seat.address for _, seat in _by_network(node)) for node in nodes]
    return tuple(
        node.node for node, each in zip(nodes, own, strict=True) if each and own.count(each) > 1
    )


def _by_network(node: NodeNetwork) -> Iterator[tuple[_Network, Seat]]:
    for interface in node.interfaces:
        if not interface.is_up:
            continue
        for each in interface.addresses:
            address = ipaddress.ip_address(each.address)
            if isinstance(address, ipaddress.IPv4Address) and not address.is_loopback:
                network = ipaddress.IPv4Network((each.address, each.prefix), strict=False)
                yield network, Seat(address=each.address, interface=interface.name)


def _merit(
    network: _Network, nodes: Sequence[NodeNetwork], inside: Sequence[Mapping[_Network, Seat]]
) -> tuple[int, bool, bool, int]:
    names = [each[network].interface for each in inside]
    speeds = [_speed(node, name) for node, name in zip(nodes, names, strict=True)]
    is_routed = any(
        any(route.interface == name for route in node.routes)
        for node, name in zip(nodes, names, strict=True)
    )
    # The last is there so that the same nodes give the same answer: lower networks first.
    return min(speeds), not is_routed, not network.is_link_local, -int(network.network_address)


def _speed(node: NodeNetwork, name: str) -> int:
    return next((each.speed or 0 for each in node.interfaces if each.name == name), 0)


def _by_default_route(node: NodeNetwork) -> Seat | None:
    for route in node.routes:
        for interface in node.interfaces:
            if interface.name == route.interface:
                addresses = [
                    each.address for each in interface.addresses if ":" not in each.address
                ]
                if chosen := route.source or next(iter(addresses), ""):
                    return Seat(address=chosen, interface=interface.name)
    return None


def _listed(nodes: Sequence[NodeNetwork]) -> Iterator[str]:
    for node in nodes:
        told = [
            f"{interface.name} {each.address}/{each.prefix}"
            for interface in node.interfaces
            if interface.is_up
            for each in interface.addresses
        ]
        yield f"\n  {node.node}: {', '.join(told) or 'no address'}"

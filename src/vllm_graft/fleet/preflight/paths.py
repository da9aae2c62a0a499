"""Whether nodes reach each other, and how well."""

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from vllm_graft.fleet.preflight.network import networks
from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.values.doctor import HopFacts, NodeFinding, PathFacts
from vllm_graft.values.node_facts import Interface
from vllm_graft.values.probe import NotKnown

_FAST = 100_000
"""Megabits a second of a link that is meant for this."""
_SLOW_TRIP = 600
"""Microseconds over such a link. Source: published run notes of two DGX Sparks: 280 when well, 1000 in a state in which NCCL has
an eighth of its rate until the machine is started anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A way from one node to another that is to be tried."""

    sender: str
    receiver: str
    interface: str
    address: str
    mtu: int
    port: int
    """Of the receiver's sshd."""


def trials(nodes: Sequence[Seen]) -> tuple[Trial, ...]:
    """Give what is to be tried from each node to each other: every network that both are in, and the address of the other's default route."""
    return tuple(trial for pair in permutations(nodes, 2) for trial in _between(*pair))


def _between(sender: Seen, receiver: Seen) -> list[Trial]:
    found: dict[str, Trial] = {}
    port = receiver.facts.ssh_port
    for there in _outward(receiver):
        for here in _outward(sender):
            shared = networks(here) & networks(there)
            for each in there.addresses:
                address = ipaddress.ip_address(each.address)
                if address.version == 4 and any(address in network for network in shared):  # noqa: PLR2004
                    found[each.address] = Trial(
                        sender=sender.name,
                        receiver=receiver.name,
                        interface=here.name,
                        address=each.address,
                        mtu=min(here.mtu, there.mtu),
                        port=port if isinstance(port, int) else 22,
                    )
    main = main_address(receiver)
    if main and main not in found:
        found[main] = Trial(
            sender=sender.name,
            receiver=receiver.name,
            interface="",
            address=main,
            mtu=0,
            port=port if isinstance(port, int) else 22,
        )
    return list(found.values())


def main_address(node: Seen) -> str:
    """Give the IPv4 address that a node has where its default route goes; empty where none is known."""
    routes = node.facts.routes
    first = routes[0] if not isinstance(routes, NotKnown) and routes else None
    if first is not None and first.source:
        return first.source
    interfaces = _outward(node)
    named = [each for each in interfaces if first is not None and each.name == first.interface]
    for interface in (*named, *interfaces):
        for each in interface.addresses:
            if "." in each.address:
                return each.address
    return ""


def _outward(node: Seen) -> list[Interface]:
    interfaces = node.facts.interfaces
    if isinstance(interfaces, NotKnown):
        return []
    return [each for each in interfaces if each.is_outward]


def judge_paths(nodes: Sequence[Seen], paths: Sequence[PathFacts]) -> Iterator[NodeFinding]:
    """Say where no way leads (N305), where one is slow (N306), and where large packets do not pass (N307)."""
    by_name = {node.name: node for node in nodes}
    for sender, receiver in permutations(by_name, 2):
        between = [each for each in paths if (each.sender, each.receiver) == (sender, receiver)]
        if not any(each.answered is True for each in between):
            yield _no_way(sender, receiver, between)
        for path in between:
            yield from _quality(path, by_name[sender], by_name[receiver])


def _no_way(sender: str, receiver: str, between: Sequence[PathFacts]) -> NodeFinding:
    tried = ", ".join(each.address for each in between)
    unknown = next((each.answered for each in between if isinstance(each.answered, NotKnown)), None)
    if unknown is not None:
        found = f"it was not tried: {unknown.not_known}"
    else:
        found = f"no answer from {tried}" if tried else f"{receiver} has no address that is known"
    return NodeFinding(
        code="N305",
        severity="blocked" if tried and unknown is None else "review",
        nodes=(sender, receiver),
        stops=("up",),
        wanted=f"a way from {sender} to {receiver}",
        found=found,
        remedy="give both an address in one network, and let a firewall between them pass the nodes' addresses",
    )


def _quality(path: PathFacts, sender: Seen, receiver: Seen) -> Iterator[NodeFinding]:
    here = _named(sender, path.interface)
    there = _having(receiver, path.address)
    if here is None or there is None or path.answered is not True:
        return
    ends = f"{sender.name} {here.name} to {receiver.name} {there.name}"
    if here.mtu != there.mtu and path.sender < path.receiver:
        yield _path_finding(
            "N307",
            path,
            "one MTU at both ends",
            f"{ends}: {here.mtu} and {there.mtu}",
            "set both to the same (9000 for a cable between the two): collectives stop dead where one end is larger",
        )
    elif path.whole_frames is False:
        yield _path_finding(
            "N307",
            path,
            f"packets of {path.mtu} bytes, as both ends allow",
            f"{ends}: they do not pass",
            "set the MTU of what lies between, such as a switch, or a smaller one at both ends",
        )
    if (
        path.trip is not None
        and path.trip > _SLOW_TRIP
        and min(here.speed or 0, there.speed or 0) >= _FAST
    ):
        yield _path_finding(
            "N306",
            path,
            f"an echo within {_SLOW_TRIP / 1000:g} ms over a fast cable",
            f"{ends}: {path.trip / 1000:.2f} ms",
            "start both machines anew with the cable in; a link in this state looks well and carries an eighth",
        )


def _path_finding(code: str, path: PathFacts, wanted: str, found: str, remedy: str) -> NodeFinding:
    return NodeFinding(
        code=code,
        severity="review",
        nodes=(path.sender, path.receiver),
        stops=("up",),
        wanted=wanted,
        found=found,
        remedy=remedy,
    )


def _named(node: Seen, name: str) -> Interface | None:
    return next((each for each in _outward(node) if each.name == name), None)


def _having(node: Seen, address: str) -> Interface | None:
    return next(
        (each for each in _outward(node) if any(one.address == address for one in each.addresses)),
        None,
    )


def judge_hops(hops: Sequence[HopFacts]) -> Iterator[NodeFinding]:
    """Say where what is sent goes through this machine (N315)."""
    for hop in hops:
        if hop.kind == "relay":
            yield NodeFinding(
                code="N315",
                severity="note",
                nodes=(hop.sender, hop.receiver),
                stops=("ship",),
                wanted=f"{hop.sender} to log in on {hop.receiver}, or the other way round",
                found="neither can, so that all that is sent goes through this machine",
                remedy=f"`ssh-copy-id` on {hop.sender}, and one login by hand to accept its host key: then it goes straight",
            )

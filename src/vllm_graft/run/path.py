# The addresses of the one machine are tried from the other, all at the same time; what leads there is then measured, one
# after another, since two measurements at once measure each other.
"""Finding the fastest path from one machine to another."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vllm_graft.fleet.cipher import with_quick_cipher
from vllm_graft.fleet.hop import Hop, piped
from vllm_graft.fleet.path import (
    Address,
    Standing,
    Way,
    Ways,
    as_hop,
    ask_configured,
    ask_identity,
    ask_standing,
    at,
    at_address,
    by_name,
    fastest,
    first_measure,
    give_zeros,
    is_out_of_reach,
    leads_nowhere,
    next_measure,
    parse_answered,
    parse_configured,
    parse_rate,
    parse_standing,
    reachable,
    relay,
    take_zeros,
    why_not,
    without_doubles,
)
from vllm_graft.run.machines import Machine
from vllm_graft.run.threads import at_once

RELAY = "relay"
"""Given in place of an address: through this machine."""

_AT_ONCE = 4
"""Commands on one connection: sshd takes ten (MaxSessions), and others may be at work there."""

_FEW = 64 << 20
"""Bytes that are sent sooner than several ways are tried and measured."""

_MEASURING = threading.Lock()


def find_hop(
    sender: Machine,
    receiver: Machine,
    *,
    size: int = 0,
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> Hop:
    """Give the fastest way on which one machine sends to another.

    The sender connects where it can; else the receiver does; else all goes through this machine. ``size``: bytes that are to
    be sent; of few, nothing is measured: the first way that leads there will do. ``addresses``: name of a machine → the address
    that it is to be reached at and no other, or :data:`RELAY`. Asked for by several threads, one measures after the other.

    Raises:
        NodeError: E501 to E503, E507, E552 one of the two cannot be asked; E550 the address that was given leads nowhere.
    """
    if RELAY not in (addresses.get(sender.name), addresses.get(receiver.name)):
        for search in (
            _Search(
                client=sender,
                server=receiver,
                size=size,
                address=addresses.get(receiver.name, ""),
            ),
            _Search(
                client=receiver,
                server=sender,
                size=size,
                address=addresses.get(sender.name, ""),
            ),
        ):
            kind = "push" if search.client is sender else "pull"
            if (way := search.fastest()) is not None:
                return as_hop(way, sender=sender.name, receiver=receiver.name, kind=kind)
            if search.address and search.said:
                raise leads_nowhere(
                    search.address, search.server.name, search.client.name, search.said
                )
    return relay(sender.name, receiver.name)


def standing_of(machine: Machine) -> Standing:
    """Ask a machine who it is and which addresses it has.

    Raises:
        NodeError: E501 to E503, E507, E552.
    """
    return parse_standing(machine.run(ask_standing()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    client: Machine
    server: Machine
    size: int
    address: str
    said: list[str] = field(default_factory=list[str])
    """Why it did not answer where it was tried."""

    def fastest(self) -> Way | None:
        """Give the fastest way from the one to the other; None: there is none."""
        if self.server.node is None:  # nobody connects to this machine: it connects itself
            return None
        here, there = standing_of(self.client), standing_of(self.server)
        name = self.server.node.name
        configured = parse_configured(self.client.run(ask_configured(name)))
        if self.address:
            rows = [at_address(name, configured, there, Address(text=self.address))]
        else:
            rows = [by_name(name, configured, there.identity, there.port)]
            rows += [at_address(name, configured, there, each) for each in reachable(here, there)]
        rows = [with_quick_cipher(ways, configured, here, there) for ways in rows]
        if 0 < self.size < _FEW:
            return next((way for ways in rows if (way := self._first(ways, there))), None)
        reached = self._reached(rows, there)
        with _MEASURING:
            return fastest([self._measured(way) for way in reached]) if reached else None

    def _reached(self, rows: Sequence[Ways], server: Standing) -> tuple[Way, ...]:
        def first(ways: Ways) -> Way | None:
            return self._first(ways, server)

        reached = at_once(first, rows, at_most=_AT_ONCE)
        return without_doubles([way for way in reached if way is not None])

    def _first(self, ways: Ways, server: Standing) -> Way | None:
        for way in ways:
            answer = self.client.run(self._over(way)(ask_identity()))
            if (address := parse_answered(answer, server.identity)) is not None:
                return at(way, address, server)
            self.said.append(why_not(answer))
            if is_out_of_reach(answer):
                return None
        return None

    def _measured(self, way: Way) -> Way:
        size, rate = first_measure(), 0
        while size:
            answer = self.client.run(piped(give_zeros(size), self._over(way)(take_zeros())))
            rate = parse_rate(answer)
            size = next_measure(size, rate, self.size)
        return replace(way, rate=rate)

    def _over(self, way: Way) -> Hop:
        return as_hop(way, sender=self.client.name, receiver=self.server.name, kind="push")

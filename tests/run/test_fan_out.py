import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_graft.errors import NodeError
from vllm_graft.fleet.hop import Hop
from vllm_graft.run.fan_out import fan_out
from vllm_graft.run.machines import Machine
from vllm_graft.values.answered import Answered
from vllm_graft.values.node import Node

SOME = 0.03
"""Seconds that sending takes."""


def machine(name: str) -> Machine:
    return Machine(node=Node(name=name) if name else None, connection=None, variables={})


def lost(name: str) -> NodeError:
    return NodeError(f"{name} is lost", remedy="see it", code="E507")


@dataclass(kw_only=True)
class Links:
    """What stands between machines, and what was sent over it."""

    rates: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    broken: Sequence[tuple[str, str]] = ()
    unreached: Sequence[str] = ()
    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    busy: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, sender: Machine, receiver: Machine) -> Hop:
        if receiver.name in self.unreached:
            raise lost(receiver.name)
        pair = (sender.name, receiver.name)
        return Hop(sender=pair[0], receiver=pair[1], kind="push", rate=self.rates.get(pair, 100))

    def send(self, hop: Hop, sender: Machine, receiver: Machine) -> str:
        with self.lock:
            assert not {sender.name, receiver.name} & set(self.busy), "one at a time"
            self.busy += [sender.name, receiver.name]
            self.sent.append((sender.name, receiver.name))
        time.sleep(SOME * 100 / hop.rate)
        with self.lock:
            self.busy.remove(sender.name)
            self.busy.remove(receiver.name)
        if (sender.name, receiver.name) in self.broken:
            raise lost(sender.name)
        return f"from {sender.name}"

    def run(self, holders: Sequence[str], receivers: Sequence[str]) -> tuple[Answered[str], ...]:
        return fan_out(
            [machine(each) for each in holders],
            [machine(each) for each in receivers],
            self.find,
            self.send,
        )


def test_eight_machines_have_it_after_four_rounds() -> None:
    links = Links()
    names = [f"spark{each}" for each in range(2, 10)]
    began = time.monotonic()
    found = links.run(["spark1"], names)
    assert time.monotonic() - began < 8 * SOME
    assert [each.name for each in found] == names
    assert all(each.value for each in found)
    assert len({sender for sender, _ in links.sent}) > 3


def test_a_slow_machine_sends_to_the_first_and_the_fast_ones_to_each_other() -> None:
    """DIST-10 of the pain list: one upload over the slow link, then from node to node."""
    rates = {("this machine", f"spark{each}"): 10 for each in range(1, 5)}
    links = Links(rates=rates)
    links.run([""], ["spark1", "spark2", "spark3", "spark4"])
    assert [sender for sender, _ in links.sent].count("this machine") <= 2
    assert links.sent[0] == ("this machine", "spark1")


def test_a_slow_machine_that_is_alone_sends_to_all() -> None:
    rates = {("this machine", "spark1"): 10, ("this machine", "spark2"): 10}
    links = Links(rates=rates, broken=[("spark1", "spark2")])
    found = links.run([""], ["spark1", "spark2"])
    assert [each.error for each in found] == [None, None]


def test_a_machine_that_is_not_reached_keeps_no_other_from_having_it() -> None:
    links = Links(unreached=["spark2"])
    second, third = links.run(["spark1"], ["spark2", "spark3"])
    assert second.value is None
    assert second.error is not None
    assert second.error.code == "E507"
    assert third.value == "from spark1"


def test_who_was_sent_to_in_vain_is_sent_to_from_another() -> None:
    links = Links(broken=[("spark1", "spark3")])
    (third,) = links.run(["spark1", "spark2"], ["spark3"])
    assert third.value == "from spark2"
    assert third.error is None


def test_what_fails_from_everywhere_is_told_once() -> None:
    links = Links(broken=[("spark1", "spark3"), ("spark2", "spark3"), ("spark4", "spark3")])
    (third,) = links.run(["spark1", "spark2", "spark4"], ["spark3"])
    assert third.error is not None
    assert len(links.sent) == 2


def test_nobody_waits_for_nothing() -> None:
    assert Links().run(["spark1"], []) == ()

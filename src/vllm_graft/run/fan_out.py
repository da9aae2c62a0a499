# One machine has something, several are to have it. Whoever has got it sends it on, so that with each round twice as many
# send: a tree, whose shape follows from who is ready first.
#
# A slow sender is left alone for as long as a fast one is at work: a laptop sends to the first node, the nodes to each other.
"""From those that have something to those that do not."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vllm_graft.errors import GraftError
from vllm_graft.fleet.hop import Hop
from vllm_graft.run.machines import Machine
from vllm_graft.run.threads import Workers, workers
from vllm_graft.values.answered import Answered

_T = TypeVar("_T")

_MUCH_SLOWER = 2
_TRIES = 2
"""For each receiver: from two machines, if there are two."""


def fan_out(
    holders: Sequence[Machine],
    receivers: Sequence[Machine],
    find: Callable[[Machine, Machine], Hop],
    send: Callable[[Hop, Machine, Machine], _T],
) -> tuple[Answered[_T], ...]:
    """Send from each that has it to one that does not, until all have it; the answers have the order of ``receivers``.

    There is at least one holder.

    ``find`` gives the path, ``send`` sends and comes back when the receiver has it whole. Each machine sends to one at a
    time. A receiver that did not get it is tried once more from another machine, if there is one; what then keeps it from
    having it is its answer. After Ctrl-C everything that runs is ended.
    """
    if not receivers:
        return ()
    with workers(len(receivers)) as pool:
        tree = _Tree(pool=pool, find=find, send=send, free=[*holders], waiting=[*receivers])
        tree.grow()
    return tuple(tree.answers[each.name] for each in receivers)


@dataclass(slots=True, kw_only=True)
class _Tree(Generic[_T]):
    pool: Workers
    find: Callable[[Machine, Machine], Hop]
    send: Callable[[Hop, Machine, Machine], _T]
    free: list[Machine]
    waiting: list[Machine]
    running: dict[Future[_T], tuple[Machine, Machine]] = field(
        default_factory=dict["Future[_T]", tuple[Machine, Machine]]
    )
    tried: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Receiver → those it was sent from."""
    answers: dict[str, Answered[_T]] = field(default_factory=dict[str, "Answered[_T]"])
    best: int = 0
    """Bytes a second of the fastest path so far."""

    def grow(self) -> None:
        while self.waiting:
            self.begin()
            if not self.running:  # who is still waiting was refused by everybody
                return
            self.end_some()
        while self.running:
            self.end_some()

    def begin(self) -> None:
        """Let each that is free send to the first that it can send to."""
        for sender in [*self.free]:
            for receiver in [*self.waiting]:
                tried = self.tried.setdefault(receiver.name, [])
                if sender.name in tried or len(tried) == _TRIES:
                    continue
                if self.begin_one(sender, receiver):
                    break

    def begin_one(self, sender: Machine, receiver: Machine) -> bool:
        try:
            hop = self.find(sender, receiver)
        except GraftError as error:
            self.refuse(sender, receiver, error)
            return False
        self.best = max(self.best, hop.rate)
        if self.running and hop.rate * _MUCH_SLOWER < self.best:
            return False
        self.free.remove(sender)
        self.waiting.remove(receiver)
        self.running[self.pool.submit(self.send, hop, sender, receiver)] = (sender, receiver)
        return True

    def end_some(self) -> None:
        for future in self.pool.wait(self.running, for_all=False):
            sender, receiver = self.running.pop(future)
            self.free.append(sender)
            try:
                value = future.result()
            except GraftError as error:
                self.waiting.append(receiver)
                self.refuse(sender, receiver, error)
            else:
                self.answers[receiver.name] = Answered(name=receiver.name, value=value)
                self.free.append(receiver)

    def refuse(self, sender: Machine, receiver: Machine, error: GraftError) -> None:
        self.tried.setdefault(receiver.name, []).append(sender.name)
        self.answers[receiver.name] = Answered(name=receiver.name, error=error)

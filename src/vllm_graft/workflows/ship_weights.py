# Who has the weights whole sends them to who does not, and who has got them sends them on. What speaks against a machine is
# said before anything is sent to it, keeps no other from having them, and stands in the receipt.
"""Put a model's weights on every node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.errors import GraftError
from vllm_graft.fleet.hop import Hop
from vllm_graft.fleet.weights.asking import Found
from vllm_graft.fleet.weights.deciding import is_done, refuse
from vllm_graft.fleet.weights.layout import folder_of
from vllm_graft.run.console import Console
from vllm_graft.run.fan_out import fan_out
from vllm_graft.run.machines import Machine, machines_at, name_of, on_each
from vllm_graft.run.path import find_hop
from vllm_graft.values.amount import size
from vllm_graft.values.answered import answers
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.values.weights import ModelName, Weights, WeightsOnNode, WeightsReceipt
from vllm_graft.workflows.find_weights import (
    Holding,
    Hubs,
    Whole,
    compare,
    find_whole,
    look_at,
    same_place,
)
from vllm_graft.workflows.send_weights import WeightsSender, notes_on


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRequest:
    """What the user asks of ``ship --weights``."""

    name: ModelName
    nodes: tuple[Node | None, ...]
    """Those that are to have them; None is this machine."""
    sources: tuple[Node | None, ...] = ()
    """Those that they may be taken from; empty: any node, then this machine."""
    hubs: Hubs = field(default_factory=dict[str, str])
    addresses: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a node → the address that others are to reach it at."""
    dry_run: bool = False


def ship_weights(
    request: WeightsRequest, *, environment: Environment, console: Console
) -> WeightsReceipt:
    """Put the weights on every node that lacks them; what could not be done on one of them stands in the receipt.

    Raises:
        NodeError: E555, no machine has them whole.
    """
    sources = request.sources or (*request.nodes, None)
    everybody = tuple(dict.fromkeys((*request.nodes, *sources)))
    variables = environment.variables

    def look(machine: Machine) -> tuple[Machine, Found]:
        return machine, look_at(machine, request.name, request.hubs)

    with machines_at(everybody, variables) as reached:
        failed = {each.name: each.error for each in reached if each.error is not None}
        there = [machine for _, machine in answers(reached)]
        looked = on_each([machine.node for machine in there], look, variables)
        failed |= {each.name: each.error for each in looked if each.error is not None}
        found = dict(answers(looked))
        named = [name_of(node) for node in sources]
        whole = find_whole(request.name, [found[name] for name in named if name in found], failed)
        source, weights = whole.machine, whole.weights
        _tell(console, whole)
        shipment = _Shipment(
            request=request,
            weights=weights,
            source=(source, whole.found),
            found={name: each for name, (_, each) in found.items()},
            console=console,
        )
        wanted = [found[name_of(node)] for node in request.nodes if name_of(node) in found]
        done = {each.node: each for each in shipment.to(wanted, variables)}
        done |= {name: _failed(name, error) for name, error in failed.items()}
    return WeightsReceipt(
        model=request.name.text,
        commit=weights.commit,
        reference=weights.reference,
        source=source.name,
        files=len(weights.files),
        size=weights.size,
        nodes=tuple(done[name_of(node)] for node in request.nodes),
        notes=weights.notes,
        dry_run=request.dry_run,
    )


def _tell(console: Console, whole: Whole) -> None:
    weights = whole.weights
    for name, why in whole.passed_over:
        console.tell(f"{name} does not have {weights.name.text} whole: {why}")
    commit = f" at {weights.commit[:12]}" if weights.commit else ""
    files = f"{len(weights.files)} files, {size(weights.size)}"
    console.tell(f"{whole.machine.name} has {weights.name.text}{commit} whole: {files}")
    for note in weights.notes:
        console.tell(f"note: {note}")


def _failed(node: str, error: GraftError, place: str = "") -> WeightsOnNode:
    return WeightsOnNode(
        node=node,
        outcome="failed",
        place=place,
        code=error.code,
        error=error.what,
        remedy=error.remedy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shipment:
    request: WeightsRequest
    weights: Weights
    source: tuple[Machine, Found]
    found: Mapping[str, Found]
    console: Console

    def to(
        self, wanted: Sequence[tuple[Machine, Found]], variables: Mapping[str, str]
    ) -> Sequence[WeightsOnNode]:
        """Give what was done on each of those that are to have the weights."""
        doubles = same_place([self.source, *wanted])
        done = [self._as_it_is(name, f"the same machine as {as_}") for name, as_ in doubles.items()]
        source, _ = self.source
        if any(machine is source for machine, _ in wanted):
            done.append(self._as_it_is(source.name))
        asked = [m.node for m, _ in wanted if m is not source and m.name not in doubles]

        def compare_it(machine: Machine) -> Holding:
            return compare(machine, self.found[machine.name], self.weights)

        compared = on_each(asked, compare_it, variables)
        done += [_failed(each.name, each.error) for each in compared if each.error is not None]
        waiting: list[Holding] = []
        holders = [source]
        for name, holding in answers(compared):
            if is_done(holding.found, self.weights, holding.lack):
                done.append(self._as_it_is(name))
                holders.append(holding.machine)
            elif (
                error := refuse(holding.found, self.weights, holding.lack, holding.had, name)
            ) is not None:
                done.append(_failed(name, error, self._place(name)))
            else:
                waiting.append(holding)
        sent = self._would_send(waiting) if self.request.dry_run else self._send(holders, waiting)
        return [*done, *sent]

    def _place(self, name: str) -> str:
        return folder_of(self.found[name].root, self.weights.commit)

    def _as_it_is(self, name: str, note: str = "") -> WeightsOnNode:
        notes = (note,) if note else ()
        return WeightsOnNode(
            node=name, outcome="already there", place=self._place(name), notes=notes
        )

    def _send(
        self, holders: Sequence[Machine], waiting: Sequence[Holding]
    ) -> Sequence[WeightsOnNode]:
        sender = self._sender()
        holdings = {each.machine.name: each for each in waiting}

        def send(hop: Hop, machine: Machine, receiver: Machine) -> WeightsOnNode:
            return sender.send(hop, machine, holdings[receiver.name])

        receivers = [each.machine for each in waiting]
        try:
            sent = fan_out(holders, receivers, self._find(holdings), send)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(
                "what has arrived is kept, where vLLM does not look for it (.vllm-graft in the model's folder); the same"
                " command goes on from there"
            )
            raise
        failed = [
            _failed(each.name, each.error, self._place(each.name))
            for each in sent
            if each.error is not None
        ]
        return [*(done for _, done in answers(sent)), *failed]

    def _would_send(self, waiting: Sequence[Holding]) -> Sequence[WeightsOnNode]:
        source, _ = self.source
        find = self._find({each.machine.name: each for each in waiting})
        return [self._would_send_one(find(source, each.machine), each) for each in waiting]

    def _would_send_one(self, hop: Hop, to: Holding) -> WeightsOnNode:
        return WeightsOnNode(
            node=to.machine.name,
            outcome="would be sent",
            place=self._place(to.machine.name),
            source=hop.sender,
            path=hop.said,
            means=self._sender().means(hop),
            files=len(to.lack.sent),
            size=to.lack.size,
            notes=notes_on(self.weights, to),
        )

    def _find(self, holdings: Mapping[str, Holding]) -> Callable[[Machine, Machine], Hop]:
        def find(sender: Machine, receiver: Machine) -> Hop:
            to_send = holdings[receiver.name].lack.size
            return find_hop(sender, receiver, size=to_send, addresses=self.request.addresses)

        return find

    def _sender(self) -> WeightsSender:
        return WeightsSender(
            weights=self.weights,
            roots={name: each.root for name, each in self.found.items()},
            with_rsync=frozenset(name for name, each in self.found.items() if each.has_rsync),
            console=self.console,
        )

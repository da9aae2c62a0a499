# Everything is asked and refused before the first byte is sent. Then those that lack the same get the same stream, in a
# chain; what a node was thought to have and has not, it is sent whole; what did not arrive over another node, comes from the
# sender itself. A node that fails keeps no other from its image, and is told with its reason at the end.
"""Ship an image to nodes."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vllm_graft.errors import GraftError, RequestError, VerificationError
from vllm_graft.fleet.ship import NOTHING, Held, groups
from vllm_graft.image.archive import Tag, parse_tag
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.run.engine import give_name
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.machines import Machine, machine_at, machines_at, name_of, on_each
from vllm_graft.run.stream import rate_to
from vllm_graft.run.threads import workers
from vllm_graft.values.amount import size
from vllm_graft.values.answered import Answered
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node import Node
from vllm_graft.values.ship import ShipOutcome, ShippedNode, ShipReceipt
from vllm_graft.values.source import DockerSource, parse_source
from vllm_graft.workflows.send_image import LITTLE, Sent, find_routes, send_all
from vllm_graft.workflows.ship_node import (
    NodeState,
    give_back,
    is_broken,
    is_there,
    keep_other,
    look_at,
    refuse_where_it_does_not_fit,
    same_engine,
    verify,
)
from vllm_graft.workflows.ship_source import Payload, ShipSource, open_ship_source

_TRIES = 2
"""For each node: over another node, and from the sender itself."""
_BROKEN = ("E603", "E604")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipRequest:
    """What the user asks of ``ship``."""

    image: str
    """A name, with the machine that has it behind it where that is not this one: ``vllm:1@spark1``."""
    nodes: tuple[Node | None, ...]
    """None is this machine."""
    source: Node | None = None
    """That machine; None: as ``image`` says, or this one."""
    addresses: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node → the address that others are to reach it at, and no other."""
    force: bool = False
    dry_run: bool = False


def run_ship(request: ShipRequest, *, environment: Environment, console: Console) -> ShipReceipt:
    """Bring an image to nodes; what one of them could not do stands in the receipt.

    Raises:
        RequestError: E200, E216, E219: the words.
        SourceError: E330 to E334: the engine that is to have the image, or the image.
        NodeError: E500 to E507: the machine that is to have it.
    """
    reference, node = _source_of(request)
    tag = parse_tag(reference)
    variables = environment.variables
    cache = Cache.at(environment.cache_directory, console)
    names = tuple(dict.fromkeys(request.nodes))
    with (
        machine_at(None, variables) as here,
        machine_at(node, variables) as machine,
        workers(1) as beside,
    ):
        # While the one engine is asked for the image, the others are connected to.
        opening = beside.submit(open_ship_source, machine, here, reference, tag, cache)
        with machines_at(names, variables) as reached:
            beside.wait([opening])
            source = opening.result()
            shipping = _Shipping(request=request, source=source, console=console)
            shipping.look(reached)
            shipping.name_what_is_there()
            try:
                while shipping.needs:
                    shipping.send_some()
            finally:
                shipping.give_back_names()
            shipping.settle_doubles()
    return ShipReceipt(
        image=str(tag),
        source=machine.name,
        platform=source.facts.platform,
        config=canonical_digest(source.facts),
        layers=len(source.facts.layers),
        size=source.size,
        nodes=tuple(shipping.done[name_of(each)] for each in names),
        dry_run=request.dry_run,
        commands=tuple(shipping.commands),
    )


def _source_of(request: ShipRequest) -> tuple[str, Node | None]:
    told = parse_source(f"docker:{request.image.removeprefix('docker:')}")
    assert isinstance(told, DockerSource), "that is what was written"
    if told.within or "@" in told.reference:
        raise RequestError(
            f"not the name of an image: {request.image!r}",
            remedy="give the name that it is to have everywhere, as in vllm-qwen35:1",
        )
    if request.source is not None and told.node not in (None, request.source):
        raise RequestError(
            f"the image is said to be on {told.node} and on {request.source}",
            remedy="write IMAGE@NODE, or --from NODE",
        )
    return told.reference, told.node or request.source


@dataclass(kw_only=True)
class _Shipping:
    request: ShipRequest
    source: ShipSource
    console: Console
    states: dict[str, NodeState] = field(default_factory=dict[str, NodeState])
    needs: dict[str, Held] = field(default_factory=dict[str, Held])
    """Node that is not done → what it has, as far as is known."""
    tries: dict[str, int] = field(default_factory=dict[str, int])
    kept: dict[str, str] = field(default_factory=dict[str, str])
    """Node → the name under which the image is that had this one's name before."""
    done: dict[str, ShippedNode] = field(default_factory=dict[str, ShippedNode])
    doubles: dict[str, tuple[str, NodeState]] = field(
        default_factory=dict[str, tuple[str, NodeState]]
    )
    """Another name of a machine → the one that it has here, and what was told under that other name."""
    commands: list[str] = field(default_factory=list[str])

    @property
    def wanted(self) -> ImageFacts:
        return self.source.facts

    @property
    def tag(self) -> Tag:
        return self.source.tag

    def look(self, reached: Sequence[Answered[Machine]]) -> None:
        """Ask all nodes at once what they have."""
        for each in reached:
            if each.error is not None:
                self.fail(each.name, each.error)
        machines = {each.name: each.value for each in reached if each.value is not None}

        def look(machine: Machine) -> NodeState:
            return self.ask(machines[machine.name])

        with workers(1) as beside:
            measuring = beside.submit(self.measure, tuple(machines.values())[:1])
            answers = on_each(
                [each.node for each in machines.values()], look, self.source.machine.variables
            )
            beside.wait([measuring])
        for answer in answers:
            if answer.error is not None:
                self.fail(answer.name, answer.error)
            elif answer.value is not None:
                rate = measuring.result().get(answer.name)
                self.states[answer.name] = replace(answer.value, rate=rate)
        for name, first in same_engine(self.states).items():
            self.doubles[name] = (first, self.states.pop(name))

    def measure(self, machines: Sequence[Machine]) -> Mapping[str, int]:
        """Measure the links from this machine, where more than a little is going to be sent from it, if anything."""
        if self.source.least_from_here <= LITTLE:
            return {}
        with contextlib.suppress(GraftError):  # what is wrong with it, who asks it hears
            return {each.name: rate_to(each) for each in machines}
        return {}

    def ask(self, machine: Machine) -> NodeState:
        state = look_at(machine, self.wanted)
        if state.named and not self.request.dry_run:
            try:
                verify(state, self.wanted)
            except VerificationError:  # an earlier load broke off, and left a name
                state = replace(state, held=NOTHING, named=False, elsewhere="")
        if not state.named:
            refuse_where_it_does_not_fit(state, self.source.lacking(state.held.layers))
        if not self.request.force:
            keep_other(state, self.tag, force=False)
        return state

    def name_what_is_there(self) -> None:
        """Settle the nodes that have the image, under its name or another; the others need it."""
        for name, state in self.states.items():
            if state.named:
                self.settle(name, "already there", verified=True)
            elif self.request.dry_run or not state.elsewhere:
                self.needs[name] = state.held
            elif self.attempt(name, self.give_it_its_name):
                self.settle(name, "named", verified=True)
            elif self.done[name].code in _BROKEN:
                del self.done[name]
                self.needs[name] = NOTHING

    def give_it_its_name(self, state: NodeState) -> None:
        self.keep_other(state)
        give_name(state.engine, state.elsewhere, str(self.tag), state.machine.variables)
        verify(state, self.wanted)

    def keep_other(self, state: NodeState) -> None:
        if state.name in self.kept:
            return
        with held_interrupts():
            if kept := keep_other(state, self.tag, force=self.request.force):
                self.kept[state.name] = kept

    def send_some(self) -> None:
        """Send to those that lack the least; each of them is done afterwards, or is to be tried in another way."""
        group = groups(self.needs)[0]
        payload = self.source.payload(group.held)
        if self.request.dry_run:
            self.tell_what_would_be(payload, group.names)
            return
        names = [name for name in group.names if self.attempt(name, self.keep_other)]
        if not names:
            return
        states = [self.states[name] for name in names]
        routes = find_routes(payload, states, self.request.addresses)
        lacking = f"{len(payload.layers)} of {len(self.wanted.layers)} layers"
        about = f", {size(payload.size)}" if payload.size else ""
        for route in routes:
            told = ", then on to ".join(state.name for state in route.nodes)
            self.console.tell(f"{told}: {lacking}{about}, from {route.path(0, payload.sender)}")
        sent = send_all(self.source, payload, routes, self.console)
        answers = on_each(
            [self.states[name].machine.node for name in names],
            lambda machine: self.see(self.states[machine.name], sent[machine.name]),
            self.source.machine.variables,
        )
        for name, answer in zip(names, answers, strict=True):
            self.conclude(name, payload, sent[name], answer.error)

    def see(self, state: NodeState, sent: Sent) -> None:
        """Ask a node back after it was sent something.

        Raises:
            GraftError: it has not, or cannot use, what it was sent.
        """
        # The connection may have broken behind the last byte.
        if sent.error is not None and (sent.told or not is_there(state, self.wanted)):
            raise sent.error
        verify(state, self.wanted)

    def conclude(self, name: str, payload: Payload, sent: Sent, error: GraftError | None) -> None:
        if error is None:
            self.settle(name, "sent", payload=payload, sent=sent, verified=True)
            return
        self.tries[name] = self.tries.get(name, 0) + 1
        if self.tries[name] < _TRIES and is_broken(error) and payload.held.layers:
            self.console.tell(
                f"{name}: it does not have what it seemed to have, so it is sent the whole image ({error.what})"
            )
            self.needs[name] = NOTHING
        elif self.tries[name] < _TRIES and error is sent.error and not sent.told:
            self.console.tell(f"{name}: tried once more ({error.what})")
        else:
            self.fail(name, error)

    def attempt(self, name: str, do: Callable[[NodeState], None]) -> bool:
        """Do something about a node; what goes wrong is its result. Tells whether nothing did."""
        return self.attempt_on(self.states[name], do)

    def attempt_on(self, state: NodeState, do: Callable[[NodeState], None]) -> bool:
        """Do it also where the node is another name of one."""
        try:
            do(state)
        except GraftError as error:
            self.fail(state.name, error)
            return False
        return True

    def fail(self, name: str, error: GraftError) -> None:
        self.needs.pop(name, None)
        state = self.states.get(name)
        self.done[name] = ShippedNode(
            node=name,
            outcome="failed",
            held=state.held.layers if state else 0,
            code=error.code,
            failure=error.what,
            remedy=error.remedy,
        )

    def settle(
        self,
        name: str,
        outcome: ShipOutcome,
        *,
        payload: Payload | None = None,
        sent: Sent | None = None,
        verified: bool = False,
    ) -> None:
        self.needs.pop(name, None)
        state = self.states[name]
        self.done[name] = ShippedNode(
            node=name,
            outcome=outcome,
            held=(payload or state).held.layers,
            layers=payload.layers if payload else (),
            sent=sent.sent if sent else 0,
            path=sent.path if sent else "",
            took=sent.took if sent else 0,
            verified=verified,
            replaced=self.kept.get(name, ""),
            notes=state.notes,
        )

    def give_back_names(self) -> None:
        """Give the images back their names on nodes that did not get the new one."""
        with held_interrupts():
            for name, kept in self.kept.items():
                found = self.done.get(name)
                if found is None or found.outcome == "failed":
                    try:
                        give_back(self.states[name], self.tag, kept)
                    except GraftError as error:
                        note = f"the image that had this name is there as {kept}: {error.what}"
                        if found is not None:
                            self.done[name] = replace(found, notes=(*found.notes, note))

    def settle_doubles(self) -> None:
        """Say of each further name of a machine what was done on it; also under that name it is asked back."""
        for name, (first, state) in self.doubles.items():
            found = self.done[first]
            if found.verified and not self.attempt_on(state, lambda it: verify(it, self.wanted)):
                continue
            if found.outcome in ("sent", "named"):
                found = replace(found, outcome="already there", layers=(), sent=0, path="", took=0)
            note = f"the same machine as {first}"
            self.done[name] = replace(found, node=name, notes=(*found.notes, note))

    def tell_what_would_be(self, payload: Payload, names: Sequence[str]) -> None:
        """Say what would be sent on which path; that is found as if it were sent."""
        routes = find_routes(payload, [self.states[name] for name in names], self.request.addresses)
        if payload.produced is not None:
            self.commands.append(f"{payload.produced(0).by_hand} (on {payload.sender.name})")
        for route in routes:
            for number, state in enumerate(route.nodes):
                path = route.path(number, payload.sender)
                would = Sent(path=path, sent=payload.size)
                self.settle(state.name, "would be sent", payload=payload, sent=would)
                take = state.link(self.tag).take
                load = " ".join(take.inner or take.argv)
                self.commands.append(f"{load} (on {state.name}, from {path})")

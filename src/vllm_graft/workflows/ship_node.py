# A node before and after: what its engine has, whether the image may go there, and whether it has arrived.
"""One node of those that an image is shipped to."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vllm_graft.errors import GraftError, SourceError, VerificationError
from vllm_graft.fleet.looking import Looked, look, parse_look
from vllm_graft.fleet.probes.engine import (
    CONTAINERD_ROOT,
    engine_probe,
    image_folder,
    is_elsewhere,
    space_probe,
)
from vllm_graft.fleet.probes.system import KERNEL
from vllm_graft.fleet.relay import Link
from vllm_graft.fleet.ship import (
    Held,
    is_other_now,
    makes_no_container,
    refuse_architecture,
    refuse_other_image,
    refuse_small_disk,
)
from vllm_graft.image.archive import Tag
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.engine import Engine, load_archive
from vllm_graft.image.holdings import held_layers, is_same
from vllm_graft.run.clock import stamp
from vllm_graft.run.engine import (
    engine_of,
    find_image,
    give_back_name,
    give_name,
    take_name,
    try_image,
)
from vllm_graft.run.machines import Machine
from vllm_graft.run.stored_layers import images_of, stored_below
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node import LOCALHOST
from vllm_graft.values.node_facts import EngineFacts, SpaceFacts
from vllm_graft.values.probe import NotKnown


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What a node has."""

    machine: Machine
    engine: Engine
    facts: EngineFacts
    space: SpaceFacts | None
    """Where its engine keeps images; None: it was not told yet."""
    held: Held
    named: bool
    """Whether the image is there, under its name."""
    elsewhere: str
    """Another name, or the ID, under which it is there; empty: it is not."""
    taken: bool
    """Whether another image has its name."""
    notes: tuple[str, ...] = ()
    unpacks: bool = True
    """Whether it takes a compressed stream."""
    identity: tuple[str, ...] = ()
    """The same where two names lead to one engine; empty: not known."""
    rate: int | None = None
    """Bytes a second of the link from this machine; None: it was not measured."""

    @property
    def name(self) -> str:
        """Give the name that the user knows the node by."""
        return self.machine.name

    def link(self, tag: Tag) -> Link:
        """Give it as a part of a chain."""
        own = load_archive(replace(self.engine, over=None), str(tag))
        # podman 4.3 takes no compressed archive in both forms.
        if self.engine.name == "podman" and self.unpacks:
            script = f"gzip -dcf | {shlex.join(own.argv)}"
            own = replace(own, argv=("/bin/sh", "-c", script), inner=own.argv)
        return Link(name=self.link_name, take=own)

    @property
    def link_name(self) -> str:
        """Give its name in a chain: one word."""
        return str(self.machine.node or LOCALHOST)


def look_at(machine: Machine, wanted: ImageFacts) -> NodeState:
    """Ask a node what it has.

    Raises:
        NodeError: E504 to E507; E531, it cannot run the image.
        SourceError: E331 to E334, its engine does not answer as it should.
    """
    variables = machine.variables
    told = _told(machine, wanted.reference)
    engine = _engine(told, machine)
    facts = told.facts(engine) or _facts(engine, machine)
    refuse_architecture(wanted, engine, facts)
    there = told.images()
    if there is None:
        there = images_of(engine, variables)
    found = told.named(engine, wanted.reference) or (
        find_image(engine, wanted.reference, variables),
    )
    named = found[0]
    is_named = named is not None and is_same(named, wanted)
    held = Held(layers=held_layers(wanted, there))
    if facts.is_containerd_store and held.layers and not is_named:
        stored = stored_below(engine, wanted, there, variables)
        held = replace(held, stored=stored[: held.layers])
    return NodeState(
        machine=machine,
        engine=engine,
        facts=facts,
        space=told.space(facts),
        unpacks=engine.name != "podman" or told.unpacks,
        identity=told.identity(facts),
        held=held,
        named=is_named,
        elsewhere=next((each.reference for each in there if is_same(each, wanted)), ""),
        # One without layers is what is left where containerd's store has not all of an image.
        taken=named is not None and not is_named and bool(named.layers),
    )


def same_engine(states: Mapping[str, NodeState]) -> Mapping[str, str]:
    """Give the names that lead to an engine which another name before leads to: name → that other one."""
    firsts: dict[tuple[str, ...], str] = {}
    doubles: dict[str, str] = {}
    for name, state in states.items():
        first = firsts.setdefault(state.identity, name) if state.identity else name
        if first != name:
            doubles[name] = first
    return doubles


def _told(machine: Machine, tag: str) -> Looked:
    told = parse_look(machine.run(look(tag)))
    # sudo forgets DOCKER_HOST: here it would be another engine than the one that the user means.
    return Looked(parts={}) if machine.node is None and told.before else told


def _engine(told: Looked, machine: Machine) -> Engine:
    if machine.node is None or not told.program:
        return engine_of(machine)
    return Engine(
        program=told.program,
        before=told.before,
        node=machine.node.name,
        over=machine.connection,
    )


def _facts(engine: Engine, machine: Machine) -> EngineFacts:
    probe = engine_probe(replace(engine, over=None))
    found = probe.answer(machine.run(probe.command))
    if isinstance(found, NotKnown):
        raise SourceError(
            f"{engine.said} does not say what it is: {found.not_known}",
            remedy=f"Run `{engine.name} info` there to see more.",
            code="E334",
        )
    return found


def refuse_where_it_does_not_fit(state: NodeState, lacking: int) -> None:
    """Refuse a node whose disk is too small; ``lacking``: bytes of the layers that it has not.

    Raises:
        NodeError: E532.
    """
    # What is here may be Docker Desktop, or the engine of another machine: its disk is not seen from here.
    if state.machine.node is None and _is_elsewhere(state):
        return
    space = state.space or _space(state)
    if space is not None:
        refuse_small_disk(lacking, space, state.engine)


def _is_elsewhere(state: NodeState) -> bool:
    kernel = KERNEL.answer(state.machine.run(KERNEL.command))
    return isinstance(kernel, NotKnown) or is_elsewhere(state.facts, kernel)


def _space(state: NodeState) -> SpaceFacts | None:
    machine, folder = state.machine, state.facts.root
    if state.facts.is_containerd_store:
        told = CONTAINERD_ROOT.answer(machine.run(CONTAINERD_ROOT.command))
        folder = image_folder(state.facts, *(() if isinstance(told, NotKnown) else (told,)))
    probe = space_probe(folder)
    space = probe.answer(machine.run(probe.command))
    return None if isinstance(space, NotKnown) else space


def keep_other(state: NodeState, tag: Tag, *, force: bool) -> str:
    """Give the image that has the name another one beside it; gives that name, empty where nothing has it.

    Raises:
        NodeError: E533, it may not be taken.
        SourceError: E331 to E334.
    """
    if not state.taken:
        return ""
    if not force:
        raise refuse_other_image(str(tag), state.engine)
    kept = f"{tag.repository}:{tag.tag}-before-{stamp()}"
    give_name(state.engine, str(tag), kept, state.machine.variables)
    return kept


def give_back(state: NodeState, tag: Tag, kept: str) -> None:
    """Undo :func:`keep_other`, whatever has the name now.

    Raises:
        NodeError: E501 to E503, E507.
        SourceError: E331 to E334.
    """
    give_back_name(state.engine, kept, str(tag), state.machine.variables)


def is_there(state: NodeState, wanted: ImageFacts) -> bool:
    """Ask a node back whether it has the image.

    Raises:
        NodeError: E501 to E503, E507.
        SourceError: E331 to E334.
    """
    found = find_image(state.engine, wanted.reference, state.machine.variables)
    return found is not None and is_same(found, wanted)


def verify(state: NodeState, wanted: ImageFacts) -> None:
    """Ask a node back for content, and for a container; what does not hold loses its name.

    Raises:
        VerificationError: E603, E604.
        NodeError: E501 to E503, E507.
        SourceError: E331 to E335.
    """
    variables: Mapping[str, str] = state.machine.variables
    tag = wanted.reference
    found, unusable = try_image(state.engine, wanted, state.machine)
    if found is None or not is_same(found, wanted):
        if found is not None:
            take_name(state.engine, tag, variables)
        told = "no such image" if found is None else str(canonical_digest(found))
        raise is_other_now(state.engine, tag, str(canonical_digest(wanted)), told)
    if unusable is not None:
        take_name(state.engine, tag, variables)
        raise makes_no_container(state.engine, tag, unusable) from unusable


def is_broken(error: GraftError) -> bool:
    """Tell whether a node lacks what it was thought to have, so that it is to be sent the image whole."""
    return error.code == "E535" or isinstance(error, VerificationError)

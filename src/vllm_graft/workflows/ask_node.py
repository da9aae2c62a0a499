# Everything that is asked of one machine, one question after the other over its one connection. No answer keeps another
# from being asked.
"""Ask a machine what it is and has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vllm_graft.cluster.memory.way import PlannedModel
from vllm_graft.cluster.model_place import ModelPlace, WantedModel, ask_model, parse_model
from vllm_graft.errors import GraftError, NodeError
from vllm_graft.fleet.engine import ask_whether_usable
from vllm_graft.fleet.preflight.wanted import Layers
from vllm_graft.fleet.probes import clock, engine, gpus, memory, network, rdma, system
from vllm_graft.fleet.probes.images import image_presence
from vllm_graft.image.engine import (
    Engine,
    ask_image,
    ask_images,
    list_images,
    parse_inspections,
    refusal,
)
from vllm_graft.run.clock import now
from vllm_graft.run.engine import engine_at
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import run_command
from vllm_graft.values.node_facts import (
    ClockFacts,
    EngineFacts,
    ImagePresence,
    Interface,
    KernelFacts,
    ModelFacts,
    NodeFacts,
    RdmaPort,
    SpaceFacts,
)
from vllm_graft.values.probe import NotKnown, Probe
from vllm_graft.workflows.read_model import read_model

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedNode:
    """What a machine answered."""

    facts: NodeFacts
    engine_error: GraftError | None
    """What a verb that needs the engine of this machine would stop with."""
    stacks: tuple[Layers, ...] = ()
    """The layers of each image of its engine; asked where images are asked for at all."""
    place: ModelPlace | GraftError | None = None
    """Where it has the model, or what ``up`` would stop with; None: none was asked for."""
    planned: PlannedModel | NotKnown | None = None
    """What the model says of itself; None: this machine was not asked."""


def ask_node(
    machine: Machine,
    references: Sequence[str],
    model: WantedModel | None = None,
    *,
    args: tuple[str, ...] | None = None,
) -> AskedNode:
    """Ask everything; ``references`` are images that its engine may have. Nothing is changed there.

    ``args``: words for ``vllm serve``, where this machine is to say what the model holds.

    Raises:
        NodeError: E500 to E503, E507: it cannot be asked at all.
    """
    asking = _Asking(machine)
    found, error = _engine(machine)
    info = asking.engine(found) if found else NotKnown(not_known=error.what if error else "")
    place = asking.place(model) if model is not None else None
    kernel = asking(system.KERNEL)
    cards = asking(gpus.GPUS)
    return AskedNode(
        place=place,
        planned=None if isinstance(cards, NotKnown) else _planned(machine, place, args),
        engine_error=error,
        stacks=asking.stacks(found) if found and references else (),
        facts=NodeFacts(
            machine=asking(system.MACHINE),
            host_name=asking(system.HOST_NAME),
            host_addresses=asking(system.HOST_ADDRESSES),
            user=asking(system.USER),
            ssh_port=asking(system.SSH_PORT),
            system=asking(system.SYSTEM),
            kernel=kernel,
            processors=asking(system.PROCESSORS),
            memory=asking(memory.MEMORY),
            engine=info,
            space=asking.space(info, kernel),
            images=asking.images(found, references),
            model=_model(place),
            containers=asking(engine.containers_probe(found)) if found else _no_engine(error),
            gpus=cards,
            cuda=asking(gpus.CUDA),
            gpu_processes=asking(gpus.PROCESSES),
            pci=asking(gpus.PCI),
            toolkit=asking(gpus.TOOLKIT),
            listeners=asking(network.LISTENERS),
            firewall=asking(network.FIREWALL),
            clock=asking.clock(),
            interfaces=asking.interfaces(),
            routes=asking(network.ROUTES),
            rdma=asking.rdma(),
            rdma_files=asking(rdma.FILES),
        ),
    )


def _model(place: ModelPlace | GraftError | None) -> ModelFacts | NotKnown | None:
    if isinstance(place, GraftError):
        return NotKnown(not_known=place.what)
    if place is None:
        return None
    return ModelFacts(folder=place.folder, files=len(place.sizes), size=sum(place.sizes.values()))


def _planned(
    machine: Machine, place: ModelPlace | GraftError | None, args: tuple[str, ...] | None
) -> PlannedModel | NotKnown | None:
    if args is None or not isinstance(place, ModelPlace):
        return None
    return read_model(machine, place, args)


def _no_engine(error: GraftError | None) -> NotKnown:
    return NotKnown(not_known=error.what if error else "there is no engine")


def _engine(machine: Machine) -> tuple[Engine | None, GraftError | None]:
    """Find the engine as every verb does, and see whether it can be used."""
    try:
        with engine_at(machine.node, machine.variables) as found:
            if machine.node is None:
                answer = run_command(ask_whether_usable(found), variables=machine.variables)
                if not answer.passed:
                    return None, refusal(answer, found, found.name)
            return found, None
    except GraftError as error:
        if error.code in _NOT_REACHED:
            raise
        return None, error


_NOT_REACHED = ("E500", "E501", "E502", "E503", "E507", "E510")


@dataclass(frozen=True, slots=True)
class _Asking:
    machine: Machine

    def __call__(self, probe: Probe[_T]) -> _T | NotKnown:
        return probe.answer(self.machine.run(probe.command))

    def engine(self, found: Engine) -> EngineFacts | NotKnown:
        return self(engine.engine_probe(found))

    def space(
        self, told: EngineFacts | NotKnown, kernel: KernelFacts | NotKnown
    ) -> SpaceFacts | NotKnown:
        if isinstance(told, NotKnown):
            return told
        if isinstance(kernel, KernelFacts) and engine.is_elsewhere(told, kernel):
            return NotKnown(
                not_known=f"{told.name} runs on another machine, or in a virtual one (kernel {told.kernel})"
            )
        root = self(engine.CONTAINERD_ROOT) if told.is_containerd_store else ""
        folder = engine.image_folder(told, *([root] if isinstance(root, str) and root else []))
        return self(engine.space_probe(folder))

    def images(
        self, found: Engine | None, references: Sequence[str]
    ) -> Mapping[str, ImagePresence | NotKnown]:
        if found is None:
            return {}
        told = {
            reference: image_presence(
                run_command(ask_image(found, reference), variables=self.machine.variables),
                found,
                reference,
            )
            for reference in references
        }
        return {reference: each for reference, each in told.items() if each is not None}

    def place(self, model: WantedModel) -> ModelPlace | GraftError:
        answer = self.machine.run(ask_model(model))
        try:
            return parse_model(answer, model, self.machine.name)
        except NodeError as error:
            return error

    def stacks(self, found: Engine) -> tuple[Layers, ...]:
        images = run_command(list_images(found), variables=self.machine.variables)
        names = tuple(dict.fromkeys(images.stdout.decode("utf-8", "replace").split()))
        if not images.passed or not names:
            return ()
        told = run_command(ask_images(found, names), variables=self.machine.variables)
        return tuple(each.layers for each in parse_inspections(told))

    def clock(self) -> ClockFacts | NotKnown:
        asked = now()
        shown = self(clock.CLOCK)
        answered = now()
        return shown if isinstance(shown, NotKnown) else clock.clock_facts(shown, asked, answered)

    def interfaces(self) -> tuple[Interface, ...] | NotKnown:
        links, devices = self(network.LINKS), self(network.DEVICES)
        if isinstance(links, NotKnown) or isinstance(devices, NotKnown):
            return links
        return network.with_devices(links, devices)

    def rdma(self) -> tuple[RdmaPort, ...] | NotKnown:
        """Give what the kernel's files tell, or one of the tools where they tell nothing."""
        first = self(rdma.PORTS)
        if not isinstance(first, NotKnown) and first:
            return first
        for probe in (rdma.LINKS, rdma.PAIRS):
            told = self(probe)
            if not isinstance(told, NotKnown) and told:
                return told
        return first

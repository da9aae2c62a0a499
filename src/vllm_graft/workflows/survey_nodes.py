# Everything that would stop a start is asked before anything is started, on all nodes at the same time, and told together.
"""Ask the nodes of a deployment what they have."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from vllm_graft.cluster.addresses import NodeNetwork
from vllm_graft.cluster.compose import NodeSurvey
from vllm_graft.cluster.model_place import WantedModel, ask_model, parse_model
from vllm_graft.errors import NodeError
from vllm_graft.fleet.probes import gpus, network
from vllm_graft.fleet.probes.engine import engine_probe
from vllm_graft.fleet.ship import refuse_architecture
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.engine import Engine
from vllm_graft.run.engine import find_image
from vllm_graft.run.machines import Machine, on_each
from vllm_graft.values.answered import all_values
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node_facts import GpuFacts
from vllm_graft.values.probe import NotKnown, Probe
from vllm_graft.workflows.fleet_engines import FleetEngines
from vllm_graft.workflows.read_model import ask_budget
from vllm_graft.workflows.take_down import containers_on

_T = TypeVar("_T")


def survey_nodes(
    fleet: FleetEngines, *, image: str, wanted: WantedModel, deployment: str
) -> tuple[NodeSurvey, ...]:
    """Ask every node, by rank. Nothing is changed there.

    Raises:
        NodeError: E578, a node has no such model; E508, several nodes lack something; E570, one does not say; E500 to E507.
    """

    def survey(machine: Machine) -> NodeSurvey:
        engine = fleet.engines[machine.name]
        found = find_image(engine, image, fleet.variables)
        if found is not None:
            _refuse_architecture(machine, engine, found)
        answer = machine.run(ask_model(wanted))
        listeners = _asked(machine, network.LISTENERS)
        cards = _asked(machine, gpus.GPUS)
        return NodeSurvey(
            node=machine.name,
            image=found,
            content=str(canonical_digest(found)) if found is not None else "",
            model=parse_model(answer, wanted, machine.name),
            gpus=_count(cards, machine.name),
            network=_network(machine, alone=len(fleet.engines) == 1),
            listeners=None if isinstance(listeners, NotKnown) else listeners,
            containers=containers_on(engine, deployment, fleet.variables),
            budget=ask_budget(machine, cards),
        )

    nodes = [fleet.nodes[name] for name in fleet.engines]
    return all_values(on_each(nodes, survey, fleet.variables), "take part")


def _refuse_architecture(machine: Machine, engine: Engine, image: ImageFacts) -> None:
    """Raise NodeError E531 where a machine cannot run the image; what its engine does not say is seen at the start."""
    facts = _asked(machine, engine_probe(replace(engine, over=None)))
    if not isinstance(facts, NotKnown):
        refuse_architecture(image, engine, facts)


def survey_images(
    fleet: FleetEngines, surveys: Sequence[NodeSurvey], image: str
) -> tuple[NodeSurvey, ...]:
    """Ask every node once more which image it has by this name."""
    found = fleet.on_each(lambda _, engine: (find_image(engine, image, fleet.variables),))
    told = all_values(found, "say which image they have")
    return tuple(
        replace(survey, image=one, content=str(canonical_digest(one)) if one is not None else "")
        for survey, (one,) in zip(surveys, told, strict=True)
    )


def _asked(machine: Machine, probe: Probe[_T]) -> _T | NotKnown:
    return probe.answer(machine.run(probe.command))


def _count(found: tuple[GpuFacts, ...] | NotKnown, node: str) -> int:
    """Give how many GPUs a machine has; where there is no driver, none can be used."""
    if isinstance(found, NotKnown):
        if found.is_absent:
            return 0
        raise NodeError(
            f"{node} does not say which GPUs it has: {found.not_known}",
            remedy=f"see that nvidia-smi works on {node}",
            code="E570",
        )
    return len(found)


def _network(machine: Machine, *, alone: bool) -> NodeNetwork:
    if alone:
        return NodeNetwork(node=machine.name, interfaces=())
    links = _asked(machine, network.LINKS)
    if isinstance(links, NotKnown):
        raise NodeError(
            f"{machine.name} does not say which addresses it has: {links.not_known}",
            remedy=f"see that `ip -j addr` works on {machine.name} (package iproute2)",
            code="E572",
        )
    devices, routes = _asked(machine, network.DEVICES), _asked(machine, network.ROUTES)
    return NodeNetwork(
        node=machine.name,
        interfaces=links if isinstance(devices, NotKnown) else network.with_devices(links, devices),
        routes=() if isinstance(routes, NotKnown) else routes,
    )

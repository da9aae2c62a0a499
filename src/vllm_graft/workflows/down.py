# `down` knows nothing of what `up` did: it asks the engines. So it also ends what another machine started, and what a power
# cut left behind.
"""Take a deployment down."""

from dataclasses import dataclass

from vllm_graft.cluster.compose import deployment_name
from vllm_graft.cluster.containers import FoundContainer, remove_containers, stop_containers
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.image.engine import Engine
from vllm_graft.run.console import Console
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.values.answered import Answered, all_values, answers
from vllm_graft.values.deployment import DownReceipt, TakenDown
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import THIS_MACHINE
from vllm_graft.values.settings import Settings
from vllm_graft.workflows.fleet_engines import FleetEngines, fleet_engines
from vllm_graft.workflows.read_settings import nodes_of, read_settings
from vllm_graft.workflows.take_down import containers_on, take_away


@dataclass(frozen=True, slots=True, kw_only=True)
class DownRequest:
    """What the user asks of ``down``."""

    settings: str = ""
    """Path of a graft.toml; empty: the one in this folder, if there is one."""
    nodes: tuple[str, ...] = ()
    """As behind ``--node``; empty: those of the settings."""
    name: str = ""
    """Of the deployment; empty: as the settings say."""
    everything: bool = False
    """Every deployment on these nodes, whatever its name."""
    dry_run: bool = False


def run_down(request: DownRequest, *, environment: Environment, console: Console) -> DownReceipt:
    """End and remove the containers of a deployment on all nodes; where there are none, nothing is done.

    Raises:
        RequestError: E213, E219, E221 to E223, the settings; E222, it is not said which deployment.
        NodeError: E580, something is still there; E570, E500 to E508, a node does not answer. The others are cleared.
    """
    settings = read_settings(request.settings)
    name = "" if request.everything else request.name or _name(settings)
    nodes = nodes_of(settings, request.nodes)
    with fleet_engines(nodes, environment.variables, without_lost=True) as fleet:
        if request.dry_run:
            return _dry(name, fleet)
        if fleet.engines:
            console.tell(f"taking down {name or 'every deployment'} on {', '.join(fleet.engines)}")
        with held_interrupts():
            gone = take_away(fleet, name)
        try:
            cleared = all_values((*gone, *_as_cleared(fleet)), "be cleared")
        except NodeError as error:
            for node, containers in answers(gone):
                names = ", ".join(each.name for each in containers)
                error.add_note(f"{node} is cleared: {names or 'nothing was there'}")
            raise
    return DownReceipt(
        deployment=name,
        dry_run=False,
        nodes=_taken(fleet, cleared),
        elsewhere=_elsewhere(cleared, fleet),
    )


def _name(settings: Settings) -> str:
    if settings.serve.name or settings.model.id:
        return deployment_name(settings.serve, settings.model.id)
    raise RequestError(
        "it is not said which deployment is to be taken down",
        remedy="give the graft.toml that it was started with, or --name NAME, or --all for every one on these nodes",
        code="E222",
    )


def _dry(name: str, fleet: FleetEngines) -> DownReceipt:
    found = all_values(
        (
            *fleet.on_each(lambda _, engine: containers_on(engine, name, fleet.variables)),
            *_as_cleared(fleet),
        ),
        "say what they have",
    )
    commands = [
        command
        for engine, each in zip(fleet.engines.values(), found, strict=True)
        for command in _commands(engine, each)
    ]
    return DownReceipt(
        deployment=name,
        dry_run=True,
        nodes=_taken(fleet, found),
        commands=tuple(commands),
        elsewhere=_elsewhere(found, fleet),
    )


def _as_cleared(fleet: FleetEngines) -> tuple[Answered[tuple[FoundContainer, ...]], ...]:
    """Give the nodes that could not be asked as if they had been."""
    return tuple(Answered(name=each.name, error=each.error) for each in fleet.lost)


def _commands(engine: Engine, found: tuple[FoundContainer, ...]) -> tuple[str, ...]:
    alive = [each.id for each in found if each.is_alive]
    stop = (stop_containers(engine, alive),) if alive else ()
    remove = (remove_containers(engine, [each.id for each in found]),) if found else ()
    return tuple(command.explained for command in (*stop, *remove))


def _taken(
    fleet: FleetEngines, found: tuple[tuple[FoundContainer, ...], ...]
) -> tuple[TakenDown, ...]:
    return tuple(
        TakenDown(node=node, containers=tuple(each.name for each in containers))
        for node, containers in zip(fleet.engines, found, strict=True)
    )


def _elsewhere(
    found: tuple[tuple[FoundContainer, ...], ...], fleet: FleetEngines
) -> tuple[str, ...]:
    """Give the nodes that the containers themselves name, and that nobody asked."""
    named = {node for containers in found for each in containers for node in each.nodes}
    return tuple(sorted(named - set(fleet.engines) - {THIS_MACHINE}))

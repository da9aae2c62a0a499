# Several verbs do things on all nodes again and again. Connections are opened once and kept, engines are found once.
"""The engines of all nodes, for as long as something is to be done there."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from vllm_graft.image.engine import Engine
from vllm_graft.run.engine import engine_of
from vllm_graft.run.machines import machines_at, on_each
from vllm_graft.values.answered import Answered, all_failed, answers
from vllm_graft.values.node import Node

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEngines:
    """The engine of each node, by the name of the node."""

    nodes: Mapping[str, Node | None]
    """In the order of the ranks; None is this machine."""
    engines: Mapping[str, Engine]
    lost: tuple[Answered[Engine], ...] = ()
    """Nodes that cannot be used, and why."""
    variables: Mapping[str, str]

    def on_each(self, do: Callable[[str, Engine], _T]) -> tuple[Answered[_T], ...]:
        """Do something with the engine of each node, all at the same time."""
        return on_each(
            [self.nodes[name] for name in self.engines],
            lambda machine: do(machine.name, self.engines[machine.name]),
            self.variables,
        )


@contextmanager
def fleet_engines(
    nodes: Sequence[Node | None], variables: Mapping[str, str], *, without_lost: bool = False
) -> Generator[FleetEngines]:
    """Find the engine of each node, and keep the connections to them.

    ``without_lost``: a node that cannot be used is left out, and told in ``lost``.

    Raises:
        NodeError: E500 to E508; what every node says is told together.
    """
    with machines_at(nodes, variables) as reached:
        machines = {machine.name: machine for _, machine in answers(reached)}
        nodes_of = {name: machine.node for name, machine in machines.items()}
        found = on_each(
            tuple(nodes_of.values()), lambda one: engine_of(machines[one.name]), variables
        )
        lost: tuple[Answered[Engine], ...] = tuple(
            Answered(name=one.name, error=one.error)
            for one in (*reached, *found)
            if one.error is not None
        )
        engines = dict(answers(found))
        if lost and not without_lost:
            raise all_failed(lost, len(nodes), "be used")
        yield FleetEngines(
            nodes={name: nodes_of[name] for name in engines},
            engines=engines,
            lost=lost,
            variables=variables,
        )

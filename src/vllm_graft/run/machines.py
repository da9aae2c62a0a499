# All machines are asked at the same time, and what one of them cannot do keeps no other from its answer.
"""Asking several machines at once."""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vllm_graft.errors import GraftError
from vllm_graft.fleet.ssh import Connection
from vllm_graft.run.connection import connected
from vllm_graft.run.process import run_command
from vllm_graft.run.threads import at_once
from vllm_graft.values.answered import Answered
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.node import THIS_MACHINE, Node

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that can be asked: this one, or a node with its connection."""

    node: Node | None
    connection: Connection | None
    variables: Mapping[str, str]

    @property
    def name(self) -> str:
        """Give the name that the user knows it by."""
        return name_of(self.node)

    def command(self, command: Command) -> Command:
        """Give what is to be run here so that this command runs there."""
        return command if self.connection is None else self.connection(command)

    def run(self, command: Command) -> Completed:
        """Run a command there to its end.

        Raises:
            NodeError: E500 to E503, E507.
        """
        return run_command(self.command(command), variables=self.variables)


def on_each(
    nodes: Sequence[Node | None], do: Callable[[Machine], _T], variables: Mapping[str, str]
) -> tuple[Answered[_T], ...]:
    """Do something on each machine, all at the same time; None is this one. The answers have the order of the nodes.

    What a machine could not do is its answer. After Ctrl-C everything that runs for any of them is ended, here and there.
    """

    def one(node: Node | None) -> Answered[_T]:
        try:
            with machine_at(node, variables) as machine:
                return Answered(name=machine.name, value=do(machine))
        except GraftError as error:
            return Answered(name=name_of(node), error=error)

    return tuple(at_once(one, nodes, at_most=len(nodes)))


@contextlib.contextmanager
def machines_at(
    nodes: Sequence[Node | None], variables: Mapping[str, str]
) -> Generator[tuple[Answered[Machine], ...]]:
    """Give several machines for as long as the block, or why one is not reached; in the order of the nodes, None is this one."""
    with contextlib.ExitStack() as stack:

        def hold(machine: Machine) -> Machine:
            # Once more what is held already: it stays open when the asking ends.
            return stack.enter_context(machine_at(machine.node, variables))

        yield on_each(nodes, hold, variables)


def name_of(node: Node | None) -> str:
    """Give the name that the user knows a machine by; None is this one."""
    return THIS_MACHINE if node is None else str(node)


@contextlib.contextmanager
def machine_at(node: Node | None, variables: Mapping[str, str]) -> Generator[Machine]:
    """Give a machine that can be asked, for as long as the block; None is this one.

    Raises:
        NodeError: E500 to E503.
    """
    if node is None:
        yield Machine(node=None, connection=None, variables=variables)
        return
    with connected(node, variables) as connection:
        yield Machine(node=node, connection=connection, variables=variables)

"""A node: a machine that is reached over SSH, as the user reaches it, or this one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vllm_graft.errors import RequestError

_NAME = re.compile(r"(?:[\w.+-]+@)?[A-Za-z0-9_][A-Za-z0-9_.:%-]*", re.ASCII)
"""What `ssh NAME` takes as a name and not as an option: an alias, a host or an address, with a user before it or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine."""

    name: str
    """As in `ssh NAME`: user, port, key and jump hosts are those of the user's SSH configuration."""

    def __str__(self) -> str:
        """Give the name."""
        return self.name


def parse_node(text: str, where: str) -> Node:
    """Read the name of a node.

    Raises:
        RequestError: E219, it is none; ``where`` is what the user wrote.
    """
    if _NAME.fullmatch(text) is None or text.startswith("-"):
        raise RequestError(
            f"not a name of a node: {text!r} in {where!r}",
            remedy="write it as you write it behind ssh: an alias of ~/.ssh/config, HOST or USER@HOST",
            code="E219",
        )
    return Node(name=text)


THIS_MACHINE = "this machine"
"""How it is called in what is told."""
LOCALHOST = "localhost"
"""How this machine is written among nodes. It is not reached over SSH; `USER@localhost` and an alias are."""


def parse_machine(text: str, where: str) -> Node | None:
    """Read the name of a node; None is this machine.

    Raises:
        RequestError: E219, it is none; ``where`` is what the user wrote.
    """
    return None if text == LOCALHOST else parse_node(text, where)


def named_twice(machines: Sequence[Node | None]) -> tuple[str, ...]:
    """Give the names that stand there more than once; that two names are one machine, a name does not tell."""
    names = [str(machine or LOCALHOST) for machine in machines]
    return tuple(sorted({name for name in names if names.count(name) > 1}))

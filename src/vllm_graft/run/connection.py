# One connection a node, for as long as something is to be done there, from whichever thread: what needs it first opens it
# while others wait for it, what needs it last ends it.
"""Connections to nodes."""

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_graft.errors import NodeError
from vllm_graft.fleet.cipher import has_aes, quick_first
from vllm_graft.fleet.path import ask_configured, parse_configured
from vllm_graft.fleet.ssh import Connection, ask_why, close_connection, open_connection
from vllm_graft.fleet.unreached import says_nothing
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.process import run_command, run_fed
from vllm_graft.values.node import Node

_LONGEST_PLACE = 50
"""Bytes: the path of a socket may have 103 on some systems, and ssh puts seventeen more behind it while it makes one.
Source: unix(7) and its like; OpenSSH 9.2, mux.c, muxserver_listen."""

_Key = tuple[str, tuple[tuple[str, str], ...]]
"""A node, and the variables under which ssh is run: they may lead to another configuration."""


@dataclass(slots=True)
class _Open:
    connection: Connection
    folder: str
    users: int = 0
    is_open: bool = False
    refused: NodeError | None = None
    opening: threading.Lock = field(default_factory=threading.Lock)

    def open(self, variables: Mapping[str, str]) -> None:
        """Open it, or wait until another thread has; what that one was told, all are told.

        Raises:
            NodeError: E500 to E503.
        """
        with self.opening:
            if self.refused is not None:
                raise self.refused
            if self.is_open:
                return
            try:
                # Not through pipes: what goes on in the background may keep them open.
                opening = open_connection(self.connection, self._ciphers(variables))
                run_fed(opening, (), variables=variables)
            except NodeError as error:
                self.refused = _reason(error, self.connection, variables)
                raise self.refused from None
            self.is_open = True

    def _ciphers(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Give the ciphers of the user's configuration, that one first which costs least, where this CPU computes it by itself."""
        if not _has_aes():
            return ()
        configured = parse_configured(
            run_command(ask_configured(self.connection.node.name), variables=variables)
        )
        return quick_first(configured.ciphers) if configured is not None else ()

    def close(self, variables: Mapping[str, str]) -> None:
        """End it, and what still runs through it."""
        with contextlib.suppress(NodeError):
            run_command(close_connection(self.connection), variables=variables)
        shutil.rmtree(self.folder, ignore_errors=True)


def _reason(error: NodeError, connection: Connection, variables: Mapping[str, str]) -> NodeError:
    """Give why a node is not reached, also where it was not said at first."""
    if not says_nothing(error):
        return error
    try:
        run_command(ask_why(connection), variables=variables)
    except NodeError as told:
        return told
    return error


def _has_aes() -> bool:
    with contextlib.suppress(OSError):
        return has_aes(Path("/proc/cpuinfo").read_text("utf-8", "replace"))
    return False


_OPEN: dict[_Key, _Open] = {}
_CHANGING = threading.Lock()


@contextlib.contextmanager
def connected(node: Node, variables: Mapping[str, str]) -> Generator[Connection]:
    """Give the connection to a node; within another such block, that one's.

    Raises:
        NodeError: E500 to E503.
    """
    key = (node.name, tuple(sorted(variables.items())))
    used: _Open | None = None
    try:
        with held_interrupts():
            used = _use(key, node)
        used.open(variables)
        yield used.connection
    finally:
        with held_interrupts():
            if used is not None and _is_last(key, used):
                used.close(variables)


def _use(key: _Key, node: Node) -> _Open:
    with _CHANGING:
        if (found := _OPEN.get(key)) is None:
            # Not under the user's own folder: a socket may not be on every file system.
            place = tempfile.gettempdir()
            if len(place) > _LONGEST_PLACE:
                place = "/tmp"  # noqa: S108 (what is made there is for this user alone)
            folder = tempfile.mkdtemp(prefix="vllm-graft-", dir=place)
            found = _Open(Connection(node=node, control=f"{folder}/ssh"), folder)
            _OPEN[key] = found
        found.users += 1
        return found


def _is_last(key: _Key, used: _Open) -> bool:
    with _CHANGING:
        used.users -= 1
        if used.users:
            return False
        # Whoever comes from now on opens another one.
        del _OPEN[key]
        return True

# To read an image, an engine is asked for some thirty places. A client's process for each costs more than the answer; so
# where Docker is reached through a socket of this machine (or, over SSH, of a node), the files are asked for there, in the words of the client itself.
# It is only ever a shorter way: whatever is not as expected is asked again through the client, and that answer counts.
"""Reading files through Docker's own socket."""

import http.client
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

from vllm_graft.fleet.ssh import Connection, forward_socket
from vllm_graft.image.engine import Engine, ask_endpoint, says_absent
from vllm_graft.run.compression import Readable
from vllm_graft.run.process import run_command

_UNIX = "unix://"
_PATIENCE = 600.0
"""Seconds without a byte."""
_MOST_SAID = 1 << 16


@cache
def engine_socket(engine: Engine, variables: tuple[tuple[str, str], ...]) -> "EngineSocket | None":
    """Give the socket that the client would use; None where it would use another way, or does not tell.

    That of a node is made one of this machine, where its sshd allows that.

    It is asked once in the life of this program; a daemon that is another one since is met through the client.
    """
    # Through sudo there is none that this user may open.
    if engine.before or engine.name != "docker" or not hasattr(socket, "AF_UNIX"):
        return None
    answer = run_command(ask_endpoint(engine), variables=dict(variables))
    host = answer.stdout.decode("utf-8", "replace").strip()
    if not answer.passed or not host.startswith(_UNIX):
        return None
    path = host.removeprefix(_UNIX)
    if isinstance(engine.over, Connection):
        there, path = path, f"{engine.over.control}-engine"
        forward = forward_socket(engine.over, there, path)
        if not run_command(forward, variables=dict(variables)).passed:
            return None
    try:
        with _answered(path, "/_ping") as response:
            version = response.headers.get("Api-Version", "")
            told = response.status == http.HTTPStatus.OK and version
            return EngineSocket(path, version) if told else None
    except (OSError, http.client.HTTPException):
        return None


class _Connection(http.client.HTTPConnection):
    """HTTP through a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class EngineSocket:
    """Docker, as it is reached without its client."""

    path: str
    version: str
    """Of its interface, such as ``1.41``; every daemon takes its own."""

    @contextmanager
    def archive(self, container: str, place: str) -> Generator[Readable]:
        """Give what is at a place of a container as an archive.

        Source: Docker Engine API 1.41, ``GET /containers/{id}/archive``; the words for what is absent are those of
        Docker 20.10 to 28.

        Raises:
            FileNotFoundError: nothing is there.
            ConnectionError, OSError, HTTPException: it is not told.
        """
        query = (
            f"/v{self.version}/containers/{quote(container)}/archive?path={quote(place, safe='/')}"
        )
        with _answered(self.path, query) as response:
            if response.status != http.HTTPStatus.OK:
                said = response.read(_MOST_SAID).decode("utf-8", "replace")
                raise FileNotFoundError(place) if says_absent(said) else ConnectionError(said)
            yield response


@contextmanager
def _answered(path: str, query: str) -> Generator[http.client.HTTPResponse]:
    connection = _Connection(path)
    try:
        connection.request("GET", query)
        yield connection.getresponse()
    finally:
        connection.close()

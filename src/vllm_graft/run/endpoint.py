# An endpoint that is coming up takes no connections, then takes them and says nothing, then answers. Whoever waits for it must
# be able to stop at any moment, so a request that is under way can be ended from outside. That of a node is reached through
# ssh: its API may listen on the node alone, and between this machine and that port may be a firewall.
"""Asking a served model over HTTP."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from vllm_graft.cluster.ready import Reply
from vllm_graft.run.process import stream_through
from vllm_graft.values.command import Command

_CONNECTING = 5.0
_MOST_READ = 1 << 20
"""Bytes of an answer: what is asked for is short."""

PATIENCE = 600.0
"""Seconds that an answer may take: the first one may have kernels compiled for it."""

UNREACHED = (OSError, http.client.HTTPException)
"""What asking raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is asked."""

    host: str
    port: int
    through: Command | None = None
    """What leads there with its stdin and stdout; None: it is reached from this machine."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(slots=True)
class Asking:
    """One request after the other, each of which can be ended by :meth:`leave`."""

    endpoint: Endpoint
    asked: str = ""
    """What is being asked just now; empty: nothing, or nobody listens."""
    _open: socket.socket | None = None
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _is_left: bool = False

    def ask(self, path: str, body: bytes | None = None, *, patience: float = PATIENCE) -> Reply:
        """Send a request and give what comes back.

        Raises:
            OSError, HTTPException: nothing does.
        """
        headers = {"Content-Type": "application/json"} if body is not None else {}
        with contextlib.ExitStack() as stack:
            connection = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port)
            stack.callback(connection.close)
            connection.sock = stack.enter_context(self._connected(patience))
            connection.request("GET" if body is None else "POST", path, body, headers)
            self.asked = path
            response = connection.getresponse()
            return Reply(status=response.status, body=response.read(_MOST_READ))

    def leave(self) -> None:
        """End what is being asked, and ask nothing more."""
        with self._changing:
            self._is_left = True
            if self._open is not None:
                with contextlib.suppress(OSError):
                    self._open.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _connected(self, patience: float) -> Generator[socket.socket]:
        with _connection(self.endpoint) as made:
            made.settimeout(patience)
            with self._changing:
                if self._is_left:
                    raise ConnectionAbortedError
                self._open = made
            try:
                yield made
            finally:
                self.asked = ""
                with self._changing:
                    self._open = None


@contextmanager
def _connection(endpoint: Endpoint) -> Generator[socket.socket]:
    if endpoint.through is None:
        with socket.create_connection((endpoint.host, endpoint.port), _CONNECTING) as made:
            yield made
        return
    with stream_through(endpoint.through, variables=endpoint.variables) as made:
        yield made


def is_reached(endpoint: Endpoint, path: str) -> bool:
    """Tell whether anything answers there."""
    try:
        return Asking(endpoint).ask(path, patience=_CONNECTING).status == http.HTTPStatus.OK
    except UNREACHED:
        return False

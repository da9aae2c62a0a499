# A registry is read as a layout is: documents by digest, layers as streams. Nothing is stored; a layer of 8 GB passes by.
"""Reading images from a registry."""

import contextlib
import json
import urllib.error
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from vllm_graft.errors import SourceError
from vllm_graft.image.entries import ScannedLayer
from vllm_graft.image.registry import (
    ACCEPTED,
    Address,
    Credentials,
    parse_helper,
    parse_login,
    parse_token,
    token_address,
)
from vllm_graft.run.http import Refused, Response, Unreachable, fetch
from vllm_graft.run.image_files import altered
from vllm_graft.run.layers import scan_layer
from vllm_graft.run.process import run_command
from vllm_graft.values.command import Command
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment

_LARGEST_DOCUMENT = 1 << 24
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 401, 403, 404, 429


@dataclass(slots=True)
class RegistryImage:
    """One name in a registry."""

    address: Address
    environment: Environment
    _authorization: str = field(default="", repr=False)
    _manifests: dict[Digest, bytes] = field(default_factory=dict[Digest, bytes], repr=False)

    @property
    def place(self) -> str:
        """Give a name for messages."""
        return str(self.address)

    def index(self) -> bytes:
        """Give an index that leads to what the name stands for.

        Raises:
            SourceError: E340 to E342; E324, it is not what its digest says.
        """
        content = self._document(f"manifests/{self.address.reference}")
        digest = Digest.of(content)
        if self.address.reference.startswith("sha256:") and str(digest) != self.address.reference:
            raise altered(self.place, Digest.parse(self.address.reference), digest)
        self._manifests[digest] = content
        return json.dumps({"manifests": [{"digest": str(digest), "size": len(content)}]}).encode()

    def blob(self, digest: Digest) -> bytes:
        """Give a document.

        Raises:
            SourceError: E340 to E342; E324, it is not what its digest says.
        """
        if digest in self._manifests:
            return self._manifests[digest]
        try:
            content = self._document(f"blobs/{digest}")
        except SourceError as error:
            if error.code != "E342":
                raise
            content = self._document(f"manifests/{digest}")
        if Digest.of(content) != digest:
            raise altered(f"{digest} of {self.place}", digest, Digest.of(content))
        return content

    def layer(self, digest: Digest) -> ScannedLayer:
        """Read a layer as it comes.

        Raises:
            SourceError: E340 to E342, E322; E324, it is not what its digest says.
        """
        extra: frozenset[str] = frozenset()
        where = f"{digest} of {self.place}"
        while True:
            with self._get(f"blobs/{digest}") as response:
                found, missing = scan_layer(response, where=where, extra=extra)
            if found.digest != digest:
                raise altered(where, digest, found.digest)
            if not missing or extra:
                return found
            extra = missing

    def _document(self, path: str) -> bytes:
        with self._get(path) as response:
            return response.read(_LARGEST_DOCUMENT)

    @contextlib.contextmanager
    def _get(self, path: str) -> Generator[Response]:
        url = f"{self.address.base}/{path}"
        try:
            with self._fetched(url) as response:
                yield response
        except Refused as error:
            error.close()
            raise self._refusal(error, path) from error
        except Unreachable as error:
            raise SourceError(
                f"the registry {self.address.host} cannot be reached: {getattr(error, 'reason', error)}",
                remedy="Check the name and the network (HTTPS_PROXY, NO_PROXY); or pull the image and give docker:IMAGE.",
                code="E340",
            ) from error

    def _fetched(self, url: str) -> Response:
        try:
            return fetch(url, self._headers())
        except Refused as error:
            if error.code != _UNAUTHORIZED:
                raise
            # Also in the middle: a token holds for minutes, a large image takes longer.
            challenge = error.headers.get("WWW-Authenticate", "")
            error.close()
            self._authorization = self._authorize(challenge)
            return fetch(url, self._headers())

    def _headers(self) -> dict[str, str]:
        told = {"Accept": ", ".join(ACCEPTED), "User-Agent": "vllm-graft"}
        return {**told, "Authorization": self._authorization} if self._authorization else told

    def _authorize(self, challenge: str) -> str:
        credentials = self._credentials()
        url = token_address(challenge, self.address.repository)
        if url is None:
            return credentials.header if credentials else ""
        headers = {"Authorization": credentials.header} if credentials else {}
        with fetch(url, headers) as response:
            token = parse_token(response.read(_LARGEST_DOCUMENT))
        return f"Bearer {token}" if token else ""

    def _credentials(self) -> Credentials | None:
        for place in self._configurations():
            try:
                content = place.read_bytes()
            except OSError:
                continue
            login = parse_login(content, self.address.host)
            if login.helper:
                return self._ask_helper(login.helper)
            if login.credentials is not None:
                return login.credentials
        return None

    def _configurations(self) -> Iterator[Path]:
        # Source: docker/cli 28 (DOCKER_CONFIG); containers-auth.json(5) of podman 4.
        variables = self.environment.variables
        home = Path(self.environment.home or "/nonexistent")
        yield Path(variables.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
        if runtime := variables.get("XDG_RUNTIME_DIR"):
            yield Path(runtime) / "containers/auth.json"

    def _ask_helper(self, helper: str) -> Credentials | None:
        command = Command(
            argv=(helper, "get"),
            why=f"ask for the user's credentials for {self.address.host}",
            stdin=self.address.host.encode(),
            timeout=timedelta(minutes=1),
        )
        answer = run_command(command, variables=self.environment.variables)
        return parse_helper(answer.stdout) if answer.passed else None

    def _refusal(self, error: urllib.error.HTTPError, path: str) -> SourceError:
        host = self.address.host
        if error.code in (_UNAUTHORIZED, _FORBIDDEN):
            return SourceError(
                f"the registry {host} does not let you read {self.place}",
                remedy=f"Log in with `docker login {host}`; or the image is not there: some registries say the same then.",
                code="E341",
            )
        if error.code == _NOT_FOUND:
            return SourceError(
                f"the registry has no {self.place} ({path.partition('/')[0]})",
                remedy="Check the name and tag.",
                code="E342",
            )
        wait = " It limits how often it may be asked." if error.code == _TOO_MANY else ""
        return SourceError(
            f"the registry {host} answered {error.code} {error.reason} for {self.place}.{wait}",
            remedy="Try later; or pull the image and give docker:IMAGE.",
            code="E340",
        )

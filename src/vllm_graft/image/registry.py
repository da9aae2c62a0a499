# How a registry is spoken to, as far as it is words. Source throughout: OCI distribution specification 1.1; token flow:
# distribution 2.8, docs/spec/auth/token.md.
"""Addresses, accepted forms and credentials of registries."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote, urlencode

ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Forms of manifests and indexes."""

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_LOCAL = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An image in a registry."""

    host: str
    repository: str
    reference: str
    """A tag or a digest."""

    @property
    def base(self) -> str:
        """Give the beginning of every address; without TLS only on this machine, as Docker does."""
        scheme = "http" if _LOCAL.fullmatch(self.host) else "https"
        return f"{scheme}://{self.host}/v2/{quote(self.repository)}"

    def __str__(self) -> str:
        """Give the form that a user writes."""
        joint = "@" if self.reference.startswith("sha256:") else ":"
        return f"{self.host}/{self.repository}{joint}{self.reference}"


def parse_address(text: str) -> Address | None:
    """Read ``HOST/NAME``, ``HOST/NAME:TAG`` or ``HOST/NAME@sha256:…``; None where no host is named."""
    host, slash, rest = text.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    if not slash or not is_host or not rest:
        return None
    name, at, digest = rest.partition("@")
    if at:
        return Address(host=host, repository=name.partition(":")[0], reference=digest)
    name, _, tag = rest.partition(":")
    return Address(host=host, repository=name, reference=tag or "latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user's name and password for one registry."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """Give the value of an Authorization header."""
        told = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(told).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerLogin:
    """What the user's Docker configuration says of one registry."""

    credentials: Credentials | None = None
    helper: str = ""
    """Name of the program that keeps them: ``docker-credential-…``."""


def parse_login(configuration: bytes, host: str) -> DockerLogin:
    """Read ``config.json`` of Docker, or ``auth.json`` of podman, for one host.

    Source: docker/cli 20.10 to 28, ``cli/config/configfile``: ``credHelpers`` before ``credsStore`` before ``auths``.
    """
    try:
        value: object = json.loads(configuration)
    except ValueError:
        return DockerLogin()
    told = _mapping(value)
    helper = _mapping(told.get("credHelpers")).get(host) or told.get("credsStore")
    if helper:
        return DockerLogin(helper=f"docker-credential-{helper}")
    for name, entry in _mapping(told.get("auths")).items():
        if name.removeprefix("https://").removeprefix("http://").partition("/")[0] == host:
            return DockerLogin(credentials=_decoded(str(_mapping(entry).get("auth") or "")))
    return DockerLogin()


def parse_helper(answer: bytes) -> Credentials | None:
    """Read what a credential helper says.

    Source: docker/docker-credential-helpers 0.8: ServerURL, Username, Secret as JSON.
    """
    try:
        told = _mapping(json.loads(answer))
    except ValueError:
        return None
    user = str(told.get("Username") or "")
    return Credentials(user=user, password=str(told.get("Secret") or "")) if user else None


def token_address(challenge: str, repository: str) -> str | None:
    """Give the address that hands out a token; None where the registry wants a password itself.

    ``challenge``: the WWW-Authenticate header of an answer 401.
    """
    scheme, _, rest = challenge.partition(" ")
    told = dict(_CHALLENGE.findall(rest))
    if scheme.lower() != "bearer" or "realm" not in told:
        return None
    asked = {"scope": told.get("scope") or f"repository:{repository}:pull"}
    if told.get("service"):
        asked["service"] = told["service"]
    return f"{told['realm']}?{urlencode(asked)}"


def parse_token(answer: bytes) -> str | None:
    """Read a token."""
    try:
        told = _mapping(json.loads(answer))
    except ValueError:
        return None
    found = told.get("token") or told.get("access_token")
    return str(found) if found else None


def _decoded(auth: str) -> Credentials | None:
    try:
        user, colon, password = base64.b64decode(auth).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(user=user, password=password) if colon and user else None


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}

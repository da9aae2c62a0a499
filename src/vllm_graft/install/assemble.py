"""An install from the bytes that were read, and back to bytes for the cache."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TypedDict, cast

from packaging.version import InvalidVersion, Version

from vllm_graft.install.gpu import sorted_gpus
from vllm_graft.install.metadata import parse_metadata, parse_record
from vllm_graft.install.native import READER, Binary, extension_name
from vllm_graft.install.tree import PackedFiles, is_vllm_python
from vllm_graft.values.digest import Digest
from vllm_graft.values.install import Distribution, Install, NativeCode

_MAGIC = f"vllm-graft/install/4.{READER}\n".encode()
UNKNOWN_VERSION = "unknown"
"""What a checkout without any sign of its version says; its layout then places it."""

# Source: setuptools-scm writes one of these forms into vllm/_version.py (vLLM 0.8 to 0.33).
_VERSION_LINE = re.compile(
    rb"""^(?:__version__|version)\s*(?::[^=\n]+)?=\s*(?:(?:__version__|version)\s*=\s*)?["']([^"'\n]+)["']""",
    re.MULTILINE,
)


class _Head(TypedDict):
    version: str
    digest: str
    interpreter: str | None
    distributions: list[dict[str, object]]
    extensions: list[str]
    schemas: dict[str, list[str]]
    binaries: dict[str, str]
    gpus: list[str]
    record: dict[str, str]
    notes: list[str]
    beside: dict[str, str]
    files: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What was read of one install, before anything is concluded from it."""

    files: tuple[tuple[str, bytes], ...]
    """vLLM's ``*.py`` and the text files of its own ``*.dist-info``; relative to the install's root."""
    binaries: tuple[tuple[str, Binary], ...] = ()
    dist_info: str = ""
    """Name of vLLM's own ``*.dist-info`` folder; empty where there is none."""
    others: tuple[Distribution, ...] = ()
    """The other distributions of the environment."""
    interpreter: str | None = None
    told_version: str = ""
    """What stands outside the files, such as a tag of the checkout; used if they tell nothing."""
    sites: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def assemble(contents: Contents, *, source: str, location: str) -> Install:
    """Conclude what the install is."""
    files = PackedFiles.of(contents.files)
    metadata = f"{contents.dist_info}/METADATA"
    own = parse_metadata(files.read(metadata)) if metadata in files else None
    record = f"{contents.dist_info}/RECORD"
    native = _native(contents.binaries)
    everything: dict[str, Distribution] = {}
    for one in contents.others:
        everything.setdefault(one.name, one)  # Python takes the first that it finds
    if own is not None:
        everything[own.name] = own
    return Install(
        source=source,
        location=location,
        version=_version(files, own, contents.told_version),
        digest=_digest(files, metadata, native),
        files=files,
        distributions=tuple(everything[name] for name in sorted(everything)),
        interpreter=contents.interpreter,
        native=native,
        record=parse_record(files.read(record)) if record in files else {},
        sites=contents.sites,
        notes=contents.notes,
    )


def _version(files: PackedFiles, own: Distribution | None, told: str) -> str:
    # METADATA first: it is what pip believes; _version.py is what vLLM says of itself and is all that a
    # checkout has. A local part (`+cpu`) that only one of them has is kept.
    written = _VERSION_LINE.search(
        files.read("vllm/_version.py") if "vllm/_version.py" in files else b""
    )
    said = written.group(1).decode("utf-8", "replace") if written else ""
    if own is not None and own.version:
        return said if said and _same_release(said, own.version) else own.version
    return said or told or UNKNOWN_VERSION


def _same_release(longer: str, shorter: str) -> bool:
    try:
        one, other = Version(longer), Version(shorter)
    except InvalidVersion:
        return False
    return one.public == other.public and one.local is not None and other.local is None


def _native(binaries: Iterable[tuple[str, Binary]]) -> NativeCode:
    ordered = sorted(binaries, key=lambda each: each[0])
    schemas: dict[str, set[str]] = {}
    for _, binary in ordered:
        for name, texts in binary.schemas.items():
            schemas.setdefault(name, set()).update(texts)
    names = (extension_name(path, binary) for path, binary in ordered)
    return NativeCode(
        extensions=tuple(sorted({name for name in names if name is not None})),
        operators=frozenset(schemas),
        schemas={name: tuple(sorted(schemas[name])) for name in sorted(schemas)},
        binaries={path: binary.digest for path, binary in ordered},
        gpus=sorted_gpus(name for _, binary in ordered for name in binary.gpus),
    )


def _digest(files: PackedFiles, metadata: str, native: NativeCode) -> Digest:
    parts = [(path, files.read(path)) for path in files.paths() if is_vllm_python(path)]
    if metadata in files:
        parts.append(("METADATA", files.read(metadata)))
    spoken = {"extensions": native.extensions, "schemas": native.schemas}
    parts.append(("native", json.dumps(spoken, sort_keys=True).encode()))
    return Digest.of_parts(parts)


def pack(install: Install) -> bytes:
    """Write an install as one block; where it came from is not part of it."""
    files = install.files
    if not isinstance(files, PackedFiles):
        files = PackedFiles.of((path, files.read(path)) for path in files.paths())
    head = {
        "version": install.version,
        "digest": install.digest.hex,
        "interpreter": install.interpreter,
        "distributions": [asdict(each) for each in install.distributions],
        "extensions": install.native.extensions,
        "schemas": dict(install.native.schemas),
        "binaries": dict(install.native.binaries),
        "gpus": install.native.gpus,
        "record": dict(install.record),
        "notes": install.notes,
        "beside": {path: text.decode("latin-1") for path, text in install.beside.items()},
        "files": files.lengths(),
    }
    text = json.dumps(head, separators=(",", ":"), sort_keys=True).encode()
    return b"".join((_MAGIC, f"{len(text):016x}\n".encode(), text, files.text))


def unpack(block: bytes, *, source: str, location: str) -> Install | None:
    """Read what :func:`pack` wrote; None where it is of another version of this program."""
    if not block.startswith(_MAGIC):
        return None
    start = len(_MAGIC) + 17
    end = start + int(block[len(_MAGIC) : start], 16)
    head = cast("_Head", json.loads(block[start:end]))
    schemas = {name: tuple(texts) for name, texts in head["schemas"].items()}
    return Install(
        source=source,
        location=location,
        version=head["version"],
        digest=Digest(head["digest"]),
        files=PackedFiles(block, head["files"], first=end),
        distributions=tuple(_distribution(each) for each in head["distributions"]),
        interpreter=head["interpreter"],
        native=NativeCode(
            extensions=tuple(head["extensions"]),
            operators=frozenset(schemas),
            schemas=schemas,
            binaries=head["binaries"],
            gpus=tuple(head["gpus"]),
        ),
        record=head["record"],
        notes=tuple(head["notes"]),
        beside={path: text.encode("latin-1") for path, text in head["beside"].items()},
    )


def _distribution(value: Mapping[str, object]) -> Distribution:
    return Distribution(
        name=str(value["name"]),
        version=str(value["version"]),
        requires=tuple(cast("list[str]", value["requires"])),
    )

# Which torch operators a binary declares, read from its bytes. Operators are registered with a schema that the
# compiler keeps as a C string, `rms_norm(Tensor! out, Tensor input, …) -> ()`, so a search for `->` and a
# strict look at the string around each hit finds them without parsing ELF and without loading anything.
"""Operators and extension modules of a binary."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from vllm_graft.install.gpu import GpuReader, sorted_gpus

READER = "2"
"""Goes up whenever the same bytes are read otherwise: answers of before are then not believed."""

_ARROW = b"->"
_LONGEST = 16_384
"""No schema is longer; also what is kept of one piece in front of the next."""

# Source: torch/csrc/jit/frontend/function_schema_parser.cpp (torch 2.9): a name with optional namespace and
# overload, arguments that begin with a type, and a type or a parenthesised list of types.
_TYPE = (
    rb"(?:Tensor|SymInt|Scalar|ScalarType|Layout|Device|MemoryFormat|Generator|Dict|Any|Storage|Stream"
    rb"|__torch__[\w.]+|int|float|bool|str|complex|number|t)\b"
)
_SCHEMA = re.compile(
    rb"(?:(?P<namespace>[A-Za-z_]\w*)::)?(?P<name>[A-Za-z_]\w*)(?:\.\w+)?"
    rb"\(\s*(?:\*\s*,\s*)?(?:" + _TYPE + rb"[^\0]*)?\)\s*->\s*(?:" + _TYPE + rb"|\()[^\0]*",
    re.DOTALL,
)
_INIT = re.compile(rb"(?<![A-Za-z0-9_])PyInit_([A-Za-z_]\w*)\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """What one ``*.so`` declares."""

    schemas: Mapping[str, tuple[str, ...]]
    """Operator, without namespace and overload → its schemas, sorted, white space collapsed."""
    modules: tuple[str, ...]
    """Names that it can be imported under, without packages."""
    digest: str
    """``sha256=…`` as RECORD writes it."""
    gpus: tuple[str, ...] = ()
    """GPU architectures that it holds code for, such as ``sm_90``."""


def read_binary(pieces: Iterable[bytes]) -> Binary:
    """Read a binary given in pieces of any size.

    Operators that are registered without a schema (``m.def("dispose", &dispose)``) leave only their bare name
    and are not seen; nor are those that Python registers.
    """
    running = hashlib.sha256()
    found: dict[str, set[str]] = {}
    modules: set[str] = set()
    gpu = GpuReader()
    for piece in _overlapping(pieces, running, gpu):
        for name, schema in _schemas(piece):
            found.setdefault(name, set()).add(schema)
        if b"PyInit_" in piece:
            modules.update(name.decode() for name in _INIT.findall(piece))
    digest = base64.urlsafe_b64encode(running.digest()).rstrip(b"=").decode()
    return Binary(
        schemas={name: tuple(sorted(found[name])) for name in sorted(found)},
        modules=tuple(sorted(modules)),
        digest=f"sha256={digest}",
        gpus=sorted_gpus(gpu.names),
    )


def extension_name(path: str, binary: Binary) -> str | None:
    """Give the dotted name that the file at this path is imported under, or None for a plain library.

    Source: vLLM 0.31 ``platforms/cpu.py``: ``_C_AVX2.abi3.so`` is imported by that name for the operators that
    loading it registers, though the module it defines is called ``_C``.
    """
    file = PurePosixPath(path)
    stem, _, suffix = file.name.partition(".")
    tagged = suffix.startswith(("abi3.", "cpython-"))
    if stem in binary.modules or (tagged and binary.modules):
        return ".".join((*file.parent.parts, stem))
    return None


def _overlapping(
    pieces: Iterable[bytes], running: "hashlib._Hash", gpu: GpuReader
) -> Iterator[bytes]:
    kept = b""
    for piece in pieces:
        running.update(piece)
        gpu.feed(piece)
        yield kept + piece
        kept = (kept + piece)[-_LONGEST:] if len(piece) < _LONGEST else piece[-_LONGEST:]


def _schemas(piece: bytes) -> Iterator[tuple[str, str]]:
    place = piece.find(_ARROW)
    while place >= 0:
        start = piece.rfind(b"\0", max(0, place - _LONGEST), place) + 1
        end = piece.find(b"\0", place, place + _LONGEST)
        if end < 0:  # the rest comes with the next piece, whose front repeats this one's end
            end = place + len(_ARROW)
        elif (match := _SCHEMA.fullmatch(piece, start, end)) is not None:
            yield match["name"].decode(), " ".join(match[0].decode("utf-8", "replace").split())
        place = piece.find(_ARROW, end)

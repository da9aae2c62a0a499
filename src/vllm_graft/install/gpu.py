# Which GPUs a binary holds code for, read off the headers that the compilers write; neither ELF nor the code itself, which
# is compressed, is looked into. A binary of 400 MB comes in pieces, and what lies between two headers is skipped.
"""GPU architectures in a binary."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_MAGIC = b"\x50\xed\x55\xba\x01\x00\x10\x00"
_CONTAINER = 16
_ENTRY = 32
"""As much of an entry's header as says what it is."""
_PTX, _ELF, _OTHER_ELF = 1, 2, 16
_LOWEST, _HIGHEST = 20, 999
_LARGEST_HEADER = 4096
"""Source: fatbinary.h of CUDA (magic 0xBA55ED50, version 1, header of 16 bytes, size of all entries); what an entry looks like
was read off bitsandbytes 0.48.2 (CUDA 11.8 to 13.0) and agrees with what cuobjdump 13.5 lists there: kind (2 bytes), version
(2), length of the header (4), of the content (8), …, architecture (4, at 28). The ``a`` of ``sm_90a`` stands only in the
content."""

_AMD = b"amdgcn-amd-amdhsa--gfx"
_AMD_NAME = re.compile(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]{3,5})(?![0-9a-z])")
_AMD_LONGEST = 32
"""Source: clang 14 to 20, "Clang Offload Bundler": ``hipv4-amdgcn-amd-amdhsa--gfx942``; bundles that are compressed (``CCOB``)
do not show theirs."""


@dataclass(slots=True)
class GpuReader:
    """Takes a binary piece by piece; pieces may be cut anywhere."""

    names: set[str] = field(default_factory=set[str])
    """``sm_90`` for machine code, ``compute_90`` for PTX, which later GPUs compile for themselves, ``gfx942``."""
    _kept: bytes = b""
    _start: int = 0
    """Where ``_kept`` lies in the file."""
    _next: int = -1
    """Where the next entry of the container lies; -1: in none."""
    _end: int = 0

    def feed(self, piece: bytes) -> None:
        """Take what follows."""
        text = self._kept + piece
        place = max(0, self._next - self._start) if self._next >= 0 else 0
        while True:
            if self._next >= 0:
                if self._next - self._start + _ENTRY > len(text):
                    break
                place = self._read_entry(text)
                continue
            found = text.find(_MAGIC, place)
            if found < 0 or found + _CONTAINER > len(text):
                break
            size = int.from_bytes(text[found + 8 : found + _CONTAINER], "little")
            place = found + _CONTAINER
            self._next, self._end = self._start + place, self._start + place + size
            self._leave_at_end()
        if _AMD in text:
            self.names.update(name.decode() for name in _AMD_NAME.findall(text))
        tail = max(_CONTAINER, _ENTRY, _AMD_LONGEST + len(_AMD))
        self._kept = text[-tail:]
        self._start += len(text) - len(self._kept)

    def _read_entry(self, text: bytes) -> int:
        place = self._next - self._start
        kind, header, content, architecture = (
            int.from_bytes(text[place + at : place + at + size], "little")
            for at, size in ((0, 2), (4, 4), (8, 8), (28, 4))
        )
        if not (
            _ENTRY <= header <= _LARGEST_HEADER
            and content <= self._end - self._next
            and _LOWEST <= architecture <= _HIGHEST
        ):
            self._next = -1  # the magic stood there by chance, or the form is another
            return place
        if kind in (_ELF, _OTHER_ELF):
            self.names.add(f"sm_{architecture}")
        elif kind == _PTX:
            self.names.add(f"compute_{architecture}")
        self._next += header + content
        self._leave_at_end()
        return self._next - self._start if self._next >= 0 else place + header

    def _leave_at_end(self) -> None:
        if self._next >= self._end:
            self._next = -1


def sorted_gpus(names: Iterable[str]) -> tuple[str, ...]:
    """Order by kind, then by number: ``sm_90`` before ``sm_120``."""
    return tuple(sorted(set(names), key=_order))


def _order(name: str) -> tuple[str, int, str]:
    kind, _, number = name.partition("_")
    return kind if number else "gfx", int(number) if number.isdecimal() else 0, name


def uncovered(wanted: Iterable[str], held: Iterable[str]) -> tuple[str, ...]:
    """Give the architectures of which it is not shown that binaries with code for ``held`` run on them.

    PTX is not counted, in neither: a binary may have it for a few of its kernels alone. Nor is what CUDA allows between minor versions of an
    architecture (sm_120 on sm_121), since it does not hold for ``a`` and ``f``, which do not show.
    """
    has = set(held)
    return tuple(
        name for name in sorted_gpus(wanted) if name not in has and not name.startswith("compute_")
    )

# Which compression it is, is told by the first bytes, never by a name or a media type: both are wrong often enough.
"""Streams that may be compressed."""

import gzip
import hashlib
import io
import sys
import zlib
from typing import BinaryIO, Protocol, cast

from vllm_graft.values.digest import Digest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 1 << 20
STEP = 1 << 16
"""Of tarfile's streams: for each header it copies what is left of a step, so that a larger one is slower."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = tuple(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))
"""Source: RFC 8878, 3.1.2: a frame that decoders pass over, with which some writers begin."""

BROKEN = (EOFError, OSError, zlib.error, zstd.ZstdError)
"""What reading a damaged stream raises."""


class Readable(Protocol):
    """What can be read from front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """Give at most so many bytes; none at the end."""
        ...


class DigestingReader(io.RawIOBase):
    """Hands bytes through and digests them."""

    def __init__(self, stream: Readable) -> None:
        """Take the stream from where it stands."""
        super().__init__()
        self._stream = stream
        self._running = hashlib.sha256()

    def readable(self) -> bool:
        """Tell that this can be read."""
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]
        """Read into a buffer."""
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self._running.update(piece)
        return len(piece)

    def drain(self) -> Digest:
        """Read to the end, and digest the whole."""
        while self.read(PIECE):
            pass
        return Digest(self._running.hexdigest())


def buffered(stream: io.RawIOBase) -> io.BufferedReader:
    """Give a stream that can be peeked into."""
    return io.BufferedReader(stream, PIECE)


def is_compressed(start: bytes) -> bool:
    """Tell by its first four bytes whether a stream is compressed."""
    return start.startswith(_GZIP) or start[:4] == _ZSTD or start[:4] in _ZSTD_SKIPPED


def decompressed(stream: io.BufferedReader) -> BinaryIO:
    """Give what is in a stream, decompressed where it is compressed."""
    start = stream.peek(4)[:4]
    if start.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb"))
    if is_compressed(start):
        return cast("BinaryIO", zstd.ZstdFile(stream, mode="rb"))
    return cast("BinaryIO", stream)

# A log may be larger than memory, still grow, or come through a pipe: it is read once, in pieces.
"""Reading a log."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vllm_graft.errors import RequestError

STDIN = "-"
_PIECE = 1 << 20
_OVERLAP = 1 << 12
"""Bytes of an endless line that begin the next piece too, so that no words are cut in two."""


def read_log_pieces(name: str) -> Iterator[str]:
    """Give a log in pieces that end with a line, where a line is not larger than a piece; ``-`` is stdin.

    Raises:
        RequestError: E230, it cannot be read; E231, it is empty; E232, it is no text.
    """
    if name == STDIN:
        yield from _pieces(sys.stdin.buffer, "stdin")
        return
    try:
        with Path(name).open("rb") as stream:
            yield from _pieces(stream, name)
    except OSError as failure:
        raise RequestError(
            f"the log {name} cannot be read: {failure.strerror}",
            remedy="give a file that you may read, or - for stdin: docker logs NAME 2>&1 | vllm-graft explain --log -",
            code="E230",
        ) from failure


def _pieces(stream: BinaryIO, name: str) -> Iterator[str]:
    rest = b""
    began = False
    # read1: what a pipe has is looked at when it comes.
    while piece := _read(stream):
        if not began and b"\0" in piece:
            raise RequestError(
                f"the log {name} is no text: it has zero bytes",
                remedy="give the log itself, in UTF-8: not an archive, and not a file that PowerShell wrote with > (UTF-16)",
                code="E232",
            )
        began = True
        whole, feed, rest = (rest + piece).rpartition(b"\n")
        if feed:
            yield (whole + feed).decode(errors="replace")
        elif len(rest) >= _PIECE:
            yield rest.decode(errors="replace")
            rest = rest[-_OVERLAP:]
    if rest:
        yield rest.decode(errors="replace")
    if not began:
        raise RequestError(
            f"the log {name} is empty: nothing can be said of it",
            remedy="docker logs writes to stderr too: docker logs NAME 2>&1 | vllm-graft explain --log -",
            code="E231",
        )


def _read(stream: BinaryIO) -> bytes:
    return os.read(stream.fileno(), _PIECE)

# A store that several processes may fill at once. Content is named by its sha256, so a file is either right
# or recognised as wrong; pointers are small JSON files that lead to content. Everything is written beside its
# place and renamed. A cache that cannot be written is no reason to fail: the caller then works without it.
"""The content-addressed cache."""

import contextlib
import json
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from vllm_graft.run.console import Console
from vllm_graft.run.files import write_atomically
from vllm_graft.values.digest import Digest

try:
    import fcntl
except ImportError:  # a system without it fetches twice at worst
    fcntl = None

_LAYOUT = "1"
"""Part of every path: another layout of the cache never meets this one."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Content by digest, and pointers to it by name."""

    root: Path | None
    """None: nothing is kept."""
    console: Console
    _complaints: list[str] = field(default_factory=list[str], repr=False)

    @classmethod
    def at(cls, directory: str, console: Console) -> "Cache":
        """Give the cache in this directory, which need not exist yet; empty: keep nothing."""
        return cls(Path(directory) / _LAYOUT if directory else None, console)

    def get(self, digest: Digest) -> bytes | None:
        """Give content, or None; what is not what its name says is removed."""
        path = self._content(digest)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if Digest.of(content) == digest:
            return content
        self.console.tell(f"cache: {path} is damaged; it is removed and made again")
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, content: bytes) -> Digest:
        """Keep content and give its name."""
        digest = Digest.of(content)
        path = self._content(digest)
        if path is not None and not _has_size(path, len(content)):
            self._write(path, content)
        return digest

    def lookup(self, kind: str, key: str) -> Mapping[str, str] | None:
        """Give what was remembered under this name, or None."""
        path = self._pointer(kind, key)
        if path is None:
            return None
        try:
            found: object = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict):
            return None
        return {str(name): str(value) for name, value in cast("dict[str, object]", found).items()}

    def remember(self, kind: str, key: str, facts: Mapping[str, str]) -> None:
        """Keep small facts under a name, in place of those before."""
        path = self._pointer(kind, key)
        if path is not None:
            self._write(path, json.dumps(dict(facts), sort_keys=True).encode() + b"\n")

    def forget_oldest(self, kind: str, *, most: int) -> None:
        """Remove content and pointers of a kind, those written longest ago first, until the content has at most so many bytes.

        Each of its pointers names its content as ``content``; the last one stays in any case.
        """
        if self.root is None:
            return
        with contextlib.suppress(OSError):
            pointers = sorted(
                (self.root / kind).glob("*.json"), key=lambda each: each.stat().st_mtime
            )
            total = 0
            for pointer in pointers[::-1]:
                content = self._content_of(pointer)
                total += content.stat().st_size if content is not None else 0
                if total > most and pointer is not pointers[-1]:
                    pointer.unlink()
                    if content is not None:
                        content.unlink()

    def _content_of(self, pointer: Path) -> Path | None:
        try:
            told = cast("dict[str, str]", json.loads(pointer.read_bytes()))
            content = self._content(Digest.parse(told["content"]))
        except (ValueError, KeyError, TypeError):
            return None
        return content if content is not None and content.exists() else None

    @contextlib.contextmanager
    def lock(self, key: str) -> Generator[None]:
        """Let one process at a time do the work of this name; the others wait."""
        with contextlib.ExitStack() as stack:
            if self.root is not None and fcntl is not None:
                with contextlib.suppress(OSError):
                    path = self.root / "locks" / Digest.of(key.encode()).hex
                    path.parent.mkdir(parents=True, exist_ok=True)
                    stream = stack.enter_context(path.open("wb"))
                    self._wait_for(stream.fileno(), key)
            yield

    def _wait_for(self, handle: int, key: str) -> None:
        assert fcntl is not None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.console.tell(f"cache: waiting for another process that fetches {key}")
            fcntl.flock(handle, fcntl.LOCK_EX)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            if not self._complaints:  # one is enough: the rest would say the same
                said = f"cache: nothing is kept, {self.root} cannot be written: {error.strerror}"
                self._complaints.append(said)
                self.console.tell(said)

    def _content(self, digest: Digest) -> Path | None:
        if self.root is None:
            return None
        return self.root / "content" / digest.hex[:2] / digest.hex

    def _pointer(self, kind: str, key: str) -> Path | None:
        if self.root is None:
            return None
        return self.root / kind / f"{Digest.of(key.encode()).hex}.json"


def _has_size(path: Path, size: int) -> bool:
    try:
        return os.stat(path).st_size == size  # noqa: PTH116
    except OSError:
        return False

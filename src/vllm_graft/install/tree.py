# One install's text as one block of bytes with a table of places: it is read from the cache in one go and
# searched in one pass, which is what makes a question over 2,500 files cost milliseconds.
"""The files of an install, in memory."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Self


class PackedFiles:
    """Files as one block: those of vLLM that are Python first, in path order, then the others.

    A NUL stands behind each file, so that no search runs from one file into the next.
    """

    __slots__ = (
        "_end_of_python",
        "_first",
        "_holders",
        "_mentioned",
        "_paths",
        "_python_paths",
        "_starts",
        "_table",
        "_text",
    )

    def __init__(self, text: bytes, lengths: Sequence[tuple[str, int]], *, first: int = 0) -> None:
        """Take the block, which begins at byte ``first``, and in its order each path with its length."""
        self._text = text
        self._first = first
        self._table: dict[str, tuple[int, int]] = {}
        self._starts: list[int] = []
        self._python_paths: list[str] = []
        self._end_of_python = first
        place = first
        for path, length in lengths:
            self._table[path] = (place, place + length)
            if is_vllm_python(path):
                self._starts.append(place)
                self._python_paths.append(path)
                self._end_of_python = place + length + 1
            place += length + 1
        if place != len(text):
            message = f"a block of {len(text)} bytes does not hold the {place} that its table says"
            raise ValueError(message)
        self._paths = tuple(sorted(self._table))
        self._holders: dict[bytes, tuple[str, ...]] = {}
        self._mentioned: dict[bytes, bool] = {}

    @classmethod
    def of(cls, files: Iterable[tuple[str, bytes]]) -> Self:
        """Pack files given in any order."""
        ordered = sorted(files, key=lambda file: (not is_vllm_python(file[0]), file[0]))
        text = b"".join(part for _, content in ordered for part in (content, b"\0"))
        return cls(text, [(path, len(content)) for path, content in ordered])

    @property
    def text(self) -> bytes:
        """The block itself."""
        return self._text[self._first :]

    def lengths(self) -> list[tuple[str, int]]:
        """Give each path with its length, in the order of the block."""
        return [(path, end - start) for path, (start, end) in self._table.items()]

    def paths(self) -> Sequence[str]:
        """Give every path, sorted."""
        return self._paths

    def __contains__(self, path: object) -> bool:
        """Tell whether this path is a file here."""
        return path in self._table

    def read(self, path: str) -> bytes:
        """Give the content of one file.

        Raises:
            KeyError: there is no such file.
        """
        start, end = self._table[path]
        return self._text[start:end]

    def containing(self, needle: bytes) -> Sequence[str]:
        """Give the sorted paths of vLLM's ``*.py`` files whose bytes contain ``needle``."""
        if needle not in self._holders:  # a pass over the block takes milliseconds; some ask again
            self._holders[needle] = tuple(self._search(needle))
        return self._holders[needle]

    def mention(self, needle: bytes) -> bool:
        """Tell whether any of those files contains it; stops at the first that does."""
        if needle not in self._mentioned:
            self._mentioned[needle] = next(self._search(needle), None) is not None
        return self._mentioned[needle]

    def _search(self, needle: bytes) -> Iterator[str]:
        if not needle:
            yield from self._python_paths
            return
        place = self._text.find(needle, self._first, self._end_of_python)
        while place >= 0:
            at = bisect_right(self._starts, place) - 1
            path = self._python_paths[at]
            end = self._table[path][1]
            inside = place + len(needle) <= end
            if inside:
                yield path
            place = self._text.find(needle, end if inside else place + 1, self._end_of_python)


def is_vllm_python(path: str) -> bool:
    """Tell whether a path is Python source of the ``vllm`` package."""
    return path.startswith("vllm/") and path.endswith(".py")

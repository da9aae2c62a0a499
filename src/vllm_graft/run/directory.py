# Reading a folder, with care for what a folder can do to its reader: links that lead round in circles or out of
# the tree, files that may not be read. Nothing of what is read is run.
"""Reading the folder of an install."""

import os
from collections.abc import Iterator
from pathlib import Path

from vllm_graft.errors import SourceError
from vllm_graft.install.search import Found

_PIECE = 1 << 22


def walk(root: str, folder: str, suffixes: tuple[str, ...]) -> list[Found]:
    """Find the files under ``root/folder`` with one of these suffixes, sorted by path.

    A link to a place inside ``root`` is followed; one that leads round in a circle is passed over, since all
    it could show is shown already.

    Raises:
        SourceError: a link leads out of the tree, or a folder may not be read.
    """
    real_root = Path(os.path.realpath(f"{root}/{folder}"))
    found: list[Found] = []
    pending: list[tuple[str, str, frozenset[str]]] = [
        (str(real_root), folder, frozenset({str(real_root)}))
    ]
    while pending:
        place, shown, above = pending.pop()
        for entry in _entries(place):
            path = f"{shown}/{entry.name}"
            real = entry.path
            if entry.is_symlink():
                real = _inside(entry, path, real_root)
                if real is None or real in above:
                    continue
            if entry.is_dir():
                if entry.name != "__pycache__":
                    pending.append((real, path, above | {real}))
            elif entry.name.endswith(suffixes) and entry.is_file():
                found.append(Found(path=path, place=real, signature=_signature(real, entry.stat())))
    return sorted(found, key=lambda each: each.path)


def _entries(place: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(place) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError as error:
        raise _unreadable(place) from error


def _inside(entry: "os.DirEntry[str]", path: str, root: Path) -> str | None:
    real = os.path.realpath(entry.path)
    if not os.path.exists(real) or os.path.islink(real):  # noqa: PTH110, PTH114 (dangling or circular)
        return None
    if not Path(real).is_relative_to(root):
        raise SourceError(
            f"a link leaves the tree: {path} leads to {real}, which is not in {root}",
            remedy="Copy the install with its links resolved (cp -rL FROM TO) and give the copy; with uv,"
            " install with --link-mode=copy.",
        )
    return real


def _signature(real: str, stat: os.stat_result) -> str:
    return f"{real}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ctime_ns}\0{stat.st_ino}"


def _unreadable(place: str) -> SourceError:
    return SourceError(
        f"{place} may not be read",
        remedy="Run as its owner, or copy the install to a place of yours.",
    )


def read_file(place: str) -> bytes:
    """Read one file.

    Raises:
        SourceError: it may not be read.
    """
    try:
        return Path(place).read_bytes()
    except PermissionError as error:
        raise _unreadable(place) from error
    except OSError as error:
        raise SourceError(
            f"{place} cannot be read: {error.strerror}", remedy="See whether its disk is well."
        ) from error


def read_pieces(place: str) -> Iterator[bytes]:
    """Read one large file in pieces.

    Raises:
        SourceError: it may not be read.
    """
    try:
        with Path(place).open("rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except PermissionError as error:
        raise _unreadable(place) from error


def names(place: str) -> list[str]:
    """Give the sorted names in a folder; empty where there is none."""
    try:
        return sorted(os.listdir(place))  # noqa: PTH208 (names, not paths)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise _unreadable(place) from error


def exists(place: str) -> bool:
    """Tell whether something is there, links followed; what may not be seen is not there."""
    return os.path.exists(place)  # noqa: PTH110 (never raises)


def real_path(place: str) -> str:
    """Resolve every link."""
    return os.path.realpath(place)


def match_folders(root: str, patterns: tuple[str, ...]) -> list[str]:
    """Give the folders below ``root`` that a glob pattern names, in the order of the patterns."""
    base = Path(root)
    return [
        str(found) for pattern in patterns for found in sorted(base.glob(pattern)) if found.is_dir()
    ]


class Disk:
    """The file system of this machine."""

    exists = staticmethod(exists)
    names = staticmethod(names)
    read = staticmethod(read_file)
    real_path = staticmethod(real_path)
    walk = staticmethod(walk)

# A wheel is read member by member: what is not asked for is never unpacked, and nothing is ever written, so a
# member's name can lead nowhere.
"""Reading a wheel."""

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from vllm_graft.errors import SourceError
from vllm_graft.values.digest import Digest

_PIECE = 1 << 22


def digest_wheel(wheel: str) -> Digest:
    """Digest the bytes of a wheel.

    Raises:
        SourceError: there is no such file, or it may not be read.
    """
    try:
        with Path(wheel).open("rb") as stream:
            return Digest(hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise _unreadable(wheel, error) from error


def read_members(
    wheel: str,
    *,
    wanted: Callable[[str], bool],
    streamed: Callable[[str, Iterator[bytes]], None] | None = None,
) -> list[tuple[str, bytes]]:
    """Read the wanted members whole, and hand each ``*.so`` to ``streamed`` in pieces.

    Raises:
        SourceError: there is no such file, it is truncated or damaged, or a member's name leaves the tree.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            found: list[tuple[str, bytes]] = []
            for member in archive.infolist():
                _refuse_escape(member.filename, wheel)
                if member.is_dir():
                    continue
                if wanted(member.filename):
                    found.append((member.filename, archive.read(member)))
                elif streamed is not None and member.filename.endswith(".so"):
                    streamed(member.filename, _pieces(archive, member))
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceError(
            f"{wheel} is no whole wheel: {error}",
            remedy="It is truncated or damaged: fetch it again.",
        ) from error
    except OSError as error:
        raise _unreadable(wheel, error) from error


def write_stand_in(folder: str, file: str, members: Mapping[str, str]) -> None:
    """Write a wheel of these members, for a tool that reads no more than its metadata."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    with zipfile.ZipFile(place / file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def _unreadable(wheel: str, error: OSError) -> SourceError:
    match error:
        case FileNotFoundError():
            return SourceError(
                f"no such file: {wheel}", remedy="Give the path of a wheel that exists."
            )
        case IsADirectoryError():
            return SourceError(
                f"{wheel} is a folder, not a wheel", remedy=f"Did you mean path:{wheel}?"
            )
        case PermissionError():
            return SourceError(
                f"{wheel} may not be read", remedy="Give yourself the right to read it."
            )
        case _:
            return SourceError(
                f"{wheel} cannot be read: {error.strerror or error}",
                remedy="It is truncated or damaged: fetch it again.",
            )


def _pieces(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _refuse_escape(name: str, wheel: str) -> None:
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        raise SourceError(
            f"{wheel} holds a path that leaves the tree: {name!r}",
            remedy="Do not use this wheel; a wheel made by a build tool has no such path.",
        )

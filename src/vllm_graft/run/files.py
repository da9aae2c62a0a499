"""Reading and writing single files of this machine."""

import contextlib
import os
import tempfile
from pathlib import Path

from vllm_graft.errors import RequestError


def read_bytes(path: str | Path) -> bytes:
    """Read a whole file.

    Raises:
        OSError: as the system says.
    """
    return Path(path).read_bytes()


def write_atomically(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Put a file in place so that a reader sees the old content or the new, never a part.

    The mode is that of the file it replaces unless given; a symbolic link is replaced, not followed.

    Raises:
        OSError: as the system says; the old file then stands as it was.
    """
    target = Path(path)
    if mode is None:
        mode = _mode_of(target)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def refuse_unwritable(name: str) -> None:
    """Refuse early a file that the user names and that could not be written.

    Raises:
        RequestError: E213.
    """
    target = Path(name).resolve()
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no regular file"
        raise _unwritable(name, f"it is {kind}", "give the name of a file")
    if not target.parent.is_dir():
        raise _unwritable(name, f"there is no folder {target.parent}", "make that folder first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise _unwritable(name, f"you may not write in {target.parent}", "give a place of your own")


def write_for_user(name: str, content: bytes) -> None:
    """Write a file that the user named; a link is followed, since the user made it.

    Raises:
        RequestError: E213, it cannot be written.
    """
    refuse_unwritable(name)
    try:
        write_atomically(Path(name).resolve(), content)
    except OSError as failure:
        raise _unwritable(
            name, failure.strerror or str(failure), "see whether the disk is full or read-only"
        ) from failure


def _unwritable(name: str, why: str, remedy: str) -> RequestError:
    return RequestError(f"{name} cannot be written: {why}", remedy=remedy, code="E213")


def _mode_of(target: Path) -> int:
    try:
        return target.stat(follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask

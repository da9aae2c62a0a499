"""Reading and writing single files of this machine."""

import contextlib
import os
import tempfile
from pathlib import Path


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


def _mode_of(target: Path) -> int:
    try:
        return target.stat(follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask

# One directory install on this machine, looked at with distrust: nothing is followed out of it.
"""Looking at a directory install before writing into it."""

import errno
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from vllm_graft.errors import BuildError

try:
    import fcntl
except ImportError:  # a system without it has no second vllm-graft either, we hope
    fcntl = None


_EFFECTIVE = os.access in os.supports_effective_ids

Folder = Path
"""A folder of this machine: workflows hand it on and do not look inside."""


def read_files(root: Path, paths: Iterable[str]) -> Mapping[str, bytes | None]:
    """Give the content of each path; None where there is no file.

    Raises:
        BuildError: E404, a path is or runs through a symbolic link, or something on it is no folder or file;
            E407, a file cannot be read.
    """
    found: dict[str, bytes | None] = {}
    for path in paths:
        refuse_links(root, path)
        try:
            found[path] = (root / path).read_bytes()
        except FileNotFoundError:
            found[path] = None
        except OSError as failure:
            raise BuildError(
                f"{root / path} cannot be read: {failure.strerror}",
                remedy="run as a user who may read and write this install",
                code="E407",
            ) from failure
    return found


def refuse_links(root: Path, path: str) -> None:
    """Refuse a path that leaves the tree through a symbolic link.

    Raises:
        BuildError: E404.
    """
    *folders, _ = path.split("/")
    place = root
    for step in path.split("/"):
        place = place / step
        if place.is_symlink():
            raise BuildError(
                f"{place} is a symbolic link to {os.readlink(place)}",  # noqa: PTH115 (as written)
                remedy="give the folder that the link leads to, or replace the link by a copy:"
                " a graft never writes through links",
                code="E404",
            )
    place = root
    for step in folders:
        place = place / step
        if place.exists() and not place.is_dir():
            raise BuildError(
                f"{place} is a file, but the plan needs a folder there",
                remedy="plan again with this install as --base",
                code="E404",
            )
    if (root / path).exists() and not (root / path).is_file():
        raise BuildError(
            f"{root / path} is no regular file",
            remedy="plan again with this install as --base",
            code="E404",
        )


def refuse_read_only(root: Path, paths: Iterable[str]) -> None:
    """Refuse early what could not be written.

    Raises:
        BuildError: E407, names the folder.
    """
    folders = {root / "vllm"}
    for path in paths:
        folder = (root / path).parent
        while not folder.exists():
            folder = folder.parent
        folders.add(folder)
    for folder in sorted(folders):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
            raise BuildError(
                f"{folder} cannot be written: it is read-only, or belongs to another user",
                remedy="run as the user who owns this install, or apply to a copy of it",
                code="E407",
            )


@contextmanager
def one_at_a_time(root: Path) -> Generator[None]:
    """Hold this tree against another vllm-graft; the lock is on the folder itself and leaves nothing.

    Raises:
        BuildError: E412, another one is at work here.
    """
    handle = os.open(root / "vllm", os.O_RDONLY)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as failure:
                # A file system without locks (some network ones) is no reason to refuse.
                if failure.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise BuildError(
                        f"another vllm-graft is at work in {root}",
                        remedy="wait until it has ended, then run this again",
                        code="E412",
                    ) from failure
        yield
    finally:
        os.close(handle)


def remove_bytecode(root: Path, path: str) -> None:
    """Remove what Python compiled from this file before.

    Source: PEP 3147 and 488: ``__pycache__/NAME.TAG.pyc`` and ``__pycache__/NAME.TAG.opt-N.pyc``. A stale one
    wins over the new text where size and modification time agree, or where it is an unchecked hash-based one
    (PEP 552).
    """
    file = root / path
    if file.suffix != ".py":
        return
    cache = file.parent / "__pycache__"
    if cache.is_symlink() or not cache.is_dir():
        return
    for compiled in cache.glob("*.pyc"):
        if compiled.name.split(".")[0] == file.stem:
            compiled.unlink(missing_ok=True)
    with suppress(OSError):
        cache.rmdir()


def resolved_folder(place: str) -> Folder:
    """Give a folder of this machine, links resolved: what the user names may be a link."""
    return Path(place).expanduser().resolve()

# A folder that this program made may be made again; one that somebody else made is never emptied.
"""Writing a whole folder of files."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from vllm_graft.errors import RequestError

_MARK = ".vllm-graft-overlay"


def refuse_foreign(place: str) -> None:
    """Refuse early a folder that this program did not make and that holds something.

    Raises:
        RequestError: E213.
    """
    folder = _folder(place)
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
            raise RequestError(
                f"{place} holds files that vllm-graft did not write",
                remedy="give a folder that does not exist yet, or is empty",
                code="E213",
            )
    except OSError as failure:
        raise _unwritable(place, failure) from failure
    above = folder.parent
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise RequestError(
            f"{place} cannot be written: you may not write in {above}",
            remedy="give a place of your own",
            code="E213",
        )


def write_folder(
    place: str, contents: Mapping[str, bytes], copies: Mapping[str, str] | None = None
) -> None:
    """Write files under ``place``, in place of what was written there before.

    ``copies``: files that are too large to be held, by where they are now; linked where that can be done.

    Raises:
        RequestError: E213, the folder holds something else, or cannot be written.
    """
    refuse_foreign(place)
    folder = _folder(place)
    fresh = folder.with_name(f"{folder.name}.new")
    made = False
    try:
        if (fresh / _MARK).exists():
            shutil.rmtree(fresh)
        fresh.mkdir(parents=True)
        made = True
        (fresh / _MARK).write_bytes(b"")
        for path, content in contents.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content)
        for path, now in (copies or {}).items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            _copy(now, fresh / path)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except OSError as failure:
        if made:
            shutil.rmtree(fresh, ignore_errors=True)
        raise _unwritable(place, failure) from failure


def _copy(now: str, place: Path) -> None:
    try:
        os.link(now, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(now, place)


def _folder(place: str) -> Path:
    # `.` has no name that a folder beside it could be named after.
    return Path(place).resolve()


def _unwritable(place: str, failure: OSError) -> RequestError:
    return RequestError(
        f"{place} cannot be written: {failure.strerror}",
        remedy="see that it is a folder, that you may write there, and whether the disk is full",
        code="E213",
    )

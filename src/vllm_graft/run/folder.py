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


def write_folder(place: str, contents: Mapping[str, bytes]) -> None:
    """Write files under ``place``, in place of what was written there before.

    Raises:
        RequestError: E213, the folder holds something else, or cannot be written.
    """
    refuse_foreign(place)
    folder = _folder(place)
    try:
        fresh = folder.with_name(f"{folder.name}.new")
        if (fresh / _MARK).exists():
            shutil.rmtree(fresh)
        fresh.mkdir(parents=True)
        (fresh / _MARK).write_bytes(b"")
        for path, content in contents.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except OSError as failure:
        raise _unwritable(place, failure) from failure


def _folder(place: str) -> Path:
    # `.` has no name that a folder beside it could be named after.
    return Path(place).resolve()


def _unwritable(place: str, failure: OSError) -> RequestError:
    return RequestError(
        f"{place} cannot be written: {failure.strerror}",
        remedy="see that it is a folder, and that you may write there",
        code="E213",
    )

# A folder that this program made may be made again; one that somebody else made is never emptied.
"""Writing a whole folder of files."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from vllm_graft.errors import RequestError

_MARK = ".vllm-graft-overlay"


def write_folder(place: str, contents: Mapping[str, bytes]) -> None:
    """Write files under ``place``, in place of what was written there before.

    Raises:
        RequestError: E213, the folder holds something else, or cannot be written.
    """
    folder = Path(place)
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
            raise RequestError(
                f"{place} holds files that vllm-graft did not write",
                remedy="give a folder that does not exist yet, or is empty",
                code="E213",
            )
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
        raise RequestError(
            f"{place} cannot be written: {failure.strerror}",
            remedy="see that you may write there",
            code="E213",
        ) from failure

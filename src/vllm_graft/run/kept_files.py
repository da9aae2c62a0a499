"""Files that are kept for whoever wants to look at them: logs of what is gone, plans of what was built."""

from collections.abc import Mapping
from pathlib import Path


def keep_files(folder: str, contents: Mapping[str, bytes]) -> bool:
    """Write files into a folder; tells whether that was possible, since a full disk is no reason to fail for."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (place / name).write_bytes(content)
    except OSError:
        return False
    return True

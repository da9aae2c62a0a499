"""A folder that is gone afterwards."""

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def workspace() -> Generator[str]:
    """Give a new empty folder of this user's own, removed at the end whatever happens."""
    with tempfile.TemporaryDirectory(prefix="vllm-graft-") as folder:
        yield folder


def files_in(folder: str, suffix: str) -> list[str]:
    """Give the paths of the files directly in a folder that end like this, sorted."""
    return sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(suffix))


def put_file(folder: str, name: str, content: bytes) -> str:
    """Write a file into such a folder; gives its path.

    Raises:
        OSError: as the system says.
    """
    place = Path(folder) / name
    place.write_bytes(content)
    return str(place)

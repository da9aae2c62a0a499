# A published wheel as text, for the table of transformers' releases and for the tests that hold it against them.
"""Read the text files of a wheel without unpacking it."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from vllm_graft.install.metadata import parse_metadata
from vllm_graft.values.install import Distribution


class WheelText:
    """The files of a wheel, as a site-packages would have them."""

    def __init__(self, path: Path) -> None:
        """Read the list of files."""
        self._archive = zipfile.ZipFile(path)
        self._paths = frozenset(self._archive.namelist())
        self._folders: dict[str, set[str]] = {}
        for name in self._paths:
            parts = name.split("/")
            for place in range(len(parts)):
                self._folders.setdefault("/".join(parts[:place]), set()).add(parts[place])

    def read(self, path: str) -> str | None:
        """Give a file's text; None where there is none."""
        return self._archive.read(path).decode("utf-8", "replace") if path in self._paths else None

    def names(self, folder: str) -> Sequence[str]:
        """Give what lies in a folder, sorted."""
        return sorted(self._folders.get(folder, ()))

    @property
    def distribution(self) -> Distribution:
        """Its METADATA."""
        (path,) = (name for name in self._paths if name.endswith(".dist-info/METADATA"))
        found = parse_metadata(self._archive.read(path))
        assert found is not None, path
        return found

# Lists that a person wrote, read as values: what cannot be shown here, and what is taken out of a tree.
"""Read the tables of a TOML file, beside the tests where it is only named."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from environments import HERE

T = TypeVar("T")


def listed(file: str | Path, table: str, kind: Callable[..., T]) -> tuple[T, ...]:
    """Give each entry of a table as a value of this kind, its arrays as tuples."""
    with (HERE / file).open("rb") as source:
        entries: list[dict[str, Any]] = tomllib.load(source)[table]
    return tuple(
        kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
        for entry in entries
    )

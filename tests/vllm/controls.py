# What a donor itself cannot serve on CPU, with the reason: recorded in controls.toml, and shown again by the full
# matrix. About these architectures no token test can say anything.
"""The architectures that a donor cannot serve here."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from environments import HERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One architecture that some donors cannot serve on CPU."""

    architecture: str
    donors: tuple[str, ...]
    reason: str
    """Stands in what the donor raises."""
    means: str


def controls() -> tuple[Control, ...]:
    """Read controls.toml."""
    with (HERE / "controls.toml").open("rb") as file:
        listed: list[dict[str, Any]] = tomllib.load(file)["control"]
    return tuple(
        Control(
            **cast("Any", {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
        )
        for entry in listed
    )


def not_runnable(donor: str) -> Mapping[str, Control]:
    """Give the controls of one donor by architecture."""
    return {entry.architecture: entry for entry in controls() if donor in entry.donors}

"""A finding: bad or doubtful news about code, as a value."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["blocked", "review", "note"]
"""``blocked``: the graft cannot work; ``review``: it may, a person should look; ``note``: told for completeness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in one of the two installs."""

    install: Literal["base", "donor"]
    path: str
    """Relative to the root of the install, POSIX, such as ``vllm/config/model.py``."""
    line: int
    """From 1; 0 where a whole file is meant."""

    def __str__(self) -> str:
        """Give ``donor vllm/config/model.py:12``."""
        return (
            f"{self.install} {self.path}:{self.line}"
            if self.line
            else f"{self.install} {self.path}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One piece of news; its code has a row in data/rules.toml."""

    code: str
    severity: Severity
    site: Site
    wanted: str
    """What the donor's code asks for."""
    found: str
    """What the base has instead."""
    remedy: str
    comparison: str = ""
    """Name of the entry in the plan's ``comparisons`` that it is about; empty where it is about no code, as pins are."""

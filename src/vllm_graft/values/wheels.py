"""Wheels that go into an image, each named by its content."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest

WheelPlace = Literal["in place", "side by side"]
"""``in place``: where the image's own Python imports from; ``side by side``: in a folder that only a process with that folder in
front on ``PYTHONPATH`` imports from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """One wheel, chosen for the platform and interpreter of an image."""

    name: str
    """Normalised as PEP 503 asks."""
    version: str
    file: str
    """Its file name; where it is fetched from is the user's own configuration."""
    digest: Digest
    """Of the file."""
    replaces: str = ""
    """Version that the image has; empty where it has none."""
    place: WheelPlace = "in place"

    @property
    def requirement(self) -> str:
        """Give ``transformers==5.4.0``."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTarget:
    """For whom wheels are chosen: not for the machine that asks."""

    machine: str
    """As wheels spell it: ``x86_64``, ``aarch64``."""
    python: tuple[int, int]
    """Of CPython."""

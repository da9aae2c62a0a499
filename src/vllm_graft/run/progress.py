# A line now and then, not one that is written over: what goes on for several machines at once stays readable, and so does a log.
"""Telling how far something is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vllm_graft.run.console import Console
from vllm_graft.values.amount import duration, size

_FIRST, _THEN = 2.0, 5.0
"""Seconds until the first line, and from line to line."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How much of something has arrived."""

    console: Console
    about: str
    """What stands before each line, such as ``spark2``."""
    over: str
    """The path, such as ``over 192.168.100.11 (enp1s0f1np1)``."""
    total: int
    """Bytes; 0: not known."""
    had: int = 0
    """Bytes that were there before."""
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._began = self.clock()
        self._next = self._began + _FIRST

    def at(self, sent: int) -> None:
        """Say how far it is, where it was not said just now; ``sent``: bytes since the beginning."""
        now = self.clock()
        if now < self._next:
            return
        self._next = now + _THEN
        rate = sent / (now - self._began)
        self.console.tell(f"{self.about}: {self._said(sent, rate)}")

    @property
    def seconds(self) -> int:
        """Give how long it has taken."""
        return round(self.clock() - self._began)

    def _said(self, sent: int, rate: float) -> str:
        there, speed = size(self.had + sent), f"{size(int(rate))}/s {self.over}"
        if not self.total:
            return f"{there}, {speed}"
        left = max(self.total - self.had - sent, 0)
        ends = f", {duration(left / rate)} left" if rate >= 1 else ""
        return f"{there} of {size(self.total)}, {speed}{ends}"

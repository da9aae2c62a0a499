"""What time it is."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """Give the time of this machine's clock."""
    return datetime.now(tz=UTC)


def stamp() -> str:
    """Give the time of day as a part of a name: ``20261130t1131z``."""
    return now().strftime("%Y%m%dt%H%M%Sz")


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """How long something has taken so far."""

    _began: float = field(default_factory=time.monotonic)

    @property
    def passed(self) -> timedelta:
        """Give the time since it was made."""
        return timedelta(seconds=time.monotonic() - self._began)

    @property
    def seconds(self) -> int:
        """Give it in whole seconds."""
        return round(self.passed.total_seconds())


def wait(span: timedelta) -> None:
    """Let time pass."""
    time.sleep(span.total_seconds())

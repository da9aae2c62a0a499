"""A command: an argv and a reason, never a shell string."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to run."""

    argv: tuple[str, ...]
    why: str
    """Completes the sentence "this is run to …"."""
    stdin: bytes = b""
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a command ended."""

    command: Command
    status: int
    """Exit status; negative is the signal that ended it; 124 if it ran out of time."""
    stdout: bytes
    stderr: bytes
    took: timedelta

    @property
    def passed(self) -> bool:
        """Whether it ended with status 0."""
        return self.status == 0

    def last_lines(self, count: int = 5) -> str:
        """Give the last lines of its complaints, for a message."""
        text = (self.stderr or self.stdout).decode("utf-8", "replace")
        return "\n".join(text.strip().splitlines()[-count:])

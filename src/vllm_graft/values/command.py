"""A command: an argv and a reason, never a shell string."""

import shlex
from dataclasses import dataclass
from datetime import timedelta

_LONGEST = 2000
"""Letters of a line that a message gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to run."""

    argv: tuple[str, ...]
    why: str
    """Completes the sentence "this is run to …"."""
    stdin: bytes = b""
    timeout: timedelta | None = None
    node: str = ""
    """On which machine ``inner`` is run by it; empty: it is itself what is run, here."""
    inner: tuple[str, ...] = ()
    marker: bytes = b""
    """Stands on stdout where what ``inner`` says begins; before it, what a login shell says of itself."""

    @property
    def by_hand(self) -> str:
        """Give what a person would type."""
        where = f" (on {self.node})" if self.node else ""
        return shlex.join(self.inner or self.argv) + where

    @property
    def explained(self) -> str:
        """Give what a person would type, and on a line of its own what for."""
        return f"{self.by_hand}\n  # to {self.why}"


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
        return visible("\n".join(line[-_LONGEST:] for line in text.strip().splitlines()[-count:]))


def visible(text: str) -> str:
    """Give a text so that a terminal shows it and obeys nothing in it: what others said may hold anything."""
    return "".join(
        letter
        if letter in "\n\t" or letter.isprintable()
        else letter.encode("unicode_escape").decode()
        for letter in text
    )

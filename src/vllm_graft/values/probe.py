# A question to a machine is an argv and a pure function that reads the answer. What a machine does not tell stays untold:
# a program that is absent, a time-out or words that nobody understands give a reason, never a value.
"""Probes: questions to a machine."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from vllm_graft.values.command import Command, Completed

T = TypeVar("T")

_NOT_FOUND, _TIMED_OUT = 127, 124
"""What a shell gives where a program does not exist, and what run/process.py gives for one that took too long."""

_ABSENT = "there is no "

NOT_UNDERSTOOD = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading text, numbers and JSON of another form than is expected raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """In the place of a value that a machine did not tell."""

    not_known: str
    """Why."""

    @property
    def is_absent(self) -> bool:
        """Whether the program that would tell is not there, and not only silent."""
        return self.not_known.startswith(_ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[T]):
    """A question that changes nothing on the machine that is asked."""

    asks: str
    """Completes "this is run to see …"."""
    argv: tuple[str, ...]
    read: Callable[[str], T]
    """From what it said on stdout; raises one of :data:`NOT_UNDERSTOOD` where it is something else than is read here."""
    timeout: timedelta = timedelta(seconds=20)
    any_status: bool = False
    """Whether it may end with any status but those of a program that is absent or too slow, as ``grep -s`` does where one of
    many files cannot be read."""

    @property
    def command(self) -> Command:
        """Give what is to be run there."""
        return Command(argv=self.argv, why=f"see {self.asks}", timeout=self.timeout)

    def answer(self, answer: Completed) -> T | NotKnown:
        """Read the answer, or say why there is none."""
        program = self.argv[0].rpartition("/")[2]
        if answer.status == _NOT_FOUND:
            return NotKnown(not_known=f"{_ABSENT}{program}")
        if answer.status == _TIMED_OUT:
            seconds = round(self.timeout.total_seconds())
            return NotKnown(not_known=f"{program} did not answer within {seconds} s")
        if not answer.passed and not self.any_status:
            said = answer.last_lines(2) or f"it ended with status {answer.status}"
            return NotKnown(not_known=said if program == "sh" else f"{program}: {said}")
        text = answer.stdout.decode("utf-8", "replace")
        try:
            return self.read(text)
        except NOT_UNDERSTOOD as error:
            shown = " ".join(text.split())[:80] or "nothing"
            return NotKnown(
                not_known=f"{program} said {shown!r}, which is not understood ({error})"
            )

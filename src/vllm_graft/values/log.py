# What was seen in a log: each kind of line once, with where it was first seen and by whom.
"""What a log says."""

from dataclasses import dataclass
from typing import Literal

LOG_SCHEMA = "vllm-graft/log/1"

LineKind = Literal["cause", "consequence", "notice", "unexplained"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One thing that a log says, however often."""

    kind: LineKind
    """``unexplained``: an exception that nothing is known of."""
    signature: str
    """Its name in data/signatures.toml; empty where nothing is known."""
    line: int
    """Where it was first seen, counted from 1."""
    who: str
    """The process that said it first, such as ``Worker_TP1``; empty where the line does not tell."""
    text: str
    """That line without colours and prefixes, possibly cut."""
    count: int
    """In how many lines it was seen."""
    ranks: tuple[str, ...]
    """All processes that said it, in the order of their first line; at most 32."""
    cause: str
    remedy: str
    source: str
    """Where this is known from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiagnosis:
    """What a log says of why something failed."""

    log: str
    lines: int
    first: LogEvent | None
    """The first known cause; absent where none is known."""
    causes: tuple[LogEvent, ...]
    """In the order of the log, the first one among them."""
    unexplained: tuple[LogEvent, ...]
    """Exceptions that nothing is known of, except those that led to a known cause in the same process; at most 16."""
    consequences: tuple[LogEvent, ...]
    """What follows from something else."""
    notices: tuple[LogEvent, ...]
    """No failures."""

    @property
    def failed(self) -> bool:
        """Whether the log shows that something went wrong."""
        return bool(self.causes or self.unexplained or self.consequences)

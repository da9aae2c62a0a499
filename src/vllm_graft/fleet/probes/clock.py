# A clock is held against this machine's: what it showed lies between the times at which the question left and the answer came.
"""The clock."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from vllm_graft.values.node_facts import ClockFacts
from vllm_graft.values.probe import Probe

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _clock(text: str) -> datetime:
    seconds = Decimal(text.strip())
    return _EPOCH + timedelta(microseconds=int(seconds * 1_000_000))


CLOCK = Probe(asks="its clock", argv=("date", "-u", "+%s.%N"), read=_clock)
"""Source: date(1) of coreutils."""


def clock_facts(shown: datetime, asked: datetime, answered: datetime) -> ClockFacts:
    """Say how far a clock is ahead, which was asked and answered at these times of this machine."""
    half = (answered - asked) / 2
    ahead = shown - (asked + half)
    return ClockFacts(ahead=_milliseconds(ahead), error=max(_milliseconds(half), 1))


def _milliseconds(span: timedelta) -> int:
    return round(span / timedelta(milliseconds=1))

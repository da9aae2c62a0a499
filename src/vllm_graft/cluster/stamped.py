# An engine puts the time before each line of a container, to the nanosecond, by the clock of its node: by that, lines of several
# ranks are put in order.
"""What a container said, line by line, with the time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from vllm_graft.values.command import Completed

_STAMP = re.compile(
    rb"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d) "
)
"""Source: Docker 20.10 to 28 (nine digits, Z); podman 4 (RFC 3339, with the zone of the node)."""
_BILLION = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A line."""

    nanosecond: int
    """Since 1970, by the clock of the node; 0 where it is not known."""
    stamp: str
    """The same as the engine writes it."""
    text: str
    """As it was said, but for spaces at its end."""


def parse_stamped(answer: Completed) -> tuple[Stamped, ...]:
    """Read what an engine gave with ``--timestamps``: stdout and stderr, in the order of time."""
    both = (*_lines(answer.stdout), *_lines(answer.stderr))
    return tuple(sorted(both, key=lambda each: each.nanosecond))


def _lines(content: bytes) -> Iterator[Stamped]:
    nanosecond, stamp = 0, ""
    for line in content.split(b"\n"):
        if not line:
            continue
        found = _STAMP.match(line)
        # Without a time: the rest of a line that the engine cut in two, which stands behind it.
        if found is not None:
            nanosecond, stamp = _nanosecond(found) or nanosecond, found[0].decode().strip()
            line = line[found.end() :]  # noqa: PLW2901 (its own text)
        text = line.decode("utf-8", "replace").rstrip()
        yield Stamped(nanosecond=nanosecond, stamp=stamp, text=text)


def _nanosecond(found: re.Match[bytes]) -> int | None:
    zone = found["zone"].decode().replace("Z", "+00:00")
    try:
        second = datetime.fromisoformat(found["second"].decode() + zone).timestamp()
    except ValueError:
        return None
    return round(second) * _BILLION + int((found["part"] or b"").ljust(9, b"0"))

# A plan keeps a difference as hunks; a page wants lines that stand beside each other. Which lines those are is decided
# here for every form.
"""Differences, arranged for reading."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.side_by_side import Side, SideBySide

_HUNK = re.compile(r"@@ -(\d+),\d+ \+(\d+),\d+ @@")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """Two lines that stand beside each other; at least one is there."""

    base: Line | None
    donor: Line | None
    is_same: bool


def hunks_of(difference: str) -> tuple[tuple[Row, ...], ...]:
    """Set the lines of a difference beside each other, hunk by hunk."""
    hunks: list[tuple[Row, ...]] = []
    lines: list[str] = []
    for line in reversed(difference.split("\n")[:-1]):
        if (header := _HUNK.fullmatch(line)) is None:
            lines.append(line)
            continue
        hunks.append(tuple(_rows(lines[::-1], int(header[1]), int(header[2]))))
        lines = []
    return tuple(hunks[::-1])


def indentation(hunks: Iterable[Iterable[Row]]) -> int:
    """Count the columns of white space that all lines begin with."""
    lines = (line for hunk in hunks for row in hunk for line in (row.base, row.donor) if line)
    return min((len(t) - len(t.lstrip()) for line in lines if (t := line.text).strip()), default=0)


def _rows(lines: Sequence[str], base: int, donor: int) -> Iterator[Row]:
    removed: list[Line] = []
    added: list[Line] = []
    for line in (*lines, ""):  # one more, which ends the last run of changes
        mark, text = line[:1], line[1:]
        if mark == "-":
            removed.append(Line(base, text))
            base += 1
        elif mark == "+":
            added.append(Line(donor, text))
            donor += 1
        else:
            yield from (Row(left, right, False) for left, right in zip_longest(removed, added))
            removed, added = [], []
            if mark:
                yield Row(Line(base, text), Line(donor, text), True)
                base, donor = base + 1, donor + 1


def comparisons_of(plan: GraftPlan) -> Mapping[str, SideBySide]:
    """Give the comparisons of a plan by name."""
    return {each.name: each for each in plan.comparisons}


def place(side: Side) -> str:
    """Give ``donor vllm/config/model.py:12``."""
    return str(side.site)


def lines_of(side: Side) -> str:
    """Give ``vllm/config/model.py:12-40``: path, first line, last line."""
    site = side.site
    if not site.line:
        return site.path
    last = f"-{side.end_line}" if side.end_line > site.line else ""
    return f"{site.path}:{site.line}{last}"


def places(comparison: SideBySide | None) -> tuple[str, ...]:
    """Give both places, the donor's first; one where only one install has something."""
    sides = () if comparison is None else (comparison.donor, comparison.base)
    return tuple(place(side) for side in sides if side is not None)

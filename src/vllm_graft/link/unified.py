# Unified diffs: made, read back and applied without fuzz. Lines end at "\n" only: str.splitlines would also
# cut at form feeds and U+2028, which are ordinary characters of a Python file.
"""Unified diffs of text files."""

import re
from difflib import unified_diff

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*")
_NO_NEWLINE = "\\ No newline at end of file"


def render_diff(path: str, before: str | None, after: str) -> str:
    """Give the unified diff with ``a/`` and ``b/`` prefixes; empty where nothing differs.

    A file that is new has ``before=None``; then the diff begins as git's does, so that even an empty new
    file has one.
    """
    left = "/dev/null" if before is None else f"a/{path}"
    lines = list(
        unified_diff(_lines(before or ""), _lines(after), fromfile=left, tofile=f"b/{path}")
    )
    body = "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in lines)
    if before is not None:
        return body
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n{body}"


def apply_diff(before: str, diff: str) -> str:
    """Apply the hunks of one file, each exactly where it says.

    Raises:
        ValueError: the diff is malformed, or a line that it expects is another one.
    """
    old = _lines(before)
    given = _lines(diff)
    result: list[str] = []
    done = 0  # lines of ``old`` that are dealt with
    at = next((index for index, line in enumerate(given) if line.startswith("@@")), len(given))
    while at < len(given):
        header = _HUNK.fullmatch(given[at].rstrip("\n"))
        if header is None:
            raise ValueError(f"line {at + 1} of the diff is no hunk header: {given[at]!r}")
        start, length = int(header[1]), int(header[2] or 1)
        new_length = int(header[4] or 1)
        first = start if length == 0 else start - 1
        if first < done or first > len(old):
            raise ValueError(f"hunk at line {start} lies outside the file or overlaps another")
        result += old[done:first]
        removed, added, at = _hunk(given, at + 1, (length, new_length))
        found = old[first : first + length]
        if found != removed:
            offset = next(
                (i for i, (a, b) in enumerate(zip(found, removed, strict=False)) if a != b),
                len(found),
            )
            raise ValueError(f"line {first + offset + 1} is not what the diff expects")
        result += added
        done = first + length
    result += old[done:]
    return "".join(result)


def _hunk(given: list[str], at: int, lengths: tuple[int, int]) -> tuple[list[str], list[str], int]:
    """Read one hunk's body; gives its old lines, its new lines and where the next hunk begins."""
    removed: list[str] = []
    added: list[str] = []
    sides = {" ": (removed, added), "-": (removed,), "+": (added,)}
    last: tuple[list[str], ...] = ()
    while at < len(given):
        line = given[at]
        if line.startswith("\\"):  # the line before it has no newline
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
        elif (len(removed), len(added)) == lengths:
            break
        else:
            last = sides.get(line[0], ())
            if not last:
                raise ValueError(f"line {at + 1} of the diff is no part of a hunk: {line!r}")
            for side in last:
                side.append(line[1:])
        at += 1
    if (len(removed), len(added)) != lengths:
        raise ValueError("a hunk of the diff is shorter or longer than its header says")
    return removed, added, at


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

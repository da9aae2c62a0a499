# The rows of data/signatures.toml as values. What is known of a line is data; how a log is read is log_causes.py's.
"""Lines of logs that are known."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kind of line, what caused it and what to do."""

    name: str
    kind: Literal["cause", "consequence", "notice"]
    words: tuple[str, ...]
    """One of them stands in every such line."""
    pattern: re.Pattern[str] | None
    """Decides, searched in the line; without one the words do."""
    after: re.Pattern[str] | None
    """What an earlier line of the same traceback must hold."""
    cause: str
    """With ``{group}`` for what the pattern's groups caught."""
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that is of this kind, and the texts with what it says filled in."""

    signature: Signature
    cause: str
    remedy: str


def parse_signatures(table: Mapping[str, Mapping[str, Any]]) -> tuple[Signature, ...]:
    """Read the decoded table, in its order."""
    return tuple(_signature(name, row) for name, row in table.items())


def match_line(signature: Signature, line: str) -> Match | None:
    """Tell whether a line is of this kind, apart from what must stand before it."""
    if not any(word in line for word in signature.words):
        return None
    if signature.pattern is None:
        return Match(signature=signature, cause=signature.cause, remedy=signature.remedy)
    found = signature.pattern.search(line)
    if found is None:
        return None
    caught = {name: value or "" for name, value in found.groupdict().items()}
    return Match(
        signature=signature,
        cause=_filled(signature.cause, caught),
        remedy=_filled(signature.remedy, caught),
    )


def _filled(text: str, caught: Mapping[str, str]) -> str:
    for name, value in caught.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _signature(name: str, row: Mapping[str, Any]) -> Signature:
    words = row["words"]
    return Signature(
        name=name,
        kind=row["kind"],
        words=(words,) if isinstance(words, str) else tuple(cast("list[str]", words)),
        pattern=re.compile(row["pattern"]) if "pattern" in row else None,
        after=re.compile(row["after"]) if "after" in row else None,
        cause=row["cause"],
        remedy=row["remedy"],
        source=row["source"],
    )

# What is read from outside means what it says: no key that nobody knows, no number where a word is wanted; and all of it is
# told at once, so that a person who edited a file by hand mends it in one go.
"""Strict decoding of what others wrote, and the words for what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Literal, TypeVar, cast, get_args, get_origin

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

_MOST_PROBLEMS_SHOWN = 12
_LONGEST_VALUE_SHOWN = 60

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Range:
    """Stands in ``Annotated[int, Range(1, 9)]``: both ends are meant."""

    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong."""

    path: str
    """Of keys and places in lists, such as ``.edits[0].diff``; empty for the whole."""
    said: str
    key: str = ""
    """The one at ``path`` that should not be there."""


def strict_converter() -> Converter:
    """Make a converter that refuses what cattrs by itself would bend until it fits."""
    converter = Converter(forbid_extra_keys=True)
    # cattrs turns 5 into "5", "23" into 23 and "ab" into ("a", "b"). Source: cattrs 26.2, README and "Built-in hooks".
    for scalar in (str, int, bool, float):
        converter.register_structure_hook(scalar, exactly)

    def listed(value: object, hint: object) -> object:
        if type(value) is not list:
            raise TypeError(f"wanted a list, found {kind_of(value)}")
        inner = get_args(hint)[0]
        return tuple(converter.structure(value, list[inner]))

    converter.register_structure_hook_func(lambda hint: get_origin(hint) is tuple, listed)
    converter.register_structure_hook_func(lambda hint: get_origin(hint) is Literal, _one_of)
    converter.register_structure_hook_func(_is_range, _in_range)
    return converter


def exactly(value: object, kind: type[_T]) -> _T:
    """Give a value that is of this very type.

    Raises:
        TypeError: it is of another.
        UnicodeEncodeError: it is a string that no file can hold.
    """
    if type(value) is not kind:
        raise TypeError(f"wanted {_KINDS[kind]}, found {kind_of(value)}")
    if isinstance(value, str):
        value.encode()  # JSON can spell half of a surrogate pair
    return value


def _one_of(value: object, hint: object) -> object:
    choices = get_args(hint)
    if value not in choices:
        wanted = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"wanted one of {wanted}, found {shown(value)}")
    return value


def _is_range(hint: object) -> bool:
    return get_origin(hint) is Annotated and isinstance(get_args(hint)[1], Range)


def _in_range(value: object, hint: object) -> int:
    number = exactly(value, int)
    wanted = cast("Range", get_args(hint)[1])
    if number < wanted.least or (wanted.most is not None and number > wanted.most):
        most = "" if wanted.most is None else f" to {wanted.most}"
        raise ValueError(f"wanted a whole number from {wanted.least}{most}, found {number}")
    return number


_KINDS: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """Say of what kind a value is, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def shown(value: object) -> str:
    """Give a value as a message may carry it."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE_SHOWN else f"{text[:_LONGEST_VALUE_SHOWN]}…"


def problems_of(failure: BaseException, path: str = "") -> list[Problem]:
    """Give every leaf of what cattrs raised, with its path."""
    if isinstance(failure, ForbiddenExtraKeysError):
        return [unknown_key(path, key, failure.cl) for key in failure.extra_fields]
    if isinstance(failure, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", failure)
        return [
            problem
            for inner in group.exceptions
            for problem in problems_of(inner, path + _step(inner))
        ]
    if isinstance(failure, KeyError):
        return [Problem(path, f"key {failure.args[0]!r} is missing")]
    if isinstance(failure, AttributeError):  # cattrs asks it for its keys
        return [Problem(path, "wanted an object")]
    if isinstance(failure, UnicodeEncodeError):
        return [Problem(path, "half a surrogate pair is no text")]
    return [Problem(path, str(failure))]


def _step(failure: BaseException) -> str:
    for note in getattr(failure, "__notes__", ()):
        if isinstance(note, AttributeValidationNote) and not isinstance(failure, KeyError):
            return f".{note.name}"
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    return ""


def unknown_key(path: str, key: str, owner: type) -> Problem:
    """Say that a class has no such field, with the nearest one that it has."""
    known = [item.name for item in fields(owner)] if is_dataclass(owner) else []
    close = get_close_matches(key, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return Problem(path, f"unknown key {shown(key)}{hint}", key)


def told_together(lines: list[str]) -> str:
    """Give the lines below one another, the first of them if there are many."""
    more = len(lines) - _MOST_PROBLEMS_SHOWN
    rest = f"\n  and {more} more" if more > 0 else ""
    return "".join(f"\n  {line}" for line in lines[:_MOST_PROBLEMS_SHOWN]) + rest

# GraftPlan ⇄ plan.json. The one place where text from outside becomes a plan: strict in every field, and
# told all at once, so that a person who edited a plan by hand mends it in one go.
"""Read and write plan.json."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Literal, TypeVar, cast, get_args, get_origin

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

from vllm_graft.errors import RequestError
from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import PLAN_SCHEMA, GraftPlan

_MOST_PROBLEMS_SHOWN = 12
_LONGEST_VALUE_SHOWN = 60

_T = TypeVar("_T")


def encode_plan(plan: GraftPlan) -> bytes:
    """Give the canonical bytes: the same plan gives the same bytes on any machine, any day.

    Shape: UTF-8 JSON, keys sorted, indented by one space, no timestamp, one newline at the end. ``digest`` is
    the plan's own: that of the same bytes without that key.
    """
    value = _plain(plan)
    return _canonical({**value, "digest": str(Digest.of(_canonical(value)))})


def plan_digest(plan: GraftPlan) -> Digest:
    """Digest the canonical bytes of all fields; names the plan on disk, in reports and in images."""
    return Digest.of(_canonical(_plain(plan)))


def _plain(plan: GraftPlan) -> Mapping[str, object]:
    return _converter().unstructure(plan)


def _canonical(value: Mapping[str, object]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    return text.encode() + b"\n"


def decode_plan(content: bytes, *, where: str) -> GraftPlan:
    """Read a plan.

    Raises:
        RequestError: E210 it is no JSON object; E211 it has another schema version; E212 keys or values are
            not a plan's, each named with its path; E214 it was changed after it was written.
    """
    value = dict(_parse_object(content, where))
    schema = value.get("schema")
    if schema != PLAN_SCHEMA:
        raise RequestError(
            f"{where} is not a plan of this version: wanted schema {PLAN_SCHEMA!r}, found {_shown(schema)}",
            remedy="make the plan again with this vllm-graft, or use the version that made it",
            code="E211",
        )
    told = value.pop("digest", None)
    try:
        plan = _converter().structure(value, GraftPlan)
    except Exception as failure:  # cattrs raises groups of many kinds; each leaf is told
        problems = sorted(_problems(failure, "$"))
        if not problems:
            raise
        shown = problems[:_MOST_PROBLEMS_SHOWN]
        more = len(problems) - len(shown)
        lines = "".join(f"\n  {problem}" for problem in shown)
        rest = f"\n  and {more} more" if more else ""
        raise RequestError(
            f"{where} is not a plan:{lines}{rest}",
            remedy="make the plan again; docs/plan.schema.json says what a plan may hold",
            code="E212",
        ) from failure
    if told != str(plan_digest(plan)):
        raise RequestError(
            f"{where} was changed after it was written: wanted digest {plan_digest(plan)},"
            f" found {_shown(told)}",
            remedy="make the plan again; a plan is not to be edited by hand",
            code="E214",
        )
    return plan


def _parse_object(content: bytes, where: str) -> Mapping[str, object]:
    remedy = "give a plan.json as written by `vllm-graft plan -o plan.json`"
    try:
        value: object = json.loads(
            content.decode(), object_pairs_hook=_unique_keys, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as failure:
        raise RequestError(
            f"{where} is no JSON: {failure}", remedy=remedy, code="E210"
        ) from failure
    if not isinstance(value, dict):
        raise RequestError(
            f"{where} is no plan: wanted a JSON object, found {_kind(value)}",
            remedy=remedy,
            code="E210",
        )
    return cast("dict[str, object]", value)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"key {twice[0]!r} stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


@cache
def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    # cattrs turns 5 into "5" and "23" into 23; a plan says what it means. Source: cattrs 26.2, README.
    for scalar in (str, int, bool, float):
        converter.register_structure_hook(scalar, _exactly)
    converter.register_unstructure_hook(Digest, str)
    converter.register_structure_hook(Digest, _digest)
    converter.register_structure_hook_func(lambda hint: get_origin(hint) is Literal, _one_of)
    return converter


def _exactly(value: object, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"wanted {_KINDS[kind]}, found {_kind(value)}")
    if isinstance(value, str):
        value.encode()  # JSON can spell half of a surrogate pair, which no file can hold
    return value


def _one_of(value: object, hint: object) -> object:
    choices = get_args(hint)
    if value not in choices:
        wanted = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"wanted one of {wanted}, found {_shown(value)}")
    return value


def _digest(value: object, _: type[Digest]) -> Digest:
    return Digest.parse(_exactly(value, str))


_KINDS: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE_SHOWN else f"{text[:_LONGEST_VALUE_SHOWN]}…"


def _problems(failure: BaseException, path: str) -> list[str]:
    """Give one line for every leaf of what cattrs raised, with its JSON path."""
    if isinstance(failure, ForbiddenExtraKeysError):
        return [_unknown_key(key, failure.cl, path) for key in failure.extra_fields]
    if isinstance(failure, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", failure)
        return [
            problem
            for inner in group.exceptions
            for problem in _problems(inner, path + _step(inner))
        ]
    if isinstance(failure, KeyError):
        return [f"{path}: key {failure.args[0]!r} is missing"]
    if isinstance(failure, AttributeError):  # cattrs asks it for its keys
        return [f"{path}: wanted an object"]
    if isinstance(failure, UnicodeEncodeError):
        return [f"{path}: half a surrogate pair is no text"]
    return [f"{path}: {failure}"]


def _step(failure: BaseException) -> str:
    for note in getattr(failure, "__notes__", ()):
        if isinstance(note, AttributeValidationNote) and not isinstance(failure, KeyError):
            return f".{note.name}"
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    return ""


def _unknown_key(key: str, owner: type, path: str) -> str:
    known = [item.name for item in fields(owner)] if is_dataclass(owner) else []
    close = get_close_matches(key, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{path}: unknown key {_shown(key)}{hint}"

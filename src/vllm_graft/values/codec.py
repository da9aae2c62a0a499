# GraftPlan ⇄ plan.json. The one place where text from outside becomes a plan: strict in every field, and
# told all at once, so that a person who edited a plan by hand mends it in one go.
"""Read and write plan.json."""

import json
from collections.abc import Mapping
from functools import cache
from typing import cast

from cattrs import Converter

from vllm_graft.errors import RequestError
from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import PLAN_SCHEMA, GraftPlan
from vllm_graft.values.strict import (
    exactly,
    kind_of,
    problems_of,
    shown,
    strict_converter,
    told_together,
)


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


def written_plan_digest(content: bytes) -> Digest:
    """Give what :func:`plan_digest` gave for a plan that was written, whatever the version of its schema.

    Raises:
        ValueError: it is no JSON.
        TypeError: it is no JSON object.
    """
    value: object = json.loads(content)
    if not isinstance(value, dict):
        raise TypeError("wanted a JSON object")
    told = cast("dict[str, object]", value)
    return Digest.of(_canonical({key: each for key, each in told.items() if key != "digest"}))


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
            f"{where} is not a plan of this version: wanted schema {PLAN_SCHEMA!r}, found {shown(schema)}",
            remedy="make the plan again with this vllm-graft, or use the version that made it",
            code="E211",
        )
    told = value.pop("digest", None)
    try:
        plan = _converter().structure(value, GraftPlan)
    except Exception as failure:  # cattrs raises groups of many kinds; each leaf is told
        problems = sorted(f"${each.path}: {each.said}" for each in problems_of(failure))
        if not problems:
            raise
        raise RequestError(
            f"{where} is not a plan:{told_together(problems)}",
            remedy="make the plan again; docs/plan.schema.json says what a plan may hold",
            code="E212",
        ) from failure
    if told != str(plan_digest(plan)):
        raise RequestError(
            f"{where} was changed after it was written: wanted digest {plan_digest(plan)},"
            f" found {shown(told)}",
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
            f"{where} is no plan: wanted a JSON object, found {kind_of(value)}",
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
    converter = strict_converter()
    converter.register_unstructure_hook(Digest, str)
    converter.register_structure_hook(Digest, _digest)
    return converter


def _digest(value: object, _: type[Digest]) -> Digest:
    return Digest.parse(exactly(value, str))

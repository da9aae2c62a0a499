# The JSON schema of plan.json, derived from the dataclasses, so that it cannot say anything else than they do.
"""The JSON schema of plan.json."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import PLAN_SCHEMA, GraftPlan

Descriptions = Mapping[tuple[str, str], str]
"""(class, field) → what the field means; an empty field stands for the class itself."""


def plan_schema(descriptions: Descriptions) -> dict[str, object]:
    """Give the schema.

    Source: JSON Schema, draft 2020-12.
    """
    definitions: dict[str, object] = {}
    top = _of_class(GraftPlan, definitions, descriptions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"vllm-graft plan, schema {PLAN_SCHEMA}",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _of_class(
    owner: type, definitions: dict[str, object], descriptions: Descriptions
) -> dict[str, object]:
    hints = get_type_hints(owner)
    properties: dict[str, object] = {}
    for item in fields(owner):
        described = _of_type(hints[item.name], definitions, descriptions)
        text = descriptions.get((owner.__name__, item.name))
        properties[item.name] = {**described, "description": text} if text else described
    if owner is GraftPlan:
        properties["schema"] = {"const": PLAN_SCHEMA}
        properties["digest"] = {
            **_of_type(Digest, definitions, descriptions),
            "description": "Of this file as it would be without this key: a plan that was changed is refused.",
        }
    optional = {item.name for item in fields(owner) if not _is_required(item)}
    found: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    text = descriptions.get((owner.__name__, ""))
    return {"description": text, **found} if text else found


def _is_required(item: "Field[Any]") -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _of_type(
    hint: object, definitions: dict[str, object], descriptions: Descriptions
) -> dict[str, object]:
    scalars: Mapping[object, str] = {str: "string", int: "integer", bool: "boolean"}
    if hint in scalars:
        return {"type": scalars[hint]}
    if hint is Digest:
        return {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    if isinstance(hint, type) and is_dataclass(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # holds the place while its own fields are read
            definitions[hint.__name__] = _of_class(hint, definitions, descriptions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0], definitions, descriptions)}
    if origin is UnionType:
        kinds = [_of_type(kind, definitions, descriptions) for kind in arguments]
        return {"anyOf": kinds}
    if origin is Mapping:
        inner = _of_type(arguments[1], definitions, descriptions)
        return {"type": "object", "additionalProperties": inner}
    if hint is type(None):
        return {"type": "null"}
    raise TypeError(f"a plan may not hold {hint!r}: the schema has no form for it")

# JSON schemas of what the program writes, derived from the dataclasses, so that they cannot say anything else than
# those do.
"""The JSON schemas of plan.json and of what ``--format json`` prints."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import PLAN_SCHEMA, GraftPlan

Descriptions = Mapping[tuple[str, str], str]
"""(class, field) → what the field means; an empty field stands for the class itself."""


Extras = Mapping[type, Mapping[str, object]]
"""Class → properties that its JSON has beside its fields."""


def plan_schema(descriptions: Descriptions) -> dict[str, object]:
    """Give the schema of plan.json."""
    digest = {
        **_DIGEST,
        "description": "Of this file as it would be without this key: a plan that was changed is refused.",
    }
    return schema_of(
        GraftPlan,
        title=f"vllm-graft plan, schema {PLAN_SCHEMA}",
        descriptions=descriptions,
        extras={GraftPlan: {"schema": {"const": PLAN_SCHEMA}, "digest": digest}},
    )


def schema_of(
    owner: type, *, title: str, descriptions: Descriptions, extras: Extras
) -> dict[str, object]:
    """Give the schema of one dataclass and of those in it.

    Source: JSON Schema, draft 2020-12.
    """
    reader = _Reader(descriptions=descriptions, extras=extras)
    top = reader.of_class(owner)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **top}
    return {**head, "$defs": dict(sorted(reader.definitions.items()))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    descriptions: Descriptions
    extras: Extras
    definitions: dict[str, object] = field(default_factory=dict[str, object])

    def of_class(self, owner: type) -> dict[str, object]:
        hints = get_type_hints(owner)
        properties: dict[str, object] = {}
        for item in fields(owner):
            described = self.of_type(hints[item.name])
            text = self.descriptions.get((owner.__name__, item.name))
            properties[item.name] = {**described, "description": text} if text else described
        properties.update(self.extras.get(owner, {}))
        optional = {item.name for item in fields(owner) if not _is_required(item)}
        found: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name not in optional],
            "additionalProperties": False,
        }
        text = self.descriptions.get((owner.__name__, ""))
        return {"description": text, **found} if text else found

    def of_type(self, hint: object) -> dict[str, object]:
        scalars: Mapping[object, str] = {str: "string", int: "integer", bool: "boolean"}
        if hint in scalars:
            return {"type": scalars[hint]}
        if hint is Digest:
            return _DIGEST
        if isinstance(hint, type) and is_dataclass(hint):
            if hint.__name__ not in self.definitions:
                self.definitions[
                    hint.__name__
                ] = {}  # holds the place while its own fields are read
                self.definitions[hint.__name__] = self.of_class(hint)
            return {"$ref": f"#/$defs/{hint.__name__}"}
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self.of_type(arguments[0])}
        if origin in (UnionType, Union):  # the latter where one of them is a Literal
            return {"anyOf": [self.of_type(kind) for kind in arguments]}
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self.of_type(arguments[1])}
        if hint is type(None):
            return {"type": "null"}
        raise TypeError(
            f"JSON that is printed may not hold {hint!r}: the schema has no form for it"
        )


def _is_required(item: "Field[Any]") -> bool:
    return item.default is MISSING and item.default_factory is MISSING


_DIGEST: dict[str, object] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}

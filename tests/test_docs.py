# What is generated agrees with what it is generated from, and what the table of codes says is what the code says.
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from plans import PlanParts
from vllm_graft.values.codec import encode_plan
from vllm_graft.workflows.explain import read_rules

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src/vllm_graft").rglob("*.py"))


def codes_in_source() -> Iterator[str]:
    for path in SOURCES:
        yield from re.findall(r"\b[EG]\d{3}\b", path.read_text())


def test_every_code_in_the_source_has_a_row() -> None:
    assert set(codes_in_source()) - set(read_rules()) == set()


@pytest.mark.parametrize("code", list(read_rules()))
def test_every_row_is_used_and_says_something(code: str) -> None:
    rule = read_rules()[code]
    assert code in set(codes_in_source())
    assert rule.title
    assert not rule.title.endswith(".")
    assert len(rule.explanation) > 20
    assert rule.remedy.endswith((".", "?"))


@pytest.fixture(scope="module")
def schema() -> dict[str, object]:
    return json.loads((ROOT / "docs/plan.schema.json").read_text())


def test_a_plan_follows_its_schema(schema: dict[str, object]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(encode_plan(PlanParts().plan())), schema)


@pytest.mark.parametrize("key", ["verdict", "modules", "findings"])
def test_the_schema_refuses_what_the_decoder_refuses(schema: dict[str, object], key: str) -> None:
    value = json.loads(encode_plan(PlanParts().plan()))
    for broken in ({**value, "extra": 1}, {**value, key: 3}, value.copy()):
        if broken == value:
            del broken[key]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)

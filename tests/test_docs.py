# What is generated agrees with what it is generated from, and what the table of codes says is what the code says.
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from held import small_vllm, with_okapi
from linking import packages
from plans import PlanParts
from pretend import write_tree
from vllm_graft.cli.main import run
from vllm_graft.values.codec import encode_plan
from vllm_graft.workflows.explain import read_rules

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src/vllm_graft").rglob("*.py"))


def codes_in_source() -> Iterator[str]:
    for path in SOURCES:
        yield from re.findall(r"\b(?:[EG]\d|N[1-4])\d{2}\b", path.read_text())


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


def schema_named(name: str) -> dict[str, object]:
    return json.loads((ROOT / f"docs/{name}.schema.json").read_text())


@pytest.fixture(scope="module")
def schema() -> dict[str, object]:
    return schema_named("plan")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs").glob("*.schema.json")), ids=lambda path: path.name
)
def test_a_schema_is_one(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> object:
    """Give what a verb prints as JSON."""
    assert run((*argv, "--format", "json"), os.environ, sys.stdout, sys.stderr) == 0
    return json.loads(capsys.readouterr().out)


def test_what_every_verb_prints_follows_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = {**packages(), **small_vllm()}
    for name, files in (("base", base), ("donor", with_okapi(base))):
        write_tree(tmp_path / name, {path: text.encode() for path, text in files.items()})
    base_source, donor_source = f"path:{tmp_path}/base", f"path:{tmp_path}/donor"
    plan_file = f"{tmp_path}/plan.json"
    config = {
        "architectures": ["OkapiForCausalLM"],
        "model_type": "okapi",
        "auto_map": {"AutoConfig": "configuration_okapi.OkapiConfig"},
        "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "fp8"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = ("plan", "--donor", donor_source, "--arch", "OkapiForCausalLM", "--base")
    apply = ("apply", plan_file, f"{tmp_path}/base")
    for name, argv in (
        ("inspect", ("inspect", base_source)),
        ("inspect", ("inspect", base_source, "--model", str(tmp_path))),
        ("inspect", ("inspect", donor_source, "--arch", "OkapiForCausalLM")),
        ("plan", (*plan, base_source, "-o", plan_file)),
        ("nothing-to-do", (*plan, donor_source)),
        ("apply", (*apply, "--dry-run")),
        ("apply", apply),
        ("apply", apply),
        ("apply", (*apply, "--revert")),
        ("explain", ("explain", "G204")),
        ("explain", ("explain",)),
        ("explain-plan", ("explain", "--plan", plan_file)),
        ("explain-plan", ("explain", "grafted", "--plan", plan_file)),
    ):
        value = printed(capsys, *argv)
        jsonschema.validate(value, schema_named(name))
        if isinstance(value, dict):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**value, "extra": 1}, schema_named(name))


def test_a_plan_follows_its_schema(schema: dict[str, object]) -> None:
    jsonschema.validate(json.loads(encode_plan(PlanParts().plan())), schema)


@pytest.mark.parametrize("key", ["verdict", "modules", "findings"])
def test_the_schema_refuses_what_the_decoder_refuses(schema: dict[str, object], key: str) -> None:
    value = json.loads(encode_plan(PlanParts().plan()))
    for broken in ({**value, "extra": 1}, {**value, key: 3}, value.copy()):
        if broken == value:
            del broken[key]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)

# What the inside program says of real installs: with the defaults of configuration classes, with a published
# configuration, with real checkpoint headers, and of what goes wrong.

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import environments
import insides
import pytest
import releases
import story

from rehearse.configurations import QWEN35

ALL: Mapping[str, Any] = {"shrink": dict(insides.TINY)}


@pytest.fixture(scope="module")
def told() -> Any:
    dense = story.story_models()["dense"]
    fused = story.story_models()["fused"]
    cases: dict[str, Any] = {
        name: {"architecture": name, **ALL}
        for name in ("LlamaForCausalLM", "Qwen3MoeForCausalLM", "Qwen3_5ForConditionalGeneration")
    }
    cases["published"] = {
        "architecture": "Qwen3_5MoeForConditionalGeneration",
        "configuration": dict(QWEN35),
        "complete": True,
        "shrink": {"vocabulary": 512, "renumber": True, "positions": 4096},
    }
    for kind, folder in (("dense", dense), ("fused", fused)):
        cases[f"checkpoint, {kind}"] = {
            "architecture": story.MAIN_CLASSES[kind == "fused"],
            "configuration": read(folder / "config.json"),
            "safetensors": [str(folder / "model.safetensors")],
        }
    cases["head"] = {
        "architecture": "Qwen3_5MTP",
        **ALL,
    }
    cases["unknown"] = {"architecture": "NoSuchForCausalLM", **ALL}
    cases["refused"] = {"architecture": "LlamaForCausalLM", "engine": {"no_such": 1}, **ALL}
    cases["too long"] = {"architecture": "LlamaForCausalLM", "limit": 0.05, **ALL}
    cases["on meta"] = {"architecture": "LlamaForCausalLM", "device": "meta", **ALL}
    cases["after all that"] = {"architecture": "LlamaForCausalLM", **ALL}
    return insides.ask(environments.tree("0.17.1"), {"cases": cases})


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_the_vllm_that_answers_is_the_trees(told: Any) -> None:
    assert told["vllm"] == str(environments.tree("0.17.1").resolve() / "vllm/__init__.py")


@pytest.mark.parametrize(
    ("case", "parameters", "source"),
    [
        ("LlamaForCausalLM", 15, "transformers"),
        ("Qwen3MoeForCausalLM", 21, "transformers"),
        ("Qwen3_5ForConditionalGeneration", 77, "asked of the loader"),
        ("published", 135, "asked of the loader"),
        ("checkpoint, dense", 77, "headers of safetensors files"),
        ("checkpoint, fused", 93, "headers of safetensors files"),
        ("head", 14, "asked of the loader"),
    ],
)
def test_a_small_model_is_constructed_and_filled(
    told: Any, case: str, parameters: int, source: str
) -> None:
    answer = told["cases"][case]
    assert answer.get("error") is None, answer.get("traceback")
    assert answer["not_filled"] == []
    assert len(answer["parameters"]) == len(answer["contents"]) == parameters
    assert answer["tensors_from"] == source


def test_each_kind_of_layer_is_there(told: Any) -> None:
    names = told["cases"]["published"]["parameters"]
    assert any(".linear_attn." in name for name in names)
    assert any(".self_attn." in name for name in names)
    assert any("deepstack" in name for name in names) or any("visual" in name for name in names)


def test_the_registry_says_what_it_knows_of_a_class(told: Any) -> None:
    registry = told["cases"]["Qwen3_5ForConditionalGeneration"]["registry"]
    assert registry["architecture"] == "Qwen3_5ForConditionalGeneration"
    assert registry["supports_multimodal"] is True
    assert told["cases"]["LlamaForCausalLM"]["registry"]["supports_multimodal"] is False
    assert told["cases"]["unknown"]["registry"] == {"error": "not registered"}


def test_a_head_is_served_with_its_target(told: Any) -> None:
    assert told["cases"]["head"]["served_with"] == ["Qwen3_5ForConditionalGeneration", "qwen3_5"]


def test_what_goes_wrong_is_told_with_the_step(told: Any) -> None:
    assert told["cases"]["unknown"]["failed"] == "configuration"
    assert told["cases"]["refused"]["failed"] == "engine configuration"
    assert "no_such" in told["cases"]["refused"]["error"]


def test_without_memory_names_and_shapes_are_the_same(told: Any) -> None:
    real, meta = told["cases"]["LlamaForCausalLM"], told["cases"]["on meta"]
    assert meta["device"] == "meta"
    assert meta["parameters"] == real["parameters"]
    assert meta["not_filled"] == []


def test_a_case_leaves_nothing_behind(told: Any) -> None:
    first, last = told["cases"]["LlamaForCausalLM"], told["cases"]["after all that"]
    assert last["contents"] == first["contents"]


def test_another_tree_than_asked_for_is_refused() -> None:
    tree = environments.tree("0.17.1")
    answer = insides.ask(tree, {"tree": str(tree.parent / "elsewhere"), "cases": {}})
    assert "not from the tree" in answer["error"]


def test_cases_of_trees_of_their_own_are_answered_by_those(tmp_path: Path) -> None:
    base = environments.tree("0.17.1")
    trees = {name: environments.copy_of(base, tmp_path / name) for name in ("one", "two")}
    (trees["two"] / "vllm/model_executor/models/llama.py").write_text("raise ImportError('other')")
    cases = {
        name: {"architecture": "LlamaForCausalLM", "tree": str(tree), **ALL}
        for name, tree in trees.items()
    }
    cases["none"] = {**cases["one"], "tree": str(tmp_path)}
    told = insides.ask(base, {"cases": cases}, of_their_own=True)["cases"]
    assert told["one"]["vllm"] == str(trees["one"].resolve() / "vllm/__init__.py")
    assert told["one"]["not_filled"] == []
    assert told["two"]["error"] == "ImportError: other"
    assert "would be imported from" in told["none"]["error"]


def test_a_case_that_takes_too_long_costs_itself_only(told: Any) -> None:
    assert told["cases"]["too long"]["kind"] == "TimeLimit"
    assert told["cases"]["after all that"].get("error") is None


@pytest.mark.full
@pytest.mark.parametrize(
    ("base", "donor", "least"),
    [
        ("0.14.1", "0.17.1", 0.5),
        ("0.17.1", "0.20.2", 0.55),
        ("0.20.2", "0.25.1", 0.55),
        ("0.25.1", "0.30.0", 0.65),
        ("0.27.1", "0.31.0", 0.65),
    ],
)
def test_donors_construct_what_they_have_and_an_older_base_has_not(
    base: str, donor: str, least: float
) -> None:
    tree = environments.tree(donor)
    names = releases.new_architectures(environments.tree(base), tree)
    shared = {**ALL, "supply": True, "stand_ins": True}
    cases = {name: {"architecture": name} for name in names}
    answer = insides.ask(tree, {"all": shared, "cases": cases})
    made = [n for n, a in answer["cases"].items() if "class constructed" in a["reached"]]
    assert len(made) >= least * len(names), sorted(set(names) - set(made))

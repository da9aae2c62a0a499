# Rung P5 on a grafted tree: a checkpoint of which only the headers are real goes through the model's own loader, and each defect
# that is planted into it is found and named, also those that vLLM passes over without a word.
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import environments
import graft_trees
import headers
import jsonschema
import pytest
import rehearsals
import story

ROOT = Path(__file__).parents[2]
LAYERS = "model.language_model.layers"
IN_EIGHT_BITS = tuple(
    f"{name}.weight"
    for name in (
        *(f"{each}_proj" for each in ("q", "k", "v", "o", "gate", "up", "down")),
        *("in_proj_qkv", "in_proj_z", "out_proj"),
    )
)
ALL_PASS = dict.fromkeys(
    ("checkpoint", "model", "shards", "tensors", "parameters", "quantisation"), "passed"
)


@pytest.fixture(scope="module")
def grafted(trees: Path) -> Path:
    base, donor = environments.tree("0.14.1"), environments.tree("0.17.1")
    file = trees / "plan.json"
    planned = graft_trees.plan(base, donor, story.MAIN_CLASSES, file, features=("mtp",))
    return graft_trees.apply(planned, base, trees / "grafted")


def rehearse(
    tree: Path, model: Path, *words: str | Path, serve: Sequence[str] = (), since: str = "P5"
) -> rehearsals.Rehearsed:
    climbed = ("--from", since, "--until", "P5")
    return rehearsals.of_tree(tree, *climbed, *words, serve=serve, model=model)


def found(done: rehearsals.Rehearsed, gate: str) -> set[str]:
    return {f"{fault['wanted']}: {fault['found']}" for fault in done.faults(gate)}


def test_a_checkpoint_lands_whole_on_the_first_and_the_last_rank(grafted: Path) -> None:
    model = story.story_models()["per-expert"]
    done = rehearse(grafted, model, serve=("--tensor-parallel-size", "2"))
    assert done.outcomes() == ALL_PASS, done.told
    assert done.status == 0
    facts = {gate["gate"]: gate["facts"] for gate in done.told["gates"]}
    assert facts["model"]["model class"].endswith("qwen3_5.Qwen3_5MoeForConditionalGeneration")
    assert facts["model"]["draft class"].endswith("qwen3_5_mtp.Qwen3_5MoeMTP")
    assert facts["model"]["model device"] == "meta"
    assert facts["tensors"]["given"] == facts["tensors"]["landed"] == "174"
    assert {"parameters, rank 0", "parameters, draft, rank 1"} <= set(facts["parameters"])
    schema = json.loads((ROOT / "docs/rehearse.schema.json").read_text())
    jsonschema.validate(done.told, schema)


def missing(listed: headers.Listed) -> None:
    del listed[f"{LAYERS}.3.self_attn.k_proj.weight"]


def too_many(listed: headers.Listed) -> None:
    listed[f"{LAYERS}.0.mlp.gate.bias"] = ([4], "BF16")


def other_shape(listed: headers.Listed) -> None:
    listed[f"{LAYERS}.1.linear_attn.conv1d.weight"] = ([1024, 1, 8], "BF16")


def larger_than_its_place(listed: headers.Listed) -> None:
    listed[f"{LAYERS}.3.self_attn.q_proj.weight"] = ([1152, 128], "BF16")


def other_fused_name(listed: headers.Listed) -> None:
    experts = f"{LAYERS}.1.mlp.experts"
    listed[f"{experts}.gate_up_projs"] = listed.pop(f"{experts}.gate_up_proj")


PLANTED: dict[str, tuple[Callable[[headers.Listed], None], dict[str, tuple[str, ...]]]] = {
    "missing": (
        missing,
        {
            "parameters": (
                r"language_model.model.layers.3.self_attn.qkv_proj.weight to be filled .*: (32,768 of 196,608|16,384 of 98,304) elements are not",
            )
        },
    ),
    "too many": (
        too_many,
        {"tensors": (r"layers.0.mlp.gate.bias to land .*: the loader passes over it without",)},
    ),
    "other shape": (
        other_shape,
        {
            "tensors": (
                r"layers.1.linear_attn.conv1d.weight \[1024, 1, 8\] BF16 to be loaded .* for language_model.model.layers.1.linear_attn.conv1d.weight",
            )
        },
    ),
    "larger than its place": (
        larger_than_its_place,
        {
            "tensors": (
                r"all of \S*layers.3.self_attn.q_proj.weight \[1152, 128\] .*: elements 0 to 131072 of 147456 are",
            )
        },
    ),
    "other fused name": (
        other_fused_name,
        {
            "tensors": (r"layers.1.mlp.experts.gate_up_projs .*w13_weights",),
            "parameters": (
                r"layers.1.mlp.experts.w13_weight to be filled .*: no tensor is loaded",
            ),
        },
    ),
}


def planted(tmp_path: Path, *names: str) -> tuple[Path, dict[str, list[str]]]:
    source = story.story_models()["fused"]
    listed = headers.listed_in(source)
    wanted: dict[str, list[str]] = {}
    for name in names:
        plant, caught = PLANTED[name]
        plant(listed)
        for gate, patterns in caught.items():
            wanted.setdefault(gate, []).extend(patterns)
    return headers.write(tmp_path / "model", source, listed), wanted


def holds_exactly(done: rehearsals.Rehearsed, wanted: dict[str, list[str]]) -> None:
    outcomes = {gate: "failed" if gate in wanted else "passed" for gate in ALL_PASS}
    assert done.outcomes() == outcomes, done.told
    assert done.status == 6
    for gate, patterns in wanted.items():
        told = found(done, gate)
        assert len(told) == len(patterns), told
        for pattern in patterns:
            assert any(re.search(pattern, each) for each in told), (pattern, told)


def test_each_planted_defect_is_found_and_named_and_nothing_else_is(
    grafted: Path, tmp_path: Path
) -> None:
    model, wanted = planted(tmp_path, *PLANTED)
    holds_exactly(rehearse(grafted, model), wanted)


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTED)
def test_a_defect_alone_is_found(name: str, grafted: Path, tmp_path: Path) -> None:
    model, wanted = planted(tmp_path, name)
    holds_exactly(rehearse(grafted, model, serve=("-tp", "2")), wanted)


@pytest.mark.full
def test_a_kind_of_shard_that_the_bases_layer_does_not_take_is_found(trees: Path) -> None:
    base, donor = environments.tree("0.14.1"), environments.tree("0.17.1")
    planned = graft_trees.plan(base, donor, story.MAIN_CLASSES, trees / "shards.json")
    tree = graft_trees.apply(planned, base, trees / "shards")
    file = tree / "vllm/model_executor/models/qwen3_5.py"
    text = file.read_text()
    changed = text.replace('("qkv_proj", "v_proj", "v")', '("qkv_proj", "v_proj", "value")')
    assert changed != text
    file.unlink()
    file.write_text(changed)
    done = rehearse(tree, story.story_models()["dense"])
    assert done.outcomes() == {**ALL_PASS, "shards": "failed"}, done.told
    assert "a loader that takes the shard 'value' of " in done.found("shards")


def quantised(tmp_path: Path, change: Callable[[list[str]], list[str]] = list) -> Path:
    """Write the dense model as its FP8 release is: blocks, a scale beside each, and a list of what stays."""
    source = story.story_models()["dense"]
    listed = headers.listed_in(source)
    stay = [
        name.removesuffix(".weight")
        for name, (shape, _) in listed.items()
        if len(shape) == 2 and name.endswith(".weight") and not name.endswith(IN_EIGHT_BITS)
    ]
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": change(stay),
    }
    listed = headers.in_eight_bits(listed, IN_EIGHT_BITS)
    return headers.write(tmp_path / "model", source, listed, config)


def test_an_ignore_list_that_no_longer_matches_is_found(grafted: Path, tmp_path: Path) -> None:
    model = quantised(
        tmp_path,
        lambda stay: [
            *(name for name in stay if "in_proj_" not in name),
            f"{LAYERS}.3.self_attn.o_proj",
        ],
    )
    done = rehearse(grafted, model)
    assert done.outcomes() == {
        **ALL_PASS,
        "tensors": "failed",
        "parameters": "failed",
        "quantisation": "failed",
    }, done.told
    told = done.found("quantisation")
    assert "in_proj_a.weight and 2 like it as the checkpoint has it (BF16" in told
    assert "in_proj_ba.weight quantised (float8_e4m3fn): no entry of the ignore list" in told
    assert "o_proj.weight not quantised (bfloat16): an entry of the ignore list covers it" in told
    assert "in_proj_ba.weight_scale_inv and 2 like it to be filled" in done.found("parameters")
    assert "layers.3.self_attn.o_proj.weight_scale_inv to land" in done.found("tensors")


@pytest.mark.full
def test_a_quantised_checkpoint_with_its_own_ignore_list_passes(
    grafted: Path, tmp_path: Path
) -> None:
    assert rehearse(grafted, quantised(tmp_path)).outcomes() == ALL_PASS


@pytest.mark.full
def test_half_of_a_fused_layer_in_the_ignore_list_is_found_while_the_class_is_made(
    grafted: Path, tmp_path: Path
) -> None:
    model = quantised(tmp_path, lambda stay: [each for each in stay if "in_proj_b" not in each])
    done = rehearse(grafted, model)
    assert done.outcomes()["model"] == "failed"
    assert done.outcomes()["parameters"] == "not runnable here"
    assert "in_proj_ba" in done.found("model")


@pytest.mark.full
def test_a_model_that_the_base_knows_passes_both_rungs() -> None:
    base = environments.tree("0.14.1")
    model = story.control_cases()["Qwen3NextForCausalLM"]["model"]
    done = rehearse(base, Path(model), since="P4", serve=("--tensor-parallel-size", "2"))
    assert set(done.outcomes().values()) == {"passed"}, done.told
    assert set(ALL_PASS) < set(done.outcomes())


@pytest.mark.full
def test_weights_that_are_not_there_or_cut_short_are_told(grafted: Path, tmp_path: Path) -> None:
    source = story.story_models()["dense"]
    without = headers.write(tmp_path / "without", source, {})
    (without / "model.safetensors").unlink()
    done = rehearse(grafted, without)
    assert set(done.outcomes().values()) == {"not runnable here"}
    assert done.status == 1
    assert "--weights-on" in done.told["gates"][0]["why"]
    short = headers.write(tmp_path / "short", source, headers.listed_in(source))
    with (short / "model.safetensors").open("r+b") as stream:
        stream.truncate((short / "model.safetensors").stat().st_size - 1)
    done = rehearse(grafted, short)
    assert done.outcomes() == {**ALL_PASS, "checkpoint": "failed"}
    assert "cut short" in done.found("checkpoint")

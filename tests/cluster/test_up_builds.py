# The stages before the last: what `up` plans, builds and ships before it serves. The images hold a small vLLM that can be
# grafted, and the stub in place of `vllm`; real vLLM: tests/vllm/test_up_serves.py.
import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pretend
from held import small_vllm, with_okapi
from imaging import SITE, docker_files, files, layer
from linking import packages
from machines import Kind, Machines, machines
from serving import stub_image

pytestmark = pytest.mark.engine

BASE, GRAFTED, MODEL = "vllm-graft-test-base:1", "vllm-graft-test-grafted:1", "/home/okapi"
CONFIG = {"architectures": ["OkapiForCausalLM"], "model_type": "okapi"}
NATIVE = {
    "vllm/engine/arg_utils.py": b'add("--nnodes")\nadd("--node-rank")\n',
    "vllm/entrypoints/openai/cli_args.py": b'add("--headless")\n',
}
"""By which an install is known as one that goes to several nodes by itself."""
DOCS = Path(__file__).parents[2] / "docs"


@dataclass(kw_only=True)
class Workshop:
    made: Machines
    folder: Path

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        variables = {**self.made.variables, "VLLM_GRAFT_CACHE": str(self.folder / "cache")}
        argv = [sys.executable, "-m", "vllm_graft", *words]
        return subprocess.run(
            argv, cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )

    def told(self, verb: str, *words: str) -> Mapping[str, Any]:
        done = self.run("--format", "json", verb, *words)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        jsonschema.validate(told, json.loads((DOCS / f"{verb}.schema.json").read_text()))
        return told

    def write(self, **changes: str) -> None:
        values = {"base": f"docker:{BASE}@spark1", "donor": f"path:{self.folder}/donor", **changes}
        (self.folder / "graft.toml").write_text(
            f'[base]\nsource = "{values["base"]}"\n[donor]\nsource = "{values["donor"]}"\n'
            f'[model]\nid = "{MODEL}"\n[image]\ntag = "{GRAFTED}"\n'
            '[nodes]\nhead = "spark1"\nworkers = ["spark2"]\n'
        )


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    image = stub_image()
    image.name = BASE
    base = {path: text.encode() for path, text in {**packages(), **small_vllm()}.items()}
    base |= NATIVE
    info = pretend.dist_info("vllm", "0.17.1", base)
    image.layers = [*image.layers, layer(files(SITE, {**base, **info}))]
    with machines(spark1=Kind(login="zsh"), spark2=Kind(login="tcsh")) as made:
        made["spark1"].docker.run("load", stdin=layer(files(".", docker_files(image))))
        for machine in made.made:
            place = machine.place / "home/okapi"
            place.mkdir()
            (place / "config.json").write_text(json.dumps(CONFIG))
            (place / "model.safetensors").write_bytes(b"weights")
        yield made


@pytest.fixture
def workshop(made: Machines, tmp_path: Path) -> Generator[Workshop]:
    donor = with_okapi({**packages(), **small_vllm()})
    pretend.write_tree(tmp_path / "donor", {path: text.encode() for path, text in donor.items()})
    found = Workshop(made=made, folder=tmp_path)
    found.write()
    yield found
    for machine in made.made:
        for each in machine.docker.run("ps", "--all", "--quiet").split():
            machine.docker.run("rm", "--force", each)
        machine.docker.run("image", "rm", "--force", GRAFTED, check=False)


def test_up_plans_builds_ships_and_serves_and_does_none_of_it_twice(workshop: Workshop) -> None:
    first = workshop.told("up")
    told = {each["name"]: each["told"] for each in first["stages"]}
    assert list(told) == ["plan", "build", "ship"]
    assert told["plan"].startswith("graft, ")
    assert f"{GRAFTED}@spark1 loaded" in told["build"]
    assert told["ship"].startswith("spark2 was sent ")
    plan = workshop.folder / "cache/up/okapi/plan.json"
    assert json.loads(plan.read_text())["architectures"] == ["OkapiForCausalLM"]
    labels = workshop.made["spark2"].docker.run(
        "inspect", "--format", "{{json .Config.Labels}}", "vllm-graft-okapi-1"
    )
    # The container says of itself what was grafted, by the labels of its image.
    assert json.loads(labels)["vllm-graft.architectures"] == "OkapiForCausalLM"
    again = workshop.told("up")
    assert again["outcome"] == "already serving"
    assert [each["name"] for each in again["stages"]] == ["plan", "build"]
    assert "already there" in again["stages"][1]["told"]
    down = workshop.told("down")
    assert [len(each["containers"]) for each in down["nodes"]] == [1, 1]


def test_a_dry_run_goes_through_all_stages_and_leaves_nothing(workshop: Workshop) -> None:
    dry = workshop.told("up", "--dry-run")
    assert [each["name"] for each in dry["stages"]] == ["plan", "build"]
    assert "would be built" in dry["stages"][1]["told"]
    assert any(f"vllm {GRAFTED} serve" in each for each in dry["commands"])
    for machine in workshop.made.made:
        assert machine.docker.run("ps", "--all", "--quiet") == ""
        assert GRAFTED.partition(":")[0] not in machine.docker.run("image", "ls")
    # What would be started is what is started then.
    assert workshop.told("up")["digest"] == dry["digest"]


def test_what_would_stop_the_last_stage_stops_the_first(workshop: Workshop) -> None:
    place = workshop.made["spark2"].place / "home/okapi/model.safetensors"
    place.write_bytes(b"wei")
    try:
        done = workshop.run("up")
    finally:
        place.write_bytes(b"weights")
    assert done.returncode == 5
    assert "model.safetensors has 3 bytes there, 7 here" in done.stderr
    assert "linking" not in done.stderr
    assert GRAFTED.partition(":")[0] not in workshop.made["spark1"].docker.run("image", "ls")


def test_a_plan_that_is_blocked_is_not_built(workshop: Workshop) -> None:
    models = workshop.folder / "donor/vllm/model_executor/models"
    text = (models / "okapi.py").read_text()
    (models / "okapi.py").write_text(
        f"from vllm.distributed.parallel_state import okapi_group\n{text}\n"
        "    def load(self):\n        return okapi_group()\n"
    )
    state = workshop.folder / "donor/vllm/distributed/parallel_state.py"
    state.parent.mkdir(exist_ok=True)
    state.write_text(
        "_GROUP = None\n\n\ndef okapi_group():\n    global _GROUP\n    _GROUP = _GROUP or object()\n    return _GROUP\n"
    )
    done = workshop.run("up")
    assert done.returncode == 4
    assert "error[E425]" in done.stderr  # the route that is left: an image by hand
    assert "cache/up/okapi/plan.json" in done.stderr
    assert workshop.made["spark1"].docker.run("ps", "--all", "--quiet") == ""
    assert GRAFTED.partition(":")[0] not in workshop.made["spark1"].docker.run("image", "ls")

# The whole of `up` with real vLLM: a graft is planned, built on the first of two machines, sent to the second, and serves a tiny
# model of the grafted architecture over both, tensor parallel, each rank with half of it. Its tokens are the donor's.
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import parity
import pytest
import story_images
from tiny_models import EVERY

from imaging import Item, docker_files, files, layer
from machines import Kind, Machine, Machines, machines

pytestmark = pytest.mark.engine

BASE, DONOR, MODEL = "0.27.1", "0.30.0", "MuseGlimmerForConditionalGeneration"
IMAGE, GRAFTED = "vllm-graft-test-node:1", "vllm-graft-test-grafted:1"
PLACE = "/home/muse"
SCRIPT = b"""#!/usr/bin/python3
import sys

from vllm.entrypoints.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""
# What vLLM requires is large and the same for all: it is mounted with the model, where the container runs.
RUNTIME = "/opt/vllm-graft/model/runtime"
VARIABLES = (
    "PATH=/usr/local/bin:/usr/bin:/bin",
    f"PYTHONPATH=/{story_images.SITE}:{RUNTIME}",
    "VLLM_CPU_OMP_THREADS_BIND=nobind",
    "OMP_NUM_THREADS=1",
    "TORCHDYNAMO_DISABLE=1",
)
ARGS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "8"),
    *("--max-num-batched-tokens", "512", "--kv-cache-memory-bytes", "64M"),
    "--no-enable-prefix-caching",
)


@dataclass(kw_only=True)
class Story:
    made: Machines
    folder: Path

    def graft(self, *words: str) -> Mapping[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "vllm_graft", "--format", "json", *words],
            cwd=self.folder,
            env=dict(self.made.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def tokens(self, prompt: Sequence[int]) -> list[int]:
        """Ask the head, on the head, for the continuation of a prompt."""
        asked = {
            "model": "muse",
            "prompt": prompt,
            "max_tokens": parity.NEW_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": 0,
            "return_tokens_as_token_ids": True,
        }
        address = "http://127.0.0.1:8000/v1/completions"
        program = (
            "import sys, urllib.request as u; "
            "r = u.Request(sys.argv[1], sys.argv[2].encode(), {'Content-Type': 'application/json'}); "
            "print(u.urlopen(r, timeout=120).read().decode())"
        )
        python = os.path.realpath(sys.executable)
        told = self.made["spark1"].inside(python, "-c", program, address, json.dumps(asked))
        found = json.loads(told)["choices"][0]["logprobs"]["tokens"]
        return [int(each.removeprefix("token_id:")) for each in found]


def put(machine: Machine, model: Path, runtime: str) -> None:
    """Put the model where both machines have it, and what vLLM requires beside it."""
    machine.inside("cp", "-r", str(model), PLACE)
    machine.inside("mkdir", f"{PLACE}/runtime")
    machine.inside("mount", "--bind", runtime, f"{PLACE}/runtime")


@pytest.fixture
def story(tmp_path: Path) -> Generator[Story]:
    image = story_images.node_image_or_skip(BASE, distributions=())
    image.name = IMAGE
    image.layers = [
        *image.layers,
        layer([Item(path="usr/local/bin/vllm", content=SCRIPT, mode=0o755)]),
    ]
    image.settings = {"Env": list(VARIABLES), "Entrypoint": ["/no-such-entrypoint"]}
    python = environments.runtime().python
    print_site = "import sysconfig; print(sysconfig.get_path('purelib'))"
    runtime = environments.run([python, "-c", print_site]).strip()
    model = environments.model_folder(parity.recipe(EVERY[MODEL]), MODEL)
    with machines(spark1=Kind(login="zsh"), spark2=Kind(login="fish")) as made:
        made["spark1"].docker.run("load", stdin=layer(files(".", docker_files(image))))
        for machine in made.made:
            put(machine, model, runtime)
        (tmp_path / "graft.toml").write_text(
            f'[base]\nsource = "docker:{IMAGE}@spark1"\n'
            f'[donor]\nsource = "path:{environments.tree(DONOR)}"\n'
            f'[model]\nid = "{PLACE}"\n[image]\ntag = "{GRAFTED}"\n'
            '[nodes]\nhead = "spark1"\nworkers = ["spark2"]\n'
            f"[serve]\nargs = {json.dumps(ARGS)}\n"
        )
        yield Story(made=made, folder=tmp_path)


def test_two_nodes_serve_the_donors_tokens_from_a_grafted_image(story: Story) -> None:
    donor = parity.serve(environments.tree(DONOR), [MODEL])[MODEL]
    receipt = story.graft("up", "--time-limit", "10")
    assert [each["name"] for each in receipt["stages"]] == ["plan", "build", "ship"]
    assert receipt["outcome"] == "serving"
    assert [each["node"] for each in receipt["deployment"]["members"]] == ["spark1", "spark2"]
    assert receipt["deployment"]["tensor_parallel"] == 2
    prompts = parity.prompts(MODEL)
    chosen = parity.usable(donor, MODEL)
    for number in chosen:
        assert story.tokens(prompts[number]) == donor["outputs"][number]["tokens"]
    again = story.graft("up")
    assert again["outcome"] == "already serving"
    taken = story.graft("down")
    assert [len(each["containers"]) for each in taken["nodes"]] == [1, 1]
    for machine in story.made.made:
        assert machine.docker.run("ps", "--all", "--quiet") == ""

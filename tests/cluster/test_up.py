# `up` and `down` on machines of their own, with their own sshd and engine; in place of vLLM a stub that has its words, its log
# lines and its API, so that everything that can go wrong can be made to. Real vLLM: tests/vllm/test_up_serves.py.
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import published_models as models
from imaging import Image, docker_files, files, layer
from machines import Kind, Machine, Machines, machines, shell_items
from serving import stub_image

pytestmark = pytest.mark.engine

IMAGE = "vllm-graft-test-stub:1"
MODEL = "/home/tiny-model"


@dataclass(kw_only=True)
class Cluster:
    """Two machines with the stub's image and a model, and a folder with a graft.toml."""

    made: Machines
    folder: Path

    def write(self, *, more: str = "", serve: str = "", stub: Sequence[str] = ()) -> None:
        args = [word for each in stub for word in ("--stub", each)]
        (self.folder / "graft.toml").write_text(
            f'[model]\nid = "{MODEL}"\n[image]\ntag = "{IMAGE}"\n'
            '[nodes]\nhead = "spark1"\nworkers = ["spark2"]\n'
            f"[serve]\nargs = {json.dumps(args)}\n{serve}\n{more}"
        )

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "vllm_graft", *words],
            cwd=self.folder,
            env={**self.made.variables, "VLLM_GRAFT_CACHE": str(self.folder / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def graft(self, *words: str) -> tuple[int, str, str]:
        with self.begin(*words) as child:
            out, err = child.communicate(timeout=180)
        return child.returncode, out, err

    def up(self, *words: str) -> Mapping[str, Any]:
        status, out, err = self.graft("--format", "json", "up", *words)
        assert status == 0, err
        return json.loads(out)

    def left(self) -> Sequence[str]:
        """Give what is there of any deployment, on both machines."""
        label = ("--filter", "label=vllm-graft.deployment", "--format", "{{.Names}} {{.Status}}")
        return [
            line
            for each in self.made.made
            for line in each.docker.run("ps", "--all", *label).splitlines()
        ]

    def ids(self) -> Sequence[str]:
        return [line for each in self.made.made for line in each.docker.run("ps", "-aq").split()]

    def wait_for_containers(self) -> None:
        deadline = time.monotonic() + 60
        while len([each for each in self.left() if " Up " in each]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(0.5)

    def logged(self, name: str, rank: int) -> str:
        return self.made[name].docker.run("logs", f"vllm-graft-tiny-model-{rank}", check=False)


def put_model(machine: Machine) -> None:
    place = machine.place / "home/tiny-model"
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text("{}")
    (place / "model.safetensors").write_bytes(b"weights")


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    with machines(spark1=Kind(login="zsh"), spark2=Kind(login="fish", engine="sudo")) as made:
        image = stub_image()
        image.name = IMAGE
        content = layer(files(".", docker_files(image)))
        for machine in made.made:
            machine.docker.run("load", stdin=content)
            put_model(machine)
        yield made


@pytest.fixture
def cluster(made: Machines, tmp_path: Path) -> Generator[Cluster]:
    found = Cluster(made=made, folder=tmp_path)
    found.write()
    yield found
    for machine in made.made:
        machine.plug()
        for each in machine.docker.run("ps", "--all", "--quiet").split():
            machine.docker.run("rm", "--force", each)
        put_model(machine)


def test_two_nodes_serve_and_down_leaves_nothing(cluster: Cluster) -> None:
    receipt = cluster.up()
    assert receipt["outcome"] == "serving"
    assert receipt["completion"]["tokens"] == 8
    assert receipt["completion"]["model"] == "tiny-model"
    # By default the head alone can ask: whoever started it elsewhere is told so, and how to.
    assert not receipt["reached"]
    (note,) = receipt["notes"]
    assert "spark1 alone; from here: ssh -N -L 8000:127.0.0.1:8000 spark1" in note
    assert len(cluster.left()) == 2
    first, second = cluster.made.made
    # Each is told its own address and the interface that has it, in one network.
    for machine, rank in ((first, 0), (second, 1)):
        assert f"rank {rank} of 2 at {machine.address} on eth0" in cluster.logged(
            machine.name, rank
        )
    status, out, err = cluster.graft("down")
    assert (status, cluster.left()) == (0, []), err
    assert "taken down: tiny-model, 2 containers" in out
    status, out, _ = cluster.graft("down")
    assert status == 0
    assert "nothing to do" in out
    assert not [line for each in (first, second) for line in each.processes()]


def test_up_once_more_starts_nothing_and_asks_what_runs(cluster: Cluster) -> None:
    first = cluster.up()
    before = cluster.ids()
    again = cluster.up()
    assert again["outcome"] == "already serving"
    assert again["digest"] == first["digest"]
    assert again["completion"] == first["completion"]
    assert cluster.ids() == before


def test_another_deployment_of_the_name_is_left_as_it_is(cluster: Cluster) -> None:
    cluster.up()
    before = cluster.ids()
    cluster.write(stub=("slow@0:0",))
    status, out, err = cluster.graft("up")
    assert (status, out) == (5, "")
    assert "error[E579]: another deployment of the name tiny-model runs" in err
    assert "vllm-graft down" in err
    assert cluster.ids() == before


def test_what_ended_since_is_taken_away_and_started_anew(cluster: Cluster) -> None:
    cluster.up()
    before = cluster.ids()
    cluster.made["spark2"].docker.run("kill", "vllm-graft-tiny-model-1")
    status, _, err = cluster.graft("up")
    assert status == 0, err
    assert "tiny-model has ended: what is left of it is taken away" in err
    assert len(cluster.left()) == 2
    assert not set(cluster.ids()) & set(before)


@pytest.mark.parametrize(
    ("fault", "rank", "said"),
    [
        ("die@1:1", 1, "RuntimeError: rank 1 was told to die"),
        pytest.param("die@0:2", 0, "RuntimeError: rank 0 was told to die", marks=pytest.mark.full),
        # As an engine of vLLM does whose worker died.
        ("exit0@0:2", 0, "Shutting down"),
    ],
)
def test_a_rank_that_ends_is_told_at_once_with_its_last_lines(
    cluster: Cluster, fault: str, rank: int, said: str
) -> None:
    cluster.write(stub=(fault, "hang"))
    began = time.monotonic()
    status, out, err = cluster.graft("up")
    assert (status, out) == (5, "")
    assert time.monotonic() - began < 30
    how = "ended with status 0" if fault.startswith("exit0") else "ended with status 1"
    node, role = (("spark1", "head"), ("spark2", "worker"))[rank]
    assert f"error[E575]: rank {rank} ({role}) on {node} {how}" in err
    assert f"{node} | INFO" in err
    assert said in err
    kept = re.search(r"whole logs are in (\S+): rank-0.log, rank-1.log", err)
    assert kept is not None
    assert said in Path(kept[1], f"rank-{rank}.log").read_text()
    assert cluster.left() == []


@pytest.mark.parametrize(
    "fault",
    [pytest.param("html", marks=pytest.mark.full), "empty", "error", "closed"],
)
def test_health_is_no_proof(cluster: Cluster, fault: str) -> None:
    cluster.write(stub=(fault,))
    status, out, err = cluster.graft("up", "--time-limit", "0.2")
    assert (status, out) == (6, "")
    assert ("error[E621]" if fault == "closed" else "error[E620]") in err
    assert "/v1/completions" in err
    # The last lines of its log: one that closes is asked again and again, which fills them.
    assert ("asked: 'One" if fault == "closed" else "Starting vLLM API server") in err
    assert cluster.left() == []


def test_one_that_never_answers_is_taken_down_when_time_is_over(cluster: Cluster) -> None:
    cluster.write(stub=("hang",))
    status, _, err = cluster.graft("up", "--time-limit", "0.1")
    assert status == 6
    assert "error[E621]: tiny-model did not answer within 0.1 minutes" in err
    assert "/v1/completions was asked and has not answered" in err
    assert "asked: 'One, two, three" in err
    assert cluster.left() == []


def test_what_is_lacking_is_said_for_all_nodes_before_anything_is_started(
    cluster: Cluster,
) -> None:
    first, second = cluster.made.made
    (first.place / "home/tiny-model/config.json").unlink()
    (second.place / "home/tiny-model/config.json").unlink()
    status, _, err = cluster.graft("up")
    assert status == 5
    assert f"spark1: [E578] {MODEL} on spark1 holds no model" in err
    assert f"spark2: [E578] {MODEL} on spark2 holds no model" in err
    assert "starting" not in err
    put_model(first)
    put_model(second)
    (second.place / "home/tiny-model/model.safetensors").write_bytes(b"wei")
    status, _, err = cluster.graft("up")
    assert status == 5
    assert "[E578]" in err
    assert "model.safetensors has 3 bytes there, 7 here" in err
    assert cluster.left() == []


NVIDIA_SMI = """\
#!/bin/sh
case "$*" in *--query-gpu*) cat {folder}/query ;; esac
"""
"""In place of nvidia-smi: it says what one said on a DGX Spark."""


def test_a_model_that_does_not_fit_is_refused_before_anything_is_made(cluster: Cluster) -> None:
    first = cluster.made["spark1"]
    home, shown = f"/home/{first.user}", first.place / "home" / first.user
    (shown / "bin").mkdir(exist_ok=True)
    said = Path(__file__).parents[1] / "fleet/spark/nvidia-smi-query.txt"
    (shown / "query").write_text(said.read_text())
    (shown / "bin/nvidia-smi").write_text(NVIDIA_SMI.format(folder=home))
    (shown / "bin/nvidia-smi").chmod(0o755)
    large = [models.tensor("model.layers.0.mlp.up_proj.weight", (1 << 20, 1 << 17))]  # 256 GiB
    for each in cluster.made.made:
        models.write_checkpoint(each.place / "home/tiny-model", models.LLAMA_70B, large)
    startup = shown / ".zshenv"
    kept = startup.read_text()
    startup.write_text(f"{kept}PATH={home}/bin:$PATH\n")
    cluster.write(serve="tensor_parallel = 2")
    text = (cluster.folder / "graft.toml").read_text()
    share = '["--gpu-memory-utilization", "0.1"]'
    (cluster.folder / "graft.toml").write_text(text.replace("args = []", f"args = {share}"))
    try:
        status, _, err = cluster.graft("up")
    finally:
        startup.write_text(kept)
    assert status == 5
    assert "error[E583]" in err
    assert "256.0 GiB of weights) does not fit with TP=2" in err
    assert "spark1: each GPU would hold 128.0 GiB of the weights" in err
    assert "spark2: each GPU" not in err  # it has none
    assert cluster.left() == []


def test_an_image_that_a_node_lacks_is_sent_from_one_that_has_it(cluster: Cluster) -> None:
    second = cluster.made["spark2"].docker
    second.run("image", "rm", IMAGE)
    receipt = cluster.up()
    (stage,) = receipt["stages"]
    assert stage["name"] == "ship"
    assert stage["told"].startswith("spark2 was sent ")
    assert len(cluster.left()) == 2


def test_another_image_of_the_name_is_left_alone_unless_asked_for(cluster: Cluster) -> None:
    second = cluster.made["spark2"].docker
    other = stub_image(OTHER="1")
    other.name = IMAGE
    second.run("load", stdin=layer(files(".", docker_files(other))))
    status, _, err = cluster.graft("up")
    assert status == 5
    assert f"error[E581]: {IMAGE} did not reach 1 of 1 nodes" in err
    assert cluster.left() == []
    receipt = cluster.up("--force")
    assert receipt["outcome"] == "serving"


def test_a_container_of_somebody_else_that_has_the_name_is_told_as_that(cluster: Cluster) -> None:
    name = "vllm-graft-tiny-model-1"
    cluster.made["spark2"].docker.run("create", "--name", name, IMAGE, "x")
    status, _, err = cluster.graft("up")
    assert status == 5
    assert f"error[E573]: docker on spark2 has a container {name} already, which is of no" in err
    assert cluster.left() == []
    assert name in cluster.made["spark2"].docker.run("ps", "--all")


def test_an_image_for_another_architecture_is_refused_before_anything_is_made(
    cluster: Cluster,
) -> None:
    name = "vllm-graft-test-arm:1"
    other = Image(layers=[layer(shell_items())], settings={}, architecture="arm64")
    other.name = name
    for machine in cluster.made.made:
        machine.docker.run("load", stdin=layer(files(".", docker_files(other))))
    text = (cluster.folder / "graft.toml").read_text()
    (cluster.folder / "graft.toml").write_text(text.replace(IMAGE, name))
    status, _, err = cluster.graft("up")
    assert status == 5
    assert "[E531]" in err
    assert f"{name} is for linux/arm64, and docker on spark2 runs containers for amd64" in err
    assert "starting" not in err


def test_an_image_that_nobody_has_is_told(cluster: Cluster) -> None:
    text = (cluster.folder / "graft.toml").read_text()
    (cluster.folder / "graft.toml").write_text(text.replace(IMAGE, "no-such-image:1"))
    status, _, err = cluster.graft("up")
    assert status == 5
    assert "error[E571]: no node has the image no-such-image:1" in err
    assert cluster.left() == []


def test_a_port_that_is_taken_is_told_before_anything_is_started(cluster: Cluster) -> None:
    head = cluster.made["spark1"]
    listen = "import socket, time; s = socket.create_server(('127.0.0.1', 8000)); time.sleep(99)"
    program = shlex.join([os.path.realpath(sys.executable), "-c", listen])
    process = head.inside("sh", "-c", f"{program} >/dev/null 2>&1 & echo $!").strip()
    try:
        time.sleep(1)
        status, _, err = cluster.graft("up")
        assert status == 5
        assert "error[E577]: port 8000 of spark1 is taken" in err
        assert cluster.left() == []
        cluster.write(serve="port = 8001")
        assert cluster.up()["address"] == "http://127.0.0.1:8001"
    finally:
        head.inside("kill", process)


def test_ctrl_c_takes_down_what_this_run_started_and_says_so(cluster: Cluster) -> None:
    cluster.write(stub=("never",))
    with cluster.begin("up") as child:
        cluster.wait_for_containers()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert "what this run started was taken down" in err
    assert cluster.left() == []


def test_a_run_that_was_killed_leaves_what_the_next_one_goes_on_with(cluster: Cluster) -> None:
    cluster.write(stub=("slow@0:4",))
    with cluster.begin("up") as child:
        cluster.wait_for_containers()
        child.kill()
        child.communicate(timeout=60)
    before = cluster.ids()
    assert len(before) == 2
    receipt = cluster.up()
    assert receipt["outcome"] == "already serving"
    assert cluster.ids() == before


def test_connections_that_end_are_made_anew(cluster: Cluster) -> None:
    cluster.write(stub=("slow@0:6",))
    with cluster.begin("up") as child:
        cluster.wait_for_containers()
        for machine in cluster.made.made:
            machine.hang_up()
        _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert len(cluster.left()) == 2


def test_an_engine_that_is_restarted_ends_what_it_ran(cluster: Cluster) -> None:
    cluster.write(stub=("never",))
    with cluster.begin("up") as child:
        cluster.wait_for_containers()
        cluster.made["spark2"].stop_engine(how="TERM")
        cluster.made["spark2"].start_engine()
        _, err = child.communicate(timeout=120)
    assert child.returncode == 5
    assert "error[E575]: rank 1 (worker) on spark2 " in err
    assert cluster.left() == []


def test_a_dry_run_says_every_command_and_starts_nothing(cluster: Cluster) -> None:
    status, out, err = cluster.graft("up", "--dry-run")
    assert status == 0, err
    assert cluster.left() == []
    assert out.startswith("would serve tiny-model at")
    for words in (
        "docker create --name vllm-graft-tiny-model-0",
        "--nnodes 2 --node-rank 1",
        "(on spark2)\n  # to make the container of rank 1 (worker)",
        "docker start vllm-graft-tiny-model-1 (on spark2)",
    ):
        assert words in out
    assert "sudo -n docker create" in out  # as spark2's engine is used


def test_down_clears_the_others_where_one_node_is_lost(cluster: Cluster) -> None:
    cluster.up()
    cluster.made["spark2"].unplug()
    status, _, err = cluster.graft("down")
    assert status == 5, err
    assert "spark2" in err
    assert "note: spark1 is cleared: vllm-graft-tiny-model-0" in err
    assert len(cluster.left()) == 1
    cluster.made["spark2"].plug()
    status, out, err = cluster.graft("down")
    assert status == 0, err
    assert "1 container\n" in out
    assert cluster.left() == []


def test_status_says_what_serves_what_ended_and_who_does_not_answer(cluster: Cluster) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/status.schema.json").read_text())

    def asked(*words: str) -> tuple[int, Mapping[str, Any]]:
        status, out, err = cluster.graft("--format", "json", "status", *words)
        assert out, err
        told = json.loads(out)
        jsonschema.validate(told, schema)
        return status, told

    status, told = asked()
    assert (status, told["verdict"]) == (6, "nothing there")
    cluster.up()
    status, told = asked("tiny-model")
    assert (status, told["verdict"]) == (0, "serving")
    (found,) = told["deployments"]
    assert found["api"]["models"] == ["tiny-model"]
    assert [each["state"] for each in found["ranks"]] == ["running", "running"]
    # A worker's node was not asked: that is no proof that all is well.
    assert asked("--node", "spark1")[0] == 6
    cluster.made["spark2"].docker.run("kill", "vllm-graft-tiny-model-1")
    status, out, _ = cluster.graft("status")
    assert status == 6
    assert "rank 1 on spark2 was ended by signal 9" in out
    cluster.made["spark2"].unplug()
    status, told = asked()
    assert (status, told["verdict"]) == (5, "not all known")
    assert [each["name"] for each in told["unanswered"]] == ["spark2"]
    assert [each["name"] for each in told["deployments"]] == ["tiny-model"]


def test_status_knows_a_hung_engine_by_a_completion(cluster: Cluster) -> None:
    cluster.write(stub=("error",))
    with cluster.begin("up") as child:
        cluster.wait_for_containers()
        child.kill()
        child.communicate(timeout=60)
    status, out, _ = cluster.graft("status")
    assert status == 6
    assert "not serving tiny-model" in out

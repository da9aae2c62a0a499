# What engines say of containers, and what that leaves to be done.
import json
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.cluster.containers import (
    FoundContainer,
    is_name_taken,
    parse_containers,
    parse_ids,
    parse_log,
    says_nothing_of_it,
)
from vllm_graft.cluster.last_words import (
    Rank,
    first_ended,
    first_error,
    known_remedy,
    told_together,
)
from vllm_graft.cluster.launch import deployment_digest
from vllm_graft.cluster.model_place import ModelPlace, WantedModel, ask_model, parse_model
from vllm_graft.cluster.standing import judge_standing
from vllm_graft.errors import NodeError
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.deployment import Deployment, Member, ServedModel
from vllm_graft.workflows.explain_log import read_signatures

MEMBERS = tuple(
    Member(
        node=f"spark{rank + 1}",
        rank=rank,
        address=f"10.0.0.{rank}",
        interface="eth0",
        gpus=1,
        model_folder="/m",
    )
    for rank in (0, 1)
)
DEPLOYMENT = Deployment(
    name="tiny",
    image="i",
    content="c",
    model=ServedModel(name="tiny", mounted="/m", path="/m"),
    members=MEMBERS,
    tensor_parallel=2,
    host="127.0.0.1",
    port=8000,
)
DIGEST = str(deployment_digest(DEPLOYMENT))


def container(rank: int, **more: Any) -> FoundContainer:
    made = FoundContainer(
        id=f"id{rank}",
        name=f"vllm-graft-tiny-{rank}",
        deployment="tiny",
        digest=DIGEST,
        rank=rank,
        run="r",
        nodes=("spark1", "spark2"),
        status="running",
        code=0,
        finished="0001-01-01T00:00:00Z",
        out_of_memory=False,
        error="",
    )
    return replace(made, **more)


def answer(stdout: str = "", stderr: str = "", status: int = 0) -> Completed:
    command = Command(argv=("docker",), why="see")
    return Completed(
        command=command,
        status=status,
        stdout=stdout.encode(),
        stderr=stderr.encode(),
        took=timedelta(),
    )


def test_nothing_there_is_absent_and_all_ranks_of_the_digest_are_running() -> None:
    assert judge_standing(DEPLOYMENT, [(), ()]) == "absent"
    assert judge_standing(DEPLOYMENT, [(container(0),), (container(1),)]) == "running"


@pytest.mark.parametrize(
    "found",
    [
        [(container(0),), ()],
        [(container(0),), (container(1, status="exited"),)],
        [(container(0, status="exited", digest="other"),), ()],
        [(container(1),), (container(0),)],
    ],
)
def test_what_is_not_whole_has_ended(found: list[tuple[FoundContainer, ...]]) -> None:
    assert judge_standing(DEPLOYMENT, found) == "ended"


def test_what_runs_of_another_digest_is_refused() -> None:
    with pytest.raises(NodeError) as caught:
        judge_standing(DEPLOYMENT, [(), (container(1, digest="other"),)])
    assert caught.value.code == "E579"
    assert "vllm-graft-tiny-1 on spark2" in caught.value.what


def test_what_was_made_and_not_started_is_another_run() -> None:
    with pytest.raises(NodeError) as caught:
        judge_standing(DEPLOYMENT, [(container(0, status="created"),), ()])
    assert caught.value.code == "E574"


INSPECTED = [
    {
        "Id": "abc",
        "Name": "/vllm-graft-tiny-1",
        "State": {
            "Status": "exited",
            "ExitCode": 137,
            "OOMKilled": True,
            "Error": "",
            "FinishedAt": "2026-11-30T20:28:09.5Z",
        },
        "Config": {
            "Labels": {
                "vllm-graft.deployment": "tiny",
                "vllm-graft.deployment.digest": "sha256:1",
                "vllm-graft.rank": "1",
                "vllm-graft.run": "r1",
                "vllm-graft.nodes": "spark1,this machine",
            }
        },
    },
    {"Id": "def", "Name": "other", "State": {"Status": "running"}, "Config": {"Labels": None}},
]
"""As Docker 28.2 prints it, without what nobody reads."""


def test_what_an_engine_says_of_a_container_is_read() -> None:
    (found,) = parse_containers(answer(json.dumps(INSPECTED)))
    assert found.rank == 1
    assert found.nodes == ("spark1", "this machine")
    assert found.told == "was ended by the kernel, since memory ran out"
    assert not found.is_alive


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"status": "exited", "code": 0}, "ended with status 0"),
        ({"status": "exited", "code": 137}, "was ended by signal 9"),
        ({"status": "exited", "code": 1}, "ended with status 1"),
        ({"status": "created", "error": "no such device"}, "was never started (no such device)"),
        ({"status": "running"}, "is running"),
    ],
)
def test_how_a_container_is_is_said_in_words(more: dict[str, Any], told: str) -> None:
    assert container(0, **more).told == told


def test_logs_of_both_streams_come_in_the_order_of_time() -> None:
    told = answer(
        "2026-11-30T20:00:02.000000001Z second\n",
        "2026-11-30T20:00:01.9Z first\n2026-11-30T20:00:03Z third  \n",
    )
    assert parse_log(told) == ("first", "second", "third")
    assert parse_ids(answer("abc\ndef\n")) == ("abc", "def")


@pytest.mark.parametrize(
    "said",
    [
        "Error response from daemon: No such container: vllm-graft-tiny-0",
        'Error: no container with name or ID "vllm-graft-tiny-0" found: no such container',
    ],
)
def test_a_container_that_is_gone_is_known_from_an_engine_that_is(said: str) -> None:
    assert says_nothing_of_it(answer(stderr=said, status=1))
    assert not says_nothing_of_it(answer(stderr="Cannot connect to the Docker daemon", status=1))


def test_a_name_that_is_taken_is_known() -> None:
    said = 'Conflict. The container name "/x" is already in use by container "abc"'
    assert is_name_taken(answer(stderr=said, status=1))


NANOBIND = "nanobind: this is likely caused by a reference counting issue in the binding code."
TYPES = "RuntimeError: expected scalar type BFloat16 but found Float"
LOG = (
    *("INFO 11-30 20:27:50 [core.py:10] loading", "(Worker_TP0 pid=29) ERROR 11-30 x Traceback"),
    f"(Worker_TP0 pid=29) ERROR 11-30 20:28:09 [multiproc_executor.py:1018] {TYPES}",
    *(NANOBIND,) * 40,
)


def rank(number: int, **more: Any) -> Rank:
    log = more.pop("log", ())
    return Rank(
        member=MEMBERS[number],
        found=container(number, **more),
        log=log,
        error=first_error(log, read_signatures()),
    )


def test_the_rank_that_ended_first_is_named_first_with_its_first_error() -> None:
    head = rank(0, status="exited", finished="2026-11-30T20:28:12Z", log=("the worker left",))
    worker = rank(1, status="exited", finished="2026-11-30T20:28:09Z", log=LOG)
    assert first_ended((head, worker)) is worker
    assert first_ended((rank(0), rank(1))) is None
    told = told_together((head, worker), worker)
    assert told.index("spark2 |") < told.index("spark1 |")
    assert TYPES in told
    assert "line 3 of its log" in told
    assert told.count(NANOBIND) == 8


def test_a_remedy_that_is_known_for_the_first_error_is_given() -> None:
    text = "ValueError: Model architectures ['QwenForCausalLM'] are not supported for now."
    known = rank(0, log=(text,))
    assert "vllm-graft plan" in known_remedy((rank(1), known), None)
    assert "older than the model" in told_together((known,), None)
    assert known_remedy((rank(0, log=("all well",)),), None) == ""


def asked(wanted: WantedModel, **variables: str) -> Completed:
    command = ask_model(wanted)
    done = subprocess.run(
        command.argv, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin", **variables}
    )
    return Completed(
        command=command,
        status=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
        took=timedelta(),
    )


def write_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model 1.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("not counted")
    return folder


def test_a_folder_of_a_node_is_found_with_the_sizes_of_its_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "a model's $(folder)")
    wanted = WantedModel(text=str(folder))
    found = parse_model(asked(wanted), wanted, "spark1")
    assert found == ModelPlace(
        folder=str(folder), sizes={"config.json": 2, "model 1.safetensors": 7}
    )
    at_home = WantedModel(text="~/a model's $(folder)")
    assert parse_model(asked(at_home, HOME=str(tmp_path)), at_home, "spark1") == found


@pytest.mark.parametrize("revision", ["", "main", "abc123"])
def test_a_snapshot_is_found_in_the_cache_of_the_node(tmp_path: Path, revision: str) -> None:
    model = tmp_path / "hub/models--Qwen--Tiny"
    blobs = write_model(model / "blobs")
    snapshot = model / "snapshots/abc123"
    snapshot.mkdir(parents=True)
    for each in blobs.iterdir():
        (snapshot / each.name).symlink_to(each)
    (model / "refs").mkdir()
    (model / "refs/main").write_text("abc123")
    wanted = WantedModel(text="Qwen/Tiny", revision=revision)
    assert wanted.is_cached
    for variables in (
        {"HF_HOME": str(tmp_path), "HOME": "/x"},
        {"HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": "/x"},
    ):
        found = parse_model(asked(wanted, **variables), wanted, "spark1")
        assert found.mounted == str(tmp_path / "hub")
        assert found.within == "models--Qwen--Tiny/snapshots/abc123"
        assert found.sizes["model 1.safetensors"] == 7


def test_what_is_not_there_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    wanted = WantedModel(text="Qwen/Tiny", revision="v2")
    with pytest.raises(NodeError) as caught:
        parse_model(asked(wanted, HF_HOME=str(tmp_path)), wanted, "spark1")
    assert caught.value.code == "E578"
    assert (
        f"Qwen/Tiny at v2 is not in the Hugging Face cache of spark1 ({tmp_path}/hub)"
        in caught.value.what
    )
    absent = WantedModel(text="/no/such/folder")
    with pytest.raises(NodeError, match="there is no folder /no/such/folder on spark1"):
        parse_model(asked(absent), absent, "spark1")
    (tmp_path / "empty").mkdir()
    empty = WantedModel(text=str(tmp_path / "empty"))
    with pytest.raises(NodeError, match="has no config"):
        parse_model(asked(empty), empty, "spark1")

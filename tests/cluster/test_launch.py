# What is handed to the engine of each node, word for word.
import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.cluster.launch import (
    create_member,
    deployment_digest,
    environment_of,
    said,
    serve_words,
)
from vllm_graft.image.engine import Engine
from vllm_graft.values.deployment import Deployment, Member, ServedModel

DOCKER = Engine(program="/usr/bin/docker")
MODEL = ServedModel(name="tiny", mounted="/opt/vllm-graft/model", path="/opt/vllm-graft/model")


def member(rank: int, **more: object) -> Member:
    made = Member(
        node=f"spark{rank + 1}",
        rank=rank,
        address=f"192.168.100.1{rank}",
        interface=("enp1s0f1np1", "enp1s0f0np0")[rank],
        gpus=1,
        model_folder="/srv/models/tiny",
    )
    return replace(made, **more)


def deployment(*members: Member, **more: object) -> Deployment:
    made = Deployment(
        name="tiny",
        image="vllm-node-qwen35",
        content="sha256:1",
        model=MODEL,
        members=members or (member(0), member(1)),
        tensor_parallel=2,
        host="127.0.0.1",
        port=8000,
        args=("--max-model-len", "65536"),
        variables={"HF_HUB_OFFLINE": "1"},
    )
    return replace(made, **more)


def created(made: Deployment, rank: int, engine: Engine = DOCKER) -> tuple[str, ...]:
    return create_member(engine, made, made.members[rank], run="r1", master_port=29501).argv


def behind(argv: tuple[str, ...], word: str) -> list[str]:
    return [argv[number + 1] for number, each in enumerate(argv) if each == word]


def test_the_head_serves_and_the_worker_is_headless() -> None:
    made = deployment()
    common = (
        *("serve", "/opt/vllm-graft/model", "--served-model-name", "tiny"),
        *("--tensor-parallel-size", "2", "--max-model-len", "65536"),
        *("--distributed-executor-backend", "mp", "--nnodes", "2"),
    )
    rest = ("--master-addr", "192.168.100.10", "--master-port", "29501")
    assert serve_words(made, made.members[0], 29501) == (
        *(*common, "--node-rank", "0", *rest, "--host", "127.0.0.1", "--port", "8000"),
    )
    assert serve_words(made, made.members[1], 29501) == (
        *(*common, "--node-rank", "1", *rest, "--headless"),
    )


def test_one_node_is_plain_vllm_serve() -> None:
    made = deployment(member(0), tensor_parallel=1)
    assert serve_words(made, made.members[0], 29501) == (
        *("serve", "/opt/vllm-graft/model", "--served-model-name", "tiny"),
        *("--tensor-parallel-size", "1", "--max-model-len", "65536"),
        *("--host", "127.0.0.1", "--port", "8000"),
    )
    assert environment_of(made, made.members[0]) == {"HF_HUB_OFFLINE": "1"}


def test_what_the_user_says_is_not_said_twice() -> None:
    args = ("--served-model-name=mine", "--distributed_executor_backend", "mp")
    words = serve_words(deployment(args=args), member(1), 29501)
    assert [word for word in words if "served" in word] == ["--served-model-name=mine"]
    assert [word for word in words if "executor" in word] == ["--distributed_executor_backend"]


def test_each_node_is_told_its_own_address_and_the_interface_that_has_it() -> None:
    made = deployment()
    first, second = (environment_of(made, each) for each in made.members)
    assert first["VLLM_HOST_IP"] == "192.168.100.10"
    assert second["VLLM_HOST_IP"] == "192.168.100.11"
    for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        assert (first[name], second[name]) == ("enp1s0f1np1", "enp1s0f0np0")
    # NCCL reads a name as a prefix; enp1s0f0 would also be enp1s0f0np0.
    assert second["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0"


def test_a_container_has_labels_by_which_it_is_found() -> None:
    made = deployment()
    labels = dict(each.split("=", 1) for each in behind(created(made, 1), "--label"))
    assert labels == {
        "vllm-graft.role": "worker",
        "vllm-graft.deployment": "tiny",
        "vllm-graft.deployment.digest": str(deployment_digest(made)),
        "vllm-graft.rank": "1",
        "vllm-graft.run": "r1",
        "vllm-graft.nodes": "spark1,spark2",
    }
    assert behind(created(made, 1), "--name") == ["vllm-graft-tiny-1"]


def test_the_entrypoint_is_not_run_and_nothing_starts_it_again() -> None:
    argv = created(deployment(), 0)
    assert behind(argv, "--entrypoint") == ["vllm"]
    assert argv[argv.index("--entrypoint") + 2 :][:2] == ("vllm-node-qwen35", "serve")
    assert behind(argv, "--restart") == ["no"]
    assert behind(argv, "--pull") == ["never"]
    assert "--no-healthcheck" in argv
    assert "--privileged" not in argv


def test_gpus_are_asked_for_where_there_are_some() -> None:
    made = deployment(member(0), member(1, gpus=0))
    assert behind(created(made, 0), "--gpus") == ["all"]
    assert "memlock=-1:-1" in created(made, 0)
    assert "--gpus" not in created(made, 1)
    assert "--ulimit" not in created(made, 1)
    assert "nvidia.com/gpu=all" in created(made, 0, Engine(program="podman"))


def test_the_model_is_mounted_so_that_nothing_can_write_to_it() -> None:
    assert behind(created(deployment(), 0), "--mount") == [
        "type=bind,source=/srv/models/tiny,target=/opt/vllm-graft/model,readonly"
    ]


@given(folder=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
def test_a_mount_says_the_folder_whatever_it_is_called(folder: str) -> None:
    made = deployment(member(0, model_folder=f"/{folder}"))
    (words,) = behind(created(made, 0), "--mount")
    (fields,) = csv.reader([words], strict=True) if "\n" not in words + folder else [[]]
    assert not fields or fields[1] == f"source=/{folder}"


def test_the_digest_is_of_what_is_served_and_not_of_one_start_of_it() -> None:
    made = deployment()
    assert deployment_digest(made) == deployment_digest(deployment())
    changes = (
        replace(made, args=()),
        replace(made, content="sha256:2"),
        replace(made, port=8001),
        replace(made, model=replace(MODEL, path="/other")),
        deployment(member(0), member(1, address="192.168.100.12")),
        deployment(member(0)),
    )
    digests = {str(deployment_digest(each)) for each in (made, *changes)}
    assert len(digests) == len(changes) + 1


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--pipeline-parallel-size", "2"), "2"),
        (("--pipeline_parallel_size=2",), "2"),
        (("-pp", "2"), "2"),
        (("-pp", "2", "-pp", "4"), "4"),
        (("--other", "x"), None),
        (("--pipeline-parallel-size",), ""),
    ],
)
def test_an_argument_is_found_however_it_is_written(
    words: tuple[str, ...], found: str | None
) -> None:
    assert said(words, "--pipeline-parallel-size", "-pp") == found

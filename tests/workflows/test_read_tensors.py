# The names and shapes of a checkpoint, from its headers: of a folder here, and of a cache on a machine behind a real sshd.
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from checkpoints import cache, checkpoint, folder
from machines import Kind, Machines, machines
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.workflows.read_tensors import CheckpointTensors, read_tensors

MODEL = "Org/Tiny"
SHARD = "model-00002-of-00003.safetensors"
WHOLE = {f"layers.{n}.{part}": ((100_000,), "U8") for n in (1, 2, 3) for part in ("up", "down")}


def here(place: Path) -> CheckpointTensors:
    environment = Environment(variables=dict(os.environ))
    return read_tensors(str(place), str(place), None, environment=environment)


def test_a_folder_tells_its_tensors_without_their_numbers(tmp_path: Path) -> None:
    folder(tmp_path / "model", checkpoint())
    found = here(tmp_path / "model")
    assert (dict(found.tensors), found.problems) == (WHOLE, ())
    assert found.where == "this machine"


def test_a_shard_that_is_cut_short_is_told_and_its_header_still_read(tmp_path: Path) -> None:
    files = checkpoint()
    folder(tmp_path / "model", {**files, SHARD: files[SHARD][:-1]})
    found = here(tmp_path / "model")
    assert dict(found.tensors) == WHOLE
    assert "cut short" in found.problems[0]


def test_a_folder_without_weights_has_no_tensors_and_no_problem(tmp_path: Path) -> None:
    folder(tmp_path / "model", {"config.json": b"{}"})
    found = here(tmp_path / "model")
    assert (dict(found.tensors), found.problems) == ({}, ())


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    with machines(spark1=Kind(login="fish", engine="none")) as found:
        yield found


def test_a_nodes_own_cache_is_asked_over_ssh(made: Machines) -> None:
    user = made["spark1"].user
    home = made["spark1"].place / "home" / user
    commit = cache(home / ".cache/huggingface/hub", MODEL, checkpoint())
    made["spark1"].inside("chown", "-hR", user, f"/home/{user}")
    location = f"/elsewhere/models--Org--Tiny/snapshots/{commit}"
    environment = Environment(variables=made.variables)
    found = read_tensors(MODEL, location, Node(name="spark1"), environment=environment)
    assert (dict(found.tensors), found.problems) == (WHOLE, ())
    assert found.where == "spark1"
    absent = read_tensors(
        "/models/none", "/models/none", Node(name="spark1"), environment=environment
    )
    assert (dict(absent.tensors), absent.problems) == ({}, ())

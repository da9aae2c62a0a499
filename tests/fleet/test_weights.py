# What /bin/sh says of real folders, and what is decided from it. That it is sent between machines is in tests/workflows.
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from checkpoints import blob_name, cache, checkpoint, folder, safetensors
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.fleet.weights.asking import (
    SMALL,
    Found,
    ask_files,
    ask_found,
    parse_files,
    parse_found,
)
from vllm_graft.fleet.weights.deciding import (
    Arrived,
    arrived,
    commit_of,
    lack_of,
    other_reference,
    paths_of,
    refuse,
)
from vllm_graft.fleet.weights.layout import placing
from vllm_graft.fleet.weights.safetensors import Shard, judge, tensors_served
from vllm_graft.fleet.weights.sending import bytes_sent, not_sent
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import run_command
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.weights import ModelName, Weights, parse_model_name
from vllm_graft.workflows.find_weights import compare, find_whole, look_at

ID = ModelName(text="Org/Tiny")
SHARD = "model-00002-of-00003.safetensors"


def here(hub: Path | None = None, **variables: str) -> Machine:
    more = {"HF_HUB_CACHE": str(hub)} if hub else {}
    return Machine(node=None, connection=None, variables={**os.environ, **more, **variables})


def whole(machine: Machine, name: ModelName = ID) -> Weights:
    return find_whole(name, [(machine, look_at(machine, name, {}))], {}).weights


def refused(machine: Machine, name: ModelName = ID) -> str:
    with pytest.raises(NodeError) as caught:
        whole(machine, name)
    assert caught.value.code == "E555"
    return caught.value.what


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read", "is_folder"),
    [
        ("Qwen/Qwen3.5-122B-A10B-FP8", "Qwen/Qwen3.5-122B-A10B-FP8", False),
        ("gpt2", "gpt2", False),
        ("/models/tiny/", "/models/tiny", True),
        ("~/models/tiny", "~/models/tiny", True),
        ("./tiny", "/home/me/work/tiny", True),
        ("../tiny", "/home/me/tiny", True),
    ],
)
def test_an_id_and_a_folder_are_told_apart(text: str, read: str, *, is_folder: bool) -> None:
    name = parse_model_name(text, "", "/home/me/work")
    assert (name.text, name.is_folder) == (read, is_folder)


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        *(("a/b/c", ""), ("", ""), ("a b", ""), ("a/..", ""), ("-x/y z", ""), ("a--b/c", "")),
        *(("a/b", "x y"), ("a/b", "../x"), ("/models/x", "main"), ("/models/x\ny", "")),
    ],
)
def test_what_is_neither_is_refused(text: str, revision: str) -> None:
    with pytest.raises(RequestError):
        parse_model_name(text, revision, "/")


# --- what a machine has -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_small_shell_says_the_same(tmp_path: Path, shell: str) -> None:
    """What is asked is asked of /bin/sh, whichever that is there."""
    cache(tmp_path, "Org/Tiny", checkpoint())
    root, paths = look_at(here(tmp_path), ID, {}).root, paths_of(whole(here(tmp_path)))
    said: list[bytes] = []
    for command in (ask_found(ID, str(tmp_path)), ask_files(root, [*paths, "absent"])):
        own = run_command(command, variables=os.environ).stdout.splitlines()
        there = replace(command, argv=(shell, *command.argv[1:]))
        said = run_command(there, variables=os.environ).stdout.splitlines()
        assert [each for each in said if b"free" not in each] == [
            each for each in own if b"free" not in each
        ]
    assert said[-1] == b"gone\t-\t-\t-\tabsent"


@pytest.mark.parametrize(
    ("variables", "hub"),
    [
        ({}, "{home}/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/huggingface/hub"),
        ({"HF_HOME": "/data/hf"}, "/data/hf/hub"),
        ({"HF_HOME": "/data/hf", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HF_HOME": "/data/hf", "HF_HUB_CACHE": "/data/hub/"}, "/data/hub"),
        ({"HF_HUB_CACHE": "~/hub"}, "{home}/hub"),
    ],
)
def test_the_cache_is_where_hugging_face_has_it(
    tmp_path: Path, variables: Mapping[str, str], hub: str
) -> None:
    names = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
    clean = {name: text for name, text in os.environ.items() if name not in names}
    machine = Machine(
        node=None, connection=None, variables={**clean, "HOME": str(tmp_path), **variables}
    )
    assert look_at(machine, ID, {}).root == f"{hub.format(home=tmp_path)}/models--Org--Tiny"
    given = look_at(machine, ID, {"": "/elsewhere", "this machine": "~/own"})
    assert given.root == f"{tmp_path}/own/models--Org--Tiny"


def test_a_model_in_a_cache_is_found_whole(tmp_path: Path) -> None:
    files = checkpoint()
    commit = cache(tmp_path, "Org/Tiny", files)
    weights = whole(here(tmp_path))
    assert (weights.commit, weights.reference) == (commit, "main")
    assert {file.path: file.size for file in weights.files} == {
        path: len(content) for path, content in files.items()
    }
    assert {file.path: file.blob for file in weights.files} == {
        path: blob_name(path, content) for path, content in files.items()
    }
    assert weights.notes == ()


def test_a_model_in_a_folder_is_found_whole(tmp_path: Path) -> None:
    """Without what git and Hugging Face keep beside it, and what an unfinished run of this program has left."""
    files = checkpoint()
    folder(tmp_path, files)
    for own in (".git/x", ".cache/huggingface/download/x", ".vllm-graft/files/x"):
        folder(tmp_path, {own: b"x"})
    weights = whole(here(), ModelName(text=str(tmp_path)))
    assert {file.path for file in weights.files} == set(files)
    assert weights.commit == ""
    assert all(file.blob == "" for file in weights.files)


def test_files_with_names_of_all_kinds_are_found(tmp_path: Path) -> None:
    odd = {"# one", " two ", "tré s", "-n", "a\\b", "$HOME", "'q'", "*"}
    folder(tmp_path, {**checkpoint(), **dict.fromkeys(odd, b"x")})
    found = {file.path for file in whole(here(), ModelName(text=str(tmp_path))).files}
    assert odd <= found


def test_a_link_that_leads_elsewhere_is_a_file_of_its_own(tmp_path: Path) -> None:
    """As where a cache is on a file system without links, or somebody has put a file of his own there."""
    commit = cache(tmp_path, "Org/Tiny", checkpoint())
    place = tmp_path / "models--Org--Tiny/snapshots" / commit / "config.json"
    place.unlink()
    (tmp_path / "mine.json").write_bytes(b'{"architectures": ["Mine"]}')
    place.symlink_to(tmp_path / "mine.json")
    file = next(each for each in whole(here(tmp_path)).files if each.path == "config.json")
    assert (file.blob, file.size) == ("", 27)


# --- whole or not -------------------------------------------------------------------------------------------------


def cut(place: Path, size: int) -> None:
    with place.open("r+b") as stream:
        stream.truncate(size)


@pytest.mark.parametrize(
    ("left", "said"), [(100_000, "cut short"), (90, "cut short"), (3, "cut"), (0, "cut")]
)
def test_a_shard_that_is_cut_short_is_told_by_its_name(
    tmp_path: Path, left: int, said: str
) -> None:
    """WGT-2 of the pain list: a cut shard passes a count of files."""
    commit = cache(tmp_path, "Org/Tiny", checkpoint())
    cut(tmp_path / "models--Org--Tiny/snapshots" / commit / SHARD, left)
    what = refused(here(tmp_path))
    assert SHARD in what
    assert said in what


def test_a_shard_that_is_lacking_is_told_by_its_name(tmp_path: Path) -> None:
    commit = cache(tmp_path, "Org/Tiny", checkpoint())
    (tmp_path / "models--Org--Tiny/snapshots" / commit / SHARD).unlink()
    assert f"1 of 3 shards are lacking: {SHARD}" in refused(here(tmp_path))


def test_a_link_to_bytes_that_are_not_there_is_told(tmp_path: Path) -> None:
    commit = cache(tmp_path, "Org/Tiny", checkpoint())
    (tmp_path / "models--Org--Tiny/snapshots" / commit / SHARD).resolve().unlink()
    assert f"{SHARD} leads to nothing" in refused(here(tmp_path))


def test_what_is_only_described_is_not_whole(tmp_path: Path) -> None:
    """As `hf download --include '*.json'` leaves it."""
    files = {path: each for path, each in checkpoint().items() if path.endswith(".json")}
    cache(tmp_path, "Org/Tiny", files)
    assert "3 of 3 shards are lacking" in refused(here(tmp_path))


def test_nothing_at_all_is_told_as_such(tmp_path: Path) -> None:
    assert "nothing of it in" in refused(here(tmp_path))
    cache(tmp_path, "Org/Tiny", checkpoint(), reference="v1")
    cache(tmp_path, "Org/Tiny", checkpoint(seed=9), reference="v2")
    what = refused(here(tmp_path))
    assert "no revision main" in what
    assert "v1, v2" in what


JUDGED: Sequence[tuple[str, Mapping[str, bytes | None], Sequence[str]]] = (
    ("one file and no index", {"model.safetensors": safetensors({"a": 9})}, []),
    (
        "numbered and no index",
        {"m-00001-of-00002.safetensors": safetensors({"a": 9})},
        ["1 of 2 shards are lacking: m-00002-of-00002.safetensors"],
    ),
    ("longer", {"model.safetensors": safetensors({"a": 9}) + b"x"}, ["1 bytes more than it says"]),
    ("no safetensors", {"model.safetensors": b"\x05\0\0\0\0\0\0\0hello"}, ["no safetensors file"]),
    ("a page of HTML", {"model.safetensors": b"<!DOCTYPE html>" * 9}, ["no safetensors file"]),
    ("no tensors", {"model.safetensors": safetensors({})}, []),
    ("no weights", {"notes.md": b"x"}, ["there are no weights"]),
    ("an older form", {"pytorch_model.bin": b"x"}, []),
)


@pytest.mark.parametrize(("kind", "files", "problems"), JUDGED)
def test_a_model_is_judged_by_what_its_files_say(
    tmp_path: Path, kind: str, files: Mapping[str, bytes], problems: Sequence[str]
) -> None:
    assert kind
    folder(tmp_path, {"config.json": b"{}", **files})
    name = ModelName(text=str(tmp_path))
    if not problems:
        assert whole(here(), name).files
        return
    what = refused(here(), name)
    assert all(each in what for each in problems)


def test_without_a_description_it_is_not_whole(tmp_path: Path) -> None:
    folder(tmp_path, {"model.safetensors": safetensors({"a": 9})})
    assert "config.json is lacking" in refused(here(), ModelName(text=str(tmp_path)))


def test_a_tensor_that_the_index_names_and_its_shard_has_not_is_told() -> None:
    content = safetensors({"a": 9})
    length = int.from_bytes(content[:8], "little")
    index = json.dumps({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}}).encode()
    judged = judge(
        {"m.safetensors": len(content), "config.json": 2},
        {"m.safetensors": Shard(header=content[8 : 8 + length])},
        {"m.safetensors.index.json": index},
    )
    assert judged.problems == (
        "m.safetensors.index.json names 1 tensors that are not in their shards: b",
    )


def test_a_sum_that_is_another_is_no_reason_to_refuse_what_is_whole() -> None:
    """The index of a quantised model often still tells the sum of the model that it was made from."""
    content = safetensors({"a": 9})
    length = int.from_bytes(content[:8], "little")
    told = {"metadata": {"total_size": 18}, "weight_map": {"a": "m.safetensors"}}
    judged = judge(
        {"m.safetensors": len(content), "config.json": 2},
        {"m.safetensors": Shard(header=content[8 : 8 + length])},
        {"m.safetensors.index.json": json.dumps(told).encode()},
    )
    assert judged.problems == ()
    assert "18" in judged.notes[0]


@pytest.mark.parametrize("index", [b"", b"[]", b"{}", b'{"weight_map": 3}', b"[" * 9000])
def test_an_index_that_is_none_is_told(index: bytes) -> None:
    judged = judge({"x.index.json": len(index), "x.gguf": 1}, {}, {"x.index.json": index})
    assert judged.problems == ("x.index.json is no index: it has no weight_map",)


def test_a_file_that_was_edited_in_the_cache_is_told(tmp_path: Path) -> None:
    commit = cache(tmp_path, "Org/Tiny", checkpoint())
    (tmp_path / "models--Org--Tiny/snapshots" / commit / "config.json").write_text("{}")
    assert "config.json was changed on this machine" in whole(here(tmp_path)).notes[0]


# --- revisions ----------------------------------------------------------------------------------------------------


def found(**changes: object) -> Found:
    plain = Found(
        machine="m",
        root="/hub/models--Org--Tiny",
        is_there=True,
        user="nvidia",
        owner="1000:1000",
        shut=(),
        free=10**12,
        rsync=(3, 2),
        references={"main": "a" * 40, "v1": "b" * 40},
        snapshots=("a" * 40, "b" * 40, "c" * 40),
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("revision", "commit", "reference"),
    [
        ("", "a" * 40, "main"),
        ("main", "a" * 40, "main"),
        ("v1", "b" * 40, "v1"),
        ("c" * 40, "c" * 40, ""),
        ("v2", "", ""),
    ],
)
def test_a_revision_is_resolved_and_never_guessed(
    revision: str, commit: str, reference: str
) -> None:
    """WGT-8 of the pain list: the first folder in alphabetical order."""
    assert commit_of(found(), ModelName(text="x", revision=revision)) == (commit, reference)


def test_the_only_revision_that_is_there_is_meant_where_none_is_named() -> None:
    alone = found(references={}, snapshots=("c" * 40,))
    assert commit_of(alone, ID) == ("c" * 40, "main")
    assert commit_of(found(references={}), ID) == ("", "")


def test_another_commit_under_the_same_name_is_told() -> None:
    weights = Weights(name=ID, commit="c" * 40, reference="main", files=())
    assert "main was aaaaaaaaaaaa there" in other_reference(found(), weights)
    assert other_reference(found(references={}), weights) == ""
    assert other_reference(found(), replace(weights, commit="a" * 40)) == ""


# --- what is lacking ----------------------------------------------------------------------------------------------


def lack_in(hub: Path, weights: Weights) -> tuple[set[str], set[str]]:
    """Give what is lacking, and what of it is to be sent."""
    machine = here(hub)
    holding = compare(machine, look_at(machine, weights.name, {}), weights)
    return ({each.path for each in holding.lack.files}, {each.path for each in holding.lack.sent})


def test_only_what_is_lacking_is_sent(tmp_path: Path) -> None:
    files = checkpoint()
    commit = cache(tmp_path / "a", "Org/Tiny", files)
    weights = whole(here(tmp_path / "a"))
    assert lack_in(tmp_path / "b", weights) == (set(files), set(files))
    cache(tmp_path / "b", "Org/Tiny", files)
    assert lack_in(tmp_path / "b", weights) == (set(), set())
    place = tmp_path / "b/models--Org--Tiny/snapshots" / commit
    (place / "config.json").unlink()
    assert lack_in(tmp_path / "b", weights) == ({"config.json"}, set())
    blob = (place / SHARD).resolve()
    cut(blob, 1000)
    assert lack_in(tmp_path / "b", weights) == ({"config.json", SHARD}, {SHARD})
    blob.unlink()
    assert lack_in(tmp_path / "b", weights) == ({"config.json", SHARD}, {SHARD})


def test_a_large_file_is_known_by_both_its_ends(tmp_path: Path) -> None:
    """What has the right size and no bytes, as a download that was broken off may leave it, is not the file."""
    content = safetensors({"a": SMALL + 10_000})
    folder(tmp_path / "a", {"model.safetensors": content, "config.json": b"{}"})
    weights = whole(here(), ModelName(text=str(tmp_path / "a")))
    for broken in (content[:-4000] + bytes(4000), bytes(4000) + content[4000:], content[:-1]):
        folder(tmp_path / "b", {"model.safetensors": broken, "config.json": b"{}"})
        described = parse_files(here().run(ask_files(str(tmp_path / "b"), paths_of(weights))))
        assert [each.path for each in lack_of(weights, described).files] == ["model.safetensors"]


def refusal_of(weights: Weights, there: Path, machine: Machine | None = None) -> NodeError | None:
    machine = machine or here()
    described = parse_files(machine.run(ask_files(str(there), paths_of(weights))))
    lack = lack_of(weights, described)
    had = Arrived(sizes={}, wrong=())
    return refuse(found(root=str(there), references={}), weights, lack, had, "spark2")


def test_a_file_that_somebody_has_changed_in_a_folder_is_not_written_over(tmp_path: Path) -> None:
    folder(tmp_path / "a", checkpoint())
    folder(tmp_path / "b", {**checkpoint(), "config.json": b'{"mine": true}'})
    weights = whole(here(), ModelName(text=str(tmp_path / "a")))
    error = refusal_of(weights, tmp_path / "b")
    assert error is not None
    assert error.code == "E557"
    assert "config.json" in error.what


def test_a_shard_that_is_cut_short_in_a_folder_is_sent_anew(tmp_path: Path) -> None:
    folder(tmp_path / "a", checkpoint())
    folder(tmp_path / "b", checkpoint())
    cut(tmp_path / "b" / SHARD, 5000)
    assert refusal_of(whole(here(), ModelName(text=str(tmp_path / "a"))), tmp_path / "b") is None


def test_what_has_no_room_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    cache(tmp_path, "Org/Tiny", checkpoint())
    weights = whole(here(tmp_path))
    lack = lack_of(weights, {})
    full = found(free=weights.size - 1, references={})
    error = refuse(full, weights, lack, Arrived(sizes={}, wrong=()), "spark2")
    assert error is not None
    assert error.code == "E553"
    had = Arrived(sizes={"blobs/x": weights.size // 2}, wrong=())
    assert refuse(full, weights, lack, had, "spark2") is None


HUB = "/home/nvidia/.cache/huggingface/hub"
ROOT = f"{HUB}/models--Org--Tiny"


@pytest.mark.parametrize(
    ("shut", "is_there", "remedy"),
    [
        (f"{ROOT}/blobs", True, f"sudo chown -R nvidia: {ROOT}/blobs"),
        (ROOT, True, f"sudo chown -R nvidia: {ROOT}"),
        (HUB, False, f"sudo chown -R nvidia: {HUB}"),
        (
            "/home/nvidia/.cache/huggingface",
            False,
            "chown -R nvidia: /home/nvidia/.cache/huggingface ",
        ),
        ("/", False, f"sudo install -d -o nvidia {ROOT}"),
        ("/home/nvidia", False, f"sudo install -d -o nvidia {ROOT}"),
    ],
)
def test_folders_of_root_are_told_with_what_gives_them_back_and_nothing_else(
    tmp_path: Path, shut: str, remedy: str, *, is_there: bool
) -> None:
    """WGT-4 of the pain list. Never is the advice to give away a folder that is not the cache's."""
    cache(tmp_path, "Org/Tiny", checkpoint())
    weights = whole(here(tmp_path))
    there = found(root=ROOT, shut=(("root", shut),), is_there=is_there, references={})
    error = refuse(there, weights, lack_of(weights, {}), Arrived(sizes={}, wrong=()), "spark2")
    assert error is not None
    assert error.code == "E554"
    assert f"{shut} belongs to root" in error.what
    assert remedy in error.remedy


def test_another_revision_that_belongs_to_root_is_no_hindrance(tmp_path: Path) -> None:
    cache(tmp_path, "Org/Tiny", checkpoint())
    weights = whole(here(tmp_path))
    there = found(root=ROOT, shut=(("root", f"{ROOT}/snapshots/{'a' * 40}"),))
    assert refuse(there, weights, lack_of(weights, {}), Arrived(sizes={}, wrong=()), "x") is None


def test_what_has_arrived_is_gone_on_with_unless_it_cannot_become_the_file(tmp_path: Path) -> None:
    files = checkpoint()
    cache(tmp_path, "Org/Tiny", files)
    weights = whole(here(tmp_path))
    paths = {each.path: f"blobs/{each.blob}" for each in weights.files}
    stage = tmp_path / "stage"
    folder(
        stage,
        {
            paths[SHARD]: files[SHARD][:1000],
            paths["config.json"]: files["config.json"],
            paths["tokenizer.json"]: bytes(len(files["tokenizer.json"])),
            paths["model.safetensors.index.json"]: files["model.safetensors.index.json"] + b"x",
        },
    )
    described = parse_files(here().run(ask_files(str(stage), paths.values())))
    had = arrived(weights, lack_of(weights, {}), described)
    assert had.sizes == {paths[SHARD]: 1000, paths["config.json"]: len(files["config.json"])}
    assert set(had.wrong) == {paths["tokenizer.json"], paths["model.safetensors.index.json"]}


def test_what_is_looked_for_first_is_put_in_place_last(tmp_path: Path) -> None:
    folder(tmp_path, checkpoint())
    weights = whole(here(), ModelName(text=str(tmp_path)))
    lines = placing(weights, weights.files, weights.files).decode().splitlines()
    assert lines[-1].startswith("file\tconfig.json\t")
    assert lines[0].startswith("file\tmodel-00001")


# --- what programs say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("rsync  version 3.2.7  protocol version 31", (3, 2)),
        ("rsync  version v3.1.3  protocol version 31", (3, 1)),
        ("rsync  version 2.6.9  protocol version 29", (2, 6)),
        ("openrsync: protocol version 29", ()),
        ("", ()),
    ],
)
def test_the_version_of_rsync_is_read(said: str, version: tuple[int, ...]) -> None:
    told = f"root\t/x\nuser\tme\nowner\t1:1\nfree\t5\nrsync\t{said}\n"
    assert parse_found(completed(told)).rsync == version


def completed(stdout: str = "", stderr: str = "", status: int = 0) -> Completed:
    return Completed(
        command=Command(argv=("x",), why=""),
        status=status,
        stdout=stdout.encode(),
        stderr=stderr.encode(),
        took=timedelta(),
    )


def test_an_answer_that_is_none_is_told() -> None:
    for parse in (parse_found, parse_files):
        with pytest.raises(NodeError) as caught:
            parse(completed("what?", "sh: stat: not found", 127))
        assert caught.value.code == "E558"


def test_how_much_rsync_has_sent_is_read() -> None:
    said = b"\r     21,430,272  42%   20.39MB/s    0:00:01\r     45,383,680  90%   21.52MB/s    0:00:00"
    assert bytes_sent(said) == 45_383_680
    assert bytes_sent(b"rsync: warning") is None


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('rsync: [receiver] write failed on "x": No space left on device (28)', "E553"),
        ("cat: write error: No space left on device", "E553"),
        ("rsync: write failed: Disk quota exceeded (122)", "E553"),
        ("rsync error: error in rsync protocol data stream (code 12)", "E556"),
    ],
)
def test_why_it_did_not_arrive_is_told(said: str, code: str) -> None:
    assert not_sent(completed(stderr=said, status=11), "spark2").code == code


def test_of_a_checkpoint_only_the_tensors_that_an_engine_loads_are_told() -> None:
    def header(*names: str) -> Shard:
        told = {each: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]} for each in names}
        return Shard(header=json.dumps({"__metadata__": {"format": "pt"}, **told}).encode())

    shards = {
        "a.safetensors": header("in a", "in a, and not in the index"),
        "consolidated.safetensors": header("the same again"),
        "adapter/model.safetensors": header("of an adapter"),
        "cut.safetensors": Shard(header=None),
    }
    index = json.dumps({"weight_map": {"in a": "a.safetensors"}}).encode()
    told = tensors_served(shards, {"model.safetensors.index.json": index})
    assert told == dict.fromkeys(("in a", "in a, and not in the index"), ((2, 3), "BF16"))
    assert len(tensors_served(shards, {})) == 3

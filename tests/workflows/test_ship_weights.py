# Machines with users, homes, login shells and networks of their own, a real sshd and a real rsync: what one has, all have
# afterwards, as Hugging Face lays it out, and what goes wrong on one of them keeps no other from it.
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from checkpoints import cache, checkpoint, folder
from machines import Kind, Machines, machines
from vllm_graft.cli.arguments import make_parser
from vllm_graft.cli.main import run
from vllm_graft.errors import NodeError
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.values.weights import ModelName, WeightsOnNode, WeightsReceipt
from vllm_graft.workflows.ship_weights import WeightsRequest, ship_weights

SHARD = "model-00002-of-00003.safetensors"
SLOW = "16mbit"


@dataclass(kw_only=True)
class Fleet:
    made: Machines
    told: str = ""

    def home(self, name: str) -> Path:
        machine = self.made[name]
        return machine.place / "home" / machine.user

    def hub(self, name: str) -> Path:
        return self.home(name) / ".cache/huggingface/hub"

    def root(self, name: str, model: str) -> Path:
        return self.hub(name) / f"models--{model.replace('/', '--')}"

    def own(self, name: str) -> None:
        """Give what a test has written on a machine to its user."""
        user = self.made[name].user
        self.made[name].inside("chown", "-hR", user, f"/home/{user}")

    def put(
        self, name: str, model: str, files: Mapping[str, bytes], reference: str = "main"
    ) -> str:
        commit = cache(self.hub(name), model, files, reference=reference)
        self.own(name)
        return commit

    def ship(
        self,
        model: str,
        *names: str,
        revision: str = "",
        variables: Mapping[str, str] | None = None,
        **more: object,
    ) -> WeightsReceipt:
        """Ship to these; ``here`` is this machine."""
        stream = io.StringIO()
        request = WeightsRequest(
            name=ModelName(text=model, revision=revision),
            nodes=tuple(node(name) for name in names),
            **more,  # pyright: ignore[reportArgumentType]
        )
        # This machine has nothing of its own, whatever the one has that runs the tests.
        nothing = {"HF_HUB_CACHE": "/nowhere"}
        environment = Environment(variables={**self.made.variables, **nothing, **(variables or {})})
        try:
            return ship_weights(request, environment=environment, console=Console(stream=stream))
        finally:
            self.told = stream.getvalue()

    def tree(self, name: str, model: str) -> dict[str, str]:
        """Give what is in the folder of a model: path → what a link says, or the digest of the bytes."""
        return tree(self.root(name, model))

    def owners(self, name: str, below: str) -> set[str]:
        told = self.made[name].inside(
            "find", f"/home/{self.made[name].user}/{below}", "-printf", "%u\n"
        )
        return set(told.split())


def node(name: str) -> Node | None:
    return None if name == "here" else Node(name=name)


def tree(place: Path) -> dict[str, str]:
    return {
        str(each.relative_to(place)): os.readlink(each)  # noqa: PTH115 (as written)
        if each.is_symlink()
        else hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(place.rglob("*"))
        if each.is_symlink() or each.is_file()
    }


def of(receipt: WeightsReceipt, name: str) -> WeightsOnNode:
    return next(each for each in receipt.nodes if each.node == name)


@pytest.fixture(scope="module")
def fleet() -> Generator[Fleet]:
    with machines(
        spark1=Kind(login="zsh", engine="none", rate=SLOW),
        spark2=Kind(login="fish", engine="none", rate=SLOW),
        spark3=Kind(login="tcsh", engine="none", rate=SLOW, fabric="none", trusted=False),
        spark4=Kind(
            login="bash", engine="none", rate=SLOW, fabric="none", trusted=False, disk="1500k"
        ),
    ) as made:
        # As on a machine without rsync.
        made["spark4"].inside("mount", "--bind", "/dev/null", shutil.which("rsync") or "")
        yield Fleet(made=made)


def test_every_node_has_it_as_hugging_face_lays_it_out_and_a_second_run_does_nothing(
    fleet: Fleet,
) -> None:
    model = "Org/Every"
    commit = fleet.put("spark1", model, checkpoint())
    names = ("spark1", "spark2", "spark3", "spark4")
    would = fleet.ship(model, *names, dry_run=True)
    assert [each.outcome for each in would.nodes] == ["already there", *["would be sent"] * 3]
    assert not fleet.root("spark2", model).exists()
    receipt = fleet.ship(model, *names)
    assert (receipt.source, receipt.commit, receipt.reference) == ("spark1", commit, "main")
    assert [each.outcome for each in receipt.nodes] == ["already there", *["sent"] * 3]
    assert [each.means for each in receipt.nodes] == ["", "rsync", "rsync", "stream"]
    expected = fleet.tree("spark1", model)
    for name in names[1:]:
        assert fleet.tree(name, model) == expected, name
        assert fleet.owners(name, ".cache") == {fleet.made[name].user}
        place = f"/home/{fleet.made[name].user}/.cache/huggingface/hub/models--Org--Every"
        assert of(receipt, name).place == f"{place}/snapshots/{commit}"
    before = {name: (fleet.root(name, model) / "refs/main").stat().st_mtime_ns for name in names}
    again = fleet.ship(model, *names)
    assert [each.outcome for each in again.nodes] == ["already there"] * 4
    for name in names:
        assert (fleet.root(name, model) / "refs/main").stat().st_mtime_ns == before[name]


def test_what_is_large_goes_over_the_fast_network(fleet: Fleet) -> None:
    model = "Org/Large"
    fleet.put("spark1", model, checkpoint(1, size=70_000_000))
    receipt = fleet.ship(model, "spark1", "spark2")
    assert of(receipt, "spark2").path == f"over {fleet.made['spark2'].fabric} (fab0)"
    assert fleet.tree("spark2", model) == fleet.tree("spark1", model)


def test_where_no_node_reaches_the_other_all_goes_through_this_machine(fleet: Fleet) -> None:
    model = "Org/Relayed"
    fleet.put("spark3", model, checkpoint())
    receipt = fleet.ship(model, "spark3", "spark4")
    sent = of(receipt, "spark4")
    assert (sent.outcome, sent.means, sent.path) == ("sent", "stream", "through this machine")
    assert fleet.tree("spark4", model) == fleet.tree("spark3", model)


def test_this_machine_gives_and_takes(fleet: Fleet, tmp_path: Path) -> None:
    model = "Org/Here"
    commit = cache(tmp_path / "a", model, checkpoint())
    receipt = fleet.ship(model, "spark2", variables={"HF_HUB_CACHE": f"{tmp_path}/a"})
    assert receipt.source == "this machine"
    assert fleet.tree("spark2", model) == tree(tmp_path / "a/models--Org--Here")
    taken = fleet.ship(model, "spark2", "here", variables={"HF_HUB_CACHE": f"{tmp_path}/b c"})
    assert of(taken, "this machine").means == "rsync"
    assert of(taken, "this machine").place.endswith(f"/b c/models--Org--Here/snapshots/{commit}")
    assert tree(tmp_path / "b c/models--Org--Here") == fleet.tree("spark2", model)


def test_what_speaks_against_one_node_is_told_and_keeps_no_other_from_it(fleet: Fleet) -> None:
    model = "Org/Faults"
    fleet.put("spark1", model, checkpoint())
    # A container that ran as root has made this folder.
    fleet.made["spark2"].inside("mkdir", "-p", f"{place_of(fleet, 'spark2', model)}/blobs")
    fleet.made["spark4"].inside(
        "sh", "-c", "mkdir -p /var/lib/docker/hub; chmod 777 /var/lib/docker/hub"
    )
    fleet.made["spark4"].inside("sh", "-c", "head -c 1200000 /dev/zero >/var/lib/docker/full")
    hubs = {"spark4": "/var/lib/docker/hub"}
    names = ("spark1", "spark2", "spark3", "spark4", "nowhere")
    receipt = fleet.ship(model, *names, hubs=hubs)
    assert receipt.failed
    assert [each.outcome for each in receipt.nodes] == [
        *("already there", "failed", "sent", "failed", "failed")
    ]
    shut, full, unreached = (of(receipt, name) for name in ("spark2", "spark4", "nowhere"))
    assert (shut.code, full.code, unreached.code) == ("E554", "E553", "E501")
    assert "belongs to root" in shut.error
    user = fleet.made["spark2"].user
    assert f"sudo chown -R {user}: " in shut.remedy
    assert os.listdir(fleet.root("spark2", model)) == ["blobs"]  # noqa: PTH208
    # What was told is done.
    fleet.made["spark2"].inside("sh", "-c", shut.remedy.partition("sudo ")[2].partition(" (")[0])
    fleet.made["spark4"].inside("rm", "/var/lib/docker/full")
    again = fleet.ship(model, *names[:4], hubs=hubs)
    assert [each.outcome for each in again.nodes] == [
        *("already there", "sent", "already there", "sent")
    ]
    assert fleet.tree("spark2", model) == fleet.tree("spark1", model)
    assert of(again, "spark4").place.startswith("/var/lib/docker/hub/models--Org--Faults/")
    fleet.made["spark4"].inside("rm", "-r", "/var/lib/docker/hub")


def test_a_disk_that_becomes_full_on_the_way_is_told_and_nothing_passes_for_the_model(
    fleet: Fleet,
) -> None:
    model, hub = "Org/Full", "/var/lib/docker/filling"
    fourth = fleet.made["spark4"]
    fleet.put("spark1", model, checkpoint(seed=4))
    fourth.inside("sh", "-c", f"mkdir -p {hub}; chmod 777 {hub}")
    root = f"{hub}/models--Org--Full"

    def fill() -> None:
        wait = f"until [ -d {root}/.vllm-graft ]; do sleep 0.01; done"
        fourth.inside(
            "timeout", "60", "sh", "-c", f"{wait}; cat /dev/zero >/var/lib/docker/x", check=False
        )

    thread = threading.Thread(target=fill)
    thread.start()
    full = of(fleet.ship(model, "spark1", "spark4", hubs={"spark4": hub}), "spark4")
    thread.join()
    assert (full.outcome, full.code) == ("failed", "E553")
    assert "the disk of spark4 is full" in full.error
    assert fourth.inside("ls", "-A", root).split() == [".vllm-graft"]
    fourth.inside("rm", "/var/lib/docker/x")
    again = fleet.ship(model, "spark1", "spark4", hubs={"spark4": hub})
    assert of(again, "spark4").outcome == "sent"
    fourth.inside("rm", "-r", hub)


def place_of(fleet: Fleet, name: str, model: str) -> str:
    user = fleet.made[name].user
    return f"/home/{user}/.cache/huggingface/hub/models--{model.replace('/', '--')}"


def test_a_source_that_is_not_whole_is_refused_and_mended_where_another_one_is(
    fleet: Fleet,
) -> None:
    model = "Org/Cut"
    commit = fleet.put("spark1", model, checkpoint())
    shard = fleet.root("spark1", model) / "snapshots" / commit / SHARD
    content = shard.read_bytes()
    shard.resolve().write_bytes(content[:70_000])
    with pytest.raises(NodeError) as caught:
        fleet.ship(model, "spark1", "spark2")
    assert caught.value.code == "E555"
    assert (
        f"spark1: {SHARD} is cut short: it has 70,000 of {len(content):,} bytes"
        in caught.value.what
    )
    assert "spark2: nothing of it" in caught.value.what
    assert not fleet.root("spark2", model).exists()
    fleet.put("spark3", model, checkpoint())
    receipt = fleet.ship(model, "spark1", "spark3")
    assert receipt.source == "spark3"
    assert f"spark1 does not have {model} whole: {SHARD} is cut short" in fleet.told
    mended = of(receipt, "spark1")
    assert (mended.outcome, mended.files, mended.size) == ("sent", 1, len(content))
    assert mended.notes == (f"had another content there before: {SHARD}",)
    assert fleet.tree("spark1", model) == fleet.tree("spark3", model)


@pytest.mark.full
def test_another_revision_stays_and_the_name_leads_to_the_one_that_was_sent(fleet: Fleet) -> None:
    model = "Org/Other"
    old, new = checkpoint(seed=1), checkpoint(seed=2)
    kept = fleet.put("spark2", model, old)
    commit = fleet.put("spark1", model, new)
    receipt = fleet.ship(model, "spark1", "spark2")
    assert "main was" in of(receipt, "spark2").notes[0]
    snapshots = fleet.root("spark2", model) / "snapshots"
    assert {each.name for each in snapshots.iterdir()} == {kept, commit}
    assert (fleet.root("spark2", model) / "refs/main").read_text() == commit
    for path, content in new.items():
        assert (snapshots / commit / path).read_bytes() == content
    # And by its commit, which leaves the name alone.
    by_commit = fleet.ship(model, "spark2", "spark1", revision=kept)
    assert (by_commit.source, by_commit.reference) == ("spark2", "")
    assert (fleet.root("spark1", model) / "refs/main").read_text() == commit
    assert (fleet.root("spark1", model) / "snapshots" / kept / SHARD).read_bytes() == old[SHARD]


def test_what_is_there_already_is_not_sent(fleet: Fleet) -> None:
    """A node that has the description alone, as `--model` of the other verbs needs it."""
    model = "Org/Part"
    files = checkpoint()
    commit = fleet.put("spark1", model, files)
    described = {path: each for path, each in files.items() if path.endswith(".json")}
    fleet.put("spark2", model, described)
    root = fleet.root("spark2", model)
    (root / "snapshots").rename(root / "before")
    (root / "snapshots").mkdir()
    next((root / "before").iterdir()).rename(root / "snapshots" / commit)
    shutil.rmtree(root / "before")
    fleet.own("spark2")
    receipt = fleet.ship(model, "spark1", "spark2")
    assert of(receipt, "spark2").files == len(files) - len(described)
    assert fleet.tree("spark2", model) == fleet.tree("spark1", model)


@pytest.mark.full
def test_a_folder_of_each_machines_own_home(fleet: Fleet) -> None:
    files = {**checkpoint(), "# odd'\" $HOME": b"x"}
    folder(fleet.home("spark1") / "my models/tiny", files)
    fleet.own("spark1")
    names = ("spark1", "spark2", "spark4")
    receipt = fleet.ship("~/my models/tiny", *names)
    assert [each.outcome for each in receipt.nodes] == ["already there", "sent", "sent"]
    for name in names:
        place = fleet.home(name) / "my models/tiny"
        assert {str(each.relative_to(place)) for each in place.rglob("*") if each.is_file()} == set(
            files
        )
        assert tree(place) == tree(fleet.home("spark1") / "my models/tiny")
        assert of(receipt, name).place == f"/home/{fleet.made[name].user}/my models/tiny"
    (fleet.home("spark2") / "my models/tiny/config.json").write_text('{"mine": 1}')
    changed = of(fleet.ship("~/my models/tiny", *names), "spark2")
    assert (changed.outcome, changed.code) == ("failed", "E557")
    assert (fleet.home("spark2") / "my models/tiny/config.json").read_text() == '{"mine": 1}'


def test_they_are_taken_from_whom_the_user_says(fleet: Fleet) -> None:
    model = "Org/From"
    fleet.put("spark1", model, checkpoint(seed=1))
    commit = fleet.put("spark3", model, checkpoint(seed=3))
    receipt = fleet.ship(model, "spark2", sources=(Node(name="spark3"),))
    assert (receipt.source, receipt.commit) == ("spark3", commit)
    assert of(receipt, "spark2").source == "spark3"


BIG = checkpoint(3, size=4_000_000, seed=5)


def test_a_node_that_is_lost_keeps_no_other_and_the_next_run_goes_on_where_it_ended(
    fleet: Fleet,
) -> None:
    """Nobody takes for whole what is not."""
    model = "Org/Lost"
    fleet.put("spark1", model, BIG)
    third = fleet.made["spark3"]
    ended = "kill $(pgrep -f 'ssh[d] -f /etc/ssh/of-the-test'); kill -KILL $(pgrep -f '^sshd: ')"
    stage = fleet.root("spark3", model) / ".vllm-graft/files/blobs"

    def lose() -> None:
        deadline = time.monotonic() + 120
        while size_of(stage) < 1_500_000 and time.monotonic() < deadline:
            time.sleep(0.02)
        third.inside("sh", "-c", ended, check=False)

    thread = threading.Thread(target=lose)
    thread.start()
    receipt = fleet.ship(model, "spark1", "spark3", "spark2")
    thread.join()
    lost = of(receipt, "spark3")
    assert lost.outcome == "failed"
    assert lost.code in {"E501", "E507", "E551", "E556"}
    assert of(receipt, "spark2").outcome == "sent"
    root = fleet.root("spark3", model)
    assert sorted(each.name for each in root.iterdir()) == [".vllm-graft"]
    arrived = size_of(stage)
    assert arrived > 1_000_000
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin") or ""
    third.inside(sshd, "-f", "/etc/ssh/of-the-test/sshd", "-E", "/run/sshd.log")
    again = fleet.ship(model, "spark1", "spark3", "spark2")
    assert of(again, "spark3").outcome == "sent"
    assert "of them are there already" in fleet.told
    assert fleet.tree("spark3", model) == fleet.tree("spark1", model)


def test_a_disk_that_is_slower_than_the_network_for_a_moment_only_makes_it_slower(
    fleet: Fleet,
) -> None:
    """What a node pulls comes through the shell of its rsync, which finds the pipe to it full."""
    model = "Org/Slower"
    fleet.put("spark3", model, BIG)
    first = fleet.made["spark1"]
    stage = fleet.root("spark1", model) / ".vllm-graft/files/blobs"
    stopped: list[int] = []

    def stop_for_a_moment() -> None:
        deadline = time.monotonic() + 120
        while size_of(stage) < 1_000_000 and time.monotonic() < deadline:
            time.sleep(0.02)
        stopped.append(size_of(stage))
        first.inside("pkill", "-STOP", "-x", "rsync")
        time.sleep(1)
        first.inside("pkill", "-CONT", "-x", "rsync")

    thread = threading.Thread(target=stop_for_a_moment)
    thread.start()
    receipt = fleet.ship(model, "spark3", "spark1")
    thread.join()
    assert 1_000_000 <= stopped[0] < 9_000_000
    assert (of(receipt, "spark1").outcome, of(receipt, "spark1").means) == ("sent", "rsync")
    assert fleet.tree("spark1", model) == fleet.tree("spark3", model)


def size_of(stage: Path) -> int:
    try:
        return sum(each.stat().st_size for each in stage.iterdir())
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        ("spark1", "spark3"),
        pytest.param("spark3", "spark4", marks=pytest.mark.full),
    ],
)
def test_ctrl_c_ends_what_runs_on_every_machine_and_the_next_run_goes_on(
    fleet: Fleet, sender: str, receiver: str
) -> None:
    model = f"Org/Interrupted-{receiver}"
    fleet.put(sender, model, checkpoint(3, size=300_000, seed=6) if receiver == "spark4" else BIG)
    stage = fleet.root(receiver, model) / ".vllm-graft/files/blobs"
    argv = [sys.executable, "-m", "vllm_graft", "ship", "--weights", model, sender, receiver]
    variables = {**fleet.made.variables, "HF_HUB_CACHE": "/nowhere"}
    child = subprocess.Popen(argv, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while size_of(stage) < 100_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130, told
    assert b"what has arrived is kept" in told
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(
        fleet.made[each].processes() for each in fleet.made.names
    ):
        time.sleep(0.2)
    assert {each: fleet.made[each].processes() for each in fleet.made.names} == {
        each: [] for each in fleet.made.names
    }
    assert [each.name for each in fleet.root(receiver, model).iterdir()] == [".vllm-graft"]
    assert of(fleet.ship(model, sender, receiver), receiver).outcome == "sent"
    assert fleet.tree(receiver, model) == fleet.tree(sender, model)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_stream_goes_on_where_it_ended_unless_what_arrived_is_something_else(
    fleet: Fleet, *, damaged: bool
) -> None:
    model = "Org/Damaged" if damaged else "Org/Begun"
    fleet.put("spark3", model, checkpoint(seed=8))
    file = next(
        each for each in fleet.root("spark3", model).glob("blobs/*") if len(each.name) == 64
    )
    begun = file.read_bytes()[:50_000]
    stage = fleet.root("spark4", model) / ".vllm-graft/files/blobs"
    stage.mkdir(parents=True)
    (stage / file.name).write_bytes(begun[:-9] + bytes(9) if damaged else begun)
    fleet.own("spark4")
    receipt = fleet.ship(model, "spark3", "spark4")
    assert of(receipt, "spark4").outcome == "sent"
    assert fleet.tree("spark4", model) == fleet.tree("spark3", model)


def test_where_root_logs_in_the_files_belong_to_whom_the_cache_belongs(fleet: Fleet) -> None:
    model = "Org/Root"
    fleet.put("spark1", model, checkpoint())
    hub = f"/home/{fleet.made['spark2'].user}/.cache/huggingface/hub"
    fleet.hub("spark2").mkdir(parents=True, exist_ok=True)
    fleet.own("spark2")
    fleet.made["spark2"].inside("mkdir", "-p", f"{place_of(fleet, 'spark2', model)}/blobs")
    receipt = fleet.ship(model, "spark1", "root@spark2", hubs={"root@spark2": hub})
    assert of(receipt, "root@spark2").outcome == "sent"
    assert fleet.tree("spark2", model) == fleet.tree("spark1", model)
    assert fleet.owners("spark2", ".cache") == {fleet.made["spark2"].user}


def test_a_machine_under_two_names_is_one(fleet: Fleet) -> None:
    model = "Org/Twice"
    fleet.put("spark1", model, checkpoint())
    user = fleet.made["spark2"].user
    receipt = fleet.ship(model, "spark1", "spark2", f"{user}@spark2")
    twice = of(receipt, f"{user}@spark2")
    assert twice.outcome == "already there"
    assert "the same machine as spark2" in twice.notes[0]


def said(fleet: Fleet, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    variables = {**fleet.made.variables, "HF_HUB_CACHE": "/nowhere"}
    status = run(("ship", *words), variables, sys.stdout, sys.stderr)
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_command_line_gives_a_receipt_by_its_schema_and_a_status(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    model = "Org/Line"
    commit = fleet.put("spark1", model, checkpoint())
    words = ("--weights", model, "spark1", "spark2", "nowhere", "--address", "spark2=relay")
    schema = json.loads((Path(__file__).parents[2] / "docs/ship.schema.json").read_text())
    for more in (("--dry-run",), ()):
        status, out, err = said(fleet, capsys, *words, "--format", "json", *more)
        assert status == 5
        value = json.loads(out)
        jsonschema.validate(value, schema)
        assert value["image"] is None
        assert value["weights"]["commit"] == commit
        assert value["weights"]["nodes"][1]["path"] == "through this machine"
        assert "error[E501]: nowhere: " in err
    assert f"spark1 has {model} at {commit[:12]} whole: 7 files, 604 kB" in err
    status, _, err = said(fleet, capsys, "--weights", model, "spark3")
    assert status == 5
    assert f"error[E555]: no machine has {model} whole" in err
    status, out, err = said(fleet, capsys, "--weights", model, "spark2", "--from", "spark1")
    assert (status, "error" in err) == (0, False)
    assert out == (
        f"{model} at {commit} of spark1 (7 files, 604 kB)\n"
        f"  spark2  already there, nothing to send\n"
        f"          in {place_of(fleet, 'spark2', model)}/snapshots/{commit}\n"
    )
    _, out, _ = said(fleet, capsys, "--weights", model, "spark1", "spark2", "--format", "markdown")
    assert "| spark2 | already there | " in out


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        ((), "ship what, and where?"),
        (("vllm:1",), "ship vllm:1 where?"),
        (("--weights", "a/b"), "ship what, and where?"),
        (("--weights", "a/b/c", "spark1"), "neither a Hugging Face id nor a folder"),
        (("--weights", "a/b", "spark1", "--hub", "x"), "no folder of a cache"),
        (
            ("--weights", "a/b", "spark1", "--hub", "sp ark=/x"),
            "names sp ark, which is none of the machines",
        ),
        (("--weights", "a/b", "spark1", "--address", "spark1"), "no address of a node: 'spark1'"),
        (("--weights", "a/b", "spark1", "--address", "spark1=-x"), "no address of a node"),
        (("vllm:1", "spark1", "--hub", "/x"), "say nothing of an image"),
        (("vllm:1", "spark1", "--revision", "x"), "say nothing of an image"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said_of_it: str
) -> None:
    assert run(("ship", *words), {}, sys.stdout, sys.stderr) == 2
    assert said_of_it in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "image", "nodes"),
    [
        (("vllm:1", "a", "b"), "vllm:1", ["a", "b"]),
        (("vllm:1", "--weights", "m", "a", "b"), "vllm:1", ["a", "b"]),
        (("vllm:1", "a", "b", "--weights", "m"), "vllm:1", ["a", "b"]),
        (("--weights", "m", "a", "b"), "", ["a", "b"]),
        (("--weights=m", "--dry-run", "a"), "", ["a"]),
        (("--dry-run", "--weights", "m", "--hub", "/x", "a", "b"), "", ["a", "b"]),
    ],
)
def test_the_first_word_is_an_image_unless_weights_stand_before_it(
    words: tuple[str, ...], image: str, nodes: list[str]
) -> None:
    read = make_parser().parse_args(("ship", *words))
    assert (read.image, [*filter(None, [read.first_node]), *read.nodes]) == (image, nodes)

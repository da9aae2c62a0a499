# Real machines with real engines, real sshd and four login shells; what is shipped is small, since what matters is what moves.
import json
import sys
from collections.abc import Generator
from pathlib import Path

import jsonschema
import pytest

from building import Bench, base_image
from checkpoints import cache, checkpoint
from imaging import Image
from machines import Kind, Machines, machines
from opening import opener_at
from shipping import Dock, Made, base_and_top, chance, content, garbage, of, put
from vllm_graft.cli.main import run
from vllm_graft.errors import RequestError, SourceError
from vllm_graft.values.node import Node

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def four() -> Generator[Machines]:
    with machines(
        spark1=Kind(login="zsh"),
        spark2=Kind(login="fish", engine="sudo"),
        spark3=Kind(login="tcsh", trusted=False),
        spark4=Kind(login="bash"),
    ) as made:
        yield made


@pytest.fixture
def dock(four: Machines, tmp_path: Path) -> Generator[Dock]:
    yield Dock(machines=four, folder=tmp_path)
    for machine in four.made:
        images = machine.docker.run("image", "ls", "--all", "--quiet").split()
        if images:
            machine.docker.run("image", "rm", "--force", *dict.fromkeys(images), check=False)
        assert garbage(machine) == [], machine.name


def with_parts(four: Machines, made: Made) -> str:
    """Put the image on the first machine, its base on the second, another image on that base on the third."""
    name = put(four["spark1"], made.image(), "vllm-node:1")
    put(four["spark2"], made.image(3), "some-base:1")
    put(four["spark3"], made.image(2, chance("other")), "some-other:1")
    return name


def test_each_node_is_sent_what_it_lacks_and_then_all_have_the_same(
    dock: Dock, four: Machines
) -> None:
    made = base_and_top()
    name = with_parts(four, made)
    receipt = dock.ship(f"{name}@spark1", *four.names)
    assert [(each.node, each.outcome, each.held, len(each.layers)) for each in receipt.nodes] == [
        ("spark1", "already there", 4, 0),
        ("spark2", "sent", 3, 1),
        ("spark3", "sent", 2, 2),
        ("spark4", "sent", 0, 4),
    ]
    top, two = len(made.layers[3]), len(made.layers[3]) + len(made.layers[2])
    assert top < of(receipt, "spark2").sent < top + 20_000
    assert two < of(receipt, "spark3").sent < two + 20_000
    assert of(receipt, "spark2").path.startswith("spark1, over ")
    assert all(each.verified for each in receipt.nodes)
    assert len({content(machine, name) for machine in four.made}) == 1
    again = dock.ship(f"{name}@spark1", *four.names)
    assert {each.outcome for each in again.nodes} == {"already there"}
    assert again.config == receipt.config


def test_nodes_hand_on_to_each_other_where_they_can(dock: Dock, four: Machines) -> None:
    name = put(four["spark1"], base_and_top().image(), "vllm-node:1")
    receipt = dock.ship(name, "spark4", "spark2", "spark3", source=Node(name="spark1"))
    before = {each.node: each.path.partition(",")[0] for each in receipt.nodes}
    assert before == {"spark4": "spark1", "spark2": "spark4", "spark3": "spark2"}
    assert len({content(machine, name) for machine in four.made}) == 1


def test_one_that_lets_nobody_on_is_left_out_of_the_chain(dock: Dock, four: Machines) -> None:
    name = put(four["spark1"], base_and_top().image(), "vllm-node:1")
    receipt = dock.ship(f"{name}@spark1", "spark3", "spark2", "spark4")
    paths = {each.node: each.path for each in receipt.nodes}
    # spark3's user may not log in to the others, but they may log in to it.
    assert paths["spark2"].startswith("spark1, over ")
    assert paths["spark4"].startswith("spark2, over ")
    assert len({content(machine, name) for machine in four.made}) == 1


def test_what_was_built_here_is_sent_without_reading_it_out_of_an_engine(
    dock: Dock, four: Machines, tmp_path: Path
) -> None:
    first, other = four["spark1"], four["spark4"]
    base = base_image()
    name = put(first, base, "some-base:1")
    put(other, base, "under-another-name:1")
    bench = Bench(opener=opener_at(tmp_path / "cache", **dock.variables), folder=tmp_path)
    bench.path = dock.variables["PATH"]
    built = bench.build(bench.plan(f"docker:{name}@spark1"), "grafted:1")
    receipt = dock.ship("grafted:1@spark1", "spark4")
    node = of(receipt, "spark4")
    assert (node.outcome, node.path, node.layers) == ("sent", "this machine", (built.layer,))
    assert built.layer_size < node.sent < built.layer_size + 20_000
    ids = {
        each.docker.run("image", "inspect", "-f", "{{.Id}}", "grafted:1") for each in (first, other)
    }
    assert ids == {f"{built.image_id}\n"}


def test_an_image_of_this_machines_engine_is_sent(dock: Dock, four: Machines) -> None:
    first = four["spark1"]
    name = with_parts(four, base_and_top())
    dock.engine = first.docker.host
    receipt = dock.ship(name, "spark2", "spark4")
    assert receipt.source == "this machine"
    assert {each.outcome for each in receipt.nodes} == {"sent"}
    assert len({content(four[each], name) for each in ("spark1", "spark2", "spark4")}) == 1


def test_this_machine_is_a_node_too_and_hands_on(dock: Dock, four: Machines) -> None:
    """Its engine is the fourth's, which is also sent to by its own name: one machine, two names."""
    name = with_parts(four, base_and_top())
    dock.engine = four["spark4"].docker.host
    receipt = dock.ship(f"{name}@spark1", "localhost", "spark2", "spark4")
    assert [(each.node, each.outcome) for each in receipt.nodes] == [
        ("this machine", "sent"),
        ("spark2", "sent"),
        ("spark4", "already there"),
    ]
    assert of(receipt, "spark4").sent == 0
    assert "the same machine as this machine" in of(receipt, "spark4").notes
    assert all(each.verified for each in receipt.nodes)
    assert len({content(four[each], name) for each in ("spark1", "spark2", "spark4")}) == 1


def test_a_sender_without_python_is_read_from_here(dock: Dock, four: Machines) -> None:
    name = with_parts(four, base_and_top())
    python = four["spark1"].inside("readlink", "-f", "/usr/bin/python3").strip()
    four["spark1"].inside("mount", "--bind", "/bin/false", python)
    try:
        receipt = dock.ship(f"{name}@spark1", "spark2", "spark4")
    finally:
        four["spark1"].inside("umount", python)
    assert of(receipt, "spark2").path == "this machine"
    assert of(receipt, "spark4").path.startswith("spark1, over ")
    assert {each.outcome for each in receipt.nodes} == {"sent"}


def test_what_is_there_under_another_name_gets_this_one(dock: Dock, four: Machines) -> None:
    made = base_and_top()
    name = put(four["spark1"], made.image(), "vllm-node:1")
    put(four["spark2"], made.image(), "what-i-called-it:7")
    again = Image(layers=made.layers, settings={"Cmd": ["/bin/false"]})
    put(four["spark4"], again, "same-layers:1")
    receipt = dock.ship(f"{name}@spark1", "spark2", "spark4")
    assert (of(receipt, "spark2").outcome, of(receipt, "spark2").sent) == ("named", 0)
    assert (of(receipt, "spark4").outcome, of(receipt, "spark4").layers) == ("sent", ())
    assert of(receipt, "spark4").sent < 20_000
    assert content(four["spark4"], name) == content(four["spark1"], name)


def test_a_name_that_another_image_has_is_taken_only_by_force(dock: Dock, four: Machines) -> None:
    made = base_and_top()
    name = put(four["spark1"], made.image(), "vllm-node:1")
    put(four["spark2"], made.image(3), name)
    before = four["spark2"].docker.run("image", "ls", "--no-trunc")
    receipt = dock.ship(f"{name}@spark1", "spark2", "spark4")
    assert (of(receipt, "spark2").code, of(receipt, "spark4").outcome) == ("E533", "sent")
    assert four["spark2"].docker.run("image", "ls", "--no-trunc") == before
    forced = of(dock.ship(f"{name}@spark1", "spark2", force=True), "spark2")
    assert forced.outcome == "sent"
    assert content(four["spark2"], name) == content(four["spark1"], name)
    layers = ("image", "inspect", "--format", "{{len .RootFS.Layers}}", forced.replaced)
    assert four["spark2"].docker.run(*layers) == "3\n"


def test_an_image_for_another_architecture_is_refused_and_nothing_sent(
    dock: Dock, four: Machines
) -> None:
    made = base_and_top()
    made.architecture = "arm64"
    name = put(four["spark1"], made.image(), "vllm-node:1")
    receipt = dock.ship(f"{name}@spark1", "spark2", "spark4")
    assert [each.code for each in receipt.nodes] == ["E531", "E531"]
    assert "linux/arm64" in receipt.nodes[0].failure
    assert four["spark4"].docker.run("image", "ls", "--quiet") == ""


def test_a_dry_run_says_what_would_be_sent_and_sends_nothing(dock: Dock, four: Machines) -> None:
    name = with_parts(four, base_and_top())
    receipt = dock.ship(f"{name}@spark1", *four.names, dry_run=True)
    assert [(each.outcome, len(each.layers)) for each in receipt.nodes] == [
        ("already there", 0),
        ("would be sent", 1),
        ("would be sent", 2),
        ("would be sent", 4),
    ]
    assert any("sudo -n docker load (on spark2" in each for each in receipt.commands)
    assert any("docker save vllm-node:1" in each for each in receipt.commands)
    assert four["spark4"].docker.run("image", "ls", "--quiet") == ""


@pytest.mark.parametrize(
    ("image", "code"), [("nobody-has-it:1@spark1", "E333"), ("nobody-has-it:1", "E331")]
)
def test_an_image_that_is_not_there_is_told(dock: Dock, image: str, code: str) -> None:
    with pytest.raises(SourceError) as caught:
        dock.ship(image, "spark2")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("image", "source"),
    [("vllm@sha256:" + "0" * 64, None), ("vllm:1@spark1", "spark2"), ("vllm:1#/opt/venv", None)],
)
def test_words_that_name_no_image_are_refused(dock: Dock, image: str, source: str | None) -> None:
    with pytest.raises(RequestError):
        dock.ship(image, "spark2", source=Node(name=source) if source else None)


def test_the_command_line_gives_json_by_its_schema_and_a_status(
    dock: Dock, four: Machines, capsys: pytest.CaptureFixture[str]
) -> None:
    name = with_parts(four, base_and_top())
    put(four["spark4"], base_and_top().image(2), name)
    words = ("ship", f"{name}@spark1", "spark2", "spark4", "--format", "json")
    schema = json.loads((Path(__file__).parents[2] / "docs/ship.schema.json").read_text())
    for argv in ((*words, "--dry-run"), words):
        assert run(argv, dock.variables, sys.stdout, sys.stderr) == 5
        told = capsys.readouterr()
        jsonschema.validate(json.loads(told.out), schema)
        assert "error[E533]: spark4: docker on spark4 has another image of the name" in told.err
    for form in ("text", "markdown"):
        argv = ("ship", f"{name}@spark1", "spark2", "--format", form)
        assert run(argv, dock.variables, sys.stdout, sys.stderr) == 0
        assert "already there" in capsys.readouterr().out


def test_an_image_and_the_weights_of_a_model_go_in_one_call(
    dock: Dock, four: Machines, capsys: pytest.CaptureFixture[str]
) -> None:
    name = with_parts(four, base_and_top())
    first = four["spark1"]
    hub = first.place / "home" / first.user / ".cache/huggingface/hub"
    commit = cache(hub, "Org/Both", checkpoint())
    first.inside("chown", "-hR", first.user, f"/home/{first.user}")
    words = ("ship", f"{name}@spark1", "--weights", "Org/Both", "spark1", "spark2")
    assert run((*words, "--format", "json"), dock.variables, sys.stdout, sys.stderr) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(__file__).parents[2] / "docs/ship.schema.json").read_text())
    jsonschema.validate(value, schema)
    outcomes = [[each["outcome"] for each in value[part]["nodes"]] for part in ("image", "weights")]
    assert outcomes == [["already there", "sent"]] * 2
    assert value["weights"]["commit"] == commit
    assert run(words, dock.variables, sys.stdout, sys.stderr) == 0
    told = capsys.readouterr().out
    assert f"{name} of spark1" in told
    assert f"Org/Both at {commit} of spark1" in told
    # What was done before stands on stderr where the weights are nowhere whole.
    absent = ("ship", f"{name}@spark1", "--weights", "Org/Absent", "spark2")
    assert run(absent, dock.variables, sys.stdout, sys.stderr) == 5
    said = capsys.readouterr()
    assert "already there, nothing to do" in said.err
    assert "error[E555]" in said.err

# What goes wrong on one machine: it is told for that one, the others get their image, a second run completes, and nothing is
# left behind.
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from machines import Kind, Machine, Machines, machines
from shipping import MB, Dock, Hearing, Made, base_and_top, content, garbage, of, once_loading, put
from vllm_graft.run.engine import engine_of, give_back_name
from vllm_graft.run.machines import machine_at
from vllm_graft.values.node import Node

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def three() -> Generator[Machines]:
    """The first has the images; links are slow enough that something can happen while they are in use."""
    with machines(
        spark1=Kind(login="bash", rate="40mbit", fabric="none"),
        spark2=Kind(login="fish", rate="40mbit", fabric="none"),
        spark3=Kind(login="tcsh", rate="40mbit", fabric="none", disk="60m"),
    ) as made:
        yield made


@pytest.fixture
def dock(three: Machines, tmp_path: Path) -> Generator[Dock]:
    yield Dock(machines=three, folder=tmp_path)
    for machine in three.made:
        images = machine.docker.run("image", "ls", "--all", "--quiet").split()
        if images:
            machine.docker.run("image", "rm", "--force", *dict.fromkeys(images), check=False)
        assert garbage(machine) == [], machine.name


def large() -> Made:
    """Three seconds on the link."""
    return base_and_top(size=4 * MB, top=5 * MB)


def second_run_completes(dock: Dock, three: Machines, name: str, *nodes: str) -> None:
    dock.stream = Hearing()
    receipt = dock.ship(f"{name}@spark1", *nodes)
    assert {each.outcome for each in receipt.nodes} <= {"sent", "already there"}, receipt
    assert len({content(three[each], name) for each in ("spark1", *nodes)}) == 1


@pytest.mark.full
def test_a_node_that_refuses_connections_or_shows_another_key_keeps_no_other_from_its_image(
    tmp_path: Path,
) -> None:
    with machines(
        one=Kind(), two=Kind(), refusing=Kind(engine="none"), changed=Kind(engine="none")
    ) as made:
        name = put(made["one"], base_and_top().image(), "vllm-node:1")
        made["refusing"].stop_ssh()
        made["changed"].change_host_key()
        receipt = Dock(machines=made, folder=tmp_path).ship(
            f"{name}@one", "refusing", "two", "changed"
        )
        assert [(each.outcome, each.code) for each in receipt.nodes] == [
            ("failed", "E501"),
            ("sent", ""),
            ("failed", "E502"),
        ]
        assert content(made["one"], name) == content(made["two"], name)


def test_a_connection_that_ends_in_the_middle_is_tried_again(dock: Dock, three: Machines) -> None:
    name = put(three["spark1"], large().image(), "vllm-node:1")
    dock.stream = Hearing("4 of 4 layers", once_loading(three["spark2"], three["spark2"].hang_up))
    receipt = dock.ship(f"{name}@spark1", "spark2")
    # Which of its connections ended first decides whether it was worth another try.
    node = of(receipt, "spark2")
    assert node.outcome == "sent" or node.code in ("E501", "E507", "E551"), receipt
    second_run_completes(dock, three, name, "spark2")


@pytest.mark.full
def test_a_node_that_is_lost_in_the_middle_is_told_and_the_others_finish(
    dock: Dock, three: Machines
) -> None:
    """It is noticed after a minute, as nobody says that it is gone."""
    name = put(three["spark1"], base_and_top(3 * MB, 3 * MB).image(), "vllm-node:1")
    dock.stream = Hearing("4 of 4 layers", once_loading(three["spark2"], three["spark2"].lose))
    try:
        receipt = dock.ship(f"{name}@spark1", "spark2", "spark3")
        assert of(receipt, "spark2").outcome == "failed"
        assert of(receipt, "spark2").code in ("E501", "E507", "E551")
        assert of(receipt, "spark3").outcome == "sent"
    finally:
        three["spark2"].start()
    second_run_completes(dock, three, name, "spark2", "spark3")


def restart(machine: Machine) -> Callable[[], None]:
    def act() -> None:
        machine.stop_engine()
        machine.start_engine()

    return act


def test_an_engine_that_is_restarted_in_the_middle_is_told(dock: Dock, three: Machines) -> None:
    name = put(three["spark1"], large().image(), "vllm-node:1")
    dock.stream = Hearing("4 of 4 layers", once_loading(three["spark2"], restart(three["spark2"])))
    receipt = dock.ship(f"{name}@spark1", "spark2", "spark3")
    told = of(receipt, "spark2")
    assert (told.outcome, told.code) == ("failed", "E536"), told
    assert of(receipt, "spark3").code in ("", "E532")
    second_run_completes(dock, three, name, "spark2")


def test_a_disk_that_is_too_small_is_refused_before_anything_is_sent(
    dock: Dock, three: Machines
) -> None:
    name = put(three["spark1"], base_and_top(20 * MB, 6 * MB).image(), "vllm-node:1")
    receipt = dock.ship(f"{name}@spark1", "spark3")
    assert dock.stream.getvalue() == ""
    told = of(receipt, "spark3")
    assert (told.outcome, told.code) == ("failed", "E532")
    assert "docker on spark3 has " in told.failure
    assert three["spark3"].docker.run("image", "ls", "--all", "--quiet") == ""


def test_a_disk_that_becomes_full_in_the_middle_is_told(dock: Dock, three: Machines) -> None:
    machine = three["spark3"]
    name = put(three["spark1"], large().image(), "vllm-node:1")
    fill = ("sh", "-c", "head -c 48000000 /dev/zero >/var/lib/docker/filler")

    def act() -> None:
        machine.inside(*fill, check=False)

    dock.stream = Hearing("4 of 4 layers", act)
    receipt = dock.ship(f"{name}@spark1", "spark3", "spark2")
    told = of(receipt, "spark3")
    assert (told.outcome, told.code) == ("failed", "E534"), told
    assert of(receipt, "spark2").outcome == "sent"
    assert machine.docker.run("image", "ls", "--all", "--quiet") == ""
    machine.inside("rm", "/var/lib/docker/filler")
    second_run_completes(dock, three, name, "spark3", "spark2")


@pytest.mark.full
def test_one_behind_another_that_refuses_gets_its_image_all_the_same(
    dock: Dock, three: Machines
) -> None:
    name = put(three["spark1"], large().image(), "vllm-node:1")
    dock.stream = Hearing(
        "4 of 4 layers", once_loading(three["spark2"], three["spark2"].stop_engine)
    )
    try:
        receipt = dock.ship(f"{name}@spark1", "spark2", "spark3")
    finally:
        three["spark2"].start_engine()
    assert of(receipt, "spark2").code == "E536", receipt
    assert (of(receipt, "spark3").outcome, of(receipt, "spark3").path.split(",")[0]) == (
        "sent",
        "spark2",
    )


@pytest.mark.full
def test_the_image_that_had_the_name_has_it_again_where_the_new_one_does_not_arrive(
    dock: Dock, three: Machines
) -> None:
    made = large()
    name = put(three["spark1"], made.image(), "vllm-node:1")
    put(three["spark2"], made.image(1), name)
    ask = ("image", "ls", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}")
    before = three["spark2"].docker.run(*ask)
    dock.stream = Hearing("3 of 4 layers", once_loading(three["spark2"], restart(three["spark2"])))
    receipt = dock.ship(f"{name}@spark1", "spark2", force=True)
    assert of(receipt, "spark2").outcome == "failed"
    assert three["spark2"].docker.run(*ask) == before


def test_a_name_is_given_back_as_soon_as_the_engine_is_up_again(
    dock: Dock, three: Machines
) -> None:
    """As `ship --force` and `build --force` do where the new image did not arrive."""
    machine, tag = three["spark2"], "vllm-node:1"
    kept = put(machine, base_and_top().image(1), "vllm-node:1-before-20261201t0400z")
    with machine_at(Node(name="spark2"), dock.variables) as reached:
        engine = engine_of(reached)
        machine.stop_engine()
        starting = threading.Timer(1, machine.start_engine)
        starting.start()
        give_back_name(engine, kept, tag, dock.variables)
        starting.join()
    names = ("image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
    assert machine.docker.run(*names).split() == [tag]


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vllm_graft.__main__ import main
sys.exit(main())
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "wait",
    [
        2.5,
        *(0.3, 0.7, 1.2, 1.8, 3.5, 5.0),
    ],
)
def test_ctrl_c_leaves_nothing_behind(dock: Dock, three: Machines, wait: float) -> None:
    name = put(three["spark1"], large().image(), "vllm-node:1")
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "ship", f"{name}@spark1", "spark2", "spark3"],
        env=dict(dock.variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    time.sleep(wait)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130, told.decode()
    deadline = time.monotonic() + 10
    while any(garbage(machine) for machine in three.made) and time.monotonic() < deadline:
        time.sleep(0.2)
    for machine in three.made:
        assert garbage(machine) == []
    second_run_completes(dock, three, name, "spark2", "spark3")


@pytest.mark.full
def test_what_an_earlier_load_left_in_part_does_no_harm(dock: Dock, three: Machines) -> None:
    made = large()
    name = put(three["spark1"], made.image(), "vllm-node:1")
    machine = three["spark2"]
    # The engine is killed while it unpacks: layers are there that no image has.
    loading = subprocess.Popen(
        ["sh", "-c", f"docker -H {three['spark1'].docker.host} save {name} | docker load"],
        env=machine.docker.variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 10
    while (
        not machine.inside(
            "find", "/var/lib/docker/overlay2", "-mindepth", "1", "-maxdepth", "1", check=False
        ).count("\n")
        > 1
    ):
        assert time.monotonic() < deadline
    machine.stop_engine()
    loading.wait(30)
    machine.start_engine()
    second_run_completes(dock, three, name, "spark2")

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from nodes import Nodes, nodes
from vllm_graft.cli.main import render_error
from vllm_graft.errors import NodeError, NodesError
from vllm_graft.run.connection import connected
from vllm_graft.run.machines import Machine, on_each
from vllm_graft.run.process import run_command
from vllm_graft.values.answered import all_values, answers
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node


@pytest.fixture(scope="module")
def made() -> Generator[Nodes]:
    with nodes() as made:
        yield made


ASKED = (Node(name="node-bash"), Node(name="closed"), None, Node(name="stranger"))


def whoami(machine: Machine) -> str:
    command = Command(argv=("whoami",), why="see who is asked")
    return machine.run(command).stdout.decode().strip()


def test_a_machine_that_cannot_be_reached_keeps_no_other_from_its_answer(made: Nodes) -> None:
    bash, closed, here, stranger = on_each(ASKED, whoami, made.variables)
    assert bash.value == made.users["bash"]
    assert closed.error is not None
    assert closed.error.code == "E501"
    assert here.value == "root"
    assert stranger.error is not None
    assert stranger.error.code == "E502"
    assert [each.name for each in (bash, closed, here)] == ["node-bash", "closed", "this machine"]
    answered = answers((bash, closed, here, stranger))
    assert answered == (("node-bash", made.users["bash"]), ("this machine", "root"))


def test_all_that_could_not_are_told_together_each_with_what_to_do(made: Nodes) -> None:
    with pytest.raises(NodesError) as caught:
        all_values(on_each(ASKED, whoami, made.variables), "be asked")
    error = caught.value
    assert (error.code, error.exit_status) == ("E508", 5)
    assert [(name, each.code) for name, each in error.failures] == [
        ("closed", "E501"),
        ("stranger", "E502"),
    ]
    told = render_error(error, colour=False).splitlines()
    assert told[0] == "error[E508]: 2 of 4 machines cannot be asked:"
    assert told[1].startswith("  closed: [E501] closed cannot be reached: ")
    assert told[2].startswith("    help: see that `ssh closed true` works")
    assert told[3].startswith("  stranger: [E502] the host key of stranger is not known")
    assert told[4].startswith("    help: connect once by hand (ssh stranger)")


def test_one_that_could_not_is_told_as_if_it_were_alone(made: Nodes) -> None:
    with pytest.raises(NodeError) as caught:
        all_values(on_each(ASKED[:3], whoami, made.variables), "be asked")
    assert caught.value.code == "E501"


def test_to_have_done_something_and_said_nothing_is_an_answer() -> None:
    done = on_each((None,), lambda _: None, os.environ)
    assert answers(done) == (("this machine", None),)
    assert all_values(done, "be asked") == (None,)


def test_one_node_has_one_connection_from_however_many_threads(made: Nodes) -> None:
    log = made.folder / "log"
    before = log.read_text().count("Accepted publickey")
    together = threading.Barrier(8)

    def ask(_: int) -> tuple[str, str]:
        with connected(Node(name="node-bash"), made.variables) as connection:
            together.wait(30)
            asked = connection(Command(argv=("whoami",), why="test"))
            said = run_command(asked, variables=made.variables).stdout.decode().strip()
            together.wait(30)
            return connection.control, said

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(set(found)) == 1
    assert found[0][1] == made.users["bash"]
    assert log.read_text().count("Accepted publickey") == before + 1
    assert not Path(found[0][0]).parent.exists()


def test_threads_that_come_and_go_open_it_anew_and_leave_none(made: Nodes) -> None:
    def ask(_: int) -> str:
        with connected(Node(name="node-dash"), made.variables) as connection:
            asked = connection(Command(argv=("whoami",), why="test"))
            run_command(asked, variables=made.variables)
            return connection.control

    with ThreadPoolExecutor(3) as pool:
        controls = set(pool.map(ask, range(9)))
    assert not any(Path(each).parent.exists() for each in controls)
    masters = Path("/proc").glob("[0-9]*/cmdline")
    words = b"".join(each.read_bytes() for each in masters if each.exists())
    assert not any(each.encode() in words for each in controls)


def test_a_temporary_folder_whose_name_is_too_long_for_a_socket_is_not_used(
    made: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 20)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    (answer,) = on_each((Node(name="node-bash"),), whoami, made.variables)
    assert answer.value == made.users["bash"]
    assert list(place.iterdir()) == []


def test_what_one_thread_is_told_of_a_node_all_are_told(made: Nodes) -> None:
    def ask(_: int) -> str:
        with pytest.raises(NodeError) as caught, connected(Node(name="locked"), made.variables):
            pass
        return caught.value.code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == {"E503"}
    with connected(Node(name="node-bash"), made.variables):
        pass


def test_a_command_that_is_out_of_time_on_this_machine_is_told() -> None:
    machine = Machine(node=None, connection=None, variables=os.environ)
    answer = machine.run(Command(argv=("sleep", "30"), why="see", timeout=timedelta(seconds=0.2)))
    assert answer.status == 124
    assert answer.last_lines() == "it did not end within 0.2 seconds, and was ended"


WAIT = """
from vllm_graft.run.machines import on_each
from vllm_graft.values.command import Command
import os
ask = Command(argv=("sh", "-c", "echo began >&2; exec sleep 1234.5"), why="wait")
on_each((None, None), lambda machine: machine.run(ask), os.environ)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_ends_what_runs_for_every_machine() -> None:
    child = subprocess.Popen([sys.executable, "-c", WAIT], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    started: list[str] = []
    while len(started) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        started = [
            each
            for task in Path(f"/proc/{child.pid}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    assert len(started) == 2
    child.send_signal(signal.SIGINT)
    assert child.wait(10) != 0
    assert not any(Path(f"/proc/{each}").exists() for each in started)


def test_a_command_of_this_machine_is_run_as_it_is() -> None:
    machine = Machine(node=None, connection=None, variables=os.environ)
    command = Command(argv=("true",), why="see")
    assert machine.command(command) is command
    assert run_command(command, variables=os.environ).passed

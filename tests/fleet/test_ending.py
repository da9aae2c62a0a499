# What is run on a node ends there: after Ctrl-C, out of time, when nobody reads it any more, and when the connection is lost.
# Real login shells, a real sshd, real signals; what is left is read from /proc.
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from itertools import repeat
from pathlib import Path

import pytest

from nodes import SHELLS, Nodes, nodes
from vllm_graft.run.connection import connected
from vllm_graft.run.machines import Machine, on_each
from vllm_graft.run.process import run_command, run_fed, talking_command
from vllm_graft.values.answered import all_values
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

STUBBORN = "trap '' HUP INT TERM; sleep 1234 & sleep 1234; true"
"""Hears of no signal that can be ignored, reads nothing, writes nothing, and is two processes more."""


@pytest.fixture(scope="module")
def there() -> Generator[Nodes]:
    with nodes() as made:
        yield made


def until(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


def left(there: Nodes, seconds: float = 1.0) -> list[str]:
    """Give what runs for any of the users; a process that was killed is there for a moment."""

    def found() -> list[str]:
        return [words for user in there.users.values() for words in there.running(user).values()]

    until(lambda: not found(), seconds)
    return found()


def sleepers(there: Nodes, user: str) -> int:
    return sum(words == "sleep 1234" for words in there.running(user).values())


def all_begun(there: Nodes, *shells: str) -> bool:
    return until(
        lambda: all(sleepers(there, there.users[each]) == 2 for each in shells), seconds=30
    )


def every_node(there: Nodes) -> tuple[Node, ...]:
    return tuple(Node(name=f"node-{shell}") for shell in there.users)


def test_what_has_ended_leaves_nothing_that_watched_it(there: Nodes) -> None:
    def ask(machine: Machine) -> int:
        return machine.run(Command(argv=("sh", "-c", "exit 3"), why="test")).status

    def ask_and_look(machine: Machine) -> bool:
        ask(machine)
        return until(lambda: not there.running(there.users[machine.name[5:]]), seconds=1)

    asked = every_node(there)
    assert all_values(on_each(asked, ask, there.variables), "be asked") == (3,) * len(asked)
    assert all(all_values(on_each(asked, ask_and_look, there.variables), "be asked"))


def test_what_a_command_leaves_on_purpose_stays(there: Nodes) -> None:
    user = there.users["bash"]
    leave = "sleep 2345 </dev/null >/dev/null 2>&1 &"
    with connected(Node(name="node-bash"), there.variables) as connection:
        asked = connection(Command(argv=("sh", "-c", leave), why="test"))
        assert run_command(asked, variables=there.variables).passed
    time.sleep(3)
    assert list(there.running(user).values()) == ["sleep 2345"]
    for process in there.running(user):
        os.kill(process, signal.SIGKILL)


def test_what_is_out_of_time_is_ended_there_and_the_connection_goes_on(there: Nodes) -> None:
    def ask(machine: Machine) -> str:
        command = Command(argv=("sh", "-c", STUBBORN), why="test", timeout=timedelta(seconds=3))
        answer = machine.run(command)
        assert answer.status == 124
        assert answer.last_lines() == "it did not end within 3 seconds, and was ended"
        user = there.users[machine.name[5:]]
        assert until(lambda: not there.running(user), seconds=1), there.running(user)
        return machine.run(Command(argv=("id", "-un"), why="test")).stdout.decode().strip()

    asked = every_node(there)
    assert all_values(on_each(asked, ask, there.variables), "be asked") == tuple(
        there.users.values()
    )


def test_two_of_the_same_words_are_told_apart(there: Nodes) -> None:
    def ask(machine: Machine) -> tuple[int, int]:
        command = Command(argv=("sh", "-c", STUBBORN), why="test")
        with talking_command(machine.command(command), variables=machine.variables):
            assert all_begun(there, "bash")
            soon = Command(argv=command.argv, why="test", timeout=timedelta(seconds=2))
            assert machine.run(soon).status == 124
            return sleepers(there, there.users["bash"]), 2

    (found,) = all_values(on_each((Node(name="node-bash"),), ask, there.variables), "be asked")
    assert found[0] == found[1]
    assert left(there) == []


def endless() -> Iterator[bytes]:
    yield from repeat(b"x" * 65_536)


def test_what_takes_no_more_is_out_of_time_and_ended(there: Nodes) -> None:
    with connected(Node(name="node-dash"), there.variables) as connection:
        command = Command(argv=("sh", "-c", STUBBORN), why="test", timeout=timedelta(seconds=2))
        answer = run_fed(connection(command), endless(), variables=there.variables)
        assert answer.status == 124
        assert left(there) == []


def test_what_takes_all_that_it_is_given_has_time(there: Nodes) -> None:
    def slowly() -> Iterator[bytes]:
        for _ in range(4):
            time.sleep(0.6)
            yield b"some"

    with connected(Node(name="node-dash"), there.variables) as connection:
        command = Command(argv=("wc", "-c"), why="test", timeout=timedelta(seconds=2))
        answer = run_fed(connection(command), slowly(), variables=there.variables)
    assert (answer.status, answer.stdout.strip()) == (0, b"16")


def test_what_nobody_reads_any_more_is_ended(there: Nodes) -> None:
    for argv in (("sh", "-c", STUBBORN), ("yes",)):
        with connected(Node(name="node-tcsh"), there.variables) as connection:
            asked = connection(Command(argv=argv, why="test"))
            with talking_command(asked, variables=there.variables):
                assert until(lambda: len(there.running(there.users["tcsh"])) >= 1, seconds=10)
            assert left(there) == []


def test_what_says_nothing_for_too_long_is_out_of_time(there: Nodes) -> None:
    with connected(Node(name="node-zsh"), there.variables) as connection:
        command = Command(argv=("sh", "-c", STUBBORN), why="test", timeout=timedelta(seconds=2))
        with talking_command(connection(command), variables=there.variables) as talking:
            assert talking.stdout.read() == b""
            assert talking.ended().status == 124
        assert left(there) == []


@pytest.mark.parametrize("end", ["this side", "that side"])
def test_what_runs_ends_with_a_connection_that_is_lost(there: Nodes, end: str) -> None:
    """The machine here is gone, or the sshd there: nobody is left who could tell it to end."""
    shells = tuple(there.users)
    with contextlib.ExitStack() as stack:
        for shell in shells:
            connection = stack.enter_context(connected(Node(name=f"node-{shell}"), there.variables))
            asked = connection(Command(argv=("sh", "-c", STUBBORN), why="test"))
            stack.enter_context(talking_command(asked, variables=there.variables))
            words = ["ssh", "-o", f"ControlPath={connection.control}", "-O", "check", "x"]
            told = subprocess.run(words, capture_output=True, text=True, check=True)
            master = int(told.stderr.rpartition("pid=")[2].rstrip(")\r\n"))
            assert all_begun(there, shell)
            if end == "this side":
                os.kill(master, signal.SIGKILL)
            else:
                for process in there.sessions(there.users[shell]):
                    os.kill(process, signal.SIGKILL)
        assert left(there, 6) == []


PROGRAM = """
import os, sys
from itertools import repeat
from pathlib import Path
from vllm_graft.run.interrupts import end_as_interrupted, held_interrupts
from vllm_graft.run.machines import on_each
from vllm_graft.run.process import run_fed, talking_command
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node

way, script, folder, *names = sys.argv[1:]
ask = Command(argv=("sh", "-c", script), why="wait")

def run(machine):
    machine.run(ask)

def feed(machine):
    run_fed(machine.command(ask), repeat(b"x" * 65536), variables=machine.variables)

def read(machine):
    with talking_command(machine.command(ask), variables=machine.variables) as talking:
        talking.stdout.read()

def undo(machine):
    try:
        machine.run(ask)
    finally:
        with held_interrupts():
            seen = machine.run(Command(argv=("sh", "-c", "sleep 2; id -un"), why="undo")).stdout
            Path(folder, machine.name).write_bytes(seen)
    Path(folder, "went on").touch()

def nested(machine):
    on_each((Node(name=machine.name),), run, machine.variables)

end_as_interrupted()
try:
    on_each([Node(name=name) for name in names], globals()[way], os.environ)
except KeyboardInterrupt:
    sys.exit(130)
"""


@contextlib.contextmanager
def started(
    there: Nodes, folder: Path, way: str, *names: str, script: str = STUBBORN
) -> Generator["subprocess.Popen[bytes]"]:
    # A short one, so that it is taken for sockets.
    own = tempfile.mkdtemp(dir=there.folder)
    (folder / "tmp").symlink_to(own)
    words = [sys.executable, "-c", PROGRAM, way, script, str(folder), *names]
    variables = {**there.variables, "TMPDIR": own}
    child = subprocess.Popen(words, env=variables, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def ends(child: "subprocess.Popen[bytes]", folder: Path, seconds: float = 20) -> None:
    _, told = child.communicate(timeout=seconds)
    assert child.returncode == 130, told.decode()
    assert told == b""
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("way", ["run", "feed", "read", "nested"])
def test_ctrl_c_ends_what_runs_on_every_node(there: Nodes, tmp_path: Path, way: str) -> None:
    with started(there, tmp_path, way, *map(str, every_node(there))) as child:
        assert all_begun(there, *there.users)
        child.send_signal(signal.SIGINT)
        ends(child, tmp_path)
    assert left(there, 0.5) == []


@pytest.mark.parametrize("wait", [0.0, 0.3, 1.5])
def test_a_second_ctrl_c_stops_nothing_that_undoes(
    there: Nodes, tmp_path: Path, wait: float
) -> None:
    with started(there, tmp_path, "undo", *map(str, every_node(there))) as child:
        assert all_begun(there, *there.users)
        child.send_signal(signal.SIGINT)
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        ends(child, tmp_path)
    assert left(there, 0.5) == []
    for shell, user in there.users.items():
        assert (tmp_path / f"node-{shell}").read_text().strip() == user
    assert not (tmp_path / "went on").exists()


@pytest.mark.parametrize("wait", [0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3])
def test_ctrl_c_at_any_moment_leaves_nothing(there: Nodes, tmp_path: Path, wait: float) -> None:
    with started(there, tmp_path, "run", *map(str, every_node(there)), "closed") as child:
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert left(there, 3) == []
    # Before the program had read itself, Python says it in its own way.
    assert child.returncode in (130, -signal.SIGINT, 1)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_and_the_end_of_the_terminal_are_as_ctrl_c(
    there: Nodes, tmp_path: Path, sign: int
) -> None:
    with started(there, tmp_path, "run", "node-bash", "node-fish") as child:
        assert all_begun(there, "bash", "fish")
        child.send_signal(sign)
        ends(child, tmp_path)
    assert left(there, 0.5) == []


def test_ctrl_c_does_not_wait_for_a_node_that_does_not_answer(there: Nodes, tmp_path: Path) -> None:
    with started(there, tmp_path, "run", "silent", "node-bash") as child:
        assert all_begun(there, "bash")
        child.send_signal(signal.SIGINT)
        ends(child, tmp_path, seconds=8)
    assert left(there, 0.5) == []


def hesitating() -> Iterator[bytes]:
    yield b"some"
    time.sleep(4)


@pytest.mark.parametrize("allowed", ["ALL", "the program"])
def test_what_root_runs_for_the_user_is_ended_too(there: Nodes, allowed: str) -> None:
    """Where sudo allows only the program itself, it ends when it next reads."""
    if shutil.which("sudo") is None:
        pytest.skip("no sudo on this machine")
    rules = Path("/etc/sudoers.d") / f"vllm-graft-test-{os.getpid()}"
    what = "ALL" if allowed == "ALL" else shutil.which("tail")
    program = ("tail", "-f", "/dev/null") if allowed == "ALL" else ("tail", "-c", "4321")
    rules.write_text(f"{there.users['bash']} ALL=(root) NOPASSWD: {what}\n")
    rules.chmod(0o440)

    def is_left() -> bool:
        words = b"\0".join(map(str.encode, program))
        found = (each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline"))
        with contextlib.suppress(OSError):
            return any(words in each for each in found)
        return True

    try:
        with connected(Node(name="node-bash"), there.variables) as connection:
            command = connection(
                Command(argv=("sudo", "-n", *program), why="test", timeout=timedelta(seconds=2))
            )
            answer = run_fed(command, hesitating(), variables=there.variables)
            assert answer.status == 124
            assert until(lambda: not is_left(), seconds=2)
    finally:
        rules.unlink()


def test_every_shell_is_here(there: Nodes) -> None:
    if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        assert set(there.users) == set(SHELLS)
    assert run_command(Command(argv=("true",), why="test"), variables=os.environ).passed

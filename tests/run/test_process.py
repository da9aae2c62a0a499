import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from vllm_graft.run.process import run_command, run_fed
from vllm_graft.values.command import Command, Completed


def run(
    *argv: str, stdin: bytes = b"", timeout: timedelta | None = None, **variables: str
) -> Completed:
    command = Command(argv=argv, why="try it", stdin=stdin, timeout=timeout)
    return run_command(command, variables=variables)


def test_a_command_gives_what_it_said_and_how_it_ended() -> None:
    ended = run(
        sys.executable,
        "-c",
        "import sys; print(sys.stdin.read()); print('no', file=sys.stderr); sys.exit(3)",
        stdin=b"words",
    )
    assert (ended.status, ended.stdout, ended.stderr) == (3, b"words\n", b"no\n")
    assert not ended.passed
    assert ended.last_lines() == "no"


def test_what_a_terminal_would_obey_is_shown_and_not_handed_on() -> None:
    said = "\\33]0;title\\7\\33[31mred\\377 \\302\\233 naïve → yes"
    ended = run("/bin/sh", "-c", f"printf '{said}' >&2; exit 1")
    assert ended.last_lines() == r"\x1b]0;title\x07\x1b[31mred� \x9b naïve → yes"
    assert len(run("/bin/sh", "-c", "printf %09000d 1").last_lines()) == 2000


def test_a_program_that_does_not_exist_fails_like_any_other() -> None:
    ended = run("/nonexistent/pip", "download")
    assert ended.status == 127
    assert "/nonexistent/pip" in ended.last_lines()


def test_only_the_given_variables_are_seen() -> None:
    ended = run(sys.executable, "-c", "import os; print(dict(os.environ))", ONLY="this")
    assert "'ONLY': 'this'" in ended.stdout.decode()
    assert "PIP_" not in ended.stdout.decode()


def test_a_command_out_of_time_is_ended_with_its_children() -> None:
    program = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    ended = run(sys.executable, "-c", program, timeout=timedelta(seconds=2))
    assert ended.status == 124
    assert ended.took < timedelta(seconds=30)
    child = int(ended.stdout)
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(child)


def test_a_command_that_takes_all_and_never_ends_is_ended() -> None:
    program = "import sys, time; sys.stdin.read(); time.sleep(60)"
    command = Command(
        argv=(sys.executable, "-c", program), why="try it", timeout=timedelta(seconds=1)
    )
    ended = run_fed(command, (b"some", b"thing"), variables=dict(os.environ))
    assert ended.status == 124

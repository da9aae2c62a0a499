import os
import signal
import subprocess
import sys
import threading

import pytest

from vllm_graft.run.interrupts import (
    hearing_as_here,
    held_interrupts,
    is_held,
    obey_interrupt,
    pass_on_interrupt,
)


@pytest.fixture(autouse=True)
def hears() -> object:
    """Ctrl-C as Python has it, also where these tests were started without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_came_while_held_is_raised_at_the_end() -> None:
    done: list[str] = []

    def work() -> None:
        with held_interrupts():
            interrupt()
            interrupt()
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]


def test_what_came_while_held_twice_is_raised_at_the_outer_end() -> None:
    done: list[str] = []

    def work() -> None:
        with held_interrupts():
            with held_interrupts() as obey:
                interrupt()
                obey()
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert not is_held()


def test_what_was_obeyed_is_not_raised_again() -> None:
    with held_interrupts() as obey:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            obey()


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_interrupts():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def heard_in_thread(*, before: bool = False, own: bool = True) -> list[str]:
    """What a thread sees of a Ctrl-C that comes before it begins, or while it works."""
    seen: list[str] = []
    if before:
        pass_on_interrupt()
    begin = hearing_as_here()
    came = threading.Event()

    def look(what: str) -> None:
        try:
            obey_interrupt()
        except KeyboardInterrupt:
            seen.append(what)

    def work() -> None:
        if own:
            begin()
        look("at first")
        came.wait(10)
        try:
            with held_interrupts():
                look("while held")
        except KeyboardInterrupt:
            seen.append("at the end of held")
        look("again")

    thread = threading.Thread(target=work)
    thread.start()
    if not before:
        pass_on_interrupt()
    came.set()
    thread.join()
    return seen


def test_a_thread_hears_of_it_once_where_it_holds_nothing_back() -> None:
    # It may hear of it at once, or where it first holds nothing back.
    assert heard_in_thread() in (["at the end of held"], ["at first"])


def test_a_thread_hears_of_none_that_came_before_it_began() -> None:
    assert heard_in_thread(before=True) == []


def test_a_thread_of_somebody_else_hears_of_none() -> None:
    assert heard_in_thread(own=False) == []


def test_a_thread_holds_back_what_is_held_where_it_was_started() -> None:
    found: list[bool] = []
    with held_interrupts():
        begin = hearing_as_here()

    def work() -> None:
        begin()
        found.append(is_held())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]


ENDED = """
import os, signal, sys
from vllm_graft.run.interrupts import end_as_interrupted
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.default_int_handler)
end_as_interrupted()
try:
    os.kill(os.getpid(), signal.SIGHUP)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("how", "said"), [("default", "interrupted\n"), ("ignored", "")])
def test_the_end_of_the_terminal_interrupts_unless_it_is_ignored(how: str, said: str) -> None:
    words = [sys.executable, "-c", ENDED, how]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == said

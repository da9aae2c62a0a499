# Ctrl-C may come between any two steps, also between the steps that undo what an earlier Ctrl-C stopped. Where something
# must not be left half done it is therefore noted, and obeyed only where the code says that all is well.
#
# Python gives Ctrl-C to the main thread alone. Threads that work for it hear of it from it, and then see what the main
# thread would see: one KeyboardInterrupt, where a command begins or ends and none is held back.
"""Ctrl-C, in all threads."""

import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Hearing:
    held: int = 0
    """How many blocks hold it back."""
    heard: int = sys.maxsize
    """How many were raised in this thread, or came before it began; a thread of somebody else hears of none."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.hearing = _Hearing()


_THREAD = _Thread()
_passed_on = 0
"""How many the main thread has told the others of."""


def obey_interrupt() -> None:
    """Raise where the main thread has told of a Ctrl-C, once in each thread; not while it is held back.

    Raises:
        KeyboardInterrupt: one has come.
    """
    hearing = _THREAD.hearing
    if hearing.heard < _passed_on and not hearing.held and not _is_main():
        hearing.heard = _passed_on
        raise KeyboardInterrupt


def pass_on_interrupt() -> None:
    """Tell the other threads of a Ctrl-C."""
    global _passed_on  # noqa: PLW0603 (a process has one Ctrl-C)
    if _is_main():
        _passed_on += 1


def is_held() -> bool:
    """Tell whether Ctrl-C is held back in this thread."""
    return _THREAD.hearing.held > 0


@contextmanager
def held_interrupts() -> Generator[Callable[[], None]]:
    """Hold Ctrl-C back; gives a function that raises where one has come.

    Raises:
        KeyboardInterrupt: at the end, where one has come and was not raised before.
    """
    with _held_in_main() if _is_main() else _held_in_thread() as obey:
        yield obey


@contextmanager
def _held_in_thread() -> Generator[Callable[[], None]]:
    hearing = _THREAD.hearing

    def obey() -> None:
        if hearing.held == 1:  # else whoever holds it too is to obey
            hearing.held = 0
            try:
                obey_interrupt()
            finally:
                hearing.held = 1

    hearing.held += 1
    try:
        yield obey
    finally:
        hearing.held -= 1
    obey_interrupt()


@contextmanager
def _held_in_main() -> Generator[Callable[[], None]]:
    before = signal.getsignal(signal.SIGINT)
    # None: whoever set it is no Python, and cannot be named again.
    outer = signal.default_int_handler if before is None else before
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    def obey() -> None:
        nonlocal came
        if came and callable(outer):
            came = False
            outer(signal.SIGINT, None)  # raises, unless one more block holds it back

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    _THREAD.hearing.held += 1
    try:
        yield obey
    finally:
        _THREAD.hearing.held -= 1
        signal.signal(signal.SIGINT, outer)
    obey()


def hearing_as_here() -> Callable[[], None]:
    """Give what a new thread calls first: it holds Ctrl-C back where this one does, and hears of none that came before."""
    here = _THREAD.hearing
    held, heard = here.held, _passed_on if _is_main() else here.heard

    def begin() -> None:
        _THREAD.hearing = _Hearing(held=held, heard=heard)

    return begin


def end_as_interrupted() -> None:
    """Have a request to end, and the end of the terminal, do what Ctrl-C does: what runs elsewhere is to end too."""

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(each, interrupt)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()

# Ctrl-C may come between any two steps, also between the steps that undo what an earlier Ctrl-C stopped. Where a
# tree is written it is therefore noted, and obeyed only where the code says that all is well.
"""Holding Ctrl-C back while something must not be left half done."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Generator[Callable[[], None]]:
    """Hold Ctrl-C back; gives a function that raises where one has come.

    Raises:
        KeyboardInterrupt: at the end, where one has come and was not raised before.
    """
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    def obey() -> None:
        nonlocal came
        if came:
            came = False
            raise KeyboardInterrupt

    # Python gives signals to the main thread only, and lets only that one say what is done about them.
    if threading.current_thread() is not threading.main_thread():
        yield obey
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield obey
    finally:
        # None: whoever set it is no Python, and cannot be named again.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
    obey()

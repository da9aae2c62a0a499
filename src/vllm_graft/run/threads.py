# Each thread waits for processes of its own. Ctrl-C reaches the main thread alone: it ends what runs for the others, tells
# them, and waits until each has undone what it had begun; a second one does not shorten that.
"""Doing several things at the same time, so that Ctrl-C ends all of them."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from vllm_graft.run.interrupts import hearing_as_here, held_interrupts, pass_on_interrupt
from vllm_graft.run.process import end_children

_LOOK = 0.1
"""Seconds between looks at whether Ctrl-C has come."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(slots=True, kw_only=True)
class Workers:
    """Threads, for as long as there is something for them to do."""

    _pool: ThreadPoolExecutor
    _begin: Callable[[], None]
    _begun: list["Future[Any]"] = field(default_factory=list["Future[Any]"])

    def submit(self, do: Callable[_P, _T], *arguments: _P.args, **words: _P.kwargs) -> Future[_T]:
        """Have one of them do something."""

        def begin() -> _T:
            self._begin()
            return do(*arguments, **words)

        future = self._pool.submit(begin)
        self._begun.append(future)
        return future

    def wait(self, futures: Iterable[Future[_T]], *, for_all: bool = True) -> set[Future[_T]]:
        """Wait until all of them have ended, or one has; gives those that have.

        Raises:
            KeyboardInterrupt: Ctrl-C has come.
        """
        until = "ALL_COMPLETED" if for_all else FIRST_COMPLETED
        with held_interrupts() as obey:
            while True:
                told = wait(futures, timeout=_LOOK, return_when=until)
                obey()
                if not told.not_done or (told.done and not for_all):
                    return told.done

    def wait_for_the_rest(self) -> None:
        """Wait until all that was begun has ended.

        Raises:
            KeyboardInterrupt: Ctrl-C has come.
        """
        self.wait(self._begun)

    def leave(self, *, at_once: bool) -> None:
        """Begin nothing more, and wait for the rest; ``at_once``: end everything that runs, and wait until it is undone."""
        with held_interrupts():
            for each in self._begun:
                each.cancel()
            # What another thread has begun, the main one ends too.
            if at_once and threading.current_thread() is threading.main_thread():
                pass_on_interrupt()
                end_children()
            wait(self._begun)


@contextmanager
def workers(at_most: int) -> Generator[Workers]:
    """Give threads; after Ctrl-C what they do is ended, else what they do at the end of the block is waited for."""
    with ThreadPoolExecutor(max(at_most, 1)) as pool:
        made = Workers(_pool=pool, _begin=hearing_as_here())
        try:
            yield made
            made.wait_for_the_rest()
        except KeyboardInterrupt:
            made.leave(at_once=True)
            raise
        except BaseException:
            made.leave(at_once=False)
            raise


def at_once(do: Callable[[_T], _R], things: Sequence[_T], *, at_most: int = 64) -> list[_R]:
    """Do the same with several things; gives what came of each, in their order.

    Raises:
        Exception: what one of them raised, when all have ended.
    """
    with workers(min(len(things), at_most)) as made:
        futures = [made.submit(do, each) for each in things]
        made.wait(futures)
        return [each.result() for each in futures]

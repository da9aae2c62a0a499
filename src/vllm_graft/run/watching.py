# What takes long is watched from several sides at once, and the first news counts, wherever it comes from: a rank that died is
# told although a request is still waiting for its answer.
"""Several watchers, whose news come one by one."""

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from vllm_graft.run.process import end_children

_T = TypeVar("_T")

_ENDING = 10.0
"""Seconds that watchers have to end once what they wait for was ended."""


@dataclass(frozen=True, slots=True)
class Watch(Generic[_T]):
    """What a watcher is given, and what the one who waits has of it."""

    _news: "queue.SimpleQueue[_T | Exception]" = field(
        default_factory=queue.SimpleQueue[_T | Exception]
    )
    _over: threading.Event = field(default_factory=threading.Event)

    def say(self, news: _T) -> None:
        """Hand news over."""
        self._news.put(news)

    def pause(self, time: timedelta) -> bool:
        """Wait; tells whether to go on afterwards."""
        return not self._over.wait(time.total_seconds())

    @property
    def is_over(self) -> bool:
        """Tell whether nobody waits any more."""
        return self._over.is_set()

    def next(self, within: timedelta) -> _T | None:
        """Give the next news; None where there are none within this time. What a watcher raised is raised here."""
        try:
            news = self._news.get(timeout=max(within.total_seconds(), 0))
        except queue.Empty:
            return None
        if isinstance(news, Exception):
            raise news
        return news


@contextmanager
def watched(watchers: Sequence[Callable[[Watch[_T]], None]]) -> Generator[Watch[_T]]:
    """Have each watcher run until the block ends; commands that they run are ended with it."""
    watch: Watch[_T] = Watch()

    def run(watcher: Callable[[Watch[_T]], None]) -> None:
        try:
            watcher(watch)
        except Exception as failure:  # noqa: BLE001 (raised where it is waited for)
            if not watch.is_over:
                watch._news.put(failure)  # noqa: SLF001

    threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in watchers]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        watch._over.set()  # noqa: SLF001
        end_children()
        for thread in threads:
            thread.join(_ENDING)

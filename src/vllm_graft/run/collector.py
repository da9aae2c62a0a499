# The collector looks for reference cycles each time that enough objects were made. Linking makes millions of objects
# that live until its end, syntax trees above all, and hardly a cycle: the search finds nothing, again and again.
"""Pausing Python's search for reference cycles."""

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def paused_collector() -> Generator[None]:
    """Search for no reference cycles meanwhile; whoever had switched that off finds it so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

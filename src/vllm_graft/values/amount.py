"""Figures, and rows of names, as a person reads them."""

from collections.abc import Sequence

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_STEP = 1000
_SHORT = 100
"""From this on, one digit behind the point says nothing."""


def size(count: int) -> str:
    """Give a number of bytes on disk, in powers of 1000 as disks are sold: ``34.5 GB``."""
    figure, unit = float(count), 0
    while round(figure) >= _STEP and unit < len(_UNITS) - 1:
        figure, unit = figure / _STEP, unit + 1
    whole = unit == 0 or round(figure, 1) >= _SHORT
    return f"{figure:.0f} {_UNITS[unit]}" if whole else f"{figure:.1f} {_UNITS[unit]}"


def memory(count: int) -> str:
    """Give a number of bytes of memory, in powers of 1024 as vLLM tells it: ``121.7 GiB``."""
    return f"{count / (1 << 30):.1f} GiB"


def duration(seconds: float) -> str:
    """Give how long something takes: ``40 s``, ``3 min``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < _SHORT:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < _SHORT:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def a_few(names: Sequence[str], most: int = 5) -> str:
    """Give the first of many names: ``a, b, c and 12 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown

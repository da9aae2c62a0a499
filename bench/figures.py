# What the benches of images have in common: where their figures stand, and what machine they are of.
"""Figures in docs/performance.md."""

import os
import platform
from pathlib import Path

from engines import Docker

PAGE = Path(__file__).parents[1] / "docs/performance.md"


def told(docker: Docker, rounds: int, before: float) -> str:
    """Say how it was measured; ``before``: the load average then."""
    engine = docker.run("version", "--format", "{{.Server.Version}}").strip()
    return (
        f"Medians of {rounds} alternating rounds. {machine()}; Docker {engine}."
        f" Load average {before:.1f} before and {load_average():.1f} after."
    )


def machine() -> str:
    system = f"{platform.system().lower()}/{platform.machine()}"
    return f"Python {platform.python_version()} on {system}, {os.cpu_count()} processors"


def load_average() -> float:
    return os.getloadavg()[0]


def replace_figures(by: str, text: str) -> None:
    """Put a table between its marks."""
    begin, end = f"<!-- figures: {by} -->", f"<!-- end of {by} -->"
    head, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    assert found, f"{PAGE} has no place for these figures: {begin}"
    tail = rest.partition(end)[2]
    PAGE.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")

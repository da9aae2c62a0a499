# That the bench runs, and says what it must; its figures are for a quiet machine (docs/performance.md).
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.network
def test_the_bench_of_plans_measures_both_sides_in_one_run() -> None:
    if importlib.util.find_spec("griffe") is None:
        pytest.skip("griffe is not installed (make bench installs it)")
    page = (ROOT / "docs/performance.md").read_bytes()
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/plan.py"), "--tiny"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in (
        "wall clock",
        "processor",
        "peak memory",
        "griffe 2",
        "no figure",
        "Load average",
    ):
        assert words in done.stdout
    assert (ROOT / "docs/performance.md").read_bytes() == page

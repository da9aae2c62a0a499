# The third rung of the ladder, as far as it needs no interpreter: what grafted code takes from other distributions is held
# against the base's. The linker asks only whether the base's own code uses the same names (G402); here each such doubt
# is settled where there is something to settle it with. Nothing here runs: that a class was read is not that it loads.
"""P3: the plan with its pins and config classes judged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vllm_graft.deps.asked import Asked, contradictions, unread
from vllm_graft.deps.decide import Decided, Situation, decide_transformers
from vllm_graft.deps.environment import Demand, ModelledEnvironment
from vllm_graft.deps.library import Library
from vllm_graft.deps.needs import PACKAGE, Need, names_from, needs_of_modules
from vllm_graft.deps.transformers_facts import TransformersFacts
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.plan import DependencyDecision, GraftPlan, Rung, Verdict

PINS = "P3 pins"
CONFIG = "P3 config"
DOUBT = "G402"
_RANK = {"blocked": 0, "review": 1, "note": 2}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a plan is judged by."""

    situation: Situation
    checkpoint: Sequence[Need] = ()
    """What the model's own files, or its architectures, ask of transformers."""
    libraries: Mapping[str, tuple[str, Library]] = field(
        default_factory=dict[str, "tuple[str, Library]"]
    )
    """Other distributions that can be read in the base: name → import name, and text."""
    control: ModelledEnvironment | None = None
    """The base's environment as it is, where the situation is that of a change to it."""
    asked: Asked | None = None
    """What the base's own interpreter said; None: it was not asked."""
    read: TransformersFacts | None = None
    """Where it was asked: what was read of the base's transformers before."""


def needs_of_judgement(plan: GraftPlan, judgement: Judgement) -> tuple[Need, ...]:
    """Give everything that is asked of transformers."""
    return (*needs_of_modules(plan.modules), *judgement.checkpoint)


def judge_pins(plan: GraftPlan, judgement: Judgement) -> GraftPlan:
    """Give the plan with P3 decided: dependencies, findings, rung and verdict."""
    situation = judgement.situation
    needs = needs_of_judgement(plan, judgement)
    decided = _with_asked(decide_transformers(needs, situation), judgement)
    findings = [each for each in plan.findings if not _is_about(each, PACKAGE)]
    if not decided.settled:
        findings += [each for each in plan.findings if _is_about(each, PACKAGE)]
    dependencies = {each.name: each for each in plan.dependencies}
    if needs:
        dependencies[PACKAGE] = decided.dependency
    for name, (package, library) in judgement.libraries.items():
        if any(_is_about(each, name) for each in findings):
            kept, told = _read(plan, dependencies[name], package, library)
            if kept is not None:
                dependencies[name] = kept
                findings = [each for each in findings if not _is_about(each, name)]
            findings += told
    findings += [*decided.findings, *_violated(judgement.control or situation.environment)]
    ordered = tuple(sorted(dict.fromkeys(findings), key=_order))
    return replace(
        plan,
        findings=ordered,
        dependencies=tuple(dependencies[name] for name in sorted(dependencies)),
        verdict=_verdict(ordered),
        rungs=tuple(
            _rungs(plan.rungs, ordered, _shown(needs, decided, judgement), judgement.asked)
        ),
    )


def _with_asked(decided: Decided, judgement: Judgement) -> Decided:
    """Say of a decision what was executed to support it, and what contradicts it."""
    asked = judgement.asked
    if asked is None:
        return decided
    sentence = asked.sentence
    if against := unread(asked, judgement.read):
        shown = ", ".join(dict.fromkeys(need.wanted for need in against))
        sentence += f"; it has {shown}, though its release was read to have not: its word counts"
    found = judgement.situation.environment.version(PACKAGE)
    more = tuple(contradictions(asked, judgement.read, found))
    return replace(
        decided,
        dependency=replace(decided.dependency, reason=f"{decided.dependency.reason}; {sentence}"),
        findings=(*decided.findings, *more),
        settled=decided.settled and not asked.error,
        on=f"{decided.on}; {sentence}",
    )


def _shown(needs: Sequence[Need], decided: Decided, judgement: Judgement) -> str:
    shown = decided.on if needs else "grafted code needs nothing of transformers"
    return f"METADATA, and {shown}" + ("" if judgement.asked else "; read, not run")


def with_findings(plan: GraftPlan, more: Iterable[Finding]) -> GraftPlan:
    """Give a plan whose pins are judged, with these findings about them too."""
    ordered = tuple(sorted(dict.fromkeys((*plan.findings, *more)), key=_order))
    outcome = _outcome(ordered)
    rungs = (replace(each, outcome=outcome) if each.name == PINS else each for each in plan.rungs)
    return replace(plan, findings=ordered, verdict=_verdict(ordered), rungs=tuple(rungs))


def _is_about(finding: Finding, name: str) -> bool:
    """Whether this is the linker's doubt about one distribution."""
    return finding.code == DOUBT and finding.wanted.startswith(f"{name} with ")


def _read(
    plan: GraftPlan, known: DependencyDecision, package: str, library: Library
) -> tuple[DependencyDecision | None, list[Finding]]:
    """Look up in a distribution's own text what grafted code imports from it."""
    names = names_from(plan.modules, package)
    answers = [(need, library.binds(need.module, need.name)) for need in names]
    lacking = [need for need, told in answers if told is False]
    if lacking:
        shown = ", ".join(dict.fromkeys(need.wanted for need in lacking))
        finding = Finding(
            code="G403",
            severity="blocked",
            site=lacking[0].site,
            wanted=f"{known.name} with {shown}",
            found=f"the base has {known.name} {known.found}, whose text has no such name",
            remedy=f"the donor asks for {known.wanted or known.name}: use another donor, or an image with that",
        )
        return replace(known, decision="missing", reason=f"the base's has no {shown}"), [finding]
    if any(told is None for _, told in answers):
        return None, []
    reason = f"all {len(answers)} names that grafted code imports are in the base's own text of it"
    return replace(known, decision="keep", reason=reason), []


def _violated(environment: ModelledEnvironment) -> Iterator[Finding]:
    """Tell the pins that the base violates as it is: the control of all that is said about pins."""
    for demand in environment.violated:
        version = environment.version(demand.name)
        yield Finding(
            code="G401",
            severity="note",
            site=Site(install="base", path=_metadata(demand), line=0),
            wanted=demand.sentence,
            found=f"the base has {demand.name} {version}",
            remedy="nothing to do for the graft: it was so before",
        )


def _metadata(demand: Demand) -> str:
    return f"{demand.by.replace('-', '_')}-{demand.by_version}.dist-info/METADATA"


def _order(finding: Finding) -> tuple[int, str, str, int, str]:
    site = finding.site
    return _RANK[finding.severity], finding.code, site.path, site.line, finding.wanted


def _verdict(findings: Iterable[Finding]) -> Verdict:
    severities = {each.severity for each in findings}
    if "blocked" in severities:
        return "blocked"
    return "review" if "review" in severities else "ok"


def _outcome(findings: Iterable[Finding]) -> Literal["passed", "review", "failed"]:
    severities = {each.severity for each in findings if each.code.startswith("G4")}
    if "blocked" in severities:
        return "failed"
    return "review" if "review" in severities else "passed"


def _rungs(
    rungs: Iterable[Rung], findings: Iterable[Finding], on: str, asked: Asked | None
) -> Iterator[Rung]:
    outcome = _outcome(findings)
    for rung in rungs:
        if rung.name != PINS:
            yield rung
            continue
        yield Rung(name=PINS, outcome=outcome, on=on)
        yield _config_rung(asked)


def _config_rung(asked: Asked | None) -> Rung:
    if asked is None or asked.config is None:
        return Rung(
            name=CONFIG,
            outcome="not run",
            on="an interpreter with the base's transformers, and the model's config.json",
        )
    config = asked.config
    if config.state == "yes":
        on = f"the model's config.json, loaded by {config.text} of transformers {asked.version} in {asked.by}"
        return Rung(name=CONFIG, outcome="passed", on=on)
    return Rung(
        name=CONFIG, outcome="failed", on=f"the model's config.json, in {asked.by}: {config.text}"
    )

# What the renderings of a plan have in common: counts, groups and sentences. Text, Markdown and HTML say the same
# because they read the same view.
"""A plan, arranged for reading."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.report.route_view import RouteView, view_route
from vllm_graft.report.rules import Rule
from vllm_graft.report.side_by_side import comparisons_of
from vllm_graft.values.finding import Finding
from vllm_graft.values.plan import (
    DependencyDecision,
    Edit,
    EditSite,
    GraftedModule,
    GraftPlan,
    Reference,
    Verdict,
)
from vllm_graft.values.side_by_side import SideBySide

RESOLUTIONS: Mapping[str, str] = {
    "identical": "the base has the same code",
    "changed": "same name, other body: every use was checked against the base's version",
    "moved": "the base has it elsewhere; the import was rewritten",
    "grafted": "comes along as a file",
    "extracted": "comes along as a single definition",
    "derived": "the base's own class, with the donor's methods on top",
    "adapted": "the use was rewritten to what the base has",
    "blocked": "nothing satisfies it",
}
"""Resolution → what it means, in the order from harmless to not."""

KINDS: Mapping[str, str] = {
    "donor": "at its own path",
    "beside": "beside the base's version",
    "extracted": "definitions that the base lacks",
}

DECISIONS: Mapping[str, str] = {
    "transplant": "carried over",
    "present": "there already",
    "not-needed": "not needed",
    "refuse": "refused",
}
"""Decision about an edit site, in words."""

_SEVERITIES = ("blocked", "review", "note")


def base_has(decision: DependencyDecision) -> str:
    """Say what the base has or asks for of a distribution."""
    return _without_name(decision.found, decision.name) if decision.found else "none"


def donor_wants(decision: DependencyDecision) -> str:
    """Say what the donor asks for of a distribution."""
    return _without_name(decision.wanted, decision.name)


def _without_name(requirement: str, name: str) -> str:
    return requirement.removeprefix(name).strip() or "any version"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """All findings of one code and severity."""

    code: str
    severity: str
    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a reader wants to know, in the order of the question."""

    plan: GraftPlan
    route: RouteView | None
    """None where no routes were compared."""
    headline: str
    story: str
    """What a plan is about, for somebody who sees the first one."""
    sentence: str
    """The verdict in words."""
    references: tuple[tuple[int, str, str], ...]
    """Count, resolution, meaning."""
    resolved: Mapping[str, tuple[Reference, ...]]
    """Resolution → references that are not identical."""
    comparisons: Mapping[str, SideBySide]
    """Name → the two definitions."""
    repairs: tuple[tuple[GraftedModule, tuple[str, ...]], ...]
    """Modules whose text was changed, with what was changed."""
    sites: Mapping[str, tuple[EditSite, ...]]
    """Decision → sites."""
    groups: tuple[FindingGroup, ...]
    """Worst first."""


def view_plan(plan: GraftPlan, rules: Mapping[str, Rule]) -> PlanView:
    """Arrange a plan."""
    groups = _groups(plan.findings, rules)
    return PlanView(
        plan=plan,
        route=view_route(plan.route),
        headline=", ".join(plan.architectures),
        story=_story(plan),
        sentence=verdict_sentence(plan.verdict, plan.findings),
        references=tuple(
            (plan.reference_counts[kind], kind, meaning)
            for kind, meaning in RESOLUTIONS.items()
            if plan.reference_counts.get(kind)
        ),
        resolved={
            kind: found
            for kind in RESOLUTIONS
            if (found := tuple(each for each in plan.references if each.resolution == kind))
        },
        comparisons=comparisons_of(plan),
        repairs=tuple((module, module.rewrites) for module in plan.modules if module.rewrites),
        sites={
            decision: found
            for decision in DECISIONS
            if (found := tuple(site for site in plan.sites if site.decision == decision))
        },
        groups=groups,
    )


def _story(plan: GraftPlan) -> str:
    donor, base = plan.donor.version, plan.base.version
    registered = any(site.kind == "registry" for site in plan.sites)
    start = (
        f"The base does not know this model; the donor does. What vLLM {donor} has for it"
        if registered
        else f"The base knows this model. What vLLM {donor} has of the parts that were asked for"
    )
    if plan.verdict == "blocked":
        return (
            f"{start} was linked against vLLM {base}, and does not fit. What is listed below is what was"
            " worked out, for reading; `apply` refuses it."
        )
    return f"{start} moves into vLLM {base}, and is made to fit where the two differ."


def is_only_route(plan: GraftPlan) -> bool:
    """Whether there is nothing to tell of a graft."""
    return not (plan.modules or plan.edits or plan.findings)


def verdict_sentence(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """Say what the verdict means for the reader."""
    counts = {name: sum(each.severity == name for each in findings) for name in _SEVERITIES}
    if verdict == "ok":
        return "Everything that the donor's code needs is there."
    if verdict == "review":
        return (
            f"Nothing stands against it, but {count(counts['review'], 'thing')} cannot be"
            " decided by reading alone: see the findings."
        )
    return f"It cannot work as it is: {count(counts['blocked'], 'obstacle')}, see the findings."


def count(number: int, noun: str) -> str:
    """Give ``1 file`` or ``3 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def changed_lines(edit: Edit) -> tuple[int, int]:
    """Count the lines that an edit adds and removes."""
    body = [line for line in edit.diff.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line[:1] == "+" for line in body), sum(line[:1] == "-" for line in body)


def line_count(text: str) -> int:
    """Count the lines of a file."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _groups(findings: Iterable[Finding], rules: Mapping[str, Rule]) -> tuple[FindingGroup, ...]:
    grouped: dict[tuple[int, str], list[Finding]] = {}
    for finding in findings:
        key = (_SEVERITIES.index(finding.severity), finding.code)
        grouped.setdefault(key, []).append(finding)
    return tuple(
        FindingGroup(
            code=code,
            severity=_SEVERITIES[rank],
            title=rules[code].title if code in rules else code,
            findings=tuple(group),
        )
        for (rank, code), group in sorted(grouped.items())
    )

# What a plan holds about a code or a name, at length: the place where an engineer looks who does not believe a line of
# the summary.
"""What one plan says of a code, a definition, or all of it."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches

from vllm_graft.errors import RequestError
from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan_view import RESOLUTIONS
from vllm_graft.report.rules import Rule, render_rule
from vllm_graft.report.side_by_side import comparisons_of, lines_of
from vllm_graft.values.finding import Finding
from vllm_graft.values.plan import GraftPlan, Reference
from vllm_graft.values.side_by_side import Side, SideBySide

EXPLANATION_SCHEMA = "vllm-graft/explanation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a plan says of what was asked."""

    rule: Rule | None
    """Of the code that was asked for; absent where a name was, or nothing."""
    findings: tuple[Finding, ...]
    references: tuple[Reference, ...]
    comparisons: tuple[SideBySide, ...]
    """Of these, by name."""


def explanation_of(plan: GraftPlan, asked: str, rule: Rule | None) -> Explanation:
    """Pick out of a plan what was asked for: the code of ``rule``, a name, a resolution, or all findings.

    A name is a dotted one of the donor, or its end: ``linear.ReplicatedLinear``, ``weight_loader``.

    Raises:
        RequestError: nothing of that name is in the plan.
    """
    references: tuple[Reference, ...] = ()
    if rule is not None:
        findings = tuple(each for each in plan.findings if each.code == rule.code)
    elif not asked:
        findings = plan.findings
    else:
        findings = tuple(f for f in plan.findings if _is_named(asked, f.comparison))
        references = tuple(
            each
            for each in plan.references
            if each.resolution == asked or _is_named(asked, each.target)
        )
        if not findings and not references and asked not in RESOLUTIONS:
            raise _unknown(plan, asked)
    named = {each.comparison for each in findings} | {each.target for each in references}
    return Explanation(
        rule=rule,
        findings=findings,
        references=references,
        comparisons=tuple(each for each in plan.comparisons if each.name in named),
    )


def _is_named(asked: str, name: str) -> bool:
    dotted = name.partition(" ")[0]
    return dotted == asked or dotted.endswith(f".{asked}")


def _unknown(plan: GraftPlan, asked: str) -> RequestError:
    names = {name.rpartition(".")[2]: name for name in comparisons_of(plan) if " " not in name}
    close = get_close_matches(asked.rpartition(".")[2], names, n=3, cutoff=0.5)
    return RequestError(
        f"nothing in this plan is called {asked!r}",
        remedy=f"did you mean {' or '.join(close)}?"
        if close
        else "give a code, a name of the donor's, or a resolution such as `changed`; without one, all"
        " findings of the plan are shown",
    )


def render_explanation(explanation: Explanation, form: Form, ink: Ink) -> str:
    """Render it; Markdown has the differences as blocks."""
    if form == "json":
        value = {"schema": EXPLANATION_SCHEMA, **asdict(explanation)}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    head = "" if explanation.rule is None else render_rule(explanation.rule, form) + "\n"
    lines = _markdown(explanation) if form == "markdown" else _text(explanation, ink)
    body = "\n".join(lines)
    return f"{head}{body}\n" if body else f"{head}The plan has nothing of this.\n"


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def _text(explanation: Explanation, ink: Ink) -> Iterator[str]:
    compared = {each.name: each for each in explanation.comparisons}
    shown: set[str] = set()
    for finding in explanation.findings:
        yield (
            f"{ink.verdict(finding.severity)} {ink.mark('bold', finding.code)}"
            f" {ink.mark('blue', str(finding.site))}"
        )
        yield from _wrapped(f"wanted {finding.wanted}", ink)
        yield from _wrapped(f"found {finding.found}", ink)
        yield from _wrapped(f"help: {finding.remedy}", ink)
        yield from _sides(compared.get(finding.comparison), shown, ink)
        yield ""
    for reference in explanation.references:
        yield f"{reference.resolution} {ink.mark('bold', reference.target)}"
        yield from _wrapped(f"used first at {reference.site}", ink)
        yield from _wrapped(f"satisfied by {reference.satisfied_by or 'nothing'}", ink)
        if reference.reason:
            yield from _wrapped(reference.reason, ink)
        yield from _sides(compared.get(reference.target), shown, ink)
        yield ""


def _sides(comparison: SideBySide | None, shown: set[str], ink: Ink) -> Iterator[str]:
    if comparison is None:
        return
    for role, side, style in (
        ("donor", comparison.donor, "green"),
        ("base", comparison.base, "red"),
    ):
        yield f"  {ink.mark(style, f'{role:5}')} {_place(side)}"
        if side is not None and side.signature:
            yield from _wrapped(side.signature, ink, indent="        ")
    if comparison.name in shown:
        yield "    the difference is shown above"
        return
    shown.add(comparison.name)
    styles = {"+": "green", "-": "red", "@": "blue"}
    for line in comparison.difference.split("\n")[:-1]:
        yield f"    {ink.mark(styles[line[0]], line) if line[:1] in styles else line}".rstrip()
    if comparison.is_cut:
        yield "    more lines differ: see the files"


def _place(side: Side | None) -> str:
    return "nothing of the kind" if side is None else lines_of(side)


def _wrapped(text: str, ink: Ink, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text,
        ink.width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────────


def _markdown(explanation: Explanation) -> Iterator[str]:
    compared = {each.name: each for each in explanation.comparisons}
    for finding in explanation.findings:
        yield f"#### {finding.severity} {finding.code} at `{finding.site}`\n"
        yield f"Wanted: {finding.wanted}\n\nFound: {finding.found}\n\nWhat to do: {finding.remedy}\n"
        yield from _block(compared.get(finding.comparison))
    for reference in explanation.references:
        yield f"#### {reference.resolution} `{reference.target}`\n"
        yield (
            f"Used first at `{reference.site}`, satisfied by `{reference.satisfied_by or 'nothing'}`"
            f"{f': {reference.reason}' if reference.reason else ''}.\n"
        )
        yield from _block(compared.get(reference.target))


def _block(comparison: SideBySide | None) -> Iterator[str]:
    if comparison is None:
        return
    for role, side in (("donor", comparison.donor), ("base", comparison.base)):
        told = f": `{side.signature}`" if side is not None and side.signature else ""
        yield f"- {role} {_place(side)}{told}"
    if comparison.difference:
        # Longer than any fence that stands in the code itself.
        yield f"\n`````diff\n{comparison.difference}`````"
    yield ""

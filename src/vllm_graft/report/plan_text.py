# For a person at a terminal who sees a plan for the first time: what moves, where to, what was repaired, what to look
# at, what is proven. Long lists are cut here and whole in the HTML report.
"""A plan as text."""

import textwrap
from collections.abc import Iterator

from vllm_graft.deps.accepted import COMES_WITH
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan_view import (
    DECISIONS,
    KINDS,
    FindingGroup,
    PlanView,
    base_has,
    changed_lines,
    count,
    donor_wants,
    is_only_route,
    line_count,
)
from vllm_graft.report.route_view import RouteView
from vllm_graft.report.side_by_side import places
from vllm_graft.values.finding import Finding

_SHOWN = 3
_HINT = "`vllm-graft explain CODE --plan PLAN` sets the two definitions side by side"


def render_plan_text(view: PlanView, ink: Ink) -> str:
    """Give the summary of a plan."""
    plan = view.plan
    lines = list(route_lines(view.route, ink)) if view.route is not None else []
    if is_only_route(plan) and lines:
        return "\n".join(lines) + "\n"
    lines += ["", ""] if lines else []
    lines += [
        *(ink.mark("bold", line) for line in _wrapped(f"Graft of {view.headline}", "", ink)),
        f"  from  vLLM {plan.donor.version:12} {ink.mark('dim', plan.donor.source)}",
        f"  into  vLLM {plan.base.version:12} {ink.mark('dim', plan.base.source)}",
    ]
    if plan.features:
        lines.append(f"  with  {', '.join(plan.features)}")
    lines += ["", *_wrapped(view.story, "", ink), ""]
    lines += _wrapped(f"Verdict: {ink.verdict(plan.verdict)}. {view.sentence}", "", ink)
    for title, body in (
        (f"What moves: {count(len(plan.modules), 'new file')}", _modules(view, ink)),
        (f"What is edited: {count(len(plan.edits), 'file')} of the base", _edits(view, ink)),
        (_references_title(view), _references(view, ink)),
        ("What was repaired on the way", _repairs(view, ink)),
        (_sites_title(view), _sites(view, ink) if view.sites else ()),
        ("Dependencies", _dependencies(view, ink)),
        ("Findings", _findings(view, ink)),
        ("How far this is proven", _rungs(view, ink)),
    ):
        shown = list(body)
        if shown:
            titles = (ink.mark("bold", line) for line in _wrapped(title, "", ink))
            lines += ["", *titles, *shown]
    return "\n".join(lines) + "\n"


def route_lines(view: RouteView, ink: Ink) -> Iterator[str]:
    """Say which way is taken, why, and what each would cost."""
    for line in _wrapped(f"Route: {view.headline}", "", ink):
        yield ink.mark("bold", line)
    for reason in view.reasons:
        yield from _wrapped(f"- {reason}", "  ", ink)
    yield ""
    for row in view.rows:
        yield from _wrapped(f"{row.route:12} {row.possible:9} {row.reason}", "  ", ink)
        for heading, text in row.costs:
            yield from (
                ink.mark("dim", line) for line in _wrapped(f"{heading}: {text}", "      ", ink)
            )
        yield from (line for step in row.steps for line in _wrapped(f"- {step}", "      ", ink))


def _modules(view: PlanView, ink: Ink) -> Iterator[str]:
    for module in view.plan.modules:
        size = f"{line_count(module.text)} lines"
        yield from _beside(module.path, f"{size}, {KINDS[module.kind]}", ink)


def _edits(view: PlanView, ink: Ink) -> Iterator[str]:
    for edit in view.plan.edits:
        added, removed = changed_lines(edit)
        fewer = f" {ink.mark('red', f'-{removed}')}" if removed else ""
        more = f" and {len(edit.why) - 1} more" if len(edit.why) > 1 else ""
        why = f"{edit.why[0]}{more}" if edit.why else ""
        yield from _beside(f"{edit.path}  {ink.mark('green', f'+{added}')}{fewer}", why, ink)


def _references_title(view: PlanView) -> str:
    total = sum(number for number, _, _ in view.references)
    return f"How the {count(total, 'reference')} of the donor's code to vLLM are satisfied"


def _references(view: PlanView, ink: Ink) -> Iterator[str]:
    for number, kind, meaning in view.references:
        yield from _beside(f"{number:5}  {kind:9}", meaning, ink)


def _repairs(view: PlanView, ink: Ink) -> Iterator[str]:
    for module, rewrites in view.repairs:
        yield f"  {module.path}"
        yield from _few(rewrites, "    ", ink, shown=2)


def _sites_title(view: PlanView) -> str:
    counts = ", ".join(f"{len(sites)} {DECISIONS[name]}" for name, sites in view.sites.items())
    return f"Places outside the model's files that name it: {counts or 'none'}"


def _sites(view: PlanView, ink: Ink) -> Iterator[str]:
    for site in view.sites.get("refuse", ()):
        place = ink.mark("blue", f"{site.path}:{site.line}")
        yield f"  {ink.mark('red', 'refused')} {place} {site.identifier}"
        yield from _wrapped(site.reason, "    ", ink)


def _dependencies(view: PlanView, ink: Ink) -> Iterator[str]:
    coming: dict[tuple[str, str], list[str]] = {}
    for decision in view.plan.dependencies:
        if decision.reason.startswith(COMES_WITH):  # thirty of them would hide what was decided
            told = decision.proposed.replace("==", " ")
            told += f" (base: {decision.found})" if decision.found else ""
            coming.setdefault((decision.decision, decision.reason), []).append(told)
            continue
        head = (
            f"{decision.decision:8} {decision.name}"
            f"  base: {base_has(decision)}; donor: {donor_wants(decision)}"
        )
        yield from _beside(head, decision.reason, ink)
    for (word, reason), names in coming.items():
        yield from _beside(f"{word:8} {reason}", ", ".join(names), ink)


def _findings(view: PlanView, ink: Ink) -> Iterator[str]:
    for group in view.groups:
        yield from _group(view, group, ink)
    if view.groups:
        yield from (ink.mark("dim", line) for line in _wrapped(_HINT, "  ", ink))


def _group(view: PlanView, group: FindingGroup, ink: Ink) -> Iterator[str]:
    times = f" ({len(group.findings)} times)" if len(group.findings) > 1 else ""
    plain, marked = (
        f"  {group.severity} {group.code}",
        f"  {ink.verdict(group.severity)} {ink.mark('bold', group.code)}",
    )
    for line in _wrapped(f"{plain} {group.title}{times}".strip(), "  ", ink):
        yield line.replace(plain, marked, 1)
    shown = len(group.findings) if group.severity == "blocked" else _SHOWN
    for finding in group.findings[:shown]:
        compared = places(view.comparisons.get(finding.comparison))
        is_short = group.severity == "note" and bool(compared)  # both definitions say the rest
        if is_short:
            yield from _wrapped(finding.wanted, "    ", ink)
        else:
            yield f"    {ink.mark('blue', str(finding.site))}"
        yield from (f"      {ink.mark('blue', line)}" for line in _paired(compared, finding, ink))
        if is_short:
            continue
        yield from _wrapped(f"wanted {finding.wanted}; found {finding.found}", "      ", ink)
        yield from _wrapped(f"help: {finding.remedy}", "      ", ink)
    if (more := len(group.findings) - shown) > 0:
        yield ink.mark("dim", f"    and {more} more: see the report")


def _paired(compared: tuple[str, ...], finding: Finding, ink: Ink) -> Iterator[str]:
    """Put both places on one line, or on two; what is the finding's own place is told already."""
    told = [text for text in compared if finding.severity == "note" or text != str(finding.site)]
    if not told:
        return
    line = f"compare {' with '.join(told)}" if len(told) > 1 else f"see {told[0]}"
    if len(line) + 6 <= ink.width:
        yield line
    else:
        yield f"compare {told[0]}"
        yield from (f"   with {text}" for text in told[1:])


def _rungs(view: PlanView, ink: Ink) -> Iterator[str]:
    for rung in view.plan.rungs:
        padding = " " * (8 - len(rung.outcome))
        yield f"  {rung.name:14} {ink.verdict(rung.outcome)}{padding} {ink.mark('dim', rung.on)}"


def _few(
    told: "tuple[str, ...] | list[str]", indent: str, ink: Ink, shown: int = _SHOWN
) -> Iterator[str]:
    for sentence in told[:shown]:
        yield from _wrapped(f"- {sentence}", indent, ink)
    if (more := len(told) - shown) > 0:
        yield ink.mark("dim", f"{indent}- and {more} more")


def _beside(head: str, tail: str, ink: Ink) -> Iterator[str]:
    """Put a remark behind what it is about, or below it where the line would be too long."""
    if ink.length(head) + len(tail) + 4 <= ink.width:
        yield f"  {head}  {ink.mark('dim', tail)}".rstrip()
        return
    yield f"  {head}"
    for line in _wrapped(tail, "      ", ink):
        yield ink.mark("dim", line)


def _wrapped(text: str, indent: str, ink: Ink) -> list[str]:
    return textwrap.wrap(
        text,
        ink.width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )

# For a pull request: the same view, as tables, whole.
"""A plan as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from vllm_graft.report.plan_view import (
    KINDS,
    PlanView,
    base_has,
    changed_lines,
    donor_wants,
    is_only_route,
    line_count,
)
from vllm_graft.report.route_view import RouteView
from vllm_graft.report.side_by_side import lines_of
from vllm_graft.values.plan import PlanSource
from vllm_graft.values.side_by_side import Side

_COMPARED = ("definition in the donor", "definition in the base")


def render_plan_markdown(view: PlanView) -> str:
    """Give the whole plan except texts and diffs."""
    plan = view.plan
    lines = list(route_markdown(view.route)) if view.route is not None else []
    if is_only_route(plan) and lines:
        return "\n".join(lines) + "\n"
    lines += [""] if lines else []
    lines += [
        f"# Graft of {view.headline}",
        "",
        f"From {_install(plan.donor)} into {_install(plan.base)}{_with(plan.features)}.",
        "",
        view.story,
        "",
        f"**{plan.verdict}**: {view.sentence}",
    ]
    sections: Sequence[tuple[str, Sequence[str], Iterable[Sequence[object]]]] = (
        (
            "New files",
            ("path", "lines", "what", "why"),
            (
                (f"`{module.path}`", line_count(module.text), KINDS[module.kind], module.why)
                for module in plan.modules
            ),
        ),
        (
            "Edited files",
            ("path", "added", "removed", "why"),
            ((f"`{edit.path}`", *changed_lines(edit), "; ".join(edit.why)) for edit in plan.edits),
        ),
        (
            "References",
            ("number", "resolution", "meaning"),
            view.references,
        ),
        (
            "References that are not identical",
            ("name in the donor", "resolution", "in the donor", "in the base", "why"),
            (
                (f"`{each.target}`", each.resolution, *_sides(view, each.target), each.reason)
                for found in view.resolved.values()
                for each in found
            ),
        ),
        (
            "Repairs",
            ("file", "what was changed"),
            ((f"`{module.path}`", text) for module, texts in view.repairs for text in texts),
        ),
        (
            "Edit sites",
            ("donor line", "names", "kind", "decision", "reason"),
            (
                (
                    f"`{site.path}:{site.line}`",
                    f"`{site.identifier}`",
                    site.kind,
                    site.decision,
                    site.reason,
                )
                for site in plan.sites
            ),
        ),
        (
            "Dependencies",
            ("distribution", "decision", "base", "donor", "reason"),
            (
                (each.name, each.decision, base_has(each), donor_wants(each), each.reason)
                for each in plan.dependencies
            ),
        ),
        (
            "Findings",
            ("severity", "code", "where", *_COMPARED, "wanted", "found", "what to do"),
            (
                (
                    group.severity,
                    group.code,
                    f"`{each.site}`",
                    *_sides(view, each.comparison),
                    each.wanted,
                    each.found,
                    each.remedy,
                )
                for group in view.groups
                for each in group.findings
            ),
        ),
        (
            "Proof",
            ("rung", "outcome", "on"),
            ((rung.name, rung.outcome, rung.on) for rung in plan.rungs),
        ),
    )
    for title, head, rows in sections:
        lines += _table(title, head, rows)
    return "\n".join(lines) + "\n"


def route_markdown(view: RouteView) -> Iterator[str]:
    """Give the route, what speaks for it, and what each would cost."""
    yield f"# Route: {view.headline}"
    yield ""
    yield from (f"- {reason}" for reason in view.reasons)
    for title, head, rows in (
        (
            "Routes",
            ("route", "possible", "why"),
            ((row.route, row.possible, row.reason) for row in view.rows),
        ),
        (
            "What they cost",
            ("route", "of what", "base → this route"),
            ((row.route, *cost) for row in view.rows for cost in row.costs),
        ),
        (
            "What routes were judged by",
            ("route", "fact", "read in"),
            ((row.route, *fact) for row in view.rows for fact in row.evidence),
        ),
    ):
        yield from _table(title, head, rows)
    for row in view.rows:
        if row.steps:
            yield from ("", f"## {row.route}, by hand", "")
            yield from (f"{number}. {step}" for number, step in enumerate(row.steps, 1))


def _sides(view: PlanView, name: str) -> tuple[str, str]:
    """Name the places of the two definitions, the donor's first."""
    compared = view.comparisons.get(name)
    return ("", "") if compared is None else (_side(compared.donor), _side(compared.base))


def _side(side: Side | None) -> str:
    return "" if side is None else f"`{lines_of(side)}`"


def _install(source: PlanSource) -> str:
    return f"vLLM {source.version} (`{source.source}`)"


def _with(features: Sequence[str]) -> str:
    return f", with {', '.join(features)}" if features else ""


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    written = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if written:
        yield from ("", f"## {title}", "")
        yield f"| {' | '.join(head)} |"
        yield f"|{' --- |' * len(head)}"
        yield from written


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")

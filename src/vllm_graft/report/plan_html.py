# One file, no script, nothing fetched: it opens from a disk, a CI artefact or a mail, in light and dark. The same
# view as the text, whole, with every new file and edit unfolded on request.
"""A plan as one self-contained HTML page."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from vllm_graft.report.compared_html import render_compared
from vllm_graft.report.plan_view import (
    DECISIONS,
    KINDS,
    RESOLUTIONS,
    PlanView,
    base_has,
    changed_lines,
    count,
    donor_wants,
    is_only_route,
    line_count,
)
from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding
from vllm_graft.values.plan import PlanSource, Reference

_STEP = re.compile(r"(?<=\w)(?:/|==|\.(?=[A-Za-z_])(?!py\b|md\b|json\b))")


def render_plan_html(view: PlanView, digest: Digest, style: str) -> str:
    """Give the page; ``digest`` is the plan's, ``style`` the style sheet."""
    plan = view.plan
    route = _section(
        "Route", _route(view), "The linker alone made this plan: no routes were compared."
    )
    if is_only_route(plan) and view.route is not None:
        body = "\n".join((_head(view), route))
        return _page(view, digest, style, body)
    body = "\n".join(
        (
            _head(view),
            route,
            _tiles(view),
            _section("Findings", _findings(view), "Nothing was found that speaks against it."),
            _section("How far this is proven", _rungs(view), "Not at all."),
            _section("New files", _modules(view), "None."),
            _section("Edits of base files", _edits(view), "None."),
            _section("References", _references(view), "None."),
            _section("Edit sites", _sites(view), "None: nothing outside its files names it."),
            _section("Dependencies", _dependencies(view), "Nothing is decided about them."),
        )
    )
    return _page(view, digest, style, body)


def _page(view: PlanView, digest: Digest, style: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Graft of {escape(view.headline)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n"
        f"<footer>plan {escape(str(digest))} · schema {escape(view.plan.schema)}</footer>\n"
        "</body>\n</html>\n"
    )


def _head(view: PlanView) -> str:
    plan = view.plan
    names = "".join(f"<li>{_code(name)}</li>" for name in plan.architectures)
    features = "".join(f'<li class="feature">{escape(name)}</li>' for name in plan.features)
    return (
        f'<header>\n<p class="kicker">vllm-graft plan</p>\n'
        f"<h1>{escape(plan.donor.version)} <span>into</span> {escape(plan.base.version)}</h1>\n"
        f'<ul class="names">{names}{features}</ul>\n'
        f'<p>{escape(view.story)}</p>\n<p class="verdict {plan.verdict}"><strong>{plan.verdict}</strong> {escape(view.sentence)}</p>\n'
        f"{_sources(plan.donor, plan.base)}</header>"
    )


def _route(view: PlanView) -> str:
    route = view.route
    if route is None:
        return ""
    reasons = "".join(f"<li>{_prose(reason)}</li>" for reason in route.reasons)
    table = _table(
        ("route", "possible", "why"),
        ((_code(row.route), escape(row.possible), _prose(row.reason)) for row in route.rows),
    )
    parts = [f"<p><strong>{escape(route.headline)}</strong></p><ul>{reasons}</ul>", table]
    for row in route.rows:
        if not (row.costs or row.evidence or row.steps):
            continue
        costs = _list((heading, _prose(text)) for heading, text in row.costs)
        facts = _table(
            ("fact", "read in"), ((_prose(fact), _prose(where)) for fact, where in row.evidence)
        )
        steps = "".join(f"<li>{_prose(step)}</li>" for step in row.steps)
        listed = f"<ol>{steps}</ol>" if steps else ""
        parts.append(
            f"<details><summary><b>{escape(row.route)}</b> what it costs, and what it was judged by"
            f"</summary>{costs}{listed}{facts}</details>"
        )
    return "\n".join(parts)


def _sources(donor: PlanSource, base: PlanSource) -> str:
    rows = "".join(
        f"<dt>{role}</dt><dd>vLLM {escape(each.version)} from {_code(each.source)}"
        f' <span class="digest">{escape(str(each.digest)[:19])}…</span></dd>'
        for role, each in (("donor", donor), ("base", base))
    )
    return f'<dl class="sources">{rows}</dl>\n'


def _tiles(view: PlanView) -> str:
    plan = view.plan
    total = sum(number for number, _, _ in view.references)
    tiles = (
        (len(plan.modules), "new files", f"{sum(line_count(m.text) for m in plan.modules)} lines"),
        (
            len(plan.edits),
            "base files edited",
            f"{sum(changed_lines(e)[0] for e in plan.edits)} lines added",
        ),
        (total, "references", f"{plan.reference_counts.get('identical', 0)} identical in the base"),
        (len(plan.sites), "edit sites", f"{len(view.sites.get('transplant', ()))} carried over"),
        (len(plan.findings), "findings", f"{count(len(view.groups), 'kind')}"),
    )
    inner = "".join(
        f"<li><b>{number}</b> {escape(what)}<small>{escape(more)}</small></li>"
        for number, what, more in tiles
    )
    return f'<ul class="tiles">{inner}</ul>'


def _section(title: str, body: str, otherwise: str) -> str:
    return (
        f"<section>\n<h2>{escape(title)}</h2>\n{body or f'<p>{escape(otherwise)}</p>'}\n</section>"
    )


def _findings(view: PlanView) -> str:
    parts: list[str] = []
    for group in view.groups:
        rows = "\n".join(_finding(view, each) for each in group.findings)
        opened = " open" if group.severity == "blocked" else ""
        parts.append(
            f'<details{opened}><summary><span class="badge {group.severity}">{group.severity}</span>'
            f"<b>{escape(group.code)}</b> {escape(group.title)}"
            f'<span class="count">{len(group.findings)}</span></summary>{rows}</details>'
        )
    return "\n".join(parts)


def _finding(view: PlanView, finding: Finding) -> str:
    # Sentences of four kinds, each as long as it likes: a table would push the last, what to do, off the page.
    told = (
        ("where", _code(str(finding.site))),
        ("wanted", _prose(finding.wanted)),
        ("found", _prose(finding.found)),
        ("what to do", _prose(finding.remedy)),
    )
    return _list(told) + _compared(view, finding.comparison)


def _list(told: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{word}</dt><dd>{text}</dd>' for word, text in told)}</dl>"


def _compared(view: PlanView, name: str) -> str:
    comparison = view.comparisons.get(name)
    if comparison is None:
        return ""
    return render_compared(comparison, base=view.plan.base.version, donor=view.plan.donor.version)


def _modules(view: PlanView) -> str:
    parts: list[str] = []
    for module in view.plan.modules:
        rewrites = "".join(f"<li>{escape(text)}</li>" for text in module.rewrites)
        listed = f'<ul class="rewrites">{rewrites}</ul>' if rewrites else ""
        parts.append(
            f"<details><summary>{_code(module.path)}"
            f'<span class="meta">{line_count(module.text)} lines, {KINDS[module.kind]}</span>'
            f"</summary><p>{escape(module.why)}</p>{listed}"
            f"<pre>{escape(module.text)}</pre></details>"
        )
    return "\n".join(parts)


def _edits(view: PlanView) -> str:
    parts: list[str] = []
    for edit in view.plan.edits:
        added, removed = changed_lines(edit)
        fewer = f" <del>&minus;{removed}</del>" if removed else ""
        why = "".join(f"<li>{escape(text)}</li>" for text in edit.why)
        parts.append(
            f"<details><summary>{_code(edit.path)}"
            f'<span class="meta"><ins>+{added}</ins>{fewer}</span></summary>'
            f'<ul class="rewrites">{why}</ul><pre class="diff">{_diff(edit.diff)}</pre></details>'
        )
    return "\n".join(parts)


def _diff(diff: str) -> str:
    tags = {"+": "ins", "-": "del", "@": "i"}
    lines: list[str] = []
    for line in diff.split("\n"):
        tag = None if line.startswith(("+++", "---")) else tags.get(line[:1])
        lines.append(f"<{tag}>{escape(line)}</{tag}>" if tag else escape(line))
    return "\n".join(lines)


def _references(view: PlanView) -> str:
    total = sum(number for number, _, _ in view.references) or 1
    bars = "".join(
        f'<tr><td class="number">{number}</td><th>{escape(kind)}</th>'
        f'<td class="bar"><span style="width:{100 * number / total:.1f}%"></span></td>'
        f"<td>{escape(meaning)}</td></tr>"
        for number, kind, meaning in view.references
    )
    summary = f'<table class="bars">{bars}</table>' if bars else ""
    parts = [summary]
    for kind, references in view.resolved.items():
        inner = "\n".join(_reference(view, each) for each in references)
        parts.append(
            f"<details><summary><b>{escape(kind)}</b> {escape(RESOLUTIONS[kind])}"
            f'<span class="count">{len(references)}</span></summary>{inner}</details>'
        )
    return "\n".join(parts)


def _reference(view: PlanView, reference: Reference) -> str:
    told = (
        ("satisfied by", _code(reference.satisfied_by) if reference.satisfied_by else "nothing"),
        ("why", _prose(reference.reason)),
        ("used first at", _code(str(reference.site))),
    )
    return (
        f"<details><summary>{_code(reference.target)}</summary>"
        f"{_list(told)}{_compared(view, reference.target)}</details>"
    )


def _sites(view: PlanView) -> str:
    return _table(
        ("donor line", "names", "kind", "decision", "reason"),
        (
            (
                _code(f"{site.path}:{site.line}"),
                _code(site.identifier),
                escape(site.kind),
                f'<span class="badge {site.decision}">{escape(DECISIONS[site.decision])}</span>',
                escape(site.reason),
            )
            for site in view.plan.sites
        ),
    )


def _dependencies(view: PlanView) -> str:
    return _table(
        ("distribution", "decision", "base", "donor", "reason"),
        (
            (
                _code(each.name),
                f'<span class="badge {each.decision}">{escape(each.decision)}</span>',
                escape(base_has(each)),
                escape(donor_wants(each)),
                escape(each.reason),
            )
            for each in view.plan.dependencies
        ),
    )


def _rungs(view: PlanView) -> str:
    return _table(
        ("rung", "outcome", "on"),
        (
            (
                escape(rung.name),
                f'<span class="badge {rung.outcome.replace(" ", "-")}">{escape(rung.outcome)}</span>',
                escape(rung.on),
            )
            for rung in view.plan.rungs
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table of cells that are HTML already."""
    body = "".join(f"<tr>{_cells(head, row)}</tr>\n" for row in rows)
    if not body:
        return ""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(head: Sequence[str], row: Sequence[str]) -> str:
    # On a narrow page the titles are gone, and each cell says its own.
    named = zip(head, row, strict=True)
    return "".join(f'<td data-name="{escape(name)}">{cell}</td>' for name, cell in named)


def _code(text: str) -> str:
    return f"<code>{_prose(text)}</code>"


def _prose(text: str) -> str:
    """Escape; let paths and dotted names break between their steps, and neither versions nor suffixes."""
    return _STEP.sub(r"\g<0><wbr>", escape(text))

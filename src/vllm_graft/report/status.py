# For a person who asks "does it serve?": the answer first, then rank by rank what is known, the worst with its cause. What engines,
# logs and APIs said is harmless already (cluster/overview.py); what nodes said of themselves is made so here.
"""The result of ``status`` on stdout."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from vllm_graft.rehearse.log_line import harmless
from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan_view import count
from vllm_graft.values.status import (
    STATUS_SCHEMA,
    DeploymentStatus,
    RankStatus,
    StatusReport,
    UnansweredNode,
)

_WIDEST = 300


def render_status(report: StatusReport, form: Form, ink: Ink) -> str:
    """Say what is there and whether it serves."""
    if form == "json":
        value = asdict(report) | {
            "schema": STATUS_SCHEMA,
            "verdict": report.verdict,
            "deployments": [asdict(each) | {"serves": each.serves} for each in report.deployments],
        }
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    lines = list(_markdown(report) if form == "markdown" else _text(report, ink))
    return "\n".join(lines).strip("\n") + "\n"


def _nothing(report: StatusReport) -> str:
    what = f"of {harmless(report.name)} " if report.name else "that `up` started "
    return f"nothing {what}is on {', '.join(report.nodes) or 'any node that answered'}"


def _headline(each: DeploymentStatus) -> str:
    if each.serves and each.api is not None:
        return f"serving {each.name} at {each.api.address} of {each.ranks[0].node}"
    return f"not serving {each.name}: {why_not(each)}"


def why_not(each: DeploymentStatus) -> str:
    """Say what keeps a deployment from serving, as far as that is known."""
    failing = [rank for rank in each.ranks if rank.state != "running"]
    told = [f"rank {rank.rank} {_at(rank)}{rank.told}" for rank in failing[:_MOST]]
    if len(failing) > _MOST:
        told.append(f"{len(failing) - _MOST} more ranks do not run")
    if not told and each.api is not None:
        told = [f"every rank runs, and {each.api.told}"]
    return "; ".join(told)


_MOST = 4


def _at(rank: RankStatus) -> str:
    return f"on {rank.node} " if rank.node else ""


def _text(report: StatusReport, ink: Ink) -> Iterator[str]:
    for each in report.deployments:
        yield from _deployment(each, ink)
        yield ""
    if not report.deployments:
        yield _nothing(report)
    for node in report.unanswered:
        yield f"{ink.mark('red', 'no answer')} of {node.name}: [{node.code}] {_shown(node.what)}"
        yield f"  help: {_shown(node.remedy)}"


def _deployment(each: DeploymentStatus, ink: Ink) -> Iterator[str]:
    yield ink.mark("green" if each.serves else "red", _headline(each))
    yield f"  image   {each.image}"
    yield f"  model   {each.model}{f' ({each.folder})' if each.folder else ''}"
    width = max(len(rank.node) for rank in each.ranks)
    for rank in each.ranks:
        since = f", since {_time(rank.since)}" if rank.since else ""
        told = ink.mark("dim" if rank.state == "running" else "red", f"{rank.told}{since}")
        yield f"  rank {rank.rank}  {rank.node:{width}}  {rank.role:6}  {told}"
        yield from (f"    {line}" for line in _said(each, rank))
    if each.api is not None:
        yield f"  API     {_api(each)}"


def _said(each: DeploymentStatus, rank: RankStatus) -> Iterator[str]:
    if (cause := rank.cause) is not None:
        if cause.cause:
            yield f"cause: {cause.cause}"
        yield f"its first error: {cause.text[:_WIDEST]}"
        if cause.remedy:
            yield f"help: {cause.remedy}"
    if not each.serves and rank.last:
        yield f"last said: {rank.last[:_WIDEST]}"


def _api(each: DeploymentStatus) -> str:
    api = each.api
    if api is None:
        return ""
    parts = [api.address or "address not known"]
    if api.health is not None:
        parts.append(f"/health {api.health}")
    if api.models:
        parts.append(f"lists {', '.join(api.models)}")
    parts.append("answers a completion" if api.completes else api.told)
    return ", ".join(parts)


def _time(text: str) -> str:
    """Give an engine's time without the parts of a second."""
    head, _, rest = text.partition(".")
    return f"{head}Z" if rest.endswith("Z") else text


def _shown(text: str) -> str:
    return "\n    ".join(map(harmless, text.splitlines()))


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────────


def _markdown(report: StatusReport) -> Iterator[str]:
    for each in report.deployments:
        yield f"### {_cell(_headline(each))}\n"
        yield f"Image {_cell(each.image)}, model {_cell(each.model)}{f' ({_cell(each.folder)})' if each.folder else ''}.\n"
        yield "| rank | node | role | state | since |"
        yield "| --- | --- | --- | --- | --- |"
        for rank in each.ranks:
            cells = (f"{rank.rank}", rank.node, rank.role, rank.told, _time(rank.since))
            yield f"| {' | '.join(map(_cell, cells))} |"
        yield ""
        for rank in each.ranks:
            for line in _said(each, rank):
                yield f"- rank {rank.rank}: {_cell(line)}"
        if each.api is not None:
            yield f"- API: {_cell(_api(each))}"
        yield ""
    if not report.deployments:
        yield f"{_cell(_nothing(report))}\n"
    if report.unanswered:
        yield f"### {count(len(report.unanswered), 'node')} without an answer\n"
        yield from map(_unanswered, report.unanswered)


def _unanswered(node: UnansweredNode) -> str:
    what, remedy = (" ".join(each.split()) for each in (node.what, node.remedy))
    return f"- {_cell(node.name)}: [{node.code}] {_cell(harmless(what))} What to do: {_cell(harmless(remedy))}"


def _cell(text: str) -> str:
    for mark in "\\|`*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text

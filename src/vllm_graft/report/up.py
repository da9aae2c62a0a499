"""The results of ``up`` and ``down`` on stdout."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.memory import told_memory
from vllm_graft.report.plan_view import count
from vllm_graft.values.deployment import (
    DOWN_SCHEMA,
    UP_SCHEMA,
    DownReceipt,
    Member,
    UpReceipt,
)

_HEADLINES = {
    "serving": "serving {name} at {address}",
    "already serving": "already serving {name} at {address}, nothing to do",
    "not started": "would serve {name} at {address}",
}


def render_up(receipt: UpReceipt, form: Form) -> str:
    """Say what serves and where, or what would."""
    if form == "json":
        return _json(asdict(receipt) | {"schema": UP_SCHEMA})
    deployment = receipt.deployment
    headline = _HEADLINES[receipt.outcome].format(
        name=deployment.model.name,
        address=receipt.address + f" on {deployment.head.node}" * (not receipt.reached),
    )
    rows = [
        *((each.name, f"{each.told} ({each.seconds} s)") for each in receipt.stages),
        ("image", f"{deployment.image} ({deployment.content[:19]})"),
        *(("node", _member(each)) for each in deployment.members),
    ]
    if receipt.memory is not None:
        rows.append(("memory", told_memory(receipt.memory)))
    if receipt.completion is not None:
        answered = receipt.completion
        rows.append(("answer", f"{answered.prompt!r} → {answered.text!r}"))
    if receipt.seconds:
        rows.append(("took", f"{receipt.seconds} s from start to answer"))
    lines = [headline, *_table(rows, form)]
    lines += [f"note: {note}" for note in receipt.notes]
    if receipt.commands:
        lines += ["", "What would be run:", *receipt.commands]
    return "\n".join(lines) + "\n"


def _member(member: Member) -> str:
    role = "worker" if member.rank else "head"
    at = f", {member.address} on {member.interface}" if member.interface else ""
    gpus = f", {count(member.gpus, 'GPU')}" if member.gpus else ", no GPU"
    return f"{member.node} (rank {member.rank}, {role}{at}{gpus})"


def render_down(receipt: DownReceipt, form: Form) -> str:
    """Say what was taken down, or would be."""
    if form == "json":
        return _json(asdict(receipt) | {"schema": DOWN_SCHEMA})
    name = receipt.deployment or "every deployment"
    number = sum(len(each.containers) for each in receipt.nodes)
    if not number:
        headline = f"nothing of {name} is there, nothing to do"
    else:
        headline = f"{'would take' if receipt.dry_run else 'taken'} down: {name}, {count(number, 'container')}"
    rows = [
        ("node", f"{each.node}: {', '.join(each.containers) or 'nothing'}")
        for each in receipt.nodes
    ]
    lines = [headline, *_table(rows, form)]
    if receipt.elsewhere:
        also = ", ".join(receipt.elsewhere)
        lines.append(f"note: its containers also name {also}: take it down there with --node")
    if receipt.commands:
        lines += ["", "What would be run:", *receipt.commands]
    return "\n".join(lines) + "\n"


def _table(rows: list[tuple[str, str]], form: Form) -> Iterator[str]:
    if form == "markdown":
        yield from ("", "| | |", "| --- | --- |")
        yield from (f"| {name} | {text} |" for name, text in rows)
    else:
        yield from (f"  {name:7}  {text}" for name, text in rows)


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

"""The result of ``apply`` on stdout."""

import json
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.plan_view import count
from vllm_graft.values.receipt import RECEIPT_SCHEMA, ApplyReceipt

_OTHER_BASE = (
    "note: this install is not file for file the base that was planned for (patched, or another build);"
    " every file that the graft edits agrees with the plan."
)


def render_receipt(receipt: ApplyReceipt, form: Form) -> str:
    """Say what was done, or would be."""
    if form == "json":
        value = asdict(receipt) | {
            "schema": RECEIPT_SCHEMA,
            "plan": str(receipt.plan),
            "recovered": [str(plan) for plan in receipt.recovered],
        }
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    code = "`" if form == "markdown" else ""
    lines = [f"{_headline(receipt)} {code}{receipt.root}{code}"]
    lines += [f"undone first: what an interrupted run left of {plan}" for plan in receipt.recovered]
    took = receipt.outcome == "reverted"
    for paths, verb in (
        (receipt.added, "removed" if took else "added"),
        (receipt.edited, "restored" if took else "edited"),
    ):
        if paths:
            lines += ["", f"{verb}: {count(len(paths), 'file')}", ""] if code else [verb]
            lines += [f"- {code}{path}{code}" if code else f"  {path}" for path in paths]
    if not receipt.same_base:
        lines += ["", _OTHER_BASE]
    return "\n".join(lines) + "\n"


def _headline(receipt: ApplyReceipt) -> str:
    would = receipt.dry_run and receipt.outcome in ("applied", "reverted")
    words = {
        "applied": "would be written into" if would else "applied to",
        "already applied": "already applied, nothing to do:",
        "reverted": "would be taken back from" if would else "taken back from",
        "nothing to revert": "not applied here, nothing to take back:",
    }
    return words[receipt.outcome]

"""The result of ``build`` on stdout."""

import json
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.plan_view import count
from vllm_graft.values.build import BUILD_SCHEMA, BuildReceipt

_RECIPE = "Build it with: docker build -t {tag} {target}"
_PART = (
    "It holds the new layer alone: it loads where {base} is, and cannot be run or read without it."
)


def render_build(receipt: BuildReceipt, form: Form) -> str:
    """Say what was built, or would be."""
    if form == "json":
        digests = {name: str(getattr(receipt, name)) for name in ("layer", "config", "image_id")}
        value = asdict(receipt) | digests | {"schema": BUILD_SCHEMA}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    code = "`" if form == "markdown" else ""
    rows = [
        ("base", f"{receipt.base} ({receipt.platform})"),
        ("layer", f"{receipt.layer}, {receipt.layer_size:,} bytes"),
        ("config", str(receipt.config)),
        ("files", _files(receipt)),
    ]
    lines = [f"{_HEADLINES[receipt.outcome]} {code}{receipt.target}{code}"]
    if code:
        lines += ["", "| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)]
    else:
        lines += [f"  {name:6}  {text}" for name, text in rows]
    lines += [f"note: {note}" for note in receipt.notes]
    if receipt.replaced:
        lines += [f"The image that had this name before is still there as {receipt.replaced}."]
    if receipt.form == "dockerfile":
        lines += [_RECIPE.format(tag=receipt.tag, target=receipt.target)]
    elif receipt.outcome == "written" and not receipt.whole:
        lines += [_PART.format(base=receipt.base)]
    return "\n".join(lines) + "\n"


_HEADLINES = {
    "loaded": "loaded",
    "already there": "already there, nothing to do:",
    "written": "written:",
    "not written": "would be built:",
}


def _files(receipt: BuildReceipt) -> str:
    told = [f"{len(receipt.added)} added", f"{len(receipt.edited)} edited"]
    if receipt.removed:
        told.append(f"stale bytecode of {count(len(receipt.removed), 'file')} removed")
    return ", ".join(told)

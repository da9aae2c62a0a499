"""The result of ``build`` on stdout."""

import json
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.plan_view import count
from vllm_graft.values.build import BUILD_SCHEMA, BuildReceipt
from vllm_graft.values.wheels import LockedWheel

_RECIPE = "Build it with: docker build -t {tag} {target}"
_BESIDE = "Distributions lie beside the image's own: serve this model with -e PYTHONPATH={path}; other processes see nothing of them."
_ROUTES = {
    "base-as-is": "base-as-is: the base under a new name, nothing added but labels",
    "donor-as-is": "donor-as-is: the donor's image, nothing added but labels",
    "donor+ray": "donor+ray: the donor's image with Ray in one layer more",
    "graft": "graft: the base with the plan in one layer more",
}
_PART = (
    "It holds what is new alone: it loads where {base} is, and cannot be run or read without it."
)


def render_build(receipt: BuildReceipt, form: Form) -> str:
    """Say what was built, or would be."""
    if form == "json":
        wheels = [asdict(each) | {"digest": str(each.digest)} for each in receipt.wheels]
        digests: dict[str, object] = {
            name: str(getattr(receipt, name)) for name in ("config", "image_id")
        }
        digests["layer"] = None if receipt.layer is None else str(receipt.layer)
        value = asdict(receipt) | digests | {"schema": BUILD_SCHEMA, "wheels": wheels}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    code = "`" if form == "markdown" else ""
    layer = f"{receipt.layer}, {receipt.layer_size:,} bytes" if receipt.layer else "none"
    on = "base" if receipt.route in ("graft", "base-as-is") else "donor"
    rows = [
        ("route", _ROUTES[receipt.route]),
        (on, f"{receipt.base} ({receipt.platform})"),
        ("layer", layer),
        ("config", str(receipt.config)),
        *([("files", _files(receipt))] if receipt.layer else []),
        *(("wheel", _wheel(each)) for each in receipt.wheels),
        *([("cleared", ", ".join(receipt.cleared))] if receipt.cleared else []),
    ]
    lines = [f"{_HEADLINES[receipt.outcome]} {code}{receipt.target}{code}"]
    if code:
        lines += ["", "| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)]
    else:
        lines += [f"  {name:7}  {text}" for name, text in rows]
    if receipt.python_path:
        lines += [_BESIDE.format(path=receipt.python_path)]
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
    stale = sum(each.endswith(".pyc") for each in receipt.removed)
    if stale:
        told.append(f"stale bytecode of {count(stale, 'file')} removed")
    if others := len(receipt.removed) - stale:
        told.append(f"{count(others, 'path')} of replaced distributions removed")
    return ", ".join(told)


def _wheel(wheel: LockedWheel) -> str:
    if wheel.place == "side by side":
        beside = f" beside {wheel.replaces}" if wheel.replaces else " beside the image's own"
        return f"{wheel.requirement}{beside}"
    return (
        f"{wheel.requirement} in place of {wheel.replaces}"
        if wheel.replaces
        else f"{wheel.requirement}, new"
    )

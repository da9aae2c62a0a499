"""An image on nodes, as a part of what ``ship`` prints."""

from collections.abc import Mapping
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.plan_view import count
from vllm_graft.values.amount import size
from vllm_graft.values.ship import ShippedNode, ShipReceipt

_VERIFIED = "asked back: same content, and a container of it can be made"


def render_ship(receipt: ShipReceipt, form: Form) -> str:
    """Say for each node how it came to have the image, or why it has not; as text or Markdown."""
    code = "`" if form == "markdown" else ""
    total = f", {size(receipt.size)}" if receipt.size else ""
    lines = [
        f"{code}{receipt.image}{code} of {receipt.source} ({receipt.platform}, {count(receipt.layers, 'layer')}{total})",
    ]
    if code:
        lines += ["", "| node | | |", "| --- | --- | --- |"]
        lines += [
            f"| {each.node} | {each.outcome} | {'; '.join(_told(each, receipt))} |"
            for each in receipt.nodes
        ]
    else:
        width = max((len(each.node) for each in receipt.nodes), default=0)
        for each in receipt.nodes:
            first, *more = _told(each, receipt)
            lines += [
                f"  {each.node:{width}}  {first}",
                *(f"  {'':{width}}  {one}" for one in more),
            ]
    if receipt.commands:
        lines += ["", "It would be run:", *(f"  {each}" for each in receipt.commands)]
    return "\n".join(lines) + "\n"


def render_failures(receipt: ShipReceipt) -> str:
    """Say for stderr what is wrong on each node that failed, and what to do about it."""
    return "".join(
        f"error[{each.code}]: {each.node}: {each.failure}\n  help: {each.remedy}\n"
        for each in receipt.nodes
        if each.code
    )


def image_value(receipt: ShipReceipt) -> Mapping[str, object]:
    """Give it as JSON has it."""
    nodes = [
        asdict(each) | {"layers": [str(layer) for layer in each.layers]} for each in receipt.nodes
    ]
    return asdict(receipt) | {"config": str(receipt.config), "nodes": nodes}


def _told(node: ShippedNode, receipt: ShipReceipt) -> list[str]:
    if node.outcome == "failed":
        return [f"failed: [{node.code}] {_one_line(node.failure)}", *_notes(node)]
    if node.outcome == "already there":
        return ["already there, nothing to do", *_notes(node)]
    if node.outcome == "named":
        return [f"was there under another name; now named, {_VERIFIED}", *_notes(node)]
    what = f"{len(node.layers)} of {count(receipt.layers, 'layer')}"
    if not node.layers:
        what = "all layers are there, only a configuration and a name"
    if node.outcome == "would be sent":
        about = f", about {size(node.sent)}" if node.sent else ""
        return [f"would be sent: {what}{about}, from {node.path}", *_notes(node)]
    told = [f"sent: {what}, {size(node.sent)} in {node.took / 1000:.1f} s, from {node.path}"]
    if node.verified:
        told.append(_VERIFIED)
    return [*told, *_notes(node)]


def _notes(node: ShippedNode) -> list[str]:
    kept = (
        [f"the image that had this name before is still there as {node.replaced}"]
        if node.replaced
        else []
    )
    return [*kept, *(f"note: {note}" for note in node.notes)]


def _one_line(text: str) -> str:
    return " ".join(text.split())

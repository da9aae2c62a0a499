"""The weights of a model on nodes, as a part of what ``ship`` prints."""

from vllm_graft.report.form import Form
from vllm_graft.report.plan_view import count
from vllm_graft.values.amount import duration, size
from vllm_graft.values.weights import WeightsOnNode, WeightsReceipt


def render_weights(receipt: WeightsReceipt, form: Form) -> str:
    """Say for each node how it came to have the weights, or why it has not; as text or Markdown."""
    code = "`" if form == "markdown" else ""
    commit = f" at {receipt.commit}" if receipt.commit else ""
    lines = [
        f"{code}{receipt.model}{code}{commit} of {receipt.source} ({count(receipt.files, 'file')}, {size(receipt.size)})"
    ]
    lines += [f"note: {note}" for note in receipt.notes]
    if code:
        lines += ["", "| node | | |", "| --- | --- | --- |"]
        lines += [
            f"| {each.node} | {each.outcome} | {'; '.join(_told(each))} |" for each in receipt.nodes
        ]
        return "\n".join(lines) + "\n"
    width = max((len(each.node) for each in receipt.nodes), default=0)
    for each in receipt.nodes:
        first, *more = _told(each)
        lines += [f"  {each.node:{width}}  {first}", *(f"  {'':{width}}  {one}" for one in more)]
    return "\n".join(lines) + "\n"


def render_weights_failures(receipt: WeightsReceipt) -> str:
    """Say for stderr what is wrong on each node that failed, and what to do about it."""
    return "".join(
        f"error[{each.code}]: {each.node}: {each.error}\n  help: {each.remedy}\n"
        for each in receipt.nodes
        if each.code
    )


def _told(node: WeightsOnNode) -> list[str]:
    notes = [f"note: {note}" for note in node.notes]
    if node.outcome == "failed":
        return [f"failed: [{node.code}] {' '.join(node.error.split())}", *notes]
    if node.outcome == "already there":
        return ["already there, nothing to send", f"in {node.place}", *notes]
    what = f"{count(node.files, 'file')}, {size(node.size)}"
    way = f"from {node.source} {node.path}"
    way += ", without rsync" * (node.means == "stream")
    if node.outcome == "would be sent":
        return [f"would be sent: {what}, {way}", f"into {node.place}", *notes]
    return [f"sent: {what} in {duration(node.seconds)}, {way}", f"in {node.place}", *notes]

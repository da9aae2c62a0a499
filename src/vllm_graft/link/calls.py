# A call is recorded with what it passes, so that it can be bound to the base's signature later.
"""Calls whose callee is known, as uses."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.infer import Value
from vllm_graft.link.uses import CallUse, Keyword, Owner, Receiver, Span, passed_by, span_of


def calls_of(
    index: Index, callee: Value, node: ast.Call, owner: Owner, unpacked: int = 0
) -> Iterator[CallUse]:
    """Give what a call runs; nothing where that is not vLLM's own."""
    if not is_inside(callee.found.module):
        return
    passed = passed_by(node)
    for member, receiver in _run_by(index, callee):
        yield CallUse(
            owner=owner,
            callee=callee.found,
            member=member,
            receiver=receiver,
            positional=passed.positional,
            keywords=tuple(
                Keyword(name=k.arg, value=ast.unparse(k.value), span=_span_of(k))
                for k in node.keywords
                if k.arg is not None
            ),
            has_star=passed.has_star,
            has_double_star=passed.has_double_star,
            unpacked=unpacked,
            span=span_of(node),
        )


def partial_calls_of(
    index: Index, callee: Value, node: ast.Call, owner: Owner
) -> Iterator[CallUse]:
    """Give what ``partial(callee, …)`` runs later, with more arguments than are known here."""
    for call in calls_of(index, callee, node, owner):
        yield replace(call, positional=call.positional - 1, has_star=True, has_double_star=True)


def _run_by(index: Index, callee: Value) -> Iterator[tuple[str, Receiver]]:
    """Member and receiver of what calling a value runs."""
    match callee.kind:
        case "class":
            yield "__init__", "construct"
        case "function":
            yield "", ""
        case "method":
            yield callee.member, callee.through
        case "instance":
            for name in _forwards_of(index, callee.found):
                yield name, "instance"
        case "module":
            return


def _forwards_of(index: Index, found: Found) -> tuple[str, ...]:
    """Names of the methods that calling an instance may run.

    Calling an nn.Module runs its forward; a CustomOp's forward takes anything and dispatches.
    Source: torch.nn.Module.__call__; vLLM 0.14.1 to 0.31.0 model_executor/custom_op.py.
    """
    provided = index.member(found, "forward")
    if provided is None:
        return ()
    if not any(p.kind == "varargs" for p in provided[1].parameters):
        return ("forward",)
    return tuple(
        name
        for name in ("forward_native", "forward_cuda", "forward_cpu")
        if (variant := index.member(found, name)) is not None
        and not any(p.kind == "varargs" for p in variant[1].parameters)
    )


def _span_of(keyword: ast.keyword) -> Span:
    return Span(
        keyword.lineno,
        keyword.col_offset,
        keyword.end_lineno or keyword.lineno,
        keyword.end_col_offset or 0,
    )

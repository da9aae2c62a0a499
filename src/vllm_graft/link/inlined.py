# A newer engine class may have a property that says in one word what an older one says in several: where the object is
# the base's own, the property cannot be brought to it, but what it computes can be written where it is read.
"""Properties of the donor's engine classes, written out where they are read."""

import ast
from collections.abc import Sequence
from copy import deepcopy

from vllm_graft.link.index import Found
from vllm_graft.link.pair import Pair
from vllm_graft.link.symbols import Member
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import ReadUse

RECEIVER = "@"
"""Stands for the object in what is written out, as in linked.Rewrite."""


def written_out(pair: Pair, provider: Found, attribute: str) -> str | None:
    """Give what a property computes as one expression over ``@``; None where that cannot be.

    It reads nothing but the object, and all that it reads is known and in the base too.
    """
    member = provider.definition.members[attribute]
    function = member.function
    if member.kind != "property" or function is None or len(function.args.args) != 1:
        return None
    if [ast.unparse(each) for each in function.decorator_list] != ["property"]:
        return None
    expression = _as_expression(function.body)
    own = function.args.args[0].arg
    if expression is None or not _reads_only(pair, provider, member, expression, own):
        return None
    copied = _Renamed(own).visit(deepcopy(expression))  # the tree is everybody's
    return f"({ast.unparse(copied)})".replace(_PLACE, RECEIVER)


_PLACE = "__receiver__"


class _Renamed(ast.NodeTransformer):
    def __init__(self, own: str) -> None:
        self._own = own

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(id=_PLACE, ctx=node.ctx) if node.id == self._own else node


def _as_expression(body: Sequence[ast.stmt]) -> ast.expr | None:
    """Make one expression of ``if …: return …`` and ``return …``; a text of documentation is passed over."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return _as_expression(rest)
        case [ast.Return(value=ast.expr() as value)]:
            return value
        case [
            ast.If(test=test, body=[ast.Return(value=ast.expr() as value)], orelse=orelse),
            *rest,
        ]:
            otherwise = _as_expression(orelse or rest)
            if otherwise is None or (orelse and rest):
                return None
            return ast.IfExp(test=test, body=value, orelse=otherwise)
        case _:
            return None


def _reads_only(
    pair: Pair, provider: Found, member: Member, expression: ast.expr, own: str
) -> bool:
    parts = [node for node in every_node(expression) if isinstance(node, ast.expr)]
    if any(isinstance(part, ast.Call | ast.NamedExpr | ast.Lambda | ast.Await) for part in parts):
        return False
    if any(isinstance(part, ast.Name) and part.id != own for part in parts):
        return False
    spans = {
        (part.lineno, part.col_offset, part.end_lineno, part.end_col_offset)
        for part in parts
        if isinstance(part, ast.Attribute)
    }
    uses = pair.uses_in(provider.module, provider.name, member.name)
    reads = [use for use in uses if isinstance(use, ReadUse)]
    known = {
        (r.span.line, r.span.column, r.span.end_line, r.span.end_column)
        for r in reads
        if _is_in_base(pair, r)
    }
    return spans <= known


def _is_in_base(pair: Pair, read: ReadUse) -> bool:
    counterpart = pair.counterpart(read.receiver)
    if counterpart is None:
        return False
    theirs = pair.base.member(counterpart, read.attribute)
    return theirs is not None and theirs[1].kind in {"attribute", "instance", "property"}

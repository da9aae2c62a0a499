# A condition of the engine that holds for several models grows with each: "dflash" in the name, or this architecture. What
# moves is the one operand that asks for the family, if the base has the condition without it.
"""Adding the family's operand to a condition of the base."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from vllm_graft.link.branches import lacking_attribute
from vllm_graft.link.names import bound_before
from vllm_graft.link.places import Spot, find_scope, scope_of
from vllm_graft.link.sites import Owned
from vllm_graft.link.units import Unit, demand, place_name, refuses
from vllm_graft.link.workbench import InsertedCode, Outcome, Workbench


def operand(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Add one operand of an ``and`` or ``or`` to the condition that the base has without it."""
    around = _operand(unit, bench.owned)
    tree = bench.base.tree(path)
    scope = scope_of(unit.ancestors[: unit.at + 1])
    function = find_scope(tree, scope) if tree is not None else None
    if around is None or tree is None or function is None or not scope:
        return None
    whole, added = around
    wanted = ast.dump(added)
    if any(ast.dump(inner) == wanted for inner in ast.walk(function)):
        return Outcome(decision="present", reason="the base's condition has it", base_path=path)
    others = {ast.dump(o) for o in _flat(whole) if not _is_familys(whole.op, o, bench.owned)}
    assert isinstance(unit.node, ast.If)
    does = {ast.dump(statement) for statement in unit.node.body}
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.If)
        and {ast.dump(o) for o in _operands(node.test, whole.op)} <= others
        and does & {ast.dump(statement) for statement in node.body}
    ]
    if len(found) != 1 or lacking_attribute(added, bench, path) is not None:
        return None
    spot = Spot(path=path, tree=tree, node=found[0], scope=scope)
    bound = bound_before(function, found[0].lineno)
    refused = bench.bind([added], bound, path, spot)
    if refused is not None:
        return refused
    last = list(_operands(found[0].test, whole.op))[-1]
    word = "or" if isinstance(whole.op, ast.Or) else "and"
    name = place_name(unit, path)
    surgery = bench.surgery(path, f"{name} asks for the family")
    source = bench.excerpter(path).cut(added)
    surgery.insert_behind(last, f" {word} ({source})" if "\n" in source else f" {word} {source}")
    bench.inserted.append(
        InsertedCode(
            donor_path=path,
            first_line=added.lineno,
            last_line=added.end_lineno or added.lineno,
            base_path=path,
        )
    )
    return Outcome(decision="transplant", reason=f"added to a condition of {name}", base_path=path)


def _operand(unit: Unit, owned: Owned) -> tuple[ast.BoolOp, ast.expr] | None:
    """The outermost operation in the test of an ``if`` with an operand that is about the family alone."""
    node = unit.node
    if not isinstance(node, ast.If):
        return None
    inside = unit.ancestors[unit.at + 1 :]
    if not inside or inside[0] is not node.test:
        return None
    for outer, inner in pairwise(inside):
        if (
            isinstance(outer, ast.BoolOp)
            and isinstance(inner, ast.expr)
            and _is_familys(outer.op, inner, owned)
        ):
            return _widest(node.test, outer), inner
    return None


def _widest(test: ast.expr, operation: ast.BoolOp) -> ast.BoolOp:
    """The operation of the same kind that holds another as an operand: ``a and (b and c)`` is one."""
    is_wider = (
        isinstance(test, ast.BoolOp)
        and type(test.op) is type(operation.op)
        and _reaches(test, operation)
    )
    return test if is_wider and isinstance(test, ast.BoolOp) else operation


def _reaches(outer: ast.BoolOp, inner: ast.BoolOp) -> bool:
    return outer is inner or any(
        isinstance(value, ast.BoolOp)
        and type(value.op) is type(outer.op)
        and _reaches(value, inner)
        for value in outer.values
    )


def _is_familys(operator: ast.boolop, operand: ast.expr, owned: Owned) -> bool:
    """Tell whether an operand changes a condition for the family only."""
    if isinstance(operator, ast.Or):
        return demand(operand, owned) == "only"
    return refuses(operand, owned)


def _flat(operation: ast.BoolOp) -> Iterator[ast.expr]:
    for value in operation.values:
        if isinstance(value, ast.BoolOp) and type(value.op) is type(operation.op):
            yield from _flat(value)
        else:
            yield value


def _operands(test: ast.expr, operator: ast.boolop) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and type(test.op) is type(operator):
        yield from _flat(test)
    else:
        yield test

# Conditions that ask which model it is, enum members, and definitions that register themselves. A
# branch moves only if its condition can hold for the family alone: no other model may notice.
"""Adding the family's branches and attributes to the base's functions and classes."""

import ast
import re
from collections.abc import Sequence

from vllm_graft.link.names import bound_before, free_names, local_names
from vllm_graft.link.places import Spot, find_scope, head, matching_block, position_in, scope_of
from vllm_graft.link.units import Unit, demand, place_name, strangers
from vllm_graft.link.workbench import Outcome, Workbench

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def branch(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Add an ``if`` or one arm of a chain that holds for the family only."""
    node = unit.node
    assert isinstance(node, ast.If)
    place = matching_block(unit.ancestors, _chain_start(unit, bench.text(path)), path, bench.base)
    if place is None:
        return _branch_elsewhere(bench, unit, path)
    spot, block = place
    head_node = unit.ancestors[_chain_start(unit, bench.text(path))]
    assert isinstance(head_node, ast.If)
    replaced = _without_strangers(bench, node.test, path)
    wanted = _test_text(node.test, replaced)
    function = _function_around(spot, bench.base.tree(spot.path))
    if any(
        isinstance(other, ast.If) and ast.unparse(other.test) == wanted
        for other in ast.walk(function)
    ):
        return Outcome(decision="present", reason="the base has this branch", base_path=path)
    refused = _noticed(node.test, bench, spot.path) or _taken_from_another(
        node.test, bench, function, spot.path
    )
    if refused is not None:
        return refused
    if node is not head_node:
        return _arm(bench, unit, spot, block, path)
    if node.orelse:
        return _before_chain(bench, unit, spot, block, path)
    siblings = _siblings(unit)
    position = position_in(block, siblings, node)
    if position is None:
        return Outcome(
            decision="refuse",
            reason=f"nothing around this branch of {place_name(unit, path)} is the same in the base",
            base_path=spot.path,
        )
    bound = bound_before(function, _line_at(block, position))
    prefix = _needed_locals(bench, unit, bound, spot.path)
    if isinstance(prefix, Outcome):
        return prefix
    outcome = bench.bind([node, *prefix], bound, path, spot)
    if outcome is not None:
        return outcome
    cutter = bench.excerpter(path)
    indent = block[0].col_offset
    source = "".join(cutter.lines(statement, indent) for statement in prefix)
    source += cutter.lines(node, indent, replaced)
    if cutter.blank_above(node):
        source = f"\n{source}"
    bench.insert_statement(spot.path, block, position, source, place_name(unit, path))
    return bench.transplanted(unit, path, spot, f"the branch goes into {place_name(unit, path)}")


def _branch_elsewhere(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Refuse a branch whose function the base has, but not the condition or loop around it."""
    tree = bench.base.tree(path)
    scope = scope_of(unit.ancestors[: unit.at + 1])
    if tree is None or find_scope(tree, scope) is None:
        return None
    return Outcome(
        decision="refuse",
        reason=f"the code around this branch of {place_name(unit, path)} is different in the base",
        base_path=path,
    )


def _arm(bench: Workbench, unit: Unit, spot: Spot, block: Sequence[ast.stmt], path: str) -> Outcome:
    """Add an ``elif`` to the chain of the base that shares a condition with the donor's."""
    node = unit.node
    assert isinstance(node, ast.If)
    start = _chain_start(unit, bench.text(path))
    first = unit.ancestors[start]
    assert isinstance(first, ast.If)
    earlier = [ast.dump(arm.test) for arm in _arms(first) if arm.lineno < node.lineno]
    tests = {ast.dump(arm.test) for arm in _arms(first)}
    for statement in block:
        if not isinstance(statement, ast.If):
            continue
        arms = list(_arms(statement))
        if not any(ast.dump(arm.test) in tests for arm in arms):
            continue
        after = max(
            (index for index, arm in enumerate(arms) if ast.dump(arm.test) in earlier),
            default=len(arms) - 1,
        )
        function = _function_around(spot, bench.base.tree(spot.path))
        bound = bound_before(function, statement.lineno)
        outcome = bench.bind([node.test, *node.body], bound, path, spot)
        if outcome is not None:
            return outcome
        replaced = _without_strangers(bench, node.test, path)
        source = _arm_source(bench, node, statement.col_offset, path, replaced)
        last = arms[after].body[-1]
        bench.surgery(spot.path, f"{place_name(unit, path)} asks for the family").insert_lines(
            (last.end_lineno or last.lineno) + 1, source
        )
        return bench.transplanted(
            unit, path, spot, f"the condition goes into {place_name(unit, path)}"
        )
    return Outcome(
        decision="refuse",
        reason=f"the base has no such chain of conditions in {place_name(unit, path)}",
        base_path=spot.path,
    )


def _arm_source(
    bench: Workbench, node: ast.If, indent: int, path: str, replaced: Sequence[tuple[ast.expr, str]]
) -> str:
    alone = ast.If(
        test=node.test,
        body=node.body,
        orelse=[],
        lineno=node.lineno,
        col_offset=node.col_offset,
        end_lineno=node.body[-1].end_lineno,
        end_col_offset=node.body[-1].end_col_offset,
    )
    return bench.excerpter(path).lines(alone, indent, replaced)


def _before_chain(
    bench: Workbench, unit: Unit, spot: Spot, block: Sequence[ast.stmt], path: str
) -> Outcome:
    """Put the family's condition before one that the base has: ``if`` there becomes ``elif``."""
    node = unit.node
    assert isinstance(node, ast.If)
    rest = node.orelse[0]
    known = next(
        (
            statement
            for statement in block
            if isinstance(statement, ast.If)
            and isinstance(rest, ast.If)
            and ast.dump(statement.test) == ast.dump(rest.test)
        ),
        None,
    )
    if known is None:
        return Outcome(
            decision="refuse",
            reason=f"{place_name(unit, path)} has another branch beside the family's, and the "
            "base does not have that one",
            base_path=spot.path,
        )
    function = _function_around(spot, bench.base.tree(spot.path))
    bound = bound_before(function, known.lineno)
    outcome = bench.bind([node.test, *node.body], bound, path, spot)
    if outcome is not None:
        return outcome
    replaced = _without_strangers(bench, node.test, path)
    source = _arm_source(bench, node, known.col_offset, path, replaced)
    surgery = bench.surgery(spot.path, f"{place_name(unit, path)} asks for the family")
    surgery.insert_lines(known.lineno, source)
    surgery.respell(known.lineno, known.col_offset, "if", "elif")
    return bench.transplanted(unit, path, spot, f"the condition goes into {place_name(unit, path)}")


def _needed_locals(
    bench: Workbench, unit: Unit, bound: frozenset[str], base_path: str
) -> list[ast.stmt] | Outcome:
    """Find the donor's assignments of local variables that the branch reads and the base lacks."""
    outer = next(
        (node for node in reversed(unit.ancestors[: unit.at]) if isinstance(node, _Function)),
        None,
    )
    if outer is None:
        return []
    in_donor = local_names(outer)
    found: list[ast.stmt] = []
    for name in sorted((free_names([unit.node]) & in_donor) - bound):
        assignment = next(
            (
                statement
                for statement in outer.body
                if statement.lineno < unit.statement.lineno
                and isinstance(statement, ast.Assign)
                and head(statement) == f"assign {name}"
            ),
            None,
        )
        if assignment is None or (free_names([assignment]) & in_donor) - bound:
            return Outcome(
                decision="refuse",
                reason=f"it reads the local variable {name}, which the base does not have there",
            )
        # The assignment runs for every model.
        if (lacking := lacking_attribute(assignment, bench, base_path)) is not None:
            return Outcome(
                decision="refuse",
                reason=f"it needs {ast.unparse(assignment)}, and {base_path} of the base reads no "
                f"{lacking}",
            )
        found.append(assignment)
    return found


def _noticed(test: ast.expr, bench: Workbench, base_path: str) -> Outcome | None:
    """Refuse a condition that could fail for other models: everybody evaluates it.

    Up to the operand that only the family meets, it may read what the base reads in this file.
    """
    operands = test.values if isinstance(test, ast.BoolOp) else [test]
    for operand in operands:
        if (lacking := lacking_attribute(operand, bench, base_path)) is not None:
            return Outcome(
                decision="refuse",
                reason=f"its condition reads {lacking}, which {base_path} of the base never does: "
                "other models would meet it too",
                base_path=base_path,
            )
        if (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.And)
            and (demand(operand, bench.owned) == "only" or _asks_for_one(operand))
        ):
            break
    return None


def _asks_for_one(test: ast.expr) -> bool:
    """Tell whether a condition holds for one model only, whichever that is: ``config.model_type == "okapi"``."""
    match test:
        case ast.Compare(
            left=ast.Attribute(attr="model_type"),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=str())],
        ):
            return True
        case _:
            return False


def _taken_from_another(
    test: ast.expr, bench: Workbench, function: ast.AST, base_path: str
) -> Outcome | None:
    """Refuse a condition that is not about the family but about a model that the base treats there already."""
    if demand(test, bench.owned) is not None:
        return None
    asked = {
        node.value
        for comparison in ast.walk(test)
        if isinstance(comparison, ast.Compare)
        for node in ast.walk(comparison)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    known = {
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    shared = sorted(word for word in asked & known if word.isidentifier() and "_" in word)
    if asked and not shared:
        return None
    about = ", ".join(shared) or "any model"
    return Outcome(
        decision="refuse",
        reason=f"its condition is about {about}, which the base treats there already",
        base_path=base_path,
    )


def lacking_attribute(node: ast.AST, bench: Workbench, base_path: str) -> str | None:
    """Give the first attribute that a piece of code reads and that no code of a base file does."""
    text = bench.base.files.read(base_path)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and not re.search(
            rb"\." + inner.attr.encode() + rb"\b", text
        ):
            return ast.unparse(inner)
    return None


def _line_at(block: Sequence[ast.stmt], position: int) -> int:
    return block[position].lineno if position < len(block) else (block[-1].end_lineno or 0) + 1


def _without_strangers(bench: Workbench, test: ast.expr, path: str) -> list[tuple[ast.expr, str]]:
    """Leave other models out of a condition that is inserted for the family."""
    replaced: list[tuple[ast.expr, str]] = []
    cutter = bench.excerpter(path)
    for collection in strangers(test, bench.owned):
        kept = [
            cutter.cut(item)
            for item in collection.elts
            if isinstance(item, ast.Constant)
            and isinstance(item.value, str)
            and bench.owned.of(item.value) is not None
        ]
        replaced.append((collection, f"({', '.join(kept)},)"))
    return replaced


def attribute(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Add an assignment to the class body of the base, such as a member of an enum."""
    place = matching_block(unit.ancestors, unit.at, path, bench.base)
    node = unit.node
    if place is None or not isinstance(node, ast.Assign | ast.AnnAssign):
        return None
    spot, block = place
    if any(head(other) == head(node) for other in block):
        return Outcome(decision="present", reason="the base's class has it", base_path=path)
    position = position_in(block, _siblings(unit), node)
    try:
        bench.check_paths(node.value if node.value is not None else ast.Constant(value=""))
    except LookupError as error:
        return Outcome(decision="refuse", reason=str(error.args[0]), base_path=path)
    if position is None:
        return None
    outcome = bench.bind([node], frozenset(), path, spot)
    if outcome is not None:
        return outcome
    source = bench.excerpter(path).lines(node, block[0].col_offset)
    bench.insert_statement(path, block, position, source, place_name(unit, path))
    return bench.transplanted(unit, path, spot, f"added to {place_name(unit, path)}")


def registered_definition(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Add a top-level definition that registers itself by a decorator."""
    node = unit.node
    tree = bench.base.tree(path)
    if tree is None or not isinstance(node, ast.stmt) or unit.at != 1:
        return None
    spot = Spot(path=path, tree=tree, node=tree)
    outcome = bench.bind([node], frozenset(), path, spot)
    if outcome is not None:
        return outcome
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    bench.note_arrival(path, node.name)
    bench.insert_definition(node, path, path, before=len(tree.body))
    return Outcome(decision="transplant", reason="the definition registers itself", base_path=path)


def _siblings(unit: Unit) -> list[ast.stmt]:
    outer, node = unit.ancestors[unit.at - 1], unit.node
    for name in ("body", "orelse", "finalbody"):
        block: list[ast.stmt] = getattr(outer, name, [])
        if node in block:
            return block
    return []


def _arms(node: ast.If) -> list[ast.If]:
    found = [node]
    while len(found[-1].orelse) == 1 and isinstance(found[-1].orelse[0], ast.If):
        found.append(found[-1].orelse[0])
    return found


def _chain_start(unit: Unit, text: bytes) -> int:
    """Give the index of the ``if`` that an ``elif`` belongs to; of the unit itself where it is no arm."""
    lines = text.split(b"\n")
    at = unit.at
    while at:
        node = unit.ancestors[at]
        assert isinstance(node, ast.If)
        if not lines[node.lineno - 1][node.col_offset :].startswith(b"elif"):
            return at
        at -= 1
    return at


def _test_text(test: ast.expr, replaced: Sequence[tuple[ast.expr, str]]) -> str:
    """Give a condition in the normal form of ``ast.unparse``, replacements made."""
    text = ast.unparse(test)
    for old, new in replaced:
        text = text.replace(ast.unparse(old), ast.unparse(ast.parse(new, mode="eval")))
    return text


def _function_around(spot: Spot, tree: ast.Module | None) -> ast.AST:
    assert tree is not None
    return find_scope(tree, spot.scope) or tree

# From a mention in the donor to the place in the base where the same thing would stand. Everything is
# matched by structure: the same variable, the same function, the same condition; never by line or text.
"""Where in the base a piece of the donor's engine code belongs."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vllm_graft.link.tables import SourceTrees

Collection = ast.Dict | ast.List | ast.Set | ast.Tuple | ast.Call | ast.Subscript
Block = list[ast.stmt]
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A collection or block of the base, with the file that it is in."""

    path: str
    tree: ast.Module
    node: ast.AST
    scope: tuple[str, ...] = ()


def members(collection: ast.AST) -> list[tuple[str, ast.AST]]:
    """Give the items of a collection that is written down: what tells one from another, and the item.

    A mapping's items are told apart by key, others by their own text.
    """
    match collection:
        case ast.Dict(keys=keys, values=values):
            return [
                (_label(key) if key is not None else f"**{_label(value)}", value)
                for key, value in zip(keys, values, strict=True)
            ]
        case ast.List(elts=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            return [(_label(item), item) for item in items]
        case ast.Call(keywords=keywords, args=arguments):
            given = [(_label(item), item) for item in arguments]
            return [
                *given,
                *(
                    (word.arg if word.arg is not None else f"**{_label(word.value)}", word.value)
                    for word in keywords
                ),
            ]
        case ast.Subscript(slice=ast.Tuple(elts=items)):
            return [(_label(item), item) for item in items]
        case ast.Subscript(slice=item):
            return [(_label(item), item)]
        case _:
            return []


def _label(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node)


def scope_of(ancestors: Sequence[ast.AST]) -> tuple[str, ...]:
    """Give the names of the classes and functions around a node, outermost first."""
    return tuple(node.name for node in ancestors[:-1] if isinstance(node, Scope))


def find_scope(tree: ast.Module, names: Sequence[str]) -> ast.Module | Scope | None:
    """Find the class or function of this qualified name."""
    at: ast.Module | Scope = tree
    for name in names:
        inner = next(
            (node for node in _own_statements(at) if isinstance(node, Scope) and node.name == name),
            None,
        )
        if inner is None:
            return None
        at = inner
    return at


def _own_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Walk the statements of a scope, into ``if`` and ``try``, not into other scopes."""
    for field in (*_BLOCKS, "handlers"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            if not isinstance(inner, Scope):
                yield from _own_statements(inner)


def matching_collection(
    ancestors: Sequence[ast.AST], at: int, path: str, base: SourceTrees
) -> Spot | None:
    """Find in the base the collection that ``ancestors[at]`` of the donor is.

    A module's or class's variable is found by name, one inside a function by what it is compared
    with or assigned to, and by members in common. If the file has moved, the search follows the
    variable's name or a member.
    """
    scope = scope_of(ancestors[: at + 1])
    variable = _variable(ancestors, at)
    in_function = any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ancestors[:at]
    )
    donor = frozenset(label for label, _ in members(ancestors[at]))
    here = base.tree(path)
    if not in_function and variable is not None:
        name, steps = variable
        if here is not None and (found := _by_variable(here, scope, name, steps)) is not None:
            return Spot(path=path, tree=here, node=found, scope=scope)
        spot = _elsewhere(
            name.encode(), path, base, lambda tree: _by_variable(tree, scope, name, steps)
        )
        # Two packages may each have a map of this name: the same one has members in common.
        return spot if spot and donor & {label for label, _ in members(spot.node)} else None
    wanted = _context(ancestors, at)
    if here is not None:
        found = _by_context(find_scope(here, scope), wanted, donor, least=1)
        if found is not None:
            return Spot(path=path, tree=here, node=found, scope=scope)
    return _in_namesake(scope[-1], wanted, donor, base) if scope else None


def _in_namesake(
    function: str, wanted: str, donor: frozenset[str], base: SourceTrees
) -> Spot | None:
    """Search the base's functions of the same name: the class or file may be called otherwise.

    Two members in common, and one place only, or it is not the same list.
    """
    spots: list[Spot] = []
    for path in base.files.containing(f"def {function}(".encode()):
        text = base.files.read(path)
        tree = base.tree(path) if any(label.encode() in text for label in donor) else None
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
                found = _by_context(node, wanted, donor, least=2)
                if tree is not None and found is not None:
                    spots.append(Spot(path=path, tree=tree, node=found))
    return spots[0] if len(spots) == 1 else None


def _elsewhere(
    needle: bytes, path: str, base: SourceTrees, search: Callable[[ast.Module], ast.AST | None]
) -> Spot | None:
    """Search the other files of the base that contain ``needle``; only one may have it."""
    spots: list[Spot] = []
    for other in base.files.containing(needle):
        tree = base.tree(other) if other != path else None
        node = search(tree) if tree is not None else None
        if tree is not None and node is not None:
            spots.append(Spot(path=other, tree=tree, node=node))
    return spots[0] if len(spots) == 1 else None


_Step = tuple[str, str | int]


def _variable(ancestors: Sequence[ast.AST], at: int) -> tuple[str, tuple[_Step, ...]] | None:
    """Give the variable that holds a collection, and the way from its value to the collection."""
    for index in range(at, -1, -1):
        node = ancestors[index]
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name, _steps(ancestors[index + 1 : at + 1])
            case ast.stmt():
                return None
            case _:
                pass
    return None


def _steps(chain: Sequence[ast.AST]) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    for outer, inner in pairwise(chain):
        match outer:
            case ast.Dict(keys=keys, values=values):
                key = next(
                    (k for k, v in zip(keys, values, strict=True) if v is inner and k is not None),
                    None,
                )
                steps.append(("key", _label(key) if key is not None else "**"))
            case ast.Call(args=arguments) if inner in arguments:
                steps.append(("argument", [id(one) for one in arguments].index(id(inner))))
            case ast.Call():
                continue
            case ast.keyword(arg=name):
                steps.append(("keyword", name or "**"))
            case ast.BinOp(left=left):
                steps.append(("side", "left" if inner is left else "right"))
            case _:
                steps.append(("other", ast.dump(outer)))
    return tuple(steps)


def _by_variable(
    tree: ast.Module, scope: Sequence[str], name: str, steps: Sequence[_Step]
) -> ast.AST | None:
    around = find_scope(tree, scope)
    value: ast.AST | None = None
    for node in _own_statements(around) if around is not None else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=expression) if found == name:
                value = expression
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as expression) if (
                found == name
            ):
                value = expression
            case _:
                pass
    for step in steps:
        value = _follow(value, step)
    # A display where the donor has a call around it, or the other way round.
    match value:
        case ast.Call(args=[ast.List() | ast.Set() | ast.Tuple() | ast.Dict() as inner]):
            return inner
        case ast.Dict() | ast.List() | ast.Set() | ast.Tuple() | ast.Call() | ast.Subscript():
            return value
        case _:
            return None


def _follow(value: ast.AST | None, step: _Step) -> ast.AST | None:
    match value, step:
        case ast.Dict(keys=keys, values=values), ("key", wanted):
            return next(
                (
                    item
                    for key, item in zip(keys, values, strict=True)
                    if key is not None and _label(key) == wanted
                ),
                None,
            )
        case ast.Call(args=arguments), ("argument", int(index)) if index < len(arguments):
            return arguments[index]
        # frozenset({…}) in the donor, {…} in the base.
        case ((ast.List() | ast.Set() | ast.Tuple() | ast.Dict()), ("argument", 0)):
            return value
        case ast.Call(keywords=keywords), ("keyword", wanted):
            return next((word.value for word in keywords if (word.arg or "**") == wanted), None)
        case ast.BinOp(left=left, right=right), ("side", side):
            return left if side == "left" else right
        case _:
            return None


def _context(ancestors: Sequence[ast.AST], at: int) -> str:
    """Say what a collection inside a function is for: its surroundings without its members."""
    outer, node = ancestors[at - 1], ancestors[at]
    match outer:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if right is node:
            return f"compare {type(operator).__name__} {ast.dump(_without_walrus(left))}"
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return f"assign {ast.dump(target)}"
        case ast.Call(func=function):
            return f"argument of {ast.dump(function)}"
        case ast.keyword(arg=name):
            return f"keyword {name}"
        case ast.Return():
            return "return"
        case ast.For(target=target):
            return f"loop {ast.dump(target)}"
        case _:
            return f"in {type(outer).__name__}"


def _without_walrus(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.NamedExpr) else node


def _by_context(
    scope: ast.AST | None, wanted: str, donor: frozenset[str], *, least: int
) -> ast.AST | None:
    """Find the collection with the same surroundings that shares most members, at least ``least``."""
    best: tuple[int, ast.AST] | None = None
    for outer, node in _edges(scope) if scope is not None else ():
        if not isinstance(node, Collection) or _context((outer, node), 1) != wanted:
            continue
        shared = len(donor & {label for label, _ in members(node)})
        if shared >= least and (best is None or shared > best[0]):
            best = (shared, node)
    return None if best is None else best[1]


def _edges(root: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Walk a tree: each node with what is directly around it."""
    for outer in ast.walk(root):
        for inner in ast.iter_child_nodes(outer):
            yield outer, inner


def matching_block(
    ancestors: Sequence[ast.AST], at: int, path: str, base: SourceTrees
) -> tuple[Spot, Block] | None:
    """Find the block of the base in which the statement ``ancestors[at]`` of the donor would stand."""
    tree = base.tree(path)
    if tree is None:
        return None
    here: ast.AST = tree
    block: Block = tree.body
    for index in range(at):
        outer, inner = ancestors[index], ancestors[index + 1]
        field = next((name for name in _BLOCKS if inner in getattr(outer, name, ())), None)
        if field is None:
            # Not a statement of a block: an exception handler, a match case.
            return None
        if index:
            found = _same_head(block, outer)
            if found is None:
                return None
            here = found
        block = getattr(here, field, [])
    return Spot(path=path, tree=tree, node=here, scope=scope_of(ancestors[: at + 1])), block


def _same_head(block: Block, donor: ast.AST) -> ast.stmt | None:
    """Find the statement of a block that is the donor's, bodies aside."""
    found = [node for node in block if isinstance(donor, ast.stmt) and head(node) == head(donor)]
    return found[0] if len(found) == 1 else None


def head(node: ast.stmt) -> str:
    """Say what a statement is, without its body: two with one head are the same place."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return f"def {name}"
        case ast.If(test=test) | ast.While(test=test):
            return f"if {ast.dump(test)}"
        case ast.For(target=target, iter=source):
            return f"for {ast.dump(target)} {ast.dump(source)}"
        case ast.With(items=items):
            return f"with {[ast.dump(item) for item in items]}"
        case ast.Try():
            return "try"
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return f"assign {name}"
        case _:
            return ast.dump(node)


def position_in(block: Block, siblings: Sequence[ast.stmt], donor: ast.stmt) -> int | None:
    """Say before which statement of a base block the donor's statement belongs.

    After the nearest earlier sibling that the base has too, else before the nearest later one;
    None where the two blocks have nothing in common.
    """
    heads = {head(node): index for index, node in reversed(list(enumerate(block)))}
    index = siblings.index(donor)
    for earlier in reversed(siblings[:index]):
        if (found := heads.get(head(earlier))) is not None:
            return found + 1
    for later in siblings[index + 1 :]:
        if (found := heads.get(head(later))) is not None:
            return found
    return None

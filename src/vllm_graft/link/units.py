# A mention is a word; what would have to move is larger: a member of a list, an arm of a condition, a
# function. This file draws that border, in the donor's tree alone.
"""The smallest piece of donor code around a mention that can move by itself."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.places import Collection, Scope, members, scope_of
from vllm_graft.link.sites import Mention, Owned

UnitForm = Literal["member", "branch", "definition", "attribute", "import", "statement"]
Demand = Literal["only", "among others"]
"""Whether a condition holds for the family only, or for other models too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of donor code: ``ancestors[at]``, or one member of it."""

    form: UnitForm
    ancestors: tuple[ast.AST, ...]
    at: int
    label: str = ""
    """Which member, for ``member``."""

    @property
    def node(self) -> ast.AST:
        """Give the collection, condition, definition or statement."""
        return self.ancestors[self.at]

    @property
    def statement(self) -> ast.stmt:
        """Give the statement that the unit is, or is part of."""
        for node in reversed(self.ancestors[: self.at + 1]):
            if isinstance(node, ast.stmt):
                return node
        message = "a unit stands in a statement"
        raise AssertionError(message)

    @property
    def key(self) -> tuple[int, str]:
        """Tell units of one tree apart."""
        return id(self.node), self.label


def unit_of(mention: Mention, owned: Owned) -> Unit:
    """Find what would have to move so that the base says this too."""
    ancestors = mention.ancestors
    for index, node in enumerate(ancestors):
        if isinstance(node, Scope) and _is_the_familys(node, owned):
            return Unit(form="definition", ancestors=ancestors, at=index)
    for index, node in enumerate(ancestors[:-1]):
        if (
            isinstance(node, ast.If)
            and ancestors[index + 1] not in node.orelse
            and demand(node.test, owned) == "only"
        ):
            return Unit(form="branch", ancestors=ancestors, at=index)
    for index, node in enumerate(ancestors[:-1]):
        if (
            isinstance(node, ast.If)
            and ancestors[index + 1] not in node.orelse
            and makes_the_family(node, owned)
        ):
            return Unit(form="branch", ancestors=ancestors, at=index)
    for index, node in enumerate(ancestors):
        label = _member(node, ancestors, index, owned)
        if label is not None:
            return Unit(form="member", ancestors=ancestors, at=index, label=label)
    return _statement_unit(ancestors)


def makes_the_family(node: ast.If, owned: Owned) -> bool:
    """Tell whether a condition is there to give something the family's name: ``config.model_type = "okapi_mtp"``.

    What it asks is about another model, the one that the family is the draft of.
    """
    return any(_names_the_family(statement, owned) for statement in node.body)


def _names_the_family(statement: ast.stmt, owned: Owned) -> bool:
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(attr="model_type")], value=ast.Constant(value=str(text))
        ):
            return owned.of(text) is not None
        case _:
            return False


def _statement_unit(ancestors: tuple[ast.AST, ...]) -> Unit:
    for index in range(len(ancestors) - 1, 0, -1):
        node = ancestors[index]
        if isinstance(node, ast.Import | ast.ImportFrom):
            return Unit(form="import", ancestors=ancestors, at=index)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            ancestors[index - 1], ast.ClassDef
        ):
            return Unit(form="attribute", ancestors=ancestors, at=index)
        if isinstance(node, ast.stmt):
            return Unit(form="statement", ancestors=ancestors, at=index)
    return Unit(form="statement", ancestors=ancestors, at=len(ancestors) - 1)


def place_name(unit: Unit, path: str) -> str:
    """Give the function or class that a unit stands in; the file where it stands in none."""
    return ".".join(scope_of(unit.ancestors[: unit.at + 1])) or path


def variable_of(unit: Unit) -> str:
    """Give the name that the unit's statement assigns; empty where it assigns none."""
    match unit.statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def enclosing_condition(unit: Unit) -> Unit | None:
    """Give the condition whose test a member stands in, as a unit of its own."""
    for index in range(unit.at - 1, -1, -1):
        node = unit.ancestors[index]
        if isinstance(node, ast.If):
            inside = unit.ancestors[index + 1] is node.test
            return Unit(form="branch", ancestors=unit.ancestors, at=index) if inside else None
        if isinstance(node, ast.stmt):
            return None
    return None


def _is_the_familys(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, owned: Owned
) -> bool:
    if owned.of(node.name) is not None:
        return True
    return any(
        owned.of(inner.value) is not None
        for decorator in node.decorator_list
        for inner in ast.walk(decorator)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )


def _member(node: ast.AST, ancestors: Sequence[ast.AST], index: int, owned: Owned) -> str | None:
    """Give the label of the member of ``node`` that is the family's and holds the mention."""
    if not isinstance(node, Collection) or index + 1 >= len(ancestors):
        return None
    inner = ancestors[index + 1]
    match node:
        case ast.Dict():
            return _entry(node, inner, owned)
        case ast.Call(keywords=keywords):
            # Only a call that is a table: LazyConfigDict(name="Class").
            if not isinstance(ancestors[index - 1], ast.Assign | ast.AnnAssign):
                return None
            return next((_word_of(word, owned) for word in keywords if word is inner), None)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=items)):
            held = ancestors[index + 2] if index + 2 < len(ancestors) else None
            return _label_of(next((item for item in items if item is held), None), owned)
        case ast.Subscript():
            return None
        case ast.Tuple() if isinstance(ancestors[index - 1], ast.Subscript):
            return None
        case _:
            items = [item for _, item in members(node)]
            return _label_of(next((item for item in items if item is inner), None), owned)


def _entry(node: ast.Dict, inner: ast.AST, owned: Owned) -> str | None:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None or not (inner is key or inner is value):
            continue
        words = [key, value, *(value.elts if isinstance(value, ast.Tuple) else ())]
        if any(_is_word(word, owned) for word in words):
            return members(ast.Dict(keys=[key], values=[value]))[0][0]
    return None


def _word_of(word: ast.keyword, owned: Owned) -> str | None:
    """Label of an entry of a table that is a call; of ``**{"okapi-2": …}`` too, whose key is no name."""
    match word:
        case ast.keyword(arg=str(name)):
            return name if owned.of(name) is not None else None
        case ast.keyword(value=ast.Dict(keys=[ast.Constant() as key])):
            return f"**{ast.unparse(word.value)}" if _is_word(key, owned) else None
        case _:
            return None


def _label_of(item: ast.AST | None, owned: Owned) -> str | None:
    if item is None or not isinstance(item, ast.expr):
        return None
    words = (item, *item.elts[:1]) if isinstance(item, ast.Tuple | ast.List) else (item,)
    if not any(_is_word(word, owned) for word in words):
        return None
    return members(ast.List(elts=[item]))[0][0]


def _is_word(node: ast.expr, owned: Owned) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return owned.of(text) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return owned.of(name) is not None
        case _:
            return False


def demand(test: ast.expr, owned: Owned) -> Demand | None:
    """Say whether a condition can only hold for the family, for others too, or does not ask."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return "only" if _is_word(left, owned) or _is_word(right, owned) else None
        case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
            if _is_word(left, owned):
                return "only"
            if not isinstance(right, ast.List | ast.Tuple | ast.Set):
                return None
            mine = [_is_word(item, owned) for item in right.elts]
            return ("only" if all(mine) else "among others") if any(mine) else None
        case ast.BoolOp(op=ast.And(), values=values):
            asked = [demand(value, owned) for value in values]
            if "only" in asked:
                return "only"
            return "among others" if any(asked) else None
        case ast.BoolOp(op=ast.Or(), values=values):
            asked = [demand(value, owned) for value in values]
            if all(one == "only" for one in asked):
                return "only"
            return "among others" if any(asked) else None
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name() as kind]):
            return "only" if _is_word(kind, owned) else None
        case _:
            return None


def refuses(test: ast.expr, owned: Owned) -> bool:
    """Tell whether a condition fails for the family and for nobody else: ``"Okapi" not in names``."""
    match test:
        case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[right]):
            return _is_word(left, owned) and not isinstance(right, ast.List | ast.Tuple | ast.Set)
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            return _is_word(left, owned) or _is_word(right, owned)
        case _:
            return False


def strangers(test: ast.expr, owned: Owned) -> Iterator[ast.List | ast.Tuple | ast.Set]:
    """Give the collections of a condition in which other models stand beside the family."""
    for node in ast.walk(test):
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            mine = [_is_word(item, owned) for item in node.elts]
            if any(mine) and not all(mine):
                yield node

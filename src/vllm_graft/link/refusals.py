# An older engine refuses combinations that a newer one takes: the call binds, and the constructor raises. Which values a
# model passes is often said by its configuration alone, so what can be told is that they decide.
"""Values that the base's constructors refuse and the donor's do not."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_graft.link.index import Found, Index
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import CallUse


@dataclass(frozen=True, slots=True)
class Refusal:
    """A condition under which a constructor raises."""

    test: str
    line: int
    module: str
    says: str
    """Text of what it raises, to know it again."""
    asks: frozenset[str]
    """Names that the condition is about, ``self`` left out."""


class Refusals:
    """Finds what constructors of two installs refuse, each class read once."""

    def __init__(self, donor: Index, base: Index) -> None:
        """Look into two installs; nothing is read yet."""
        self._donor = donor
        self._base = base
        self._known: dict[tuple[str, str], tuple[Refusal, ...]] = {}

    def of_base_alone(self, call: CallUse, counterpart: Found) -> Iterator[Refusal]:
        """Give those of the base that are about nothing but values which a call takes from elsewhere."""
        refusals = self._of(self._base, counterpart)
        if not refusals:
            return
        passed = {k.name for k in call.keywords if not _is_constant(k.value)}
        known = {refusal.says for refusal in self._of(self._donor, call.callee)}
        for refusal in refusals:
            if refusal.asks and refusal.asks <= passed and refusal.says not in known:
                yield refusal

    def _of(self, index: Index, found: Found) -> tuple[Refusal, ...]:
        key = (index.install, found.dotted)
        if key not in self._known:
            self._known[key] = tuple(_refusals(index, found))
        return self._known[key]


def _is_constant(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _refusals(index: Index, found: Found) -> Iterator[Refusal]:
    for item in index.ancestry(found).classes if found.definition.kind == "class" else (found,):
        for node in every_node(_makes(item) or ast.Pass()):
            if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
                yield Refusal(
                    ast.unparse(node.test),
                    node.lineno,
                    item.module,
                    ast.unparse(node.body[0]),
                    frozenset(_asked(node.test)),
                )


def _makes(found: Found) -> ast.AST | None:
    """What runs when an object is made: a constructor, or a function that gives the object."""
    if found.definition.kind == "function":
        return found.definition.node
    initializer = found.definition.members.get("__init__")
    return None if initializer is None else initializer.function


def _asked(test: ast.expr) -> Iterator[str]:
    for node in every_node(test):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield name
            case ast.Attribute() | ast.Call():
                yield ""  # more than the values themselves
            case ast.Name(id=name) if name != "self":
                yield name
            case _:
                pass

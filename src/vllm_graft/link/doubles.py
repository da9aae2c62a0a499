# Where the graft brings the donor's version of a class and the base has one too, two classes of that name exist. Code
# that asks for the class (`isinstance`) then means one of them, and is handed instances of the other by all that the
# base makes: by a definition of which the base's version is used, or by the engine. No name, call or member shows that.
"""Classes that would exist twice, and the code that asks which one an object is of."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.link.breach import Breach
from vllm_graft.link.decide import Decisions
from vllm_graft.link.exact_types import is_type_of
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.linked import Linked, Rewrite, Unit
from vllm_graft.link.scopes import dotted
from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import absolute_module, package_of
from vllm_graft.link.uses import Span, span_of
from vllm_graft.values.finding import Severity

_WORDS = re.compile(rb"\b(?:isinstance|issubclass|except|case|type|__class__)\b")
_ASKING = frozenset({"isinstance", "issubclass"})
_IDENTITY = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@dataclass(frozen=True, slots=True)
class _Question:
    """One place that asks whether an object is of a class."""

    target: Found
    span: Span
    written: str
    is_exact: bool
    """An object of a subclass will not do."""


class Doubles:
    """Sees to it that what grafted code asks for is what it will be handed."""

    def __init__(self, decisions: Decisions) -> None:
        """Look at the code of one graft."""
        self._decisions = decisions
        self._pair = decisions.pair
        self._questions: dict[Unit, tuple[_Question, ...]] = {}
        self._asking_lines: dict[str, tuple[int, ...]] = {}

    def settle(self, linked: Linked) -> bool:
        """Decline what the base makes, rewrite what can be asked for otherwise; tell if any was declined."""
        made = _made_by_the_base(self._decisions, linked)
        declined = False
        for unit in sorted(linked.units):
            for question in self._asked_in(unit):
                declined |= self._settle(linked, unit, question, made)
        return declined

    def _settle(
        self, linked: Linked, unit: Unit, question: _Question, made: Mapping[str, str]
    ) -> bool:
        target = question.target
        decisions = self._decisions
        counterpart = decisions.counterpart(target)
        if counterpart is None:
            return False
        if target.dotted in decisions.derived:
            _ask_for_the_base_class(linked, unit, question)
        elif not decisions.is_grafted(target):
            return False
        elif target.dotted in decisions.extracted:
            _report(linked, unit, question, "the engine's own are of the base's class", "review")
        elif (maker := made.get(counterpart.dotted)) is None:
            return False
        elif target.dotted in decisions.required:
            _report(linked, unit, question, f"{maker} of the base makes the base's", "blocked")
        elif target.dotted not in decisions.declined:
            decisions.declined[target.dotted] = (
                f"{maker} is the base's own, and makes the base's {target.name};"
                f" {unit.dotted} asks for that class"
            )
            return True
        return False

    def _asked_in(self, unit: Unit) -> tuple[_Question, ...]:
        """Questions that one piece of donor code asks, each piece read once."""
        if unit not in self._questions:
            self._questions[unit] = tuple(self._find(unit)) if unit.name else ()
        return self._questions[unit]

    def _may_ask(self, module: str, lines: range) -> bool:
        """Tell whether these lines hold a word by which code asks; most code does not, and need not be walked."""
        if module not in self._asking_lines:
            source = self._pair.donor.source(module)
            self._asking_lines[module] = tuple(
                number for number, line in enumerate(source.split(b"\n"), 1) if _WORDS.search(line)
            )
        return any(line in lines for line in self._asking_lines[module])

    def _find(self, unit: Unit) -> Iterator[_Question]:
        donor = self._pair.donor
        found = donor.resolve(unit.module, unit.name)
        if found is None or found.module != unit.module:
            return
        part = found.definition.members.get(unit.member) if unit.member else found.definition
        node = None if part is None else part.node
        if (
            part is None
            or node is None
            or not self._may_ask(unit.module, range(part.line, part.end_line + 1))
        ):
            return
        for asked, is_exact in asked_names(node):
            written = dotted(asked) or ""
            target = donor.class_named(unit.module, written)
            if target is None:
                target = _imported_inside(donor, unit.module, node, written)
            if target is not None and is_inside(target.module):
                yield _Question(target, span_of(asked), written, is_exact)


def _imported_inside(index: Index, module: str, node: ast.AST, name: str) -> Found | None:
    """The class that a name means where an import inside a function binds it."""
    for inner in every_node(node):
        if not isinstance(inner, ast.ImportFrom):
            continue
        for alias in inner.names:
            if (alias.asname or alias.name) == name:
                return index.class_named(_source_of(index, module, inner), alias.name)
    return None


def _ask_for_the_base_class(linked: Linked, unit: Unit, question: _Question) -> None:
    """Ask for the class that was derived from: the base's own instances and the derived are of it."""
    if question.is_exact:
        found = "it is derived here, and the base makes the base's"
        _report(linked, unit, question, found, "review")
        return
    linked.rewrites.append(
        Rewrite(
            module=unit.module,
            span=question.span,
            text=f"{question.written}.__base__",
            note=f"asks for the base's {question.target.name}, of which the derived one is too",
        )
    )


def _source_of(index: Index, module: str, node: ast.ImportFrom) -> str:
    return absolute_module(node, package_of(index.path_of(module) or ""))


def _report(
    linked: Linked, unit: Unit, question: _Question, found: str, severity: Severity
) -> None:
    linked.breaches.append(
        Breach(
            code="G221",
            severity=severity,
            module=unit.module,
            line=question.span.line,
            wanted=f"an object of {question.target.dotted}, the donor's version",
            found=found,
            remedy="see where the objects come from that are asked here",
            unit=unit.dotted,
            about=question.target.dotted,
        )
    )


def asked_names(tree: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Names of the classes that code asks for, and whether exactly that class is meant."""
    for node in every_node(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, wanted]) if name in _ASKING:
                yield from ((each, False) for each in _alternatives(wanted))
            case ast.ExceptHandler(type=ast.expr() as wanted):
                yield from ((each, False) for each in _alternatives(wanted))
            case ast.MatchClass(cls=wanted):
                yield wanted, False
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if isinstance(
                operator, _IDENTITY
            ):
                for one, other in ((left, right), (right, left)):
                    if is_type_of(one):
                        yield from ((each, True) for each in _alternatives(other))
            case _:
                pass


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _alternatives(part)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            yield from _alternatives(left)
            yield from _alternatives(right)
        case ast.Name() | ast.Attribute():
            yield node
        case _:
            pass


def _made_by_the_base(decisions: Decisions, linked: Linked) -> dict[str, str]:
    """Classes outside the engine that the base's versions lead to: dotted → name of the one that does."""
    pair = decisions.pair
    made: dict[str, str] = {}
    for target, decision, _, _ in linked.names.values():
        if target.dotted not in decisions.declined or decision.base is None:
            continue
        pending: list[Found] = [decision.base]
        while pending:
            found = pending.pop()
            if found.dotted in made or pair.room_of(found.module) == "engine":
                continue
            made[found.dotted] = target.name
            for name in sorted(found.definition.names):
                inner = pair.base.resolve(found.module, name)
                if inner is not None and is_inside(inner.module) and inner.definition.node:
                    pending.append(inner)
    return made

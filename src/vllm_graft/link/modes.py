# A hook may be there for a mode of the donor's engine that the base's does not have and that is off unless somebody
# switches it on. Then it is no loss that the base never calls it: the mode cannot be switched on there.
"""Hooks that the donor's engine calls only in modes that the base does not have."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_graft.link.contract import literal_default
from vllm_graft.link.pair import Pair
from vllm_graft.link.symbols import start_line
from vllm_graft.link.syntax import children

_MAX_DEPTH = 3
_MOST_FILES = 60
_SETTINGS = "vllm.config"


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a method or function by name."""

    function: str
    """Name of the function that it stands in."""
    tests: tuple[ast.expr, ...]
    """Conditions that hold there, in that function."""


def switch_of(pair: Pair, name: str) -> str | None:
    """Give the setting without which the donor's engine never calls a method; None where it may be called.

    The base knows no setting of that name, and the donor's default switches it off.
    """
    if name not in pair.switches:
        pair.switches[name] = _switch_of(pair, name, 0)
    return pair.switches[name]


def _switch_of(pair: Pair, name: str, depth: int) -> str | None:
    # What half the engine mentions has no switch, and all of that would have to be read.
    if depth > _MAX_DEPTH or len(pair.donor.files.containing(name.encode())) > _MOST_FILES:
        return None
    switches: set[str] = set()
    for call in _calls(pair, name):
        switch = next((s for test in call.tests if (s := _off(pair, test)) is not None), None)
        if switch is None and call.function:
            switch = _switch_of(pair, call.function, depth + 1)
        if switch is None:
            return None
        switches.add(switch)
    return min(switches, default=None)


def _calls(pair: Pair, name: str) -> Iterator[_Call]:
    donor = pair.donor
    for path in donor.files.containing(name.encode()):
        module = donor.module_at(path)
        lines = _lines_with(donor.source(module), name) if pair.room_of(module) == "engine" else ()
        if lines:
            yield from _calls_in(donor.tree(module), name, lines, "", ())


def _lines_with(source: bytes, name: str) -> tuple[int, ...]:
    """Lines that hold a name as a word of its own."""
    found = re.finditer(rb"\b" + re.escape(name.encode()) + rb"\b", source)
    return tuple(dict.fromkeys(source.count(b"\n", 0, match.start()) + 1 for match in found))


def _calls_in(
    node: ast.AST,
    name: str,
    lines: tuple[int, ...],
    function: str,
    tests: tuple[ast.expr, ...],
) -> Iterator[_Call]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function, tests = node.name, ()
    is_mention = (isinstance(node, ast.Attribute) and node.attr == name) or (
        isinstance(node, ast.Name) and node.id == name
    )
    # A string may be a name for getattr, and what it is handed to may call it.
    if is_mention or (isinstance(node, ast.Constant) and node.value == name):
        yield _Call(function, tests)
    for child in children(node):
        if isinstance(child, ast.stmt) and not any(line in _lines_of(child) for line in lines):
            continue
        holds = isinstance(node, ast.If) and child in node.body
        inner = (*tests, node.test) if holds and isinstance(node, ast.If) else tests
        yield from _calls_in(child, name, lines, function, inner)


def _lines_of(node: ast.stmt) -> range:
    is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    first = start_line(node) if is_definition else node.lineno
    return range(first, (node.end_lineno or first) + 1)


def _off(pair: Pair, test: ast.expr) -> str | None:
    """Give the setting that keeps a condition from holding, if the base has none of that name."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return next((s for value in values if (s := _off(pair, value)) is not None), None)
        case ast.Attribute(attr=name):
            return name if _default(pair, name) in {"False", "None", "0"} else None
        case ast.Compare(
            left=ast.Attribute(attr=name), ops=[ast.Eq()], comparators=[ast.Constant(value=wanted)]
        ):
            default = _default(pair, name)
            return name if default is not None and default != repr(wanted) else None
        case _:
            return None


def _default(pair: Pair, name: str) -> str | None:
    """Default of a setting of the donor that the base does not have, as source text; None for anything else."""
    if pair.mentions.in_base(name):
        return None
    donor = pair.donor
    defaults: set[str | None] = set()
    for path in donor.files.containing(f"{name}:".encode()):
        module = donor.module_at(path)
        summary = donor.summary(module)
        if summary is None or not f"{module}.".startswith(f"{_SETTINGS}."):
            continue
        for definition in summary.definitions.values():
            member = definition.members.get(name)
            if member is not None and member.kind == "attribute":
                defaults.add(literal_default(member))
    return defaults.pop() if len(defaults) == 1 else None

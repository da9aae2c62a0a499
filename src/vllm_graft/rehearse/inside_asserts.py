# Runs inside an install (see inside.py): what a model's code demands of its configuration in so many words: an
# assertion, or a condition under which it raises. Read from the source of the line that failed.
"""Values that a failed check of a model's code asks for."""

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from vllm_graft.rehearse.inside_supply import Lack, path_of, section_of, usual, value_of


def demanded(configuration: dict[str, Any], error: BaseException) -> list[tuple[Lack, Any]]:
    """Give what would have to be in the configuration for the check to pass."""
    from transformers import PretrainedConfig

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, AssertionError | ValueError | NotImplementedError):
        return []
    frame, line = trace.tb_frame, trace.tb_lineno
    found = []
    for owner, name, value in wanted(check_at(frame, line), assigned(frame, line)):
        asked = value_of(owner, frame.f_locals)
        if isinstance(asked, PretrainedConfig):
            path = path_of(configuration, asked)
            known = section_of(configuration, path)
            found.append((Lack(path, name), usual(name, known) if value is USUAL else value))
    return found


def cause(error: BaseException) -> BaseException:
    """Give the error that pydantic wraps when a check of a configuration class fails, with its own traceback."""
    listed = getattr(error, "errors", None)
    with contextlib.suppress(Exception):
        for one in listed() if callable(listed) else ():
            inner = one.get("ctx", {}).get("error")
            if isinstance(inner, BaseException):
                return inner
    return error


USUAL = object()
"""Anything but None."""


def function_at(frame: FrameType, line: int) -> ast.AST | None:
    """Parse the function that a line is in."""
    file = Path(frame.f_code.co_filename)
    if not file.exists():
        return None
    around = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return around[-1] if around else None


def check_at(frame: FrameType, line: int) -> ast.expr | None:
    """Give the condition that had to hold at a line: an assertion's, or the contrary of a raise's."""
    function = function_at(frame, line)
    for node in ast.walk(function) if function else ():
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
            return node.test
        if isinstance(node, ast.If) and any(
            isinstance(one, ast.Raise) and one.lineno <= line <= (one.end_lineno or 0)
            for one in node.body
        ):
            return ast.UnaryOp(ast.Not(), node.test)
    return None


def assigned(frame: FrameType, line: int) -> dict[str, ast.expr]:
    """Give what local names were set to before a line."""
    function = function_at(frame, line)
    return {
        node.targets[0].id: node.value
        for node in (ast.walk(function) if function else ())
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.lineno < line
    }


def wanted(
    check: ast.expr | None, names: dict[str, ast.expr], *, holds: bool = True
) -> Iterator[tuple[str, str, Any]]:
    """Give owner, attribute and value for each part of a condition that such a value makes true."""
    match check:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from wanted(inner, names, holds=not holds)
        case ast.BoolOp(op=joint, values=parts) if isinstance(joint, ast.And) == holds:
            for part in parts:
                yield from wanted(part, names, holds=holds)
        case ast.Compare(left=left, ops=[how], comparators=[ast.Constant(value=value)]):
            for owner, name in read(left, names):
                yield from ((owner, name, one) for one in compared(how, value, holds=holds))
        case ast.Name(id=local) if local in names and asks_whether_there_is(names[local]):
            yield from ((owner, name, USUAL) for owner, name in read(names[local], names) if holds)
        case ast.expr():
            value = USUAL if holds and asks_whether_there_is(check) else holds
            yield from ((owner, name, value) for owner, name in read(check, names))
        case _:
            pass


def asks_whether_there_is(node: ast.expr) -> bool:
    """Tell whether an expression is a call of ``hasattr``."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr"


def compared(how: ast.cmpop, value: Any, *, holds: bool) -> Iterator[Any]:
    """Give a value that compares so."""
    match how:
        case ast.Eq() if holds:
            yield value
        case ast.NotEq() if not holds:
            yield value
        case ast.IsNot() if holds and value is None:
            yield USUAL
        case ast.Is() if not holds and value is None:
            yield USUAL
        case ast.Is() if holds:
            yield value
        case ast.Gt() if holds:
            yield value + 1
        case _:
            pass


def read(node: ast.expr, names: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Give owner and name of an attribute that an expression reads."""
    match node:
        case ast.Attribute(value=owner, attr=name):
            yield ast.unparse(owner), name
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *_]):
            yield ast.unparse(owner), name
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
            yield ast.unparse(owner), name
        case ast.Name(id=local) if local in names and not isinstance(names[local], ast.Name):
            yield from read(names[local], names)
        case _:
            pass

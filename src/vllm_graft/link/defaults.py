# A call that leaves a parameter to its default means the donor's default. Where the base has another one, the donor's
# is written out, if the base's parameter takes that value: nothing else says what the donor's code means.
"""Defaults in which two installs differ, written out at the call."""

import ast
from collections.abc import Mapping

from vllm_graft.link.contract import literal_default
from vllm_graft.link.index import Found, Index
from vllm_graft.link.pair import Pair
from vllm_graft.link.splices import Source
from vllm_graft.link.symbols import Member, Parameter
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import CallUse, Span, span_of

_MAX_DEPTH = 4
# Packages whose fields switch features of the engine: one that the base lacks is off there, which is what
# the donor's default says. A field of anything else is data that the base's engine would have to fill.
SWITCHES = ("vllm.config.", "vllm.model_executor.layers.quantization.")
_SPEAK_OF_THEMSELVES = "vllm.v1.attention."


def is_new_flag(pair: Pair, found: Found, member: Member) -> bool:
    """Tell whether an attribute says of a class of the engine what no class of the base says of itself.

    Where the base knows no such word, its classes are as the donor's that do not say otherwise.
    Source: vLLM 0.17.1, v1/attention/backend.py ``forward_includes_kv_cache_update: bool = True``; 0.14.1 has no
    backend whose forward does not.
    """
    return (
        member.kind == "attribute"
        and literal_default(member) in {"True", "False"}
        and found.module.startswith(_SPEAK_OF_THEMSELVES)
        and not pair.mentions.in_base(member.name)
    )


def takes(index: Index, module: str, parameter: Parameter, value: str) -> bool:
    """Tell whether a parameter of a function written in ``module`` takes a value, by what its source says.

    ``value``: source text. A string is taken only where a ``Literal`` lists it: any other may be a word that
    the function does not know.
    """
    try:
        given: object = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return False
    if parameter.annotation is None:
        return isinstance(given, bool) and parameter.default in {"True", "False"}
    try:
        node = ast.parse(parameter.annotation, mode="eval").body
    except SyntaxError:
        return False
    return parameter.kind in {"either", "keyword"} and _allows(index, module, node, given)


_TYPES: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float)}
"""Of numbers, bool is not an int here: True is no count."""


def _allows(index: Index, module: str, node: ast.expr, given: object, depth: int = 0) -> bool:
    match node:
        case ast.Constant(value=None):
            return given is None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return any(_allows(index, module, part, given, depth) for part in (left, right))
        case ast.Name(id=name) if name in _TYPES:
            return type(given) in _TYPES[name]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            listed = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return any(isinstance(e, ast.Constant) and e.value == given for e in listed)
        case ast.Name(id=name) if depth < _MAX_DEPTH:
            found = index.resolve(module, name)
            alias = found.definition.node if found is not None else None
            return (
                found is not None
                and isinstance(alias, ast.Assign)
                and _allows(index, found.module, alias.value, given, depth + 1)
            )
        case _:
            return False


def place_for_keywords(tree: ast.AST, text: bytes, call: CallUse) -> tuple[Span, str, str] | None:
    """Where a call takes further keywords, what stands before them there and what behind; None where it cannot.

    Right behind the positional arguments: any keyword may be one that is taken out. ``text``: the module's.
    """
    if call.keywords and not call.positional:
        first = call.keywords[0].span
        return _at(first.line, first.column), "", ", "
    end = call.span
    if not call.positional:
        return _at(end.end_line, end.end_column - 1), "", ""
    node = next(
        (n for n in every_node(tree) if isinstance(n, ast.Call) and span_of(n) == call.span), None
    )
    if node is None or not node.args or any(isinstance(a, ast.GeneratorExp) for a in node.args):
        return None
    source, last = Source(text), span_of(node.args[-1])
    behind = _behind(
        text,
        source.offset(last.end_line, last.end_column),
        source.offset(end.end_line, end.end_column) - 1,
    )
    line_start = text.rfind(b"\n", 0, behind) + 1
    return _at(text.count(b"\n", 0, behind) + 1, behind - line_start), ", ", ""


def _behind(text: bytes, start: int, stop: int) -> int:
    """Where an argument ends with the brackets around it, of which the syntax tree says nothing."""
    at = found = start
    while at < stop and text[at : at + 1] != b",":
        character = text[at : at + 1]
        at = text.find(b"\n", at) if character == b"#" else at + 1
        if character == b")":
            found = at
    return found


def _at(line: int, column: int) -> Span:
    return Span(line, column, line, column)

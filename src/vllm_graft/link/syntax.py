# Python warns about odd escapes in other people's files (0.17.1 has some); with -W error it even refuses them. What
# vLLM's authors wrote in a string is not our user's concern.
"""Parsing Python source, without a word about its style, and walking what was parsed."""

import ast
import warnings
from collections.abc import Iterator
from functools import cache
from typing import cast


def parse_source_text(source: str | bytes, path: str) -> ast.Module:
    """Parse one file.

    Raises:
        SyntaxError: it is no valid Python.
        ValueError: it has a NUL, or an encoding that is not known.
        RecursionError: it nests deeper than Python takes in.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, filename=path)


# Fields that hold no node, whatever the node. Source: abstract grammar of Python 3.11 to 3.14, and ``ctx``,
# which says of a name what the statement around it says too.
_LEAVES = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module"}
    | {"rest", "simple", "tag", "type_comment"}
)


@cache
def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in _LEAVES)


def children(node: ast.AST) -> list[ast.AST]:
    """Give what ``ast.iter_child_nodes`` gives, in its order, without the ``ctx`` of names."""
    # Not by generators inside generators: this is the innermost loop of all that walks trees.
    found: list[ast.AST] = []
    for name in _fields_with_nodes(type(node)):
        value: object = getattr(node, name, None)
        if isinstance(value, list):
            for item in cast("list[object]", value):
                if isinstance(item, ast.AST):
                    found.append(item)  # noqa: PERF401 (a comprehension is a call for each field)
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def every_node(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk as ``ast.walk`` does, in its order, without the ``ctx`` of names."""
    pending: list[ast.AST] = [tree]
    for node in pending:
        yield node
        pending += children(node)


def every_statement(tree: ast.AST) -> Iterator[ast.stmt]:
    """Give the statements of a tree, those of functions and classes too, in ``ast.walk``'s order."""
    pending: list[ast.AST] = [tree]
    for node in pending:
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            pending.extend(cast("list[ast.AST]", getattr(node, name, ())))

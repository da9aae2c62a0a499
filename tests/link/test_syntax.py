# The walks of link/syntax.py against ast's own, over real files: this interpreter's standard library.
import ast
import sysconfig
from pathlib import Path

import pytest

from vllm_graft.link.syntax import every_node, every_statement

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = ("ast.py", "asyncio/tasks.py", "dataclasses.py", "enum.py", "test/test_patma.py")


def trees() -> list[ast.Module]:
    return [ast.parse((LIBRARY / name).read_text()) for name in FILES if (LIBRARY / name).exists()]


def test_every_node_is_what_ast_walk_gives_without_contexts() -> None:
    for tree in trees():
        wanted = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
        assert [id(node) for node in every_node(tree)] == [id(node) for node in wanted]


def test_every_statement_is_given_in_the_order_of_ast_walk() -> None:
    for tree in trees():
        wanted = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        assert [id(node) for node in every_statement(tree)] == [id(node) for node in wanted]


@pytest.mark.parametrize(
    "source",
    ["type Pair[T] = tuple[T, T]", "def first[T: int](x: T) -> T: return x", "f'{x!r:>{width}}'"],
)
def test_newer_syntax_is_walked_too(source: str) -> None:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        pytest.skip("this Python does not know it")
    wanted = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    assert [ast.dump(node) for node in every_node(tree)] == [ast.dump(node) for node in wanted]

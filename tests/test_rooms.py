# import-linter sees imports and ruff sees names; what neither sees is a call of a built-in.
import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src/vllm_graft"
PURE = (
    "errors.py",
    "values",
    "install",
    "link",
    "deps",
    "image",
    "fleet",
    "cluster",
    "report",
    "workflows",
)
FORBIDDEN = {"open", "input", "eval", "exec", "__import__", "print", "breakpoint"}
FILES = sorted(
    path
    for room in PURE
    for path in ([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
)
ALL = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_room_calls_no_built_in_that_acts(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls & FORBIDDEN == set()


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_a_module_is_named_after_what_it_owns(path: Path) -> None:
    names = {
        "util",
        "utils",
        "helper",
        "helpers",
        "common",
        "manager",
        "misc",
        "handler",
        "service",
    }
    assert not names.intersection(path.stem.split("_"))


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_a_command_says_how_long_it_may_take(path: Path) -> None:
    without = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Command"
        if not {"timeout", None}.intersection(keyword.arg for keyword in node.keywords)
    ]
    assert without == []


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_a_module_says_at_its_top_what_lives_there(path: Path) -> None:
    source = path.read_text()
    assert not source or source.startswith(("#", '"""'))

# Changes of a text at positions that the syntax tree gives. What is not spliced keeps every byte.
"""Splices: pieces of a source file replaced in place."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.link.symbols import start_line
from vllm_graft.link.uses import Span, span_of


@dataclass(frozen=True, slots=True, order=True)
class Splice:
    """Replace bytes ``start`` to ``end`` (exclusive) of a file by ``text``."""

    start: int
    end: int
    text: str


class Source:
    """Bytes of a module with line offsets."""

    def __init__(self, content: bytes) -> None:
        """Index the lines."""
        self.content = content
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a place: line from 1, column in bytes from 0."""
        return self._starts[line - 1] + column

    def line_start(self, line: int) -> int:
        """Byte offset where a line begins; the end of the file for the line after the last."""
        return self._starts[min(line - 1, len(self._starts) - 1)]

    def of(self, span: Span) -> tuple[int, int]:
        """Byte offsets of a span."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def spliced(self, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
        """Text from ``start`` to ``end`` with the splices inside it made.

        A splice inside another one is dropped: the outer one replaces it anyway. What is put in where another
        one begins stands before that.
        """
        stop = len(self.content) if end is None else end
        chosen: list[Splice] = []
        for splice in sorted(
            set(splices), key=lambda s: (s.start, s.start != s.end, -s.end, s.text)
        ):
            if splice.start < start or splice.end > stop:
                continue
            if chosen and splice.start < chosen[-1].end:
                continue
            chosen.append(splice)
        parts: list[bytes] = []
        at = start
        for splice in chosen:
            parts.append(self.content[at : splice.start])
            parts.append(splice.text.encode())
            at = splice.end
        parts.append(self.content[at:stop])
        return b"".join(parts).decode()


def removal(node: ast.stmt, source: Source, *, block: bool = False) -> Splice:
    """Cut a statement with the decorators and lines that are its own; a block keeps a ``pass``."""
    first = (
        start_line(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        else node.lineno
    )
    start = source.line_start(first)
    end = source.line_start((node.end_lineno or node.lineno) + 1)
    return Splice(start, end, f"{' ' * node.col_offset}pass\n" if block else "")


def renamed_definition(node: ast.stmt, source: Source, new: str) -> Iterator[Splice]:
    """Give a function or class another name where it is defined; values are renamed where they are named."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        word = b"class" if isinstance(node, ast.ClassDef) else b"def"
        start = source.content.index(word, source.offset(node.lineno, node.col_offset))
        start = source.content.index(node.name.encode(), start + len(word))
        yield Splice(start, start + len(node.name.encode()), new)


def renamed_globals(node: ast.AST, source: Source, names: Mapping[str, str]) -> Iterator[Splice]:
    """Give names in ``global`` statements their new names."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Global) and any(name in names for name in inner.names):
            new = ", ".join(names.get(name, name) for name in inner.names)
            yield Splice(*source.of(span_of(inner)), f"global {new}")


def explicit_supers(statement: ast.stmt, source: Source, ancestor: str) -> Iterator[Splice]:
    """Make ``super()`` skip the base's own class, as it does where the donor wrote it."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or not statement.args.args:
        return
    receiver = statement.args.args[0].arg
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
        ):
            start, end = source.of(span_of(node))
            yield Splice(start, end, f"super({ancestor}, {receiver})")


def dedented(text: str) -> str:
    """Take the first line's margin off every line that has it."""
    lines = text.splitlines(keepends=True)
    margin = min((len(line) - len(line.lstrip()) for line in lines[:1] if line.strip()), default=0)
    return "".join(
        line[margin:] if line[:margin].isspace() and line.strip() else line for line in lines
    )


def indented(text: str) -> str:
    """Put a text one level further in."""
    return "".join(
        f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True)
    )

# A piece of donor text on its way into a base file: what names grafted modules or renamed operators is
# rewritten, the rest stays byte for byte.
"""Donor source, cut out and retargeted."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.link.surgery import extent, line_starts
from vllm_graft.link.tables import absolute_module, package_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Retargeting:
    """What is called otherwise in the grafted base."""

    modules: Mapping[str, str]
    operators: Mapping[str, str]

    def word(self, text: str) -> str:
        """Give a string's new form: a dotted module or class path, or an operator."""
        namespace, colons, operator = text.rpartition("::")
        if operator in self.operators and (colons or text in self.operators):
            return f"{namespace}{colons}{self.operators[operator]}"
        if text in self.modules:
            return self.modules[text]
        module, dot, name = text.rpartition(".")
        return f"{self.modules[module]}{dot}{name}" if module in self.modules else text


@dataclass(frozen=True, slots=True)
class Excerpter:
    """Cuts pieces out of one donor file."""

    path: str
    text: bytes
    retargeting: Retargeting

    def cut(self, node: ast.expr | ast.stmt, replaced: Sequence[tuple[ast.expr, str]] = ()) -> str:
        """Give the source of a node, retargeted; ``replaced`` expressions are written anew."""
        lines = line_starts(self.text)
        start, end = extent(node, lines)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                # The at sign stands just before.
                start = min(start, lines[decorator.lineno - 1] + decorator.col_offset - 1)
        splices = [(*extent(old, lines), new.encode()) for old, new in replaced]
        for inner in ast.walk(node):
            for splice in self._respelled(inner, lines):
                if not any(begin <= splice[0] < finish for begin, finish, _ in splices):
                    splices.append(splice)
        text = self.text
        result = text[start:end]
        for begin, finish, new in sorted(splices, reverse=True):
            result = result[: begin - start] + new + result[finish - start :]
        return result.decode()

    def _respelled(self, node: ast.AST, lines: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
        match node:
            case ast.Constant(value=str(text)):
                new = self.retargeting.word(text)
                if new != text:
                    yield (*extent(node, lines), f'"{new}"'.encode())
            case ast.Attribute(attr=name) if name in self.retargeting.operators:
                _, end = extent(node, lines)
                yield end - len(name), end, self.retargeting.operators[name].encode()
            case ast.ImportFrom():
                module = absolute_module(node, package_of(self.path))
                new = self.retargeting.modules.get(module, module)
                written = "." * node.level + (node.module or "")
                if new != written:
                    start, _ = extent(node, lines)
                    at = self.text.index(written.encode(), start + len("from"))
                    yield at, at + len(written), new.encode()
            case _:
                return

    def lines(
        self, node: ast.stmt, indent: int, replaced: Sequence[tuple[ast.expr, str]] = ()
    ) -> str:
        """Give a statement as whole lines at an indentation, with the comment lines above it."""
        source = " " * node.col_offset + self.cut(node, replaced)
        shift = indent - node.col_offset
        given = [*self._comments_above(node), *source.split("\n")]
        return "".join(f"{_shifted(line, shift)}\n" for line in given)

    def _comments_above(self, node: ast.stmt) -> list[str]:
        all_lines = self.text.split(b"\n")
        first = node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([first, *(decorator.lineno for decorator in node.decorator_list)])
        found: list[str] = []
        for line in reversed(all_lines[: first - 1]):
            text = line.decode()
            if (
                not text.lstrip().startswith("#")
                or len(text) - len(text.lstrip()) != node.col_offset
            ):
                break
            found.insert(0, text)
        return found

    def blank_above(self, node: ast.stmt) -> bool:
        """Tell whether an empty line stands above a statement, its comments aside."""
        all_lines = self.text.split(b"\n")
        above = node.lineno - 2 - len(self._comments_above(node))
        return above >= 0 and not all_lines[above].strip()


def _shifted(line: str, shift: int) -> str:
    if shift >= 0:
        return " " * shift + line if line.strip() else line
    return line[-shift:] if not line[:-shift].strip() else line

# A graft's files stand inside vLLM's package, and name one another there. In a plugin they stand in a package of their
# own. Every name of a module that moves is found in the syntax tree; one in a form that cannot be followed is told, not
# left.
"""Grafted modules in a package of another name."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.link.scopes import dotted
from vllm_graft.link.splices import Source, Splice
from vllm_graft.link.summary import absolute_module
from vllm_graft.link.syntax import every_node, parse_source_text
from vllm_graft.link.uses import Span, span_of
from vllm_graft.values.plan import GraftedModule

_LINE = 88


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocated:
    """A module as it is in its new place."""

    name: str
    path: str
    text: str
    unclear: tuple[str, ...]
    """What names a module that moves, in a form that cannot be followed; ``line: text``."""


class Relocation:
    """Moves modules out of vLLM's package."""

    def __init__(
        self, modules: tuple[GraftedModule, ...], exports: Mapping[str, str], package: str
    ) -> None:
        """Move these modules below ``package``; ``exports`` says what vLLM's packages would have given of them."""
        self.moved = {
            module.name: f"{package}.{module.name.removeprefix('vllm.')}" for module in modules
        }
        self._exports = exports

    def __call__(self, module: GraftedModule) -> Relocated:
        """Give a module in its new place."""
        return _Moving(self.moved, self._exports, module).relocated()


class _Moving:
    def __init__(
        self, moved: Mapping[str, str], exports: Mapping[str, str], module: GraftedModule
    ) -> None:
        self.moved = moved
        self.exports = exports
        self.module = module
        self.is_package = module.path.endswith("/__init__.py")
        self.source = Source(module.text.encode())
        self.tree = parse_source_text(module.text, module.path)
        self.unclear: list[str] = []

    def relocated(self) -> Relocated:
        text = self.source.spliced(self._splices())
        name = self.moved[self.module.name]
        tail = "/__init__.py" if self.is_package else ".py"
        return Relocated(
            name=name,
            path=name.replace(".", "/") + tail,
            text=text,
            unclear=tuple(self.unclear),
        )

    def _splices(self) -> Iterator[Splice]:
        quiet = self._never_read()
        for node in every_node(self.tree):
            match node:
                case ast.ImportFrom():
                    yield from self._import_from(node)
                case ast.Import():
                    yield from self._import(node)
                case ast.Attribute():
                    name = dotted(node)
                    if name in self.moved:
                        self._tell(node, f"{name} is reached through the package vllm")
                case ast.Name(id="__file__"):
                    self._tell(node, "__file__ is asked for")
                case ast.Constant(value=str(text)) if id(node) not in quiet:
                    yield from self._string(node, text)
                case _:
                    pass

    def _tell(self, node: ast.expr | ast.stmt, why: str) -> None:
        self.unclear.append(f"{self.module.path}:{node.lineno}: {why}")

    def _never_read(self) -> set[int]:
        """Give documentation, which may name what it likes."""
        return {
            id(node.value)
            for node in every_node(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Splice]:
        origin = absolute_module(
            self.module.name, is_package=self.is_package, level=node.level, target=node.module
        )
        groups: dict[str, list[str]] = {}
        for alias in node.names:
            head, name = self._place(origin, alias.name)
            local = alias.asname or alias.name
            groups.setdefault(head, []).append(name if name == local else f"{name} as {local}")
        if list(groups) == [origin] and not node.level:
            return
        indent = " " * node.col_offset
        lines = f"\n{indent}".join(
            _import_line(head, names, indent) for head, names in groups.items()
        )
        yield Splice(*self.source.of(span_of(node)), lines)

    def _place(self, origin: str, name: str) -> tuple[str, str]:
        """Say from where what ``from origin import name`` gives comes in the plugin, and under which name."""
        if origin in self.moved and f"{origin}.{name}" not in self.moved:
            return self.moved[origin], name
        if (submodule := self.moved.get(f"{origin}.{name}")) is not None:
            head, _, last = submodule.rpartition(".")
            return head, last
        if (module := self.exports.get(f"{origin}.{name}")) in self.moved:
            return self.moved[module or ""], name
        return origin, name

    def _import(self, node: ast.Import) -> Iterator[Splice]:
        for alias in node.names:
            if alias.name not in self.moved:
                continue
            if alias.asname:
                assert alias.end_lineno is not None
                assert alias.end_col_offset is not None
                span = Span(alias.lineno, alias.col_offset, alias.end_lineno, alias.end_col_offset)
                yield Splice(*self.source.of(span), f"{self.moved[alias.name]} as {alias.asname}")
            else:
                self._tell(node, f"import {alias.name} binds the package vllm")

    def _string(self, node: ast.Constant, text: str) -> Iterator[Splice]:
        found = next(
            (
                old
                for old in sorted(self.moved, key=len, reverse=True)
                if text == old or text.startswith((f"{old}.", f"{old}:"))
            ),
            None,
        )
        if found is None:
            return
        start, end = self.source.of(span_of(node))
        written = self.source.content[start:end].decode()
        if written.count(found) != 1:  # inside an f-string, or written with escapes
            self._tell(node, f"{text!r} is written in a form that cannot be followed")
            return
        yield Splice(start, end, written.replace(found, self.moved[found]))


def _import_line(head: str, names: list[str], indent: str) -> str:
    line = f"from {head} import {', '.join(names)}"
    if len(indent) + len(line) <= _LINE or names == ["*"]:
        return line
    inner = "".join(f"{indent}    {name},\n" for name in names)
    return f"from {head} import (\n{inner}{indent})"

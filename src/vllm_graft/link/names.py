# Code that moves from a donor file into a base file uses names. Each must be bound there: by the base
# file itself, by an import that the base can satisfy, or by a definition that comes along.
"""The names that a piece of code needs, and how a base file gets them."""

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import (
    SourceTrees,
    absolute_module,
    imported_names,
    package_of,
    path_of,
)

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__"}
_NO_LINE = 1 << 30
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import that a base file needs."""

    module: str
    name: str
    """Empty for ``import module``."""
    bound: str

    def source(self) -> str:
        """Give the statement."""
        if not self.name:
            return f"import {self.module}" + (
                f" as {self.bound}" if self.bound != self.module else ""
            )
        suffix = f" as {self.bound}" if self.bound != self.name else ""
        return f"from {self.module} import {self.name}{suffix}"


@dataclass(slots=True, kw_only=True)
class Bindings:
    """What has to come along so that every name is bound."""

    imports: list[Import] = field(default_factory=list[Import])
    definitions: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """Of the donor's file, those that others need first."""
    missing: list[str] = field(default_factory=list[str])
    """One sentence for each name that cannot be bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSource:
    """The two files between which code moves, and what the graft adds to the base."""

    path: str
    """Of the donor's file."""
    donor: SourceTrees
    base: SourceTrees
    base_path: str
    grafted: Mapping[str, str]
    arrived: frozenset[str]
    """Names that earlier additions bring into the base file."""

    def bind(self, nodes: Sequence[ast.AST], local: frozenset[str], into: Bindings) -> None:
        """Find what the nodes need and add it to ``into``; ``local`` names are bound around them."""
        donor_tree = self.donor.tree(self.path)
        base_tree = self.base.tree(self.base_path)
        assert donor_tree is not None
        assert base_tree is not None
        for problem in self._unresolved_imports(nodes):
            if problem not in into.missing:
                into.missing.append(problem)
        known = top_level_names(base_tree)
        arriving = {name for node in into.definitions for name in _bound_by(node)}
        arriving |= {item.bound for item in into.imports}
        for name in sorted(free_names(nodes) - local - known - _BUILTINS - arriving - self.arrived):
            self._bind_one(name, donor_tree, into)

    def _bind_one(self, name: str, donor_tree: ast.Module, into: Bindings) -> None:
        imports = imported_names(donor_tree.body, package_of(self.path))
        if name in imports:
            module, original = imports[name]
            module = self.grafted.get(module, module)
            if (problem := self._unresolved(module, original)) is not None:
                into.missing.append(f"{name}: {problem}")
            else:
                into.imports.append(Import(module=module, name=original, bound=name))
            return
        definition = next(
            (
                node
                for node in donor_tree.body
                if name in _bound_by(node) and isinstance(node, _Definition)
            ),
            None,
        )
        if definition is None:
            into.missing.append(f"{name}: the base's {self.base_path} does not bind it")
            return
        # Guards against two definitions that need each other.
        placeholder = len(into.definitions)
        into.definitions.append(definition)
        self.bind([definition], frozenset(), into)
        into.definitions.append(into.definitions.pop(placeholder))

    def _unresolved_imports(self, nodes: Sequence[ast.AST]) -> Iterator[str]:
        """Check the imports that stand inside the code itself."""
        for node in (inner for outer in nodes for inner in ast.walk(outer)):
            if isinstance(node, ast.ImportFrom):
                module = absolute_module(node, package_of(self.path))
                module = self.grafted.get(module, module)
                for alias in node.names:
                    problem = self._unresolved(module, alias.name)
                    if problem is not None:
                        yield f"{alias.name}: {problem}"

    def _unresolved(self, module: str, name: str) -> str | None:
        """Say why an import fails in the grafted base; None where it works or is not vLLM's."""
        if module.partition(".")[0] != "vllm" or module in self.grafted.values():
            return None
        path = path_of(module, self.base.files)
        if path is None:
            return f"the base has no module {module}"
        tree = self.base.tree(path)
        if not name or tree is None or name in top_level_names(tree):
            return None
        if f"{module}.{name}" in self.grafted or path_of(f"{module}.{name}", self.base.files):
            return None
        if "__getattr__" in top_level_names(tree) and f'"{name}"'.encode() in self.base.files.read(
            path
        ):
            return None
        return f"the base's {module} does not define it"


def top_level_names(tree: ast.Module) -> frozenset[str]:
    """Give every name that a module binds at its top level, in ``if`` and ``try`` too."""
    return frozenset(_names_of(tree.body))


def _names_of(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        yield from _bound_by(node)
        for name in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
                for inner in getattr(node, name, ()):
                    yield from _names_of(
                        inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                    )


def _bound_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names):
            return {alias.asname or alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(names=names):
            return {alias.asname or alias.name for alias in names}
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.With():
            return {
                inner.id
                for inner in every_node(node)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            }
        case _:
            return set()


def free_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Give the names that code reads and does not bind itself.

    Coarse on purpose: a name that is bound anywhere in the code counts as bound.
    """
    read: set[str] = set()
    bound: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                bound.add(name)
            case ast.Import() | ast.ImportFrom():
                bound |= _bound_by(node)
            case _:
                pass
    return read - bound


def local_names(function: ast.AST) -> frozenset[str]:
    """Give the names that a function binds anywhere: its arguments and what its body assigns."""
    return bound_before(function, _NO_LINE)


def bound_before(function: ast.AST, line: int) -> frozenset[str]:
    """Give the names that a function has bound when a line of it runs: arguments and earlier lines.

    A module's own names are not among them.
    """
    if isinstance(function, ast.Module):
        return frozenset()
    earlier = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.arg) or getattr(node, "lineno", line) < line
    ]
    names: set[str] = set()
    for node in earlier:
        match node:
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names |= _bound_by(node)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case _:
                pass
    return frozenset(names)

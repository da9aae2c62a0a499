# A module is never imported: what it binds at its top level, also under conditions, is read from its syntax tree.
"""Module summaries: definitions, imports, star imports and lazy maps."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from vllm_graft.link.scopes import AT_RUN_TIME, ONLY_TYPES, FunctionNode, bound_targets, flatten
from vllm_graft.link.symbols import Definition, has_decorator, start_line
from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSummary:
    """What one module defines, imports and uses."""

    module: str
    path: str
    is_package: bool
    definitions: Mapping[str, Definition]
    stars: tuple[str, ...]
    """Absolute modules of star imports at module level."""
    lazy: Mapping[str, str]
    """Names served by a module ``__getattr__``: name → absolute module."""
    exports: frozenset[str] | None
    """``__all__``; None where there is none, or where it is computed."""
    only_types: frozenset[str]
    """Names that exist for type checkers only: nothing binds them at run time."""
    has_getattr: bool
    loose: tuple[ast.stmt, ...] = field(repr=False, compare=False)
    """Top-level statements that bind nothing."""

    def gives_to_star(self, name: str) -> bool:
        """Tell whether ``from module import *`` binds a name that the module has.

        Source: Python language reference, "The import statement".
        """
        if self.exports is not None:
            return name in self.exports
        return "__all__" in self.definitions or not name.startswith("_")


def absolute_module(module: str, *, is_package: bool, level: int, target: str | None) -> str:
    """Resolve a relative import the way the import system does.

    Source: Python language reference, "Package Relative Imports"; PEP 328.
    """
    if level == 0:
        return target or ""
    parts = module.split(".")
    if not is_package:
        parts = parts[:-1]
    parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
    return ".".join([*parts, target] if target else parts)


def summarize(tree: ast.Module, *, module: str, path: str, is_package: bool) -> ModuleSummary:
    """Summarise a parsed module."""
    reading = _Reading(module, is_package=is_package)
    for item in flatten(tree.body):
        reading.take(item.node, item.guard)
    has_getattr = "__getattr__" in reading.definitions
    return ModuleSummary(
        module=module,
        path=path,
        is_package=is_package,
        definitions=reading.definitions,
        stars=tuple(reading.stars),
        lazy=_lazy_map(tree, module) if has_getattr else {},
        exports=reading.exports,
        only_types=frozenset(
            name
            for name, definition in reading.definitions.items()
            if definition.guard == ONLY_TYPES and name not in reading.stood_in
        ),
        has_getattr=has_getattr,
        loose=tuple(reading.loose),
    )


class _Reading:
    """What has been read of a module so far.

    The last binding of a name counts, except that a fallback (``except``), what stands in at run time for a
    type, and what a function or class becomes under a condition never replace the real thing.
    """

    def __init__(self, module: str, *, is_package: bool) -> None:
        self._module = module
        self._is_package = is_package
        self.definitions: dict[str, Definition] = {}
        self.stood_in: set[str] = set()
        """Names that something else stands in for at run time."""
        self.stars: list[str] = []
        self.exports: frozenset[str] | None = None
        self.loose: list[ast.stmt] = []

    def take(self, node: ast.stmt, guard: str) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            self._definition(node, guard)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node, guard)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assignment(node, guard)
        elif not isinstance(node, ast.With | ast.AsyncWith | ast.For | ast.While):
            self.loose.append(node)

    def _definition(self, node: FunctionNode | ast.ClassDef, guard: str) -> None:
        if isinstance(node, ast.FunctionDef) and has_decorator(node, "overload"):
            return
        if node.name in self.definitions and guard == "except":
            return
        self.definitions[node.name] = Definition(
            name=node.name,
            kind="class" if isinstance(node, ast.ClassDef) else "function",
            line=start_line(node),
            end_line=node.end_lineno or node.lineno,
            guard=guard,
            node=node,
            shadowed=self.definitions.get(node.name) if isinstance(node, ast.ClassDef) else None,
        )

    def _import(self, node: ast.Import | ast.ImportFrom, guard: str) -> None:
        for local, source, name in _imported(node, self._module, is_package=self._is_package):
            if name == "*":
                self.stars.append(source)
            elif local not in self.definitions or guard != "except":
                self.definitions[local] = Definition(
                    name=local,
                    kind="import",
                    line=node.lineno,
                    end_line=node.end_lineno or node.lineno,
                    target_module=source,
                    target_name=name,
                    guard=guard,
                    node=node,
                )

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, guard: str) -> None:
        names = [n for t in bound_targets(node) for n in every_node(t) if isinstance(n, ast.Name)]
        if not names or isinstance(node, ast.AugAssign):
            self.loose.append(node)
        for target in names:
            if not isinstance(target.ctx, ast.Store):
                continue
            if target.id == "__all__":
                self._exports(node)
            known = self.definitions.get(target.id)
            # Of two values, the one for type checkers is none.
            is_other = known is not None and not (guard == AT_RUN_TIME and known.kind == "value")
            if is_other and guard in {"except", AT_RUN_TIME}:
                self.stood_in.add(target.id)
                continue
            if (
                known is not None
                and known.kind in {"class", "function"}
                and guard
                and not known.guard
            ):
                self.definitions[target.id] = replace(known, others=(*known.others, node))
                continue
            self.definitions[target.id] = Definition(
                name=target.id,
                kind="value",
                line=node.lineno,
                end_line=node.end_lineno or node.lineno,
                guard=guard,
                node=node,
            )

    def _exports(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        items = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else None
        texts = [text_of(item) for item in items] if items is not None else [None]
        known = frozenset(text for text in texts if text is not None)
        if None in texts or (isinstance(node, ast.AugAssign) and self.exports is None):
            self.exports = None
        elif isinstance(node, ast.AugAssign) and self.exports is not None:
            self.exports |= known
        else:
            self.exports = known


def _imported(
    node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield (local name, module, name)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name, ""
            else:
                yield alias.name.split(".")[0], alias.name.split(".")[0], ""
    else:
        source = absolute_module(
            module, is_package=is_package, level=node.level, target=node.module
        )
        for alias in node.names:
            yield alias.asname or alias.name, source, alias.name


def _lazy_map(tree: ast.Module, module: str) -> dict[str, str]:
    """Read dictionaries of a module with ``__getattr__`` that map names to modules.

    Source: vLLM 0.17.1 transformers_utils/configs/__init__.py (name → module) and vllm/__init__.py
    (name → ``".module:name"``).
    """
    lazy: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(
            statement.value, ast.Dict
        ):
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                name = None if key is None else text_of(key)
                target = (text_of(value) or "").split(":")[0]
                if target.startswith("."):
                    target = module + target
                if name is not None and target.startswith("vllm"):
                    lazy[name] = target
    return lazy

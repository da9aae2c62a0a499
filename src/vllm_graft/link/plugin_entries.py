# An edit may be left to a plugin only if it is nothing but new entries in tables that have an extension point. That is
# not read off the plan's words: the file before and after is parsed, the entries are taken out of both, and what remains
# must be the same.
"""Which edits of a plan vLLM's extension points can stand for, and which not."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from vllm_graft.link.extension_points import (
    EXPORTS,
    MODEL_POINT,
    ExtensionPoint,
    has_plugins,
    has_point,
    point_of,
)
from vllm_graft.link.layout import read_layout
from vllm_graft.link.syntax import parse_source_text
from vllm_graft.link.tables import (
    SourceTrees,
    absolute_module,
    assigned_values,
    mapping_items,
    package_of,
    pair_of,
    text_of,
)
from vllm_graft.link.unified import apply_diff
from vllm_graft.link.vllm import (
    CONFIGS,
    PAIRS_IN_PACKAGE,
    REGISTRY_PATH,
    Layout,
    Table,
    full_module,
)
from vllm_graft.values.install import Files
from vllm_graft.values.plan import Edit, GraftPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """One thing that a plugin registers."""

    point: ExtensionPoint
    name: str
    """Architecture, model type, or name of a parser."""
    module: str
    """Dotted, as in the grafted base; empty for a class that the base's own package gives."""
    symbol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something of a plan that no extension point stands for."""

    path: str
    """The base's file; empty where it is none."""
    what: str


@dataclass(slots=True)
class PluginParts:
    """A plan, as a plugin sees it."""

    entries: list[PluginEntry] = field(default_factory=list[PluginEntry])
    exports: dict[str, str] = field(default_factory=dict[str, str])
    """``package.Name`` that a grafted base would export → module that has it."""
    obstacles: list[Obstacle] = field(default_factory=list[Obstacle])


def plugin_parts(plan: GraftPlan, files: Files) -> PluginParts:
    """Divide a plan's edits into what a plugin can register, and what it cannot.

    ``files``: the base's, which the plan was made for.
    """
    found = PluginParts()
    if not has_plugins(files):
        found.obstacles.append(Obstacle(path="", what="this vLLM calls no plugins"))
    layout = read_layout(SourceTrees(files))
    for edit in plan.edits:
        if not _Reading(edit, files, layout, found).is_understood():
            found.obstacles.extend(Obstacle(path=edit.path, what=why) for why in edit.why)
    found.obstacles.extend(
        Obstacle(path="", what=f"{each.name}: side by side with the base's, {each.proposed}")
        for each in plan.dependencies
        if each.decision in {"side by side", "missing"}
    )
    found.entries = list(_leading_somewhere(found, layout))
    return found


def _leading_somewhere(found: PluginParts, layout: Layout) -> Iterator[PluginEntry]:
    """Give each entry with the module of its class; one that names a class of nobody's is left out."""
    for entry in found.entries:
        if entry.module or layout.lookup("config-exports", entry.symbol) is not None:
            yield entry
        elif module := found.exports.get(f"{CONFIGS}.{entry.symbol}"):
            yield replace(entry, module=module)


class _Reading:
    """One edited file, before and after."""

    def __init__(self, edit: Edit, files: Files, layout: Layout, found: PluginParts) -> None:
        self.path = edit.path
        self.files = files
        self.layout = layout
        self.found = found
        before = files.read(edit.path)
        self.before = parse_source_text(before, edit.path)
        self.after = parse_source_text(apply_diff(before.decode(), edit.diff), edit.path)
        self.entries: list[PluginEntry] = []
        self.exports: dict[str, str] = {}

    def is_understood(self) -> bool:
        """Take out every entry that a plugin registers; what remains must be the base's own text."""
        if self.path == REGISTRY_PATH:
            self._take_models()
        for table in self.layout.tables:
            if table.path == self.path:
                self._take_table(table)
        if ast.dump(self.before) != ast.dump(self.after):
            return False
        self.found.entries += self.entries
        self.found.exports |= self.exports
        return True

    def _take_models(self) -> None:
        if not has_point(MODEL_POINT, self.files):
            return
        for variable in dict.fromkeys(entry.table for entry in self.layout.models):
            for name, value in self._taken(variable):
                if (pair := pair_of(value)) is not None:
                    self._add(MODEL_POINT, name, full_module(pair[0]), pair[1])

    def _take_table(self, table: Table) -> None:
        if table.role in EXPORTS:
            self._take_exports(table)
            return
        point = point_of(table, self.files)
        if point is None:
            return
        for name, value in self._taken(table.variable):
            pair, text = pair_of(value), text_of(value)
            if pair is not None and table.role in PAIRS_IN_PACKAGE:
                module, symbol = pair
                package = package_of(self.path)
                self._add(point, name, module if "." in module else f"{package}.{module}", symbol)
            elif text is not None:
                self._add(point, name, "", text)
        self._take_calls(point)

    def _add(self, point: ExtensionPoint, name: str, module: str, symbol: str) -> None:
        self.entries.append(PluginEntry(point=point, name=name, module=module, symbol=symbol))

    def _taken(self, variable: str) -> Iterator[tuple[str, ast.expr]]:
        """Take the entries of a table that are new or changed out of both trees, and give them."""
        old, new = (assigned_values(tree).get(variable) for tree in (self.before, self.after))
        if old is None or new is None:
            return
        known = {name: ast.dump(value) for name, value, _ in mapping_items(old)}
        added = {
            name: value
            for name, value, _ in mapping_items(new)
            if known.get(name) != ast.dump(value)
        }
        for value in (old, new):
            _take_out(value, added.keys())
        yield from added.items()

    def _take_calls(self, point: ExtensionPoint) -> None:
        """Take out ``…Manager.register_lazy_module("name", "module", "Class")`` at the end of a package."""
        while len(self.after.body) > len(self.before.body):
            match self.after.body[-1]:
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(attr="register_lazy_module"),
                        args=[
                            ast.Constant(value=str(name)),
                            ast.Constant(value=str(module)),
                            ast.Constant(value=str(symbol)),
                        ],
                        keywords=[],
                    )
                ):
                    self._add(point, name, module, symbol)
                    self.after.body.pop()
                case _:
                    return

    def _take_exports(self, table: Table) -> None:
        package = package_of(self.path)
        names: dict[str, str] = {}
        if table.variable:
            names |= {
                name: module
                for name, value in self._taken(table.variable)
                if (module := text_of(value)) is not None
            }
        there = {ast.dump(node) for node in self.before.body}
        for node in list(self.after.body):
            if isinstance(node, ast.ImportFrom) and ast.dump(node) not in there:
                module = absolute_module(node, package)
                names |= {alias.asname or alias.name: module for alias in node.names}
                self.after.body.remove(node)
        old, new = (assigned_values(tree).get("__all__") for tree in (self.before, self.after))
        if isinstance(old, ast.List) and isinstance(new, ast.List):
            listed = {text_of(each) for each in old.elts}
            for elements in (old.elts, new.elts):
                elements[:] = [each for each in elements if text_of(each) in listed]
        self.exports |= {f"{package}.{name}": module for name, module in names.items()}


def _take_out(value: ast.expr, names: Collection[str]) -> None:
    """Remove these entries from a mapping that is written down, in the forms that ``mapping_items`` reads."""
    wanted = set(names)
    match value:
        case ast.Dict():
            kept = [
                (key, item)
                for key, item in zip(value.keys, value.values, strict=True)
                if not (isinstance(key, ast.Constant) and key.value in wanted)
            ]
            value.keys, value.values = [key for key, _ in kept], [item for _, item in kept]
            for key, item in kept:
                if key is None:
                    _take_out(item, wanted)
        case ast.Call():
            for inner in (*value.args, *(w.value for w in value.keywords if w.arg is None)):
                _take_out(inner, wanted)
            value.keywords = [
                word
                for word in value.keywords
                if word.arg not in wanted
                and not (
                    word.arg is None and isinstance(word.value, ast.Dict) and not word.value.keys
                )
            ]
        case _:
            pass

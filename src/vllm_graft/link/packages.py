# What grafted code takes from packages of others: by importing it, or by a name behind the package's own (``quagga.gallop``).
# What is imported in a function is asked for when that runs; a caller that may do without it asks first.
"""Names that grafted code takes from outside vLLM."""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.link.index import Index, is_inside
from vllm_graft.link.linked import Linked, is_elsewhere
from vllm_graft.link.scopes import FunctionNode
from vllm_graft.link.symbols import flatten
from vllm_graft.link.syntax import every_node
from vllm_graft.values.finding import Site

_AT_ONES_OWN_RISK = frozenset({"try", "except", "TYPE_CHECKING"})


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that a grafted module takes from outside vLLM."""

    package: str
    """Top-level import name."""
    module: str
    name: str
    """Empty where the module itself is imported."""
    site: Site


def imported_with_modules(linked: Linked) -> Iterator[Imported]:
    """Give what grafted modules take as they are imported."""
    donor = linked.decisions.donor
    for module in sorted(linked.decisions.taken):
        for item in flatten(donor.tree(module).body):
            if item.guard not in _AT_ONES_OWN_RISK and not is_elsewhere(item.guard):
                yield from _imports_of(donor, module, item.node)


def imported_in_functions(linked: Linked) -> Iterator[Imported]:
    """Give what grafted functions import when they run, whatever their caller asked."""
    donor = linked.decisions.donor
    for module, node in _definitions(linked):
        for inner in every_node(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                for item in flatten(inner.body):
                    if not item.guard:
                        yield from _imports_of(donor, module, item.node)


def read_from_packages(linked: Linked) -> Iterator[Imported]:
    """Give the names that grafted code reads right behind a package that its module imports."""
    donor = linked.decisions.donor
    for module, node in _definitions(linked):
        bound = _packages_bound(donor, module)
        hidden = _names_of_parameters(node)
        for inner in every_node(node) if bound else ():
            match inner:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
                    name in bound and name not in hidden
                ):
                    path = donor.path_of(module) or module
                    site = Site(install="donor", path=path, line=inner.lineno)
                    yield Imported(bound[name].partition(".")[0], bound[name], attribute, site)
                case _:
                    pass


def _definitions(linked: Linked) -> Iterator[tuple[str, ast.AST]]:
    """Module and syntax node of every class and function of a taken module that comes along."""
    for unit in sorted({(u.module, u.name) for u in linked.units if u.name}):
        module, name = unit
        found = linked.decisions.donor.resolve(module, name)
        if module not in linked.decisions.taken or found is None or found.module != module:
            continue
        node = found.definition.node
        if found.definition.kind in {"class", "function"} and node is not None:
            yield module, node


def _packages_bound(donor: Index, module: str) -> Mapping[str, str]:
    """Names that a module gives to packages of others, unguarded: ``import a.b`` binds ``a``."""
    bound: dict[str, str] = {}
    for item in flatten(donor.tree(module).body):
        if item.guard or not isinstance(item.node, ast.Import):
            continue
        for alias in item.node.names:
            if not is_inside(alias.name) and _is_of_others(alias.name):
                bound[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
    return bound


def _names_of_parameters(node: ast.AST) -> frozenset[str]:
    functions: list[FunctionNode] = [
        inner
        for inner in every_node(node)
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return frozenset(
        inner.arg for f in functions for inner in ast.walk(f.args) if isinstance(inner, ast.arg)
    )


def _is_of_others(module: str) -> bool:
    return module.partition(".")[0] not in sys.stdlib_module_names


def _imports_of(donor: Index, module: str, node: ast.stmt) -> Iterator[Imported]:
    site = Site(install="donor", path=donor.path_of(module) or module, line=node.lineno)
    if isinstance(node, ast.Import):
        pairs = [(alias.name, "") for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        pairs = [(node.module, alias.name) for alias in node.names]
    else:
        return
    for source, name in pairs:
        if not is_inside(source) and _is_of_others(source):
            yield Imported(source.partition(".")[0], source, name, site)

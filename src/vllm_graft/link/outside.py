# What grafted code needs that is not Python of vLLM: operators and extensions in the binaries, and packages of
# others. A CPU wheel lacks every CUDA operator, so here the donor's own lack proves nothing (rule 4's
# exception): the base has an operator if its binaries name it or its own Python uses it.
"""Rules about native code and exact-type checks."""

import ast
import re
from collections.abc import Iterable, Iterator

from vllm_graft.link.index import Index
from vllm_graft.link.linked import Linked, is_elsewhere
from vllm_graft.link.scopes import dotted
from vllm_graft.link.syntax import every_node
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.install import Files, Install

# Coarse: what these let through is read closely.
_EXACT = (
    re.compile(rb"type\([^()\n]*(?:\([^()\n]*\)[^()\n]*)?\)\s*(?:is\b|==|!=|in\b|not\b)"),
    re.compile(rb"__class__\s*(?:is\b|==|!=|in\b|not\b)"),
    re.compile(rb"(?:is|not|==|!=|in) type\("),
)


def check_native(linked: Linked, base: Install) -> Iterator[Finding]:
    """Find operators and extension modules that the base's binaries do not have."""
    donor = linked.decisions.donor
    seen: set[str] = set()
    for use, module in linked.native:
        key = f"{use.namespace}.{use.name}"
        if key in seen or use.name in base.native.operators:
            continue
        if base.files.mention(f"{key}".encode()) or base.files.mention(
            f'"{use.namespace}", "{use.name}"'.encode()
        ):
            continue
        seen.add(key)
        yield _native_finding(
            _site(donor, module, use.span.line),
            wanted=f"torch.ops.{key}",
            found="the base's binaries name no such operator, and its Python never uses it",
            guard=use.guard,
        )
    for module in linked.decisions.taken:
        for name, line, guard in _extension_imports(donor, module):
            if name in base.native.extensions or name in seen:
                continue
            if base.files.mention(name.rpartition(".")[2].encode()):
                continue
            seen.add(name)
            yield _native_finding(
                _site(donor, module, line),
                wanted=name,
                found="the base has no such extension module",
                guard=guard,
            )


def _site(donor: Index, module: str, line: int) -> Site:
    return Site(install="donor", path=donor.path_of(module) or module, line=line)


def _native_finding(site: Site, *, wanted: str, found: str, guard: str) -> Finding:
    severity: Severity = "note" if is_elsewhere(guard) else "blocked"
    condition = f"; it is reached where {guard}" if guard else "; nothing guards its use"
    return Finding(
        code="G210",
        severity=severity,
        site=site,
        wanted=wanted,
        found=found + condition,
        remedy="choose a base whose binaries have it, or the route rebuild"
        + (f"; a setting that makes {guard!r} false avoids it" if guard else ""),
    )


def _extension_imports(index: Index, module: str) -> Iterator[tuple[str, int, str]]:
    """Imports of ``vllm._something_C``: (module, line, guard)."""
    for node, guard in _guarded_statements(index.tree(module)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names] + [node.module]
        for name in names:
            last = name.rpartition(".")[2]
            if name.startswith("vllm.") and last.startswith("_") and last.endswith("_C"):
                yield name, node.lineno, guard


def _guarded_statements(
    tree: ast.AST, guards: tuple[str, ...] = ()
) -> Iterator[tuple[ast.stmt, str]]:
    """Every statement of a tree with the conditions around it, outermost first."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            continue  # no statement stands in one
        inner = guards
        if isinstance(tree, ast.If) and isinstance(child, ast.stmt):
            condition = ast.unparse(tree.test)
            inner = (*guards, condition if child in tree.body else f"not ({condition})")
        if isinstance(child, ast.stmt):
            yield child, " and ".join(inner)
        yield from _guarded_statements(child, inner)


def check_exact_types(linked: Linked) -> Iterator[Finding]:
    """Find places in the base that ask for the exact type of a class that the graft derives from."""
    base = linked.decisions.base
    derived = {each.base.dotted: each for each in linked.decisions.derived.values()}
    by_name = {each.base.name: place for place, each in derived.items()}
    for path in _asking_types(base.files, sorted(by_name)):
        module = base.module_at(path)
        told: set[str] = set()
        for node in every_node(base.tree(module)):
            for name in _compared_types(node) if isinstance(node, ast.Compare) else ():
                place = _class_behind(base, module, name)
                derivation = derived.get(by_name.get(name, "") if place is None else place)
                if derivation is None or derivation.base.dotted in told:
                    continue
                told.add(derivation.base.dotted)
                yield Finding(
                    code="G213",
                    severity="review",
                    site=Site(install="base", path=path, line=getattr(node, "lineno", 0)),
                    wanted=f"an instance of a class derived from {derivation.base.dotted}",
                    found=f"the base compares the exact type with {derivation.base.name}",
                    remedy="where this code runs for the model (LoRA, some quantisations), the"
                    " grafted layer is passed over; try that feature before relying on it",
                    comparison=derivation.donor.dotted,
                )


def _class_behind(base: Index, module: str, name: str) -> str | None:
    """Dotted class that a name means in a module; None for what is imported inside a function."""
    if base.resolve(module, name.partition(".")[0]) is None:
        return None
    found = base.class_named(module, name)
    return "" if found is None else found.dotted


def _asking_types(files: Files, names: Iterable[str]) -> Iterator[str]:
    """Files in which the exact type of a class of one of these names may be asked for."""
    for path in dict.fromkeys(path for name in names for path in files.containing(name.encode())):
        text = files.read(path)
        if any(pattern.search(text) for pattern in _EXACT):
            yield path


def _compared_types(node: ast.Compare) -> Iterator[str]:
    """Dotted names of the classes with which a comparison compares an exact type."""
    parts = (node.left, *node.comparators)
    if not any(is_type_of(part) for part in parts):
        return
    for part in parts:
        for element in part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else (part,):
            if not is_type_of(element) and (name := dotted(element)) is not None:
                yield name


def is_type_of(node: ast.expr) -> bool:
    """Tell ``type(x)`` and ``x.__class__``."""
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[_]) | ast.Attribute(attr="__class__"):
            return True
        case _:
            return False

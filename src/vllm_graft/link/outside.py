# What grafted code needs that is not Python of vLLM: operators and extensions in the binaries, and packages of
# others. A CPU wheel lacks every CUDA operator, so here the donor's own lack proves nothing (rule 4's
# exception): the base has an operator if its binaries name it or its own Python uses it.
"""Rules about native code."""

import ast
from collections.abc import Iterator

from vllm_graft.link.index import Index
from vllm_graft.link.linked import Linked, is_elsewhere
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.install import Install


def check_native(linked: Linked, base: Install) -> Iterator[Finding]:
    """Find operators and extension modules that the base's binaries do not have."""
    donor = linked.decisions.donor
    seen: set[str] = set()
    for use, module in linked.native:
        key = f"{use.namespace}.{use.name}"
        if key in seen or linked.decisions.pair.has_native(use.namespace, use.name):
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

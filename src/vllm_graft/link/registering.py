# Parsers, tokenizers, renderers and exports are registered by a name that users type or other code
# imports. Rule 8 decides which name: where the base has a parser of this name with another body, the
# donor's copy gets the model's own name, so that whoever uses the old name keeps the old parser.
"""Registering named parts of a graft in the base's tables."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_graft.link.places import members
from vllm_graft.link.roots import RootPart, Roots
from vllm_graft.link.surgery import Addition
from vllm_graft.link.tables import assigned_values, package_of, path_of
from vllm_graft.link.vllm import PARSER_MANAGER_OF, Layout, Table
from vllm_graft.link.workbench import Outcome, Workbench

_TWO_LINES = frozenset({"reasoning-parser", "tool-parser", "parser"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What became of one named part."""

    part: RootPart
    name: str
    """Under which it is registered in the grafted base."""
    outcome: Outcome
    line: int
    path: str
    """Of the donor's table."""
    differs: bool
    """The base has a part of this name with another body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    bench: Workbench
    roots: Roots
    base_layout: Layout
    version: str


def register_parts(
    bench: Workbench, roots: Roots, base_layout: Layout, version: str
) -> Iterator[Registration]:
    """Register every part that the roots name."""
    context = _Context(bench=bench, roots=roots, base_layout=base_layout, version=version)
    for part in roots.parts:
        donor_table = next(
            table
            for table in bench.donor_layout.of_role(part.role)
            if table.get(part.name) is not None
        )
        entry = donor_table.get(part.name)
        assert entry is not None
        name, outcome = _register(context, part, donor_table)
        found = base_layout.lookup(part.role, part.name)
        grafted = bench.grafted.get(part.module)
        yield Registration(
            part=part,
            name=name,
            outcome=outcome,
            line=entry.line,
            path=donor_table.path,
            differs=found is not None and grafted is not None and found.module != grafted,
        )


def _register(context: _Context, part: RootPart, donor_table: Table) -> tuple[str, Outcome]:
    bench, base_layout = context.bench, context.base_layout
    module = bench.grafted.get(part.module, part.module)
    found = base_layout.lookup(part.role, part.name)
    if found is not None and (found.module, found.symbol) == (module, part.class_name):
        return part.name, Outcome(decision="present", reason="the base has it, the same")
    if found is not None and part.module not in bench.grafted:
        return part.name, Outcome(
            decision="present",
            reason=f"the base's own {found.symbol} serves: nothing of the donor's is grafted",
        )
    if part.module not in bench.grafted and path_of(module, bench.base.files) is None:
        return part.name, Outcome(
            decision="refuse", reason=f"its module {part.module} is not in the graft"
        )
    name = part.name
    if found is not None:
        if part.role not in PARSER_MANAGER_OF:
            return part.name, Outcome(
                decision="present",
                reason=f"the base picks its own {found.symbol} for {part.name}, which other models "
                "use too",
            )
        name = _own_name(context, part, (module, part.class_name))
        there = base_layout.lookup(part.role, name)
        if there is not None:
            return name, Outcome(
                decision="present", reason=f"registered as {name}: the base keeps its {part.name}"
            )
    outcome = _add(context, part, (name, module), donor_table)
    if found is not None and outcome.decision == "transplant":
        return name, Outcome(
            decision="transplant",
            reason=f"registered as {name}, since the base has another parser named {part.name} "
            f"that other models use: serve this model with --{part.role} {name}",
            base_path=outcome.base_path,
        )
    return name, outcome


def _own_name(context: _Context, part: RootPart, target: tuple[str, str]) -> str:
    """Choose the name for a parser whose own name is taken: the model's, else with the version."""
    lookup, versioned = context.base_layout.lookup, f"{part.name}__from_{context.version}"
    wanted = sorted(context.roots.model_types, key=len)
    for name in (*wanted, versioned):
        there = lookup(part.role, name)
        if there is None or (there.module, there.symbol) == target:
            return name
    return versioned


def _add(context: _Context, part: RootPart, target: tuple[str, str], donor_table: Table) -> Outcome:
    bench, base_layout = context.bench, context.base_layout
    name, module = target
    tables = [table for table in base_layout.of_role(part.role) if table.variable]
    if not tables:
        return Outcome(decision="refuse", reason=f"the base has no table of {part.role}s")
    table = tables[0]
    tree = bench.base.tree(table.path)
    value = assigned_values(tree)[table.variable] if tree is not None else None
    assert tree is not None
    assert value is not None
    package = package_of(table.path)
    why = f"{table.variable} names {name}"
    if not module.startswith(f"{package}."):
        manager = PARSER_MANAGER_OF.get(part.role)
        if manager is None:
            return Outcome(
                decision="refuse",
                reason=f"the base's table names files of {package} only, not {module}",
            )
        last = tree.body[-1]
        call = (
            f'{manager}.register_lazy_module(\n    "{name}",\n    "{module}",\n'
            f'    "{part.class_name}",\n)'
        )
        bench.surgery(table.path, why).insert_lines((last.end_lineno or last.lineno) + 1, call)
        return Outcome(decision="transplant", reason=f"registered as {name}", base_path=table.path)
    there = [label for label, _ in members(value)]
    bench.surgery(table.path, why).add_member(
        value,
        Addition(
            source=_entry_source(part, name, module.removeprefix(f"{package}.")),
            before=_neighbour(part.name, donor_table, there),
        ),
    )
    return Outcome(decision="transplant", reason=f"registered as {name}", base_path=table.path)


def _entry_source(part: RootPart, name: str, file: str) -> str:
    if part.role in _TWO_LINES:
        return f'"{name}": (\n        "{file}",\n        "{part.class_name}",\n    )'
    return f'"{name}": ("{file}", "{part.class_name}")'


def _neighbour(name: str, donor_table: Table, there: Sequence[str]) -> int:
    labels = [entry.name for entry in donor_table.entries]
    at = labels.index(name)
    for earlier in (name, *reversed(labels[:at])):
        if earlier in there:
            return there.index(earlier) + 1
    for later in labels[at + 1 :]:
        if later in there:
            return there.index(later)
    return len(there)


def export_eagerly(bench: Workbench, name: str, module: str, table: Table) -> Outcome:
    """Export a class from a package that imports its modules at once.

    Source: ``transformers_utils/configs/__init__.py`` up to 0.13, ``processors/__init__.py`` up to
    0.17: no lazy map, imports instead.
    """
    target = bench.grafted.get(module, module)
    if target not in bench.grafted.values() and not path_of(target, bench.base.files):
        return Outcome(decision="refuse", reason=f"its module {module} is not in the graft")
    if table.get(name) is not None:
        return Outcome(decision="present", reason="the base exports it", base_path=table.path)
    tree = bench.base.tree(table.path)
    assert tree is not None
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    earlier = [node for node in imports if (node.module or "") <= target]
    last = max(earlier or imports or tree.body[:1], key=lambda node: node.lineno)
    bench.surgery(table.path, f"exports {name}").insert_lines(
        (last.end_lineno or last.lineno) + 1, f"from {target} import {name}"
    )
    return Outcome(
        decision="transplant",
        reason=f"imported in {table.path}, which has no lazy map",
        base_path=table.path,
    )

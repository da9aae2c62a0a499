# Reading one install's layout: link/vllm.py says where a table stands, link/tables.py how to read one.
"""One install's registries and tables, as a value."""

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

from vllm_graft.errors import SourceError
from vllm_graft.link.tables import (
    SourceTrees,
    assigned_values,
    imported_names,
    mapping_items,
    member_strings,
    module_of,
    package_of,
    pair_of,
    text_of,
)
from vllm_graft.link.vllm import (
    BACKENDS_PATHS,
    KV_SPEC_PATH,
    PAIRS_IN_PACKAGE,
    PARSER_MANAGERS,
    REGISTRY_ELSEWHERE,
    REGISTRY_OTHERS,
    REGISTRY_PATH,
    REGISTRY_RETIRED,
    REGISTRY_UNION,
    SECOND_TREE,
    TABLES,
    Layout,
    ModelEntry,
    Role,
    Table,
    TableEntry,
    TablePlaces,
    full_module,
)
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.install import Files


def read_layout(trees: SourceTrees, *, install: Literal["base", "donor"] = "base") -> Layout:
    """Read every table that the linker edits or looks things up in.

    ``install`` says which one findings are about.

    Raises:
        SourceError: there is no vLLM here, or one of its files is no valid Python.
    """
    files = trees.files
    if "vllm/__init__.py" not in files or REGISTRY_PATH not in files:
        message = f"no vLLM here: wanted vllm/__init__.py and {REGISTRY_PATH}"
        raise SourceError(
            message,
            remedy="Name a wheel of vLLM, or the folder that holds vllm/ (site-packages).",
            code="E320",
        )
    models, retired, elsewhere, findings = _read_registry(trees, install)
    tables: list[Table] = []
    for spec in TABLES:
        table = _read_table(spec, trees)
        if table is not None and table.entries:
            tables.append(table)
        elif spec.role in PARSER_MANAGERS:
            tables.extend(_decorated_parsers(spec.role, trees))
        if spec.required and all(table.role != spec.role for table in tables):
            path, variable = spec.places[0]
            findings.append(_unknown(install, path, spec.role, f"no {variable}"))
    tables.extend(_read_backends(trees))
    tables.extend(_read_kv_specs(trees))
    traits = _traits(files, tables, models)
    return Layout(
        generation=_generation(traits, known=not findings),
        traits=traits,
        models=tuple(models),
        retired=retired,
        elsewhere=elsewhere,
        tables=tuple(tables),
        findings=tuple(findings),
        by_architecture={entry.architecture: entry for entry in models},
    )


def _read_registry(
    trees: SourceTrees, install: Literal["base", "donor"]
) -> tuple[list[ModelEntry], dict[str, str], dict[str, str], list[Finding]]:
    tree = trees.tree(REGISTRY_PATH)
    values: Mapping[str, ast.expr] = {} if tree is None else assigned_values(tree)
    findings: list[Finding] = []
    entries: list[ModelEntry] = []
    for table, value in values.items():
        if table in REGISTRY_OTHERS or not isinstance(value, ast.Dict):
            continue
        for architecture, item, line in mapping_items(value):
            pair = pair_of(item)
            if pair is None:
                continue
            entries.append(
                ModelEntry(
                    architecture=architecture,
                    module=full_module(pair[0]),
                    class_name=pair[1],
                    table=table,
                    line=line,
                )
            )
    union = values.get(REGISTRY_UNION)
    united = (
        {
            item.id
            for key, item in zip(union.keys, union.values, strict=True)
            if key is None and isinstance(item, ast.Name)
        }
        if isinstance(union, ast.Dict)
        else set[str]()
    )
    if not entries or not united:
        findings.append(
            _unknown(
                install, REGISTRY_PATH, "model registry", f"no {REGISTRY_UNION} made of tables"
            )
        )
    kept = [entry for entry in entries if not united or entry.table in united]
    return (
        kept,
        _texts(values.get(REGISTRY_RETIRED)),
        _texts(values.get(REGISTRY_ELSEWHERE)),
        findings,
    )


def _texts(value: ast.expr | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if value is not None:
        for name, item, _ in mapping_items(value):
            if (text := text_of(item)) is not None:
                found[name] = text
    return found


def _read_table(spec: TablePlaces, trees: SourceTrees) -> Table | None:
    for path, variable in spec.places:
        tree = trees.tree(path)
        if tree is None:
            continue
        if not variable:
            return _eager_table(spec.role, path, tree)
        value = assigned_values(tree).get(variable)
        if value is not None:
            entries = tuple(_entries(spec.role, path, tree, value))
            return Table(role=spec.role, path=path, variable=variable, entries=entries)
    return None


def _entries(role: Role, path: str, tree: ast.Module, value: ast.expr) -> Iterator[TableEntry]:
    names = imported_names(tree.body, package_of(path))
    found_pairs = False
    for name, item, line in mapping_items(value):
        found_pairs = True
        pair = pair_of(item)
        text = text_of(item)
        if pair is not None and role in PAIRS_IN_PACKAGE:
            module = pair[0] if pair[0].startswith("vllm.") else f"{package_of(path)}.{pair[0]}"
            yield TableEntry(name=name, line=line, module=module, symbol=pair[1])
        elif text is not None and role in {"config-exports", "processor"}:
            yield TableEntry(name=name, line=line, module=text, symbol=name)
        elif text is not None:
            yield TableEntry(name=name, line=line, symbol=text)
        elif isinstance(item, ast.Name):
            module = names.get(item.id, (module_of(path), ""))[0]
            yield TableEntry(name=name, line=line, module=module, symbol=item.id)
    if not found_pairs:
        for name, line in member_strings(value):
            yield TableEntry(name=name, line=line)


def _eager_table(role: Role, path: str, tree: ast.Module) -> Table:
    package = package_of(path)
    entries: list[TableEntry] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for bound, (module, name) in imported_names([node], package).items():
                if module.startswith(f"{package}."):
                    entries.append(
                        TableEntry(name=bound, line=node.lineno, module=module, symbol=name)
                    )
    return Table(role=role, path=path, variable="", entries=tuple(entries))


def _decorated_parsers(role: Role, trees: SourceTrees) -> Iterator[Table]:
    """Read parsers that register themselves: ``@…Manager.register_module("name")``.

    Source: reasoning and tool parsers before the lazy tables, 0.11.0 and older.
    """
    for path in trees.files.containing(PARSER_MANAGERS[role]):
        tree = trees.tree(path)
        entries: list[TableEntry] = []
        for node in tree.body if tree is not None else ():
            if not isinstance(node, ast.ClassDef):
                continue
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(
                        func=ast.Attribute(attr="register_module"), args=args, keywords=keywords
                    ):
                        named = [*args[:1], *(k.value for k in keywords if k.arg == "name")]
                        names = [
                            *(name for value in named for name, _ in member_strings(value)),
                            *(text for value in named if (text := text_of(value))),
                        ]
                        entries.extend(
                            TableEntry(
                                name=name,
                                line=node.lineno,
                                module=module_of(path),
                                symbol=node.name,
                            )
                            for name in names
                        )
                    case _:
                        pass
        if entries:
            yield Table(role=role, path=path, variable="", entries=tuple(entries))


def _read_backends(trees: SourceTrees) -> Iterator[Table]:
    for path in BACKENDS_PATHS:
        tree = trees.tree(path)
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.name.endswith("BackendEnum"):
                entries: list[TableEntry] = []
                for name, value in assigned_values(node).items():
                    module, _, symbol = (text_of(value) or "").rpartition(".")
                    entries.append(
                        TableEntry(name=name, line=value.lineno, module=module, symbol=symbol)
                    )
                yield Table(
                    role="attention-backend", path=path, variable=node.name, entries=tuple(entries)
                )


def _read_kv_specs(trees: SourceTrees) -> Iterator[Table]:
    tree = trees.tree(KV_SPEC_PATH)
    if tree is not None:
        module = module_of(KV_SPEC_PATH)
        entries = tuple(
            TableEntry(name=node.name, line=node.lineno, module=module, symbol=node.name)
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        )
        yield Table(role="kv-spec", path=KV_SPEC_PATH, variable="", entries=entries)


def _traits(files: Files, tables: list[Table], models: list[ModelEntry]) -> frozenset[str]:
    found: set[str] = set()
    roles = {table.role for table in tables}
    places = {(table.role, table.path, table.variable) for table in tables}
    if any(entry.module.startswith(f"{SECOND_TREE}.") for entry in models):
        found.add("second model tree")
    if "convertor" in roles:
        found.add("convertors")
    if "tokenizer" in roles:
        found.add("tokenizer registry")
    if "renderer" in roles:
        found.add("renderer registry")
    if "parser" in roles:
        found.add("parser registry")
    if "vllm/v1/spec_decode/llm_base_proposer.py" in files:
        found.add("proposer base")
    if any(
        role == "tool-parser" and path == "vllm/tool_parsers/__init__.py"
        for role, path, _ in places
    ):
        found.add("tool parsers at top")
    if any(role == "config-exports" and variable for role, _, variable in places):
        found.add("lazy config exports")
    if any(role == "processor" and variable for role, _, variable in places):
        found.add("lazy processor exports")
    return frozenset(found)


def _generation(traits: frozenset[str], *, known: bool) -> str:
    """Name the releases that look like this.

    Source: which traits the wheels of 0.11.2, 0.14.1, 0.15.1, 0.16.0, 0.17.1, 0.20.2, 0.25.1 and
    0.27.1 to 0.32.0 have; releases between those were not all looked at.
    """
    eras = (
        ("second model tree", "0.22 or later"),
        ("proposer base", "0.18 to 0.21"),
        ("parser registry", "0.16 to 0.17"),
        ("renderer registry", "0.15"),
        ("convertors", "0.14"),
        ("tokenizer registry", "0.12 to 0.13"),
    )
    if not known:
        return "unknown"
    for trait, era in eras:
        if trait in traits:
            return era
    return "0.11"


def _unknown(install: Literal["base", "donor"], path: str, wanted: str, found: str) -> Finding:
    return Finding(
        code="G302",
        severity="review",
        site=Site(install=install, path=path, line=0),
        wanted=f"vLLM's {wanted}, as releases 0.11 to 0.33 write it",
        found=found,
        remedy="This vLLM is laid out in a way that vllm-graft does not know: "
        "check every edit by eye, or use a release as base and donor.",
    )

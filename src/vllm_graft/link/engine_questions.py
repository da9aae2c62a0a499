# A class of a model that the base's engine knows by name, and of which the graft brings the donor's version: the engine
# asks for its own. Where it only asks (`isinstance`), the question can be widened to both, provided that the grafted class
# has all that the engine may then use; where it does anything else with the class, a person has to look.
"""Places in the base's engine that ask for a class of which the graft brings another version."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from vllm_graft.link.decide import Decisions
from vllm_graft.link.index import Found, Index
from vllm_graft.link.linked import Linked, Unit
from vllm_graft.link.pair import Pair
from vllm_graft.link.scopes import annotations_in, dotted
from vllm_graft.link.surgery import Addition
from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import absolute_module, package_of
from vllm_graft.link.workbench import Workbench
from vllm_graft.values.finding import Finding, Site

_ASKING = frozenset({"isinstance", "issubclass"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineQuestion:
    """A file of the base's engine that knows a class of which the graft brings another version."""

    found: Found
    """The donor's class."""
    target: str
    """The module that it stands in, in the grafted base."""
    alias: str
    """What it is called in the base's file, beside the base's own."""
    path: str
    line: int
    names: tuple[tuple[ast.Name, ast.Tuple | None], ...]
    """Where the base's class is asked for, and the tuple that it stands in, if any."""
    imports: tuple[ast.ImportFrom, ...]
    obstacle: str
    """Why the question cannot be widened; empty where it can."""


def questions_of_the_engine(linked: Linked) -> Iterator[EngineQuestion]:
    """Find the files, one question for each class and file."""
    decisions = linked.decisions
    pair = decisions.pair
    for unit in sorted({Unit(u.module, u.name) for u in linked.units if u.name}):
        found = pair.donor.resolve(unit.module, unit.name)
        taken = decisions.taken.get(unit.module)
        if found is None or found.definition.kind != "class" or taken is None:
            continue
        counterpart = decisions.counterpart(found) if decisions.is_grafted(found) else None
        if counterpart is None or pair.room_of(counterpart.module) == "engine":
            continue
        for path in pair.base.files.containing(found.name.encode()):
            module = pair.base.module_at(path)
            if pair.room_of(module) == "engine":
                yield from _question(decisions, found, counterpart, taken.target, module)


def finding_of(question: EngineQuestion) -> Finding:
    """Tell of a question: a note where it was widened."""
    found = f"the base's engine knows its own {question.found.name} here"
    remedy = "read the line: what it does for that class does not happen for the grafted one"
    if not question.obstacle:
        remedy = f"repaired: it asks for either now, the grafted one as {question.alias}"
    return Finding(
        code="G222",
        severity="review" if question.obstacle else "note",
        site=Site(install="base", path=question.path, line=question.line),
        wanted=f"{question.found.dotted} of the donor, which comes along as {question.target}",
        found=f"{found}; {question.obstacle}" if question.obstacle else found,
        remedy=remedy,
        comparison=question.found.dotted,
    )


def ask_for_both(bench: Workbench, question: EngineQuestion) -> None:
    """Edit the base's file so that it asks for the grafted class too."""
    surgery = bench.surgery(question.path, f"asks for the grafted {question.found.name} too")
    for node in question.imports:
        line = f"from {question.target} import {question.found.name} as {question.alias}"
        surgery.insert_lines((node.end_lineno or node.lineno) + 1, " " * node.col_offset + line)
    for name, among in question.names:
        if among is None:
            surgery.replace(name, f"({name.id}, {question.alias})")
        else:
            at = among.elts.index(name) + 1
            surgery.add_member(among, Addition(source=question.alias, before=at))


def _question(
    decisions: Decisions, found: Found, counterpart: Found, target: str, module: str
) -> Iterator[EngineQuestion]:
    base = decisions.base
    path = base.path_of(module)
    if (
        path is None
        or module == counterpart.module
        or not _may_import(base.source(module), counterpart.module)
    ):
        return
    nodes = tuple(every_node(base.tree(module)))
    imports = {
        alias.asname or alias.name: node
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == counterpart.name and _imports(base, module, node, counterpart)
    }
    annotations = {
        id(inner) for part in annotations_in(base.tree(module)) for inner in ast.walk(part)
    }
    mentioned = [
        node
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and id(node) not in annotations
        and _means(base, module, node, imports.keys(), counterpart)
    ]
    if not mentioned:
        return
    asked = [pair for pair in _asked(nodes) if pair[0].id in imports]
    alias = f"{found.name}__from_{decisions.suffix}"
    if len(asked) < len(mentioned):
        obstacle = "it does more with it than to ask for it"
    elif any(_is_crowded(base.source(module), node) for node in imports.values()):
        obstacle = "its import shares a line with something else"
    else:
        obstacle = _lacking(decisions.pair, found, counterpart)
    yield EngineQuestion(
        found=found,
        target=target,
        alias=alias,
        path=path,
        line=min(node.lineno for node in mentioned),
        names=tuple(asked),
        imports=tuple(dict.fromkeys(imports.values())),
        obstacle=obstacle,
    )


def _means(index: Index, module: str, node: ast.AST, names: Collection[str], wanted: Found) -> bool:
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name) if name == wanted.name:
            found = index.class_named(module, dotted(node) or "")
            return found is not None and found.dotted == wanted.dotted
        case _:
            return False


def _asked(nodes: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Name, ast.Tuple | None]]:
    """Names that stand where ``isinstance`` or ``issubclass`` looks for a class."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=function), args=[_, wanted]) if function in _ASKING:
                if isinstance(wanted, ast.Name):
                    yield wanted, None
                elif isinstance(wanted, ast.Tuple):
                    yield from (
                        (each, wanted) for each in wanted.elts if isinstance(each, ast.Name)
                    )
            case _:
                pass


def _is_crowded(source: bytes, node: ast.ImportFrom) -> bool:
    lines = source.split(b"\n")[node.lineno - 1 : node.end_lineno]
    return b";" in b"".join(lines) or bool(lines[0][: node.col_offset].strip())


def _lacking(pair: Pair, donor: Found, base: Found) -> str:
    """What the base's engine may use of its own class and not find in the donor's, or otherwise; empty where nothing."""
    for name, member in sorted(base.definition.members.items()):
        # Making and running a model is checked where its class is.
        if name.startswith("__") or name == "forward" or not _is_used(pair, name):
            continue
        provided = pair.donor.member(donor, name)
        if provided is None:
            return f"the grafted one has no {name}, which the engine uses by that name"
        for call in pair.base_callers.of(name):
            if call.fits(member) is None and (misfit := call.fits(provided[1])) is not None:
                return f"{call.module} calls {name}, but the grafted one {misfit.reason}"
    return ""


def _is_used(pair: Pair, name: str) -> bool:
    """Tell whether any code of the base's engine reads an attribute of this name."""
    return any(
        pair.room_of(pair.base.module_at(path)) == "engine"
        for path in pair.base.files.containing(f".{name}".encode())
    )


def _may_import(source: bytes, module: str) -> bool:
    """Tell whether a text spells a module or a package of models above it: most need not be parsed."""
    _, _, below = module.partition(".models.")
    parts = below.split(".") if below else module.split(".")[-2:]
    return any(part.encode() in source for part in parts)


def _imports(index: Index, module: str, node: ast.ImportFrom, wanted: Found) -> bool:
    source = absolute_module(node, package_of(index.path_of(module) or ""))
    found = index.resolve(source, wanted.name)
    return found is not None and found.dotted == wanted.dotted

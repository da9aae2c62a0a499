# Rule 5 of the linker: a contract is more than a name. Each rule here is a small function over values, and
# each is differential: what the donor's own tree does not satisfy either is no news.
"""Contract rules: does the base's definition satisfy the donor's use of it?"""

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vllm_graft.link.constructors import constructor_parameters, nested_class
from vllm_graft.link.index import Found, Index
from vllm_graft.link.symbols import Member, Parameter
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import CallUse

_ANY = (
    Parameter(name="args", kind="varargs"),
    Parameter(name="kwargs", kind="varkeywords"),
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a call does not bind."""

    reason: str
    unknown_keywords: tuple[str, ...] = ()
    only_keywords: bool = False
    """Nothing but unknown keywords is wrong."""
    missing: tuple[str, ...] = ()
    """Parameters that have no default and are not given."""


def bind(
    parameters: Sequence[Parameter],
    *,
    positional: int,
    keywords: Sequence[str],
    has_star: bool = False,
    has_double_star: bool = False,
) -> Mismatch | None:
    """Bind a call to a signature the way Python does; None where it binds.

    A call with ``*`` or ``**`` binds as long as what is written out can.
    Source: Python language reference, "Calls".
    """
    plain = [p for p in parameters if p.kind in {"positional", "either"}]
    takes_any_positional = any(p.kind == "varargs" for p in parameters)
    takes_any_keyword = any(p.kind == "varkeywords" for p in parameters)
    if positional > len(plain) and not takes_any_positional:
        return Mismatch(f"takes {len(plain)} positional arguments, is given {positional}")
    by_position = {p.name for p in plain[:positional]}
    named = {p.name for p in parameters if p.kind in {"either", "keyword"}}
    twice = [k for k in keywords if k in by_position and k in named]
    unknown = [k for k in keywords if k not in named] if not takes_any_keyword else []
    missing = [
        p.name
        for p in parameters
        if p.kind in {"positional", "either", "keyword"}
        and p.default is None
        and p.name not in by_position
        and p.name not in keywords
        and not has_double_star
        and not (has_star and p.kind != "keyword")
    ]
    problems: list[str] = []
    if twice:
        problems.append(f"gets {', '.join(twice)} twice")
    if unknown:
        problems.append(f"has no parameter {', '.join(unknown)}")
    if missing:
        problems.append(f"needs {', '.join(missing)}")
    if not problems:
        return None
    return Mismatch(
        "; ".join(problems),
        tuple(unknown),
        only_keywords=not twice and not missing,
        missing=tuple(missing),
    )


def member_parameters(member: Member) -> tuple[Parameter, ...]:
    """Give what calling a member through an instance takes."""
    if member.kind in {"method", "classmethod"}:
        return member.parameters[1:]
    if member.kind == "staticmethod":
        return member.parameters
    return _ANY


def parameters_for(
    index: Index, found: Found, *, member: str, receiver: str
) -> tuple[Parameter, ...] | None:
    """Give the signature that a call binds to in one install; None where its source does not tell.

    ``receiver`` is how the call reaches it: see ``uses.CallUse``.
    """
    if receiver == "construct":
        return constructor_parameters(index, found)
    if not member:
        return found.definition.parameters if found.definition.kind == "function" else None
    if receiver == "super":
        for item in index.ancestry(found).classes[1:]:
            inherited = item.definition.members.get(member)
            if inherited is not None:
                return member_parameters(inherited)
        return None
    provided = index.member(found, member)
    if provided is None:
        return None
    if provided[1].nested is not None:
        return constructor_parameters(index, nested_class(*provided))
    if receiver == "class" and provided[1].kind == "method":
        return provided[1].parameters
    return member_parameters(provided[1])


def bind_call(parameters: Sequence[Parameter], call: CallUse) -> Mismatch | None:
    """Bind a recorded call."""
    return bind(
        parameters,
        positional=call.positional,
        keywords=[k.name for k in call.keywords],
        has_star=call.has_star,
        has_double_star=call.has_double_star,
    )


def droppable_keywords(
    call: CallUse, mismatch: Mismatch, donor_parameters: Sequence[Parameter]
) -> tuple[str, ...] | None:
    """Keywords that may be left out because they only repeat the donor's default; None if any may not."""
    if not mismatch.only_keywords or not mismatch.unknown_keywords:
        return None
    defaults = {p.name: p.default for p in donor_parameters}
    values = {k.name: k.value for k in call.keywords}
    for name in mismatch.unknown_keywords:
        if defaults.get(name) is None or values.get(name) != defaults[name]:
            return None
    return mismatch.unknown_keywords


def changed_defaults(
    call: CallUse, donor: Sequence[Parameter], base: Sequence[Parameter]
) -> tuple[tuple[str, str, str], ...]:
    """Parameters that a call leaves to their defaults, where the two installs differ in the default.

    Order: (name, donor's default, base's default).
    """
    given = {k.name for k in call.keywords}
    plain = [p.name for p in donor if p.kind in {"positional", "either"}]
    given.update(plain[: call.positional])
    theirs = {p.name: p for p in base}
    found: list[tuple[str, str, str]] = []
    for parameter in donor:
        other = theirs.get(parameter.name)
        if (
            parameter.name in given
            or parameter.default is None
            or other is None
            or other.default is None
            or other.default == parameter.default
        ):
            continue
        found.append((parameter.name, parameter.default, other.default))
    return tuple(found)


def returned_arities(index: Index, found: Found, member: str) -> frozenset[int]:
    """Lengths of the tuples that a function returns; empty where its source does not tell."""
    node: ast.AST | None = found.definition.node
    if member:
        provided = index.member(found, member)
        node = None if provided is None else provided[1].node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    lengths: set[int] = set()
    pending: list[ast.AST] = list(node.body)
    while pending:
        inner = pending.pop()
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(inner, ast.Return) and inner.value is not None:
            if not isinstance(inner.value, ast.Tuple):
                return frozenset()
            lengths.add(len(inner.value.elts))
        pending.extend(ast.iter_child_nodes(inner))
    return frozenset(lengths)


def orphan_overrides(
    donor_index: Index, base_index: Index, child: Found, donor_parent: Found, base_parent: Found
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Methods of ``child`` that the donor's parent calls and that the base's parent does not know, or never calls.

    Order: (method, the donor's methods that call it).
    """
    orphans: list[tuple[str, tuple[str, ...]]] = []
    for name, member in child.definition.members.items():
        if member.kind not in {"method", "classmethod", "staticmethod", "property"}:
            continue
        if name.startswith("__") or donor_index.member(donor_parent, name) is None:
            continue
        # What stands there, and is read nowhere, nothing calls either.
        is_there = base_index.member(base_parent, name) is not None
        if is_there and base_index.files.mention(f".{name}".encode()):
            continue
        callers = callers_within(donor_index, donor_parent, name)
        if callers:
            orphans.append((name, callers))
    return tuple(orphans)


def callers_within(index: Index, found: Found, name: str) -> tuple[str, ...]:
    """Methods of a class and its ancestors that read ``self.name``, sorted."""
    return tuple(
        sorted(
            {
                m.name
                for item in index.ancestry(found).classes
                for m in item.definition.members.values()
                if name in m.self_reads
            }
        )
    )


def lost_state(base: Index, found: Found, members: Sequence[tuple[str, Found]]) -> frozenset[str]:
    """Attributes that the base's versions of replaced members set, and nothing of a derived class does.

    ``found``: the base's class; ``members``: what replaces its own, with the donor's class that provides each.
    """
    replaced = {name for name, _ in members}
    gone: set[str] = set()
    for name in replaced:
        own = found.definition.members.get(name)
        gone |= own.self_stores if own is not None else frozenset[str]()
    kept: set[str] = set()
    for name, provider in members:
        kept |= provider.definition.members[name].self_stores | {name}
    for item in base.ancestry(found).classes:
        for member in item.definition.members.values():
            if member.kind == "attribute":
                kept.add(member.name)
            elif item is not found or member.name not in replaced:
                kept |= member.self_stores
    return frozenset(gone - kept)


def readers_of(
    found: Found, attributes: frozenset[str], replaced: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Methods of a class, replaced ones apart, that read any of these: (attribute, method), sorted."""
    return tuple(
        sorted(
            (attribute, member.name)
            for member in found.definition.members.values()
            if member.function is not None and member.name not in replaced
            for attribute in attributes & member.self_reads
        )
    )


def is_called_alike(ours: Member, theirs: Member) -> bool:
    """Tell whether whatever calls one method can call the other: the same parameters in the same order."""
    return [(p.name, p.kind, p.default is None) for p in member_parameters(ours)] == [
        (p.name, p.kind, p.default is None) for p in member_parameters(theirs)
    ]


def has_tuple_shard_ids(tree: ast.AST) -> bool:
    """Tell whether a weight map names a tuple as shard id: ``("qkv", "in_proj", (0, 1, 2))``.

    Source: vLLM 0.17.1, model_executor/models/qwen3_5.py ``stacked_params_mapping``.
    """
    for node in every_node(tree):
        if (
            isinstance(node, ast.Tuple)
            and len(node.elts) == 3  # noqa: PLR2004  (parameter, weight, shard id)
            and isinstance(node.elts[2], ast.Tuple)
            and node.elts[2].elts
            and all(
                isinstance(e, ast.Constant) and isinstance(e.value, int) for e in node.elts[2].elts
            )
            and all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in node.elts[:2])
        ):
            return True
    return False


def refuses_tuple_shards(donor: Member | None, base: Member | None) -> bool:
    """Tell whether the donor's loader takes a tuple as shard id and the base's does not."""
    return _takes_tuple(donor) and base is not None and not _takes_tuple(base)


def _takes_tuple(member: Member | None) -> bool:
    return member is not None and any(
        p.name == "loaded_shard_id" and p.annotation is not None and "tuple[" in p.annotation
        for p in member.parameters
    )


def is_enumeration(index: Index, found: Found) -> bool:
    """Tell whether a class is an Enum: it cannot be derived from."""
    return any("Enum" in name.rpartition(".")[2] for name in index.ancestry(found).outside)


def literal_default(member: Member) -> str | None:
    """Source text of the default of a field, where it is a literal; None otherwise.

    ``field(default_factory=list)`` and ``Field(default=X, …)`` are looked through.
    Source: Python dataclasses; pydantic ``Field`` as used in vLLM 0.14 to 0.31 vllm/config/*.py.
    """
    if member.default is None:
        return None
    try:
        node = ast.parse(member.default, mode="eval").body
    except SyntaxError:
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        values = {k.arg: k.value for k in node.keywords}
        chosen = values.get("default", node.args[0] if node.args else None)
        factory = values.get("default_factory")
        if (
            chosen is None
            and isinstance(factory, ast.Name)
            and factory.id in {"list", "dict", "set"}
        ):
            return f"{factory.id}()"
        if chosen is None:
            return None
        node = chosen
    try:
        ast.literal_eval(node)
    except (ValueError, SyntaxError):
        return None
    return ast.unparse(node)

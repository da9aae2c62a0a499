# A layer may take an argument for the sake of one of its backends. Where the base's layer has no such backend, nothing
# there could read the argument, and the donor's own layer reads it nowhere else: leaving it out loses nothing.
"""Keywords that the donor's own function reads only in a mode that the base's class does not have."""

import ast
from collections.abc import Iterator

from vllm_graft.link.contract import Mismatch
from vllm_graft.link.index import Found
from vllm_graft.link.pair import Pair
from vllm_graft.link.scopes import dotted
from vllm_graft.link.symbols import FunctionNode
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import CallUse


def moot_keywords(
    pair: Pair, call: CallUse, mismatch: Mismatch, boundary: Found
) -> tuple[tuple[str, ...], str]:
    """Give the keywords that may be left out of a call, and why; none where one of the unknown ones may not.

    The donor's method reads each only under ``self.NAME == ENUM.MEMBER`` for members that the base's class never names:
    it refuses that mode, or does not know it. What reads none of them has to have another form that does, such as
    ``forward_native`` beside ``forward_cuda``: else nothing tells what the keyword is for.
    Source: vLLM 0.17.1, ``MMEncoderAttention.forward_cuda``: ``sequence_lengths`` is for
    ``AttentionBackendEnum.FLASHINFER`` alone, a backend that the class of 0.14.1 does not have.
    """
    counterpart = pair.counterpart(boundary)
    provided = pair.donor.member(boundary, call.member) if call.member else None
    if not mismatch.only_keywords or counterpart is None or provided is None:
        return (), ""
    modes: set[str] = set()
    for name in mismatch.unknown_keywords:
        of_call = _modes_of(pair, counterpart, provided[1].function, name)
        found = of_call or _modes_of_other_forms(pair, provided[0], counterpart, call.member, name)
        if of_call is None or not found:
            return (), ""
        modes |= found
    return (
        mismatch.unknown_keywords,
        f"it is read for {', '.join(sorted(modes))} alone, which the base's does not have",
    )


def _modes_of(
    pair: Pair, counterpart: Found, function: FunctionNode | None, name: str
) -> set[str] | None:
    """The modes that a method reads a name in and that the base's class lacks; None where it is read in others too."""
    modes: set[str] = set()
    for conditions in () if function is None else _conditions_of_reads(function, name):
        absent = {mode for mode in conditions if not _knows(pair, counterpart, mode)}
        if not absent:
            return None
        modes |= absent
    return modes


def _modes_of_other_forms(
    pair: Pair, owner: Found, counterpart: Found, method: str, name: str
) -> set[str]:
    stem = method.partition("_")[0]
    modes: set[str] = set()
    for member in owner.definition.members.values():
        if member.name.startswith(f"{stem}_") and name in {p.name for p in member.parameters}:
            modes |= _modes_of(pair, counterpart, member.function, name) or set()
    return modes


def _knows(pair: Pair, found: Found, mode: str) -> bool:
    """Tell whether a class of the base, or one that it stands on, names a member of an enumeration."""
    member = mode.rpartition(".")[2]
    return any(
        isinstance(node, ast.Attribute) and node.attr == member
        for item in pair.base.ancestry(found).classes
        for node in every_node(item.definition.node or ast.Pass())
    )


def _conditions_of_reads(function: FunctionNode, name: str) -> Iterator[frozenset[str]]:
    """For each place that reads a name: the modes of which each has to be on for it to be reached."""
    for statement in function.body:
        yield from _reads_in(statement, name, frozenset())


def _reads_in(node: ast.AST, name: str, modes: frozenset[str]) -> Iterator[frozenset[str]]:
    match node:
        case ast.Name(id=read):
            if read == name:
                yield modes
        case ast.If(test=test, body=body, orelse=other):
            yield from _reads_in(test, name, modes)
            mode = _mode(test)
            inner = modes | {mode} if mode else modes
            for statement in body:
                yield from _reads_in(statement, name, inner)
            for statement in other:
                yield from _reads_in(statement, name, modes)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _reads_in(child, name, modes)


def _mode(test: ast.expr) -> str:
    """The member of an enumeration that an attribute of the object has to be; empty for any other condition."""
    match test:
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id="self")),
            ops=[ast.Eq() | ast.Is()],
            comparators=[ast.Attribute(value=ast.Name() | ast.Attribute()) as member],
        ) if member.attr.isupper():
            return dotted(member) or ""
        case _:
            return ""

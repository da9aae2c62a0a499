# Code of a model may make a record of the engine for its own use alone. Where it passes None for a field that is declared
# as something, no engine could work with that record: it is a stand-in, and what a field means that only the base's record
# has is then nobody's question either.
"""Records that stand in for the engine's, of which the base's has more fields."""

import ast

from vllm_graft.link import contract
from vllm_graft.link.constructors import generates_constructor
from vllm_graft.link.index import Found
from vllm_graft.link.pair import Pair
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.uses import CallUse


def fields_of_stand_in(
    pair: Pair,
    call: CallUse,
    mismatch: contract.Mismatch,
    donors: tuple[Parameter, ...],
    boundary: Found,
) -> tuple[str, ...]:
    """Give the fields that the base's record needs beyond a donor's stand-in; none where it is no stand-in.

    Source: vLLM 0.17.1, qwen3_vl.py: ``MultiModalFieldElem(data=…, field=None)``, "HACK"; 0.14.1 asks for ``modality``
    and ``key`` too, which its engine puts into a batch.
    """
    counterpart = pair.counterpart(boundary)
    if call.receiver != "construct" or counterpart is None or not mismatch.missing:
        return ()
    if mismatch.unknown_keywords or call.positional or call.has_star or call.has_double_star:
        return ()
    records = (
        generates_constructor(pair.donor, boundary),
        generates_constructor(pair.base, counterpart),
    )
    if None in records or set(mismatch.missing) & {p.name for p in donors}:
        return ()
    declared = {p.name: p.annotation or "Any" for p in donors}
    is_stand_in = any(
        one.value == "None" and not _may_be_none(declared.get(one.name, "Any"))
        for one in call.keywords
    )
    return mismatch.missing if is_stand_in else ()


def _may_be_none(annotation: str) -> bool:
    try:
        node = ast.parse(annotation.strip("'\""), mode="eval").body
    except SyntaxError:
        return True
    return any(
        (isinstance(inner, ast.Constant) and inner.value is None)
        or (isinstance(inner, ast.Name) and inner.id in {"Any", "Optional", "object"})
        or (isinstance(inner, ast.Attribute) and inner.attr in {"Any", "Optional"})
        for inner in ast.walk(node)
    )

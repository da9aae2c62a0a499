# A layer may load its own weights: vLLM's loader walks a model and hands tensors to whatever has ``load_weights``. Where the
# base's layer does so only if it was given something at its making, a donor's model that gives nothing is refused there.
"""Objects that load themselves in the donor, and in the base only when they were made with more."""

import ast

from vllm_graft.link.constructors import constructor_parameters
from vllm_graft.link.index import Found
from vllm_graft.link.pair import Pair
from vllm_graft.link.refusals import Refusal
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import CallUse
from vllm_graft.link.vllm import LOADER

_LOADS = "load_weights"


def refusal_to_load(pair: Pair, call: CallUse, module: str, counterpart: Found) -> Refusal | None:
    """Find what the base's object of a call refuses when it is to load itself; None where it does not, or need not.

    ``module``: where the donor makes the object. A model there that sorts the tensors of its experts itself never asks.
    Source: vLLM 0.20.2, ``FusedMoE.load_weights`` raises without ``expert_mapping``; 0.25.1 MoERunner needs none.
    """
    made = pair.factories.given_by(call.callee)
    theirs = pair.base.member(counterpart, _LOADS)
    if made is None or theirs is None or pair.donor.member(made, _LOADS) is None:
        return None
    if _sorts_experts(pair, module):
        return None
    parameters = constructor_parameters(pair.base, counterpart) or ()
    left_out = {p.name for p in parameters if p.default == "None"} - {k.name for k in call.keywords}
    for node in every_node(theirs[1].node):
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
            asked = {n.attr for n in every_node(node.test) if isinstance(n, ast.Attribute)}
            if asked & left_out:
                return Refusal(
                    test=ast.unparse(node.test),
                    line=node.lineno,
                    module=theirs[0].module,
                    says=ast.unparse(node.body[0]),
                    asks=frozenset(asked & left_out),
                )
    return None


def _sorts_experts(pair: Pair, module: str) -> bool:
    """Tell whether a model of a module loads by a loop of its own that knows about experts."""
    summary = pair.donor.summary(module)
    for definition in summary.definitions.values() if summary is not None else ():
        loads = definition.members.get(_LOADS) if definition.kind == "class" else None
        if loads is not None and LOADER not in loads.names:
            text = ast.unparse(loads.node)
            if "expert" in text:
                return True
    return False

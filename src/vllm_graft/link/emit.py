# What is written and where is decided already: this file only puts the texts together.
"""The texts of the files that a graft adds."""

from vllm_graft.link.emit_family import emit_family
from vllm_graft.link.emit_module import ModuleEmitter
from vllm_graft.link.linked import Linked
from vllm_graft.values.plan import GraftedModule


def emit(linked: Linked, *, donor_version: str) -> tuple[GraftedModule, ...]:
    """Give the texts of all files that the graft adds, by path."""
    linked.decisions.is_settled = True
    emitter = ModuleEmitter(linked, donor_version)
    modules = [emitter.emit(taken) for taken in list(linked.decisions.taken.values())]
    family = emit_family(linked, donor_version)
    if family is not None:
        modules.append(family)
    return tuple(sorted(modules, key=lambda m: m.path))

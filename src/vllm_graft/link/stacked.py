# Newer releases write stacked weights into the map of names, ``".q_proj": (".qkv_proj", "q")``, and the map marks each
# tensor with its shard; older ones have the same in the loading loop of each model. A grafted map comes with what reads
# the marks. What the base's engine asks of the map stays the base's: quantisation and LoRA want the names as they were.
"""Maps of weight names that stack: brought together with the loader that reads what they mark."""

import ast

from vllm_graft.link.compare import same_shape
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Rewrite, Unit
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import NameUse, Span, span_of
from vllm_graft.link.vllm import (
    LOADER,
    LOADER_STEP,
    REGISTERED_MODEL,
    STACKED_FIELD,
    STACKED_MARK,
    STACKING_MAP,
    WEIGHTS_ROOM,
)


class Stacking:
    """Brings the map and the loader for one round."""

    def __init__(self, linked: Linked) -> None:
        """Repair for one round."""
        self._linked = linked
        self._decisions = linked.decisions
        self._pair = linked.decisions.pair

    def bring(self, unit: Unit, boundary: Found, unknown: tuple[str, ...]) -> bool:
        """Give the base's map the donor's stacking, where that is all that a call asks beyond the base's.

        ``unknown``: what the base's constructor does not take. False where the two installs do not have map
        and loader as they are known, or where a model of the registry, which loads as the base's do, may get
        tensors that the map has marked.
        """
        if boundary.dotted != f"{WEIGHTS_ROOM}.{STACKING_MAP}":
            return False
        is_own = (unit.module, unit.name) == (WEIGHTS_ROOM, STACKING_MAP)
        if not is_own and unknown != (STACKED_FIELD,):
            return False
        place, counterpart = self._place_of_marks(), self._decisions.counterpart(boundary)
        if (
            place is None
            or counterpart is None
            or counterpart.definition.decorators != boundary.definition.decorators
            or self._reaches_registry(unit)
        ):
            return False
        why = "G201 the base's map of weight names does not stack"
        # ``_map_name`` stays the base's: it knows no stacked names, which is what the engine asks for.
        loader = self._pair.donor.resolve(WEIGHTS_ROOM, LOADER)
        members = (*unknown, "__or__", "apply")
        if (
            loader is None
            or not all(self._decisions.derive(boundary, member, why) for member in members)
            or not self._decisions.derive(loader, LOADER_STEP, why)
        ):
            return False
        rewrite = Rewrite(
            module=WEIGHTS_ROOM,
            span=place[0],
            text=f', *([{place[1]}.{STACKED_MARK}] if hasattr({place[1]}, "{STACKED_MARK}") else [])',
            note=f"the {STACKED_MARK} that a tensor is marked with is passed to its loader",
        )
        if rewrite not in self._linked.rewrites:
            self._linked.rewrites.append(rewrite)
        self._take_what_loads(loader)
        return True

    def _place_of_marks(self) -> tuple[Span, str] | None:
        """Where the loader's step calls ``weight_loader(param, tensor)``: behind the tensor, and its name."""
        donor, base = self._pair.donor, self._pair.base
        ours, theirs = donor.resolve(WEIGHTS_ROOM, LOADER), base.resolve(WEIGHTS_ROOM, LOADER)
        if ours is None or theirs is None:
            return None
        step = ours.definition.members.get(LOADER_STEP)
        there = theirs.definition.members.get(LOADER_STEP)
        if step is None or there is None or not same_shape(step.node, there.node):
            return None
        for node in every_node(step.node):
            match node:
                case ast.Call(
                    func=ast.Name(id="weight_loader"),
                    args=[ast.Name(), ast.Name(id=tensor) as last],
                    keywords=[],
                ):
                    end = span_of(last)
                    at = Span(end.end_line, end.end_column, end.end_line, end.end_column)
                    return at, tensor
                case _:
                    pass
        return None

    def _take_what_loads(self, loader: Found) -> None:
        """Bring classes of the base's version that load by the base's loader: marked tensors may reach them."""
        for target, decision, _, _ in list(self._linked.names.values()):
            if (
                decision.kind in {"identical", "changed", "moved"}
                and target.definition.kind == "class"
                and self._pair.room_of(target.module) == "model"
                and not self._decisions.prefers_base(target)
                and "load_weights" in target.definition.members
                and any(
                    isinstance(use, NameUse) and use.target.dotted == loader.dotted
                    for use in self._pair.uses_in(target.module, target.name, "load_weights")
                )
            ):
                why = "it loads weights that the graft's map of names has marked"
                self._decisions.take(target.module, why, target.name)

    def _reaches_registry(self, unit: Unit) -> bool:
        """Tell whether a class that stacks makes a model by its name in the registry, which may be the base's."""
        return any(
            isinstance(use, NameUse) and use.target.name == REGISTERED_MODEL
            for use in self._pair.uses_in(unit.module, unit.name)
        )

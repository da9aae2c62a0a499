# A kernel that is not in the base's binaries need not stop a graft: where the donor's layer asks a flag of its own whether to
# use it, and the flag depends on the machine, the layer has another path for all other machines. There the flag is off.
"""Fast paths that need native operators which the base lacks: switched off at the flag that guards them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_graft.link.breach import Breach
from vllm_graft.link.decide import Decisions
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Rewrite, Unit, is_elsewhere
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.scopes import dotted
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import IMPORTS, NameUse, OperatorUse, Owner, span_of

_FLAG = re.compile(r"self\.(\w+)")
_MACHINE = "current_platform."


@dataclass(frozen=True, slots=True)
class Flag:
    """An attribute of a class of the donor that one statement sets, from what the machine is."""

    owner: Found
    name: str
    value: ast.expr


class Fallbacks:
    """Switches fast paths off."""

    def __init__(self, decisions: Decisions) -> None:
        """Switch for one graft; what was switched off stays so."""
        self._decisions = decisions
        self._pair = decisions.pair
        self._off: dict[Flag, tuple[OperatorUse, str]] = {}
        """Flag → a use of an operator that it leads to, and the module of that."""

    def settle(self, linked: Linked) -> bool:
        """Switch off what leads to operators that the base lacks; tell whether that is news."""
        is_news = False
        left: list[tuple[OperatorUse, str]] = []
        for use, module in linked.native:
            flags = None
            if not self._pair.has_native(use.namespace, use.name) and not is_elsewhere(use.guard):
                flags = self._flags_before(linked, module, use.owner, use.guard)
            if flags is None:
                left.append((use, module))
            for flag in flags or ():
                self._off.setdefault(flag, (use, module))
                if (flag.owner.dotted, flag.name) not in self._decisions.switched_off:
                    self._decisions.switched_off.add((flag.owner.dotted, flag.name))
                    is_news = True
        linked.native = left
        for flag, (use, module) in self._off.items():
            self._write_off(linked, flag, use, module)
        return is_news

    def _write_off(self, linked: Linked, flag: Flag, use: OperatorUse, module: str) -> None:
        linked.rewrites.append(
            Rewrite(
                module=flag.owner.module,
                span=span_of(flag.value),
                text="False",
                note=f"line {flag.value.lineno}: {flag.name} is off: the base lacks torch.ops.{use.namespace}.{use.name}",
            )
        )
        Repairs(linked).report(
            Breach(
                code="G210",
                severity="note",
                module=module,
                line=use.span.line,
                wanted=f"torch.ops.{use.namespace}.{use.name}",
                found="the base's binaries name no such operator, and its Python never uses it; it is reached"
                f" where {flag.owner.name}.{flag.name} holds",
                remedy=f"repaired: {flag.name} is off, as the donor has it on other machines: the layer's other"
                " path computes the same",
            ),
            repaired=True,
        )

    def _flags_before(
        self, linked: Linked, module: str, owner: Owner, guard: str, depth: int = 3
    ) -> set[Flag] | None:
        """Flags without which code never runs; None where it may run without any."""
        found = self._flag_in(module, owner, guard)
        if found is not None:
            return {found}
        if owner.member or not owner.name or not depth:
            return None
        flags: set[Flag] = set()
        is_reached = False
        for unit, use in self._uses_of(linked, module, owner.name):
            before = self._flags_before(linked, unit.module, use.owner, use.guard, depth - 1)
            if before is None:
                return None
            flags |= before
            is_reached = True
        return flags if is_reached else None

    def _uses_of(
        self, linked: Linked, module: str, function: str
    ) -> Iterator[tuple[Unit, NameUse | OperatorUse]]:
        """Uses of a function in grafted code, by its name and by the operators that it implements."""
        registered = {
            registration.name: taken
            for taken in self._decisions.taken
            for registration in self._pair.uses_of(taken).registrations
            if registration.kind == "operator"
            and (taken, registration.function) == (module, function)
        }
        for unit in sorted(linked.units):
            for use in self._pair.uses_in(unit.module, unit.name, unit.member):
                if isinstance(use, OperatorUse):
                    if use.namespace == "vllm" and use.name in registered:
                        yield unit, use
                elif isinstance(use, NameUse) and use.target.dotted == f"{module}.{function}":
                    is_registration = registered and not use.owner.name
                    if use.owner.name != IMPORTS and not is_registration:
                        yield unit, use

    def _flag_in(self, module: str, owner: Owner, guard: str) -> Flag | None:
        """The flag among the conditions around a use, if one is."""
        found = self._pair.donor.resolve(module, owner.name) if owner.member else None
        if found is None or found.module != module:
            return None
        for condition in guard.split(" and "):
            match = _FLAG.fullmatch(condition)
            value = None if match is None else _set_by_the_machine(found, match[1])
            if match is not None and value is not None:
                return Flag(found, match[1], value)
        return None


def _set_by_the_machine(found: Found, name: str) -> ast.expr | None:
    """What the only statement of a class that sets an attribute gives it, where the platform has to be of a kind."""
    stores = [
        node
        for node in every_node(found.definition.node or ast.Pass())
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and dotted(node) == f"self.{name}"
    ]
    if len(stores) != 1:
        return None
    for node in every_node(found.definition.node or ast.Pass()):
        match node:
            case ast.Assign(
                targets=[ast.Attribute() as target], value=ast.BoolOp(op=ast.And()) as value
            ) if target is stores[0]:
                asked = (dotted(v.func) for v in value.values if isinstance(v, ast.Call))
                return value if any((name or "").startswith(_MACHINE) for name in asked) else None
            case _:
                pass
    return None

# What can be done where the base does not satisfy a use, in order of how little it changes: leave out an
# argument that says nothing, read a switch with the donor's default, bring the donor's function, derive from
# the base's class. What nothing covers is reported as blocked.
"""Repairs of breached contracts."""

from collections.abc import Sequence
from dataclasses import replace

from vllm_graft.link import contract
from vllm_graft.link.breach import Breach
from vllm_graft.link.defaults import place_for_keywords
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Rewrite, Unit, is_elsewhere
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.uses import CallUse, NameUse, ReadUse
from vllm_graft.values.finding import Site

# Packages whose fields switch features of the engine: one that the base lacks is off there, which is what
# the donor's default says. A field of anything else is data that the base's engine would have to fill.
_SWITCHES = ("vllm.config.", "vllm.model_executor.layers.quantization.")


class Repairs:
    """Makes repairs and writes down what was repaired and what cannot be."""

    def __init__(self, linked: Linked) -> None:
        """Repair for one round."""
        self._linked = linked
        self._decisions = linked.decisions
        self._pair = linked.decisions.pair

    def report(self, breach: Breach, *, repaired: bool = False) -> None:
        """Write down a breach; one that was repaired is kept although later rounds no longer see it."""
        severity = breach.severity
        if severity == "blocked" and (
            is_elsewhere(breach.guard) or breach.guard in {"try", "except"}
        ):
            severity = "note"
        told = replace(breach, severity=severity, unit=self._decisions.current)
        if repaired:
            self._decisions.repaired.setdefault((told.code, told.wanted), told)
        else:
            self._linked.breaches.append(told)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def repair_call(
        self,
        unit: Unit,
        call: CallUse,
        mismatch: contract.Mismatch,
        donor_signature: tuple[Parameter, ...],
        boundary: Found,
    ) -> bool:
        """Repair a call that does not bind to the base's signature; tell whether it still reaches the base's."""
        wanted = boundary.dotted_of(call.member)
        dropped = contract.droppable_keywords(call, mismatch, donor_signature)
        if dropped is not None:
            self._leave_out(unit, call, dropped, boundary)
            self.report(
                Breach(
                    code="G202",
                    severity="note",
                    module=unit.module,
                    line=call.span.line,
                    wanted=f"{wanted} with {', '.join(dropped)}",
                    found=f"the base's {mismatch.reason}",
                    remedy="none needed: the value given is the donor's default",
                    about=wanted,
                )
            )
            return True
        breach = Breach(
            code="G201",
            module=unit.module,
            line=call.span.line,
            wanted=f"{wanted}{_shown(call)}",
            found=f"the base's {mismatch.reason}",
            about=wanted,
        )
        self.bring_for(unit, call, boundary, call.member, breach)
        return False

    def write_out(self, unit: Unit, call: CallUse, changed: Sequence[tuple[str, str, str]]) -> bool:
        """Pass the donor's defaults explicitly: (name, donor's, base's) each; False where nothing can be added."""
        if not changed or call.member.startswith("forward_"):
            return False
        donor, module = self._pair.donor, unit.module
        place = place_for_keywords(donor.tree(module), donor.source(module), call)
        if place is None:
            return False
        span, before, behind = place
        passed = ", ".join(f"{name}={ours}" for name, ours, _ in changed)
        self._linked.rewrites.append(
            Rewrite(
                module=unit.module,
                span=span,
                text=f"{before}{passed}{behind}",
                note=f"line {call.span.line}: {passed} written out: it is the donor's default, and not the"
                f" default of the base's {call.callee.name}",
            )
        )
        for name, ours, theirs in changed:
            self.report(
                Breach(
                    code="G216",
                    severity="note",
                    module=unit.module,
                    line=call.span.line,
                    wanted=f"{call.callee.dotted}: {name} defaults to {ours}",
                    found=f"the base's defaults to {theirs}",
                    about=call.callee.dotted_of(call.member),
                    remedy="repaired: the donor's default is passed",
                )
            )
        return True

    def _leave_out(self, unit: Unit, call: CallUse, names: tuple[str, ...], callee: Found) -> None:
        for keyword in call.keywords:
            if keyword.name in names:
                self._linked.rewrites.append(
                    Rewrite(
                        module=unit.module,
                        span=keyword.span,
                        text="",
                        note=f"line {call.span.line}: {keyword.name}={keyword.value} left out: it is"
                        f" the donor's default, and the base's {callee.name} has no such parameter",
                    )
                )

    def bring_for(
        self, unit: Unit, use: CallUse | ReadUse, boundary: Found, member: str, breach: Breach
    ) -> bool:
        """Bring what a use needs, unless the object that it meets is the base engine's own."""
        if member and not self._is_made_here(use, boundary):
            self.report(breach)
            return False
        return self.bring(unit, boundary, member, breach)

    def _is_made_here(self, use: CallUse | ReadUse, boundary: Found) -> bool:
        """Tell whether a class that is derived in the graft is the class of what the use meets.

        An object that reaches the model as an argument or through one is made by the base's engine,
        of the base's class.
        """
        if isinstance(use, CallUse):
            receiver, is_ours = use.callee, use.receiver in {"self", "super", "class", "construct"}
        else:
            receiver, is_ours = use.receiver, use.through in {"self", "super", "class"}
        return (
            is_ours
            or boundary.dotted in self._linked.constructed
            or self._decisions.is_grafted(receiver)
        )

    def bring(self, unit: Unit, boundary: Found, member: str, breach: Breach) -> bool:
        """Use the donor's function, or the donor's member on a class derived from the base's.

        The breach is written down as repaired, or as it is where that cannot be done.
        """
        if member:
            why = f"{breach.code} {member}: {breach.found}"
            if not self._derive(unit, boundary, member, why):
                self.report(breach)
                return False
        else:
            obstacle = self._decisions.extract(boundary, f"{breach.code} {breach.found}")
            if obstacle is not None:
                self.report(replace(breach, found=f"{breach.found}; {obstacle}"))
                return False
        remedy = (
            f"repaired: the grafted code uses a {boundary.name} with the donor's"
            f" {member or 'definition'}"
        )
        # What was repaired counts wherever it stands: a guard says only when it is reached.
        self.report(replace(breach, severity="note", remedy=remedy, guard=""), repaired=True)
        return True

    def _derive(self, unit: Unit, boundary: Found, member: str, why: str) -> bool:
        if contract.is_enumeration(self._pair.donor, boundary):
            return False
        # Deriving the engine's kernels for the sake of a module that the base has too would trade a
        # proven path for an unproven one.
        if member.startswith("forward") and self._decisions.nearest_declinable(unit.dotted):
            return False
        return self._decisions.derive(boundary, member, why)

    # ── reads ─────────────────────────────────────────────────────────────────────────────────────

    def repair_read(self, unit: Unit, read: ReadUse, boundary: Found, provider: Found) -> None:
        """Repair the read of an attribute that the base's class does not have."""
        member = provider.definition.members[read.attribute]
        wanted = f"{boundary.dotted}.{read.attribute}"
        missing = f"the base's {boundary.name} has no {read.attribute}"
        is_enumeration = contract.is_enumeration(self._pair.donor, boundary)
        if self._is_made_here(read, boundary) and not is_enumeration:
            for name in self._bringers(provider, read.attribute):
                breach = Breach(
                    code="G203",
                    module=unit.module,
                    line=read.span.line,
                    wanted=wanted,
                    found=missing,
                    about=wanted,
                )
                if self.bring(unit, boundary, name, breach):
                    return
                break
        default = contract.literal_default(member)
        if (
            default is not None
            and member.kind == "attribute"
            and not read.called
            and not is_enumeration
            and boundary.module.startswith(_SWITCHES)
        ):
            self._read_with_default(unit, read, wanted, missing, default)
            return
        self.report(
            Breach(
                code="G215" if is_enumeration else "G203",
                module=unit.module,
                line=read.span.line,
                wanted=wanted,
                found=missing,
                guard=self._guard_at(unit, read),
                about=wanted,
            )
        )

    def _read_with_default(
        self, unit: Unit, read: ReadUse, wanted: str, missing: str, default: str
    ) -> None:
        self._linked.rewrites.append(
            Rewrite(
                module=unit.module,
                span=read.span,
                text=f'getattr(@, "{read.attribute}", {default})',
                note=f"line {read.span.line}: {read.attribute} read with the donor's default"
                f" {default}: {missing}",
            )
        )
        self.report(
            Breach(
                code="G205",
                severity="note",
                module=unit.module,
                line=read.span.line,
                wanted=wanted,
                found=missing,
                remedy=f"repaired: read with the donor's default {default}, since what it switches"
                " is not in the base",
                about=wanted,
            )
        )

    def _bringers(self, provider: Found, attribute: str) -> tuple[str, ...]:
        """Members of the donor's class that have to come along for an attribute to be there."""
        member = provider.definition.members[attribute]
        if member.kind != "instance":
            return (attribute,)
        return tuple(
            method.name
            for method in provider.definition.members.values()
            if attribute in method.self_stores
        )

    def _guard_at(self, unit: Unit, read: ReadUse) -> str:
        for use in self._pair.uses_in(unit.module, unit.name, unit.member):
            if isinstance(use, NameUse) and use.span.line == read.span.line and use.guard:
                return use.guard
        return ""

    # ── classes ───────────────────────────────────────────────────────────────────────────────────

    def repair_orphan(
        self,
        unit: Unit,
        child: Found,
        boundary: Found,
        method: str,
        callers: tuple[str, ...],
    ) -> None:
        """Repair an override of a hook that the base's parent never calls."""
        breach = Breach(
            code="G204",
            module=unit.module,
            line=child.definition.members[method].line,
            wanted=f"{boundary.dotted} calls {method}, which {child.name} overrides",
            found=f"the base's {boundary.name} has no {method} and never calls it",
            about=f"{boundary.dotted}.{callers[0]}",
        )
        if self._decisions.is_grafted(boundary):
            remedy = f"repaired: the donor's {boundary.name} is grafted beside the base's"
            self.report(replace(breach, severity="note", remedy=remedy), repaired=True)
            return
        derivation = self._decisions.derived.get(boundary.dotted)
        for caller in callers:
            if derivation is None or caller not in derivation.members:
                self.bring(unit, boundary, caller, breach)

    def repair_override(
        self, unit: Unit, child: Found, boundary: Found, method: str, call: tuple[str, Site]
    ) -> None:
        """Repair an override that the base's engine calls otherwise: bring the donor's callers of it.

        ``call``: what the base does, in words, and where.
        """
        breach = Breach(
            code="G219",
            module=unit.module,
            line=child.definition.members[method].line,
            wanted=f"{child.name}.{method} is called as {boundary.dotted}.{method} of the donor is",
            found=call[0],
            about=f"{child.dotted}.{method}",
            met_at=call[1],
        )
        callers = contract.callers_within(self._pair.donor, boundary, method)
        if not callers or method in callers:
            self.report(breach)
            return
        for caller in callers:
            if not self.bring(unit, boundary, caller, breach):
                return


def _shown(call: CallUse) -> str:
    parts = ["…"] * call.positional + [f"{k.name}=" for k in call.keywords]
    return f"({', '.join(parts)})"

# What can be done where the base does not satisfy a use, in order of how little it changes: leave out an
# argument that says nothing, read a switch with the donor's default, bring the donor's function, derive from
# the base's class. What nothing covers is reported as blocked.
"""Repairs of breached contracts."""

import re
from collections.abc import Sequence
from dataclasses import replace

from vllm_graft.link import contract
from vllm_graft.link.breach import Breach
from vllm_graft.link.defaults import SWITCHES, is_new_flag, place_for_keywords
from vllm_graft.link.gathered import Gathering
from vllm_graft.link.handed_on import is_handed_on
from vllm_graft.link.index import Found
from vllm_graft.link.inlined import written_out
from vllm_graft.link.linked import Linked, Rewrite, Unit, is_elsewhere
from vllm_graft.link.moot_keywords import moot_keywords
from vllm_graft.link.stacked import Stacking
from vllm_graft.link.stand_ins import fields_of_stand_in
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.unclaimed import unclaim
from vllm_graft.link.uses import CallUse, NameUse, ReadUse
from vllm_graft.values.finding import Site

_NAMES = re.compile(rb"[^\W\d]\w*(\.[^\W\d]\w*)*")


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
        if severity == "blocked" and (interface := unclaim(self._decisions, breach)):
            remedy = (
                f"none needed: the engine calls this on a {interface} of its own kind alone, and the grafted"
                " model does not say that it is one"
            )
            told = replace(told, severity="note", remedy=remedy)
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
        why, says = "it is the donor's default", "the value given is the donor's default"
        if dropped is None and self._is_made_here(call, boundary):
            dropped, why = moot_keywords(self._pair, call, mismatch, boundary)
            says = why
        if dropped:
            self._leave_out(unit, call, dropped, boundary, why)
            self.report(
                Breach(
                    code="G202",
                    severity="note",
                    module=unit.module,
                    line=call.span.line,
                    wanted=f"{wanted} with {', '.join(dropped)}",
                    found=f"the base's {mismatch.reason}",
                    remedy=f"none needed: {says}",
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
        fields = fields_of_stand_in(self._pair, call, mismatch, donor_signature, boundary)
        passed = ", ".join(f"{name}=None" for name in fields)
        why = "as the donor passes None for another: a stand-in, which no engine gets"
        if fields and self._insert(unit, call, passed, f"{passed} passed, {why}"):
            remedy = f"repaired: {passed} is passed, {why}"
            self.report(replace(breach, severity="note", remedy=remedy))
            return False
        provided = self._pair.donor.member(boundary, call.member) if call.member else None
        if provided is not None and provided[1].nested is not None:
            # The donor's would be made, but the base's engine, which takes it, would not know what is new in it.
            self.report(breach)
            return False
        if mismatch.only_keywords and Stacking(self._linked).bring(
            unit, boundary, mismatch.unknown_keywords
        ):
            remedy = (
                f"repaired: a {boundary.name} of the base with the donor's stacking, and a loader that reads"
                " what it marks"
            )
            self.report(replace(breach, severity="note", remedy=remedy), repaired=True)
            return False
        if call.member == "__init__" and any(
            is_handed_on(self._pair.donor, boundary, name) for name in mismatch.unknown_keywords
        ):
            # The donor's constructor would hand it to the same class of the base.
            self.report(
                replace(breach, found=f"{breach.found}, nor has the one that it hands on to")
            )
            return False
        self.bring_for(unit, call, boundary, call.member, breach)
        return False

    def write_out(self, unit: Unit, call: CallUse, changed: Sequence[tuple[str, str, str]]) -> bool:
        """Pass the donor's defaults explicitly: (name, donor's, base's) each; False where nothing can be added."""
        if not changed or call.member.startswith("forward_"):
            return False
        passed = ", ".join(f"{name}={ours}" for name, ours, _ in changed)
        note = (
            f"{passed} written out: it is the donor's default, and not the default of the base's"
            f" {call.callee.name}"
        )
        if not self._insert(unit, call, passed, note):
            return False
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

    def _insert(self, unit: Unit, call: CallUse, passed: str, note: str) -> bool:
        """Pass further keywords in a call; False where nothing can be added."""
        donor, module = self._pair.donor, unit.module
        place = place_for_keywords(donor.tree(module), donor.source(module), call)
        if place is None:
            return False
        span, before, behind = place
        self._linked.rewrites.append(
            Rewrite(
                module=module,
                span=span,
                text=f"{before}{passed}{behind}",
                note=f"line {call.span.line}: {note}",
            )
        )
        return True

    def _leave_out(
        self, unit: Unit, call: CallUse, names: tuple[str, ...], callee: Found, why: str
    ) -> None:
        for keyword in call.keywords:
            if keyword.name in names:
                self._linked.rewrites.append(
                    Rewrite(
                        module=unit.module,
                        span=keyword.span,
                        text="",
                        note=f"line {call.span.line}: {keyword.name}={keyword.value} left out: {why},"
                        f" and the base's {callee.name} has no such parameter",
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
        breach = Breach(
            code="G203",
            module=unit.module,
            line=read.span.line,
            wanted=wanted,
            found=missing,
            about=wanted,
        )
        default = contract.literal_default(member)
        if not read.called and read.through != "self" and is_new_flag(self._pair, boundary, member):
            assert default is not None
            self._read_with_default(unit, read, breach, default)
            return
        if self._is_made_here(read, boundary) and not is_enumeration:
            for name in self._bringers(provider, read.attribute):
                if self.bring(unit, boundary, name, breach):
                    return
                break
        written = None if read.called else written_out(self._pair, provider, read.attribute)
        if written is not None and self._names_its_object(unit, read):
            self._write_in_place(unit, read, breach, written)
            return
        if (
            default is not None
            and member.kind == "attribute"
            and not read.called
            and not is_enumeration
            and boundary.module.startswith(SWITCHES)
        ):
            self._read_with_default(unit, read, breach, default)
            return
        code = "G215" if is_enumeration else "G203"
        self.report(replace(breach, code=code, guard=self._guard_at(unit, read)))

    def _names_its_object(self, unit: Unit, read: ReadUse) -> bool:
        """Tell whether the object of a read is written as names only, so that it may stand there twice."""
        text = self._pair.donor.source(unit.module).splitlines()
        place = read.value_span
        if place.line != place.end_line:
            return False
        return _NAMES.fullmatch(text[place.line - 1][place.column : place.end_column]) is not None

    def _write_in_place(self, unit: Unit, read: ReadUse, breach: Breach, written: str) -> None:
        self._rewrite(unit, read, written, f"{read.attribute} is written out: {breach.found}")
        remedy = "repaired: what the donor's property computes is written where it is read"
        self.report(replace(breach, severity="note", remedy=remedy))

    def _read_with_default(self, unit: Unit, read: ReadUse, breach: Breach, default: str) -> None:
        note = f"{read.attribute} read with the donor's default {default}: {breach.found}"
        self._rewrite(unit, read, f'getattr(@, "{read.attribute}", {default})', note)
        remedy = (
            f"repaired: read with the donor's default {default}, since what it switches"
            " is not in the base"
        )
        self.report(replace(breach, code="G205", severity="note", remedy=remedy))

    def _rewrite(self, unit: Unit, read: ReadUse, text: str, note: str) -> None:
        self._linked.rewrites.append(
            Rewrite(
                module=unit.module,
                span=read.span,
                text=text,
                note=f"line {read.span.line}: {note}",
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
        if Gathering(self._linked).gather(child, boundary, method):
            remedy = (
                "repaired: what the base passes by name is gathered into what the donor's takes"
            )
            self.report(replace(breach, severity="note", remedy=remedy), repaired=True)
            return
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

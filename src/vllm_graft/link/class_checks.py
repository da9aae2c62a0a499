# A class that comes along meets the base in two ways: its parents stay the base's, and the base's engine calls it.
"""Checks of the classes in a graft against their parents and callers in the base."""

from vllm_graft.link import contract
from vllm_graft.link.breach import Breach
from vllm_graft.link.callers import MethodCall
from vllm_graft.link.index import Found, is_inside
from vllm_graft.link.linked import Linked, Unit
from vllm_graft.link.modes import switch_of
from vllm_graft.link.repairs import Repairs
from vllm_graft.values.finding import Site


class ClassChecker:
    """Holds the classes of one round against the base."""

    def __init__(self, linked: Linked, repairs: Repairs) -> None:
        """Check what is linked so far; breaches and repairs are written down by ``repairs``."""
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._base = linked.decisions.base
        self._repairs = repairs

    def check(self, unit: Unit) -> None:
        """Check one class that comes along, if the unit is one."""
        found = self._donor.resolve(unit.module, unit.name)
        if found is None or found.module != unit.module or found.definition.kind != "class":
            return
        for boundary in self._parents(found):
            counterpart = self._decisions.counterpart(boundary)
            if counterpart is None:
                if boundary.dotted in self._decisions.extracted:
                    self._check_hooks(unit, found, boundary, None)
                continue
            for method, callers in contract.orphan_overrides(
                self._donor, self._base, found, boundary, counterpart
            ):
                self._repairs.repair_orphan(unit, found, boundary, method, callers)
            if not self._decisions.is_grafted(boundary):
                self._check_hooks(unit, found, boundary, counterpart)
        self._check_overrides(unit, found)
        if found.dotted in self._decisions.required:
            self._check_protocols(unit, found)

    def _parents(self, found: Found) -> tuple[Found, ...]:
        """Parents of a class, and behind those that come along, their parents."""
        pending, parents = [found], dict[str, Found]()
        for item in pending:
            for parent in item.definition.parents:
                reached = self._donor.parent_named(item, parent)
                # A class may stand on another of its own name, and a name be bound anew: no end otherwise.
                if (
                    reached is None
                    or reached.dotted in {found.dotted, *parents}
                    or not is_inside(reached.module)
                ):
                    continue
                parents[reached.dotted] = reached
                if self._decisions.is_grafted(reached):
                    pending.append(reached)
        return tuple(parents.values())

    def _check_overrides(self, unit: Unit, found: Found) -> None:
        """See that the base's engine can call what a class overrides, where releases differ in how they do."""
        for name, member in found.definition.members.items():
            if member.function is None or (name.startswith("__") and name != "__call__"):
                continue
            boundary = self._overridden(found, name)
            if boundary is not None:
                self._check_override(unit, found, name, boundary)

    def _overridden(self, found: Found, name: str) -> Found | None:
        """The nearest ancestor that has a method and stays the base's own."""
        for item in self._donor.ancestry(found).classes[1:]:
            if name in item.definition.members:
                return None if self._decisions.is_grafted(item) else item
        return None

    def _check_override(self, unit: Unit, found: Found, name: str, boundary: Found) -> None:
        counterpart = self._decisions.counterpart(boundary)
        ours = boundary.definition.members[name]
        theirs = self._base.member(counterpart, name) if counterpart is not None else None
        if (
            theirs is None
            or counterpart is None
            or contract.is_called_alike(ours, theirs[1])
            or self._is_called_where_derived(boundary, name)
        ):
            return
        override = found.definition.members[name]
        for call in self._decisions.pair.base_callers.of(name):
            if call.fits(theirs[1]) is not None:
                continue  # another method of that name
            mismatch = call.fits(override)
            if mismatch is not None:
                found_text = (
                    f"the base calls it in {call.module}, line {call.line}, but it"
                    f" {mismatch.reason}"
                )
                self._repairs.repair_override(
                    unit, found, boundary, name, (found_text, self._site_of(call))
                )
                return

    def _site_of(self, call: MethodCall) -> Site:
        path = self._base.path_of(call.module) or call.module
        return Site(install="base", path=path, line=call.line)

    def _check_hooks(
        self, unit: Unit, found: Found, boundary: Found, counterpart: Found | None
    ) -> None:
        """See that hooks of an engine class that the model overrides are called by the base's engine.

        ``counterpart``: None for a class that the base does not have at all, such as an interface of a newer engine.
        """
        for name, member in found.definition.members.items():
            if (
                member.function is None
                or name.startswith("__")
                or self._donor.member(boundary, name) is None
                or (counterpart and self._base.member(counterpart, name) is not None)
                or self._base.files.mention(f".{name}(".encode())
                or self._is_called_where_derived(boundary, name)
            ):
                continue
            switch = switch_of(self._decisions.pair, name)
            self._repairs.report(
                Breach(
                    code="G218",
                    severity="review" if switch is None else "note",
                    module=unit.module,
                    line=member.line,
                    wanted=f"the engine calls {boundary.name}.{name}, which {found.name} overrides",
                    found="nothing in the base calls a method of this name",
                    remedy="see what the hook is for: what it switches or prepares does not happen in"
                    " the base"
                    if switch is None
                    else f"none needed: it is for {switch}, which is off, and which the base does not have",
                    about=f"{boundary.dotted}.{name}",
                )
            )

    def _is_called_where_derived(self, boundary: Found, name: str) -> bool:
        """Tell whether a member that a derived class brings calls a hook."""
        derivation = self._decisions.derived.get(boundary.dotted)
        members = derivation.members.items() if derivation is not None else ()
        return any(
            name in provider.definition.members[member].self_reads for member, provider in members
        )

    def _check_protocols(self, unit: Unit, found: Found) -> None:
        """See that the model has what the base's engine declares and calls on every such model.

        Source: vLLM 0.11 to 0.32, model_executor/models/interfaces_base.py: protocols whose members
        are declared without a body.
        """
        protocols = "vllm.model_executor.models.interfaces_base"
        if self._donor.member(found, "forward") is None:
            return
        summary = self._base.summary(protocols)
        for name in ("VllmModel", "VllmModelForTextGeneration"):
            definition = summary.definitions.get(name) if summary else None
            ours = self._donor.resolve(protocols, name)
            if definition is None or ours is None:
                continue
            if not self._meets(found, ours):
                continue
            for member in definition.members.values():
                if member.name.startswith("__") or not member.is_stub:
                    continue
                if self._has(found, member.name):
                    continue
                self._repairs.report(
                    Breach(
                        code="G212",
                        module=unit.module,
                        line=found.definition.line,
                        wanted=f"{name}.{member.name}, which the base's engine calls on models",
                        found=f"{found.name} has no {member.name}",
                        about=found.dotted,
                        met_at=self._base.site(Found(protocols, definition), member.line),
                    )
                )

    def _meets(self, found: Found, protocol: Found) -> bool:
        """Tell whether the donor's class has all that the donor's protocol declares."""
        return all(
            self._donor.member(found, m.name) is not None
            for m in protocol.definition.members.values()
            if m.is_stub and not m.name.startswith("__")
        )

    def _has(self, found: Found, name: str) -> bool:
        """Tell whether a grafted class has a member, from the donor's code or from the base's."""
        for item in self._donor.ancestry(found).classes:
            if self._decisions.is_grafted(item):
                if name in item.definition.members:
                    return True
                continue
            counterpart = self._decisions.counterpart(item)
            if counterpart is not None:
                provided = self._base.member(counterpart, name)
                if provided is not None and not provided[1].is_stub:
                    return True
        return False

# The fixed point: walk everything that the graft will contain, decide each name, check each use against the
# base, repair what can be repaired, and walk again until nothing changes. A donor definition that leads to a
# block where the base has a version of its own is declined, and all begins again without it.
"""The linker: closure, contract and repair, to a fixed point."""

from collections.abc import Iterator, Sequence

from vllm_graft.link.checks import Checker
from vllm_graft.link.decide import Decisions
from vllm_graft.link.doubles import Doubles
from vllm_graft.link.fallbacks import Fallbacks
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Root, Unit, is_elsewhere, runs_elsewhere
from vllm_graft.link.scopes import ONLY_TYPES
from vllm_graft.link.uses import IMPORTS, CallUse, NameUse, OperatorUse, Use

_MAX_ROUNDS = 60


class Linker:
    """Links the donor's code for one request against the base."""

    def __init__(self, decisions: Decisions, roots: Sequence[Root]) -> None:
        """Link what these roots need."""
        self._decisions = decisions
        self._pair = decisions.pair
        self._asked = tuple(roots)

    def link(self) -> Linked:
        """Run to the fixed point."""
        for root in self._asked:
            self._decisions.required.add(f"{root.module}.{root.name}")
        self._start()
        linked = Linked(self._decisions)
        doubles, fallbacks = Doubles(self._decisions), Fallbacks(self._decisions)
        for _ in range(_MAX_ROUNDS):
            self._decisions.changed = False
            constructed = linked.constructed
            linked = Linked(self._decisions, constructed=constructed)
            self._walk(linked)
            Checker(linked).check()
            if self._decline(linked) or doubles.settle(linked) or fallbacks.settle(linked):
                self._start()
                linked = Linked(self._decisions)
            elif not self._decisions.changed and linked.constructed == constructed:
                break
        return linked

    def _start(self) -> None:
        self._decisions.restart()
        for root in self._asked:
            self._bring(root)
        for found, why in self._decisions.taught.values():
            self._decisions.extract(found, why)

    def _bring(self, root: Root) -> None:
        """Take the module that defines a root, and the one that the registry names, if it is another."""
        found = self._pair.donor.resolve(root.module, root.name)
        if found is None or found.definition.kind in {"import", "submodule"}:
            self._decisions.take(root.module, root.why, root.name)
            return
        self._decisions.required.add(found.dotted)
        decision = self._decisions.of(found)
        if found.module in self._decisions.taken:
            self._decisions.taken[found.module].why = root.why
        is_named_elsewhere = found.module != root.module
        if is_named_elsewhere and self._pair.base.resolve(root.module, root.name) is None:
            self._decisions.take(root.module, root.why, root.name)
        if decision.kind == "blocked":
            self._decisions.take(found.module, root.why, root.name)

    # ── closure ───────────────────────────────────────────────────────────────────────────────────

    def _walk(self, linked: Linked) -> None:
        pending: list[Unit] = []
        decisions = self._decisions
        for module in list(decisions.taken):
            pending.extend(self._roots(module))
        pending.extend(Unit(f.module, f.name) for f in decisions.extracted.values())
        for derivation in decisions.derived.values():
            pending.extend(
                Unit(provider.module, provider.name, member)
                for member, provider in derivation.members.items()
            )
        while pending:
            unit = pending.pop()
            if unit in linked.units:
                continue
            linked.units.add(unit)
            decisions.current = unit.dotted
            for use in self._pair.uses_in(unit.module, unit.name, unit.member):
                if decisions.runs(unit.module, use):
                    pending.extend(self._follow(linked, unit, use))

    def _roots(self, module: str) -> Iterator[Unit]:
        """Units of a taken module that its import alone runs, and the names asked of it."""
        taken = self._decisions.taken[module]
        summary = self._pair.donor.summary(module)
        if summary is None:
            return
        for name in sorted(taken.roots):
            yield Unit(module, name)
        if taken.kind == "donor":
            for name, definition in summary.definitions.items():
                if definition.kind != "import":
                    yield Unit(module, name)
            yield Unit(module, IMPORTS)
        # A bare registration in a module of which only a part is kept goes with what it registers.
        if taken.kind == "donor" or not self._pair.uses_of(module).registrations:
            yield Unit(module, "")

    def _follow(self, linked: Linked, unit: Unit, use: Use) -> Iterator[Unit]:
        if isinstance(use, NameUse):
            yield from self._follow_name(linked, unit, use)
        elif isinstance(use, OperatorUse) and use.namespace == "vllm":
            yield from self._operator_units(use.name)
        elif isinstance(use, CallUse) and use.receiver == "construct":
            linked.constructed.add(use.callee.dotted)

    def _follow_name(self, linked: Linked, unit: Unit, use: NameUse) -> Iterator[Unit]:
        if is_elsewhere(use.guard) or runs_elsewhere(use.owner):
            return
        target = use.target
        if use.owner.name == IMPORTS and not self._is_used(unit.module, target):
            return
        if use.guard == ONLY_TYPES:
            linked.types.add(target.dotted)
            return
        if self._is_own(unit, target):
            yield Unit(target.module, target.name)
            return
        if not use.as_type and use.owner.name != IMPORTS:
            self._decisions.use_as_value(target)
        decision = self._decisions.of(target)
        linked.names.setdefault(target.dotted, (target, decision, use, unit))
        if decision.kind == "grafted" and target.definition.kind != "submodule":
            yield Unit(target.module, target.name)

    def _is_used(self, module: str, target: Found) -> bool:
        """Tell whether an imported name is used where code can run; one that nothing names is."""
        if not self._decisions.switched_off:
            return True
        named = [
            self._decisions.runs(module, use)
            for use in self._pair.uses_of(module).uses
            if isinstance(use, NameUse) and use.target == target and use.owner.name != IMPORTS
        ]
        return any(named) or not named

    def _is_own(self, unit: Unit, target: Found) -> bool:
        """Tell whether a name means a definition that comes along in the same file anyway."""
        return (
            target.module == unit.module
            and unit.module in self._decisions.taken
            and target.definition.kind not in {"import", "submodule"}
            and not self._decisions.prefers_base(target)
        )

    def _operator_units(self, name: str) -> Iterator[Unit]:
        """Units that implement a custom operator, where a taken module registers it."""
        for module in list(self._decisions.taken):
            for registration in self._pair.uses_of(module).registrations:
                if registration.kind == "operator" and registration.name == name:
                    yield Unit(module, registration.function)
                    for use in self._pair.uses_owned_by(module, registration.owner):
                        if isinstance(use, NameUse) and self._is_own(Unit(module, ""), use.target):
                            yield Unit(module, use.target.name)

    # ── declining ─────────────────────────────────────────────────────────────────────────────────

    def _decline(self, linked: Linked) -> bool:
        """Decline donor definitions that lead to a block where the base has a version; tell if any."""
        declined = False
        for breach in linked.breaches:
            if breach.severity != "blocked":
                continue
            found = self._decisions.nearest_declinable(breach.unit)
            if found is not None:
                self._decisions.declined[found.dotted] = (
                    f"the donor's needs {breach.wanted}, but {breach.found}"
                )
                declined = True
        return declined

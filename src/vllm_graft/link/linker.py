# The fixed point: walk everything that the graft will contain, decide each name, check each use against the
# base, repair what can be repaired, and walk again until nothing changes. What remains is a finding.
"""The linker: closure, contract and repair, to a fixed point."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vllm_graft.link import contract
from vllm_graft.link.decide import Decision, Decisions
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.uses import (
    IMPORTS,
    CallUse,
    Inference,
    ModuleUses,
    NameUse,
    OperatorUse,
    Owner,
    ReadUse,
    Registration,
    Span,
    Use,
    UseCollector,
)
from vllm_graft.values.finding import Finding, Severity, Site

_MAX_ROUNDS = 40
# Packages whose fields switch features of the engine: one that the base lacks is off there, which is what the
# donor's default says. A field of anything else is data that the base's engine would have to fill.
_SWITCHES = ("vllm.config.", "vllm.model_executor.layers.quantization.")
# Conditions under which code does not run on a CUDA or CPU machine.
_OTHER_PLATFORMS = (
    "is_rocm()",
    "is_tpu()",
    "is_xpu()",
    "is_hpu()",
    "is_neuron()",
    "is_out_of_tree()",
)


def is_elsewhere(guard: str) -> bool:
    """Tell whether a condition holds only on platforms that are neither CUDA nor the CPU."""
    return any(
        condition.endswith(_OTHER_PLATFORMS) and not condition.startswith("not ")
        for condition in guard.split(" and ")
    )


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A piece of donor code that the graft contains."""

    module: str
    name: str
    member: str = ""

    @property
    def dotted(self) -> str:
        """Module, name and member."""
        return ".".join(p for p in (self.module, self.name, self.member) if p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A definition that the graft is for."""

    module: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One change to the text of a piece of donor code."""

    module: str
    span: Span
    text: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A use that the base does not satisfy and that no repair covers, or one that was repaired."""

    code: str
    severity: Severity
    module: str
    line: int
    wanted: str
    found: str
    remedy: str
    repaired: str = ""
    guard: str = ""
    unit: str = ""
    """Dotted unit that it was found in."""


@dataclass(slots=True)
class Linked:
    """What the linker found out; turned into a plan by link/plan.py."""

    decisions: Decisions
    names: dict[str, tuple[Found, Decision, NameUse, Unit]] = field(
        default_factory=dict[str, tuple[Found, Decision, NameUse, Unit]]
    )
    """Every donor definition used from grafted code: dotted → (definition, decision, first use, where)."""
    units: set[Unit] = field(default_factory=set[Unit])
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    breaches: list[Breach] = field(default_factory=list[Breach])
    operators: dict[str, str] = field(default_factory=dict[str, str])
    """Custom operators that grafted code registers: donor's name → name in the grafted base."""
    native: list[tuple[OperatorUse, str]] = field(default_factory=list[tuple[OperatorUse, str]])


class Linker:
    """Links the donor's code for one request against the base."""

    def __init__(self, decisions: Decisions, roots: Sequence[Root]) -> None:
        """Link what these roots need."""
        self._decisions = decisions
        self._asked = tuple(roots)
        self._donor: Index = decisions.donor
        self._base: Index = decisions.base
        self._inference = Inference(decisions.donor)
        self._uses: dict[str, ModuleUses] = {}
        self._by_owner: dict[str, dict[Owner, list[Use]]] = {}
        self._constructed: set[str] = set()
        self._tuple_shards: bool = False

    def uses_of(self, module: str) -> ModuleUses:
        """All uses of one donor module, collected once."""
        if module not in self._uses:
            self._uses[module] = UseCollector(self._donor, self._inference, module).collect()
            by_owner: dict[Owner, list[Use]] = {}
            for use in self._uses[module].uses:
                by_owner.setdefault(use.owner, []).append(use)
            self._by_owner[module] = by_owner
        return self._uses[module]

    def link(self) -> Linked:
        """Run to the fixed point, and again without what the base cannot carry but has its own version of."""
        for root in self._asked:
            self._decisions.required.add(f"{root.module}.{root.name}")
        while True:
            linked = self._settle()
            if not self._decline(linked):
                return linked

    def _decline(self, linked: Linked) -> bool:
        """Decline donor definitions that lead to a block where the base has a version; tell if any."""
        declined = False
        for breach in linked.breaches:
            if breach.severity != "blocked":
                continue
            unit = breach.unit
            seen: set[str] = set()
            while unit and unit not in seen:
                seen.add(unit)
                found = self._declinable(unit)
                if found is not None:
                    self._decisions.declined[found.dotted] = (
                        f"the donor's needs {breach.wanted}, but {breach.found}"
                    )
                    declined = True
                    break
                unit = self._cause(unit)
        return declined

    def _cause(self, unit: str) -> str:
        """The unit that made another necessary: by its own name, its class or its module."""
        name = unit
        while name:
            if name in self._decisions.causes:
                return self._decisions.causes[name]
            name = name.rpartition(".")[0]
        return ""

    def _is_declinable_somewhere(self, unit: Unit) -> bool:
        name, seen = unit.dotted, set[str]()
        while name and name not in seen:
            seen.add(name)
            if self._declinable(name) is not None:
                return True
            name = self._cause(name)
        return False

    def _declinable(self, unit: str) -> Found | None:
        """The definition of a unit, where the base's own version could serve in its place."""
        for module, taken in self._decisions.taken.items():
            if taken.kind != "beside" or not unit.startswith(module + "."):
                continue
            found = self._donor.resolve(module, unit.removeprefix(module + ".").partition(".")[0])
            if (
                found is not None
                and found.dotted not in self._decisions.required
                and found.dotted not in self._decisions.declined
                and self._decisions.counterpart(found) is not None
            ):
                return found
        return None

    def _bring(self, root: Root) -> None:
        """Take the module that defines a root, and the one that the registry names, if that is another."""
        found = self._donor.resolve(root.module, root.name)
        if found is None or found.definition.kind in {"import", "submodule"}:
            self._decisions.take(root.module, root.why, root.name)
            return
        decision = self._decisions.of(found)
        if found.module != root.module and self._base.resolve(root.module, root.name) is None:
            self._decisions.take(root.module, root.why, root.name)
        if decision.kind == "blocked":
            self._decisions.take(found.module, root.why, root.name)

    def _settle(self) -> Linked:
        self._decisions.restart()
        self._constructed.clear()
        for root in self._asked:
            self._bring(root)
        linked = Linked(self._decisions)
        for _ in range(_MAX_ROUNDS):
            self._decisions.changed = False
            linked = Linked(self._decisions)
            self._walk(linked)
            self._check(linked)
            if not self._decisions.changed:
                break
        return linked

    # ── closure ───────────────────────────────────────────────────────────────────────────────────────

    def _walk(self, linked: Linked) -> None:
        pending: list[Unit] = []
        for taken in list(self._decisions.taken.values()):
            pending.extend(self._roots(taken.module))
        for found in list(self._decisions.extracted.values()):
            pending.append(Unit(found.module, found.name))
        for derivation in list(self._decisions.derived.values()):
            pending.extend(
                Unit(provider.module, provider.name, member)
                for member, provider in derivation.members.items()
            )
        while pending:
            unit = pending.pop()
            if unit in linked.units:
                continue
            linked.units.add(unit)
            self._decisions.current = unit.dotted
            for use in self.uses_in(unit):
                pending.extend(self._follow(linked, unit, use))

    def _roots(self, module: str) -> Iterator[Unit]:
        """Units of a taken module that its import alone runs, and the names asked of it."""
        taken = self._decisions.taken[module]
        self.uses_of(module)
        summary = self._donor.summary(module)
        if summary is None:
            return
        registered = {r.function for r in self._uses[module].registrations}
        for name in sorted(taken.roots):
            yield Unit(module, name)
        if taken.kind == "donor":
            for name, definition in summary.definitions.items():
                if definition.kind != "import":
                    yield Unit(module, name)
            yield Unit(module, IMPORTS)
        if taken.kind == "donor" or not registered:
            yield Unit(module, "")

    def uses_in(self, unit: Unit) -> list[Use]:
        """Uses that stand in a unit; of a class without a member: in all its members."""
        self.uses_of(unit.module)
        by_owner = self._by_owner[unit.module]
        if unit.member:
            return by_owner.get(Owner(unit.name, unit.member), [])
        return [u for o, uses in by_owner.items() if o.name == unit.name for u in uses]

    def _follow(self, linked: Linked, unit: Unit, use: Use) -> Iterator[Unit]:
        if isinstance(use, NameUse):
            if is_elsewhere(use.guard):
                return
            target = use.target
            if self._is_own(unit, target):
                yield Unit(target.module, target.name)
                return
            decision = self._decisions.of(target)
            linked.names.setdefault(target.dotted, (target, decision, use, unit))
            if decision.kind == "grafted" and target.definition.kind != "submodule":
                yield Unit(target.module, target.name)
        elif isinstance(use, OperatorUse) and use.namespace == "vllm":
            yield from self._operator_units(use.name)
        elif isinstance(use, CallUse) and use.receiver == "construct":
            self._constructed.add(use.callee.dotted)

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
        for module in self._decisions.taken:
            for registration in self.uses_of(module).registrations:
                if registration.kind == "operator" and registration.name == name:
                    yield Unit(module, registration.function)
                    for use in self._by_owner[module].get(registration.owner, []):
                        if isinstance(use, NameUse) and self._is_own(Unit(module, ""), use.target):
                            yield Unit(module, use.target.name)

    def _site(self, module: str, line: int) -> Site:
        return Site(install="donor", path=self._donor.path_of(module) or module, line=line)

    # ── contract ──────────────────────────────────────────────────────────────────────────────────────

    def _check(self, linked: Linked) -> None:
        self._tuple_shards = self._tuple_shards or any(
            contract.has_tuple_shard_ids(self._donor.tree(m)) for m in self._decisions.taken
        )
        self._blocked_names(linked)
        for unit in sorted(linked.units):
            self._decisions.current = unit.dotted
            for use in self.uses_in(unit):
                if isinstance(use, CallUse):
                    self._check_call(linked, unit, use)
                elif isinstance(use, ReadUse):
                    self._check_read(linked, unit, use)
                elif isinstance(use, OperatorUse):
                    self._check_operator(linked, unit, use)
            if not unit.member and unit.module in self._decisions.taken:
                self._check_class(linked, unit)
        self._check_registrations(linked)
        self._complete_derivations(linked)

    def _blocked_names(self, linked: Linked) -> None:
        for target, decision, use, unit in linked.names.values():
            if decision.kind == "blocked":
                self._decisions.current = unit.dotted
                self._report(
                    linked,
                    code="G104",
                    module=unit.module,
                    line=use.span.line,
                    wanted=target.dotted,
                    found=decision.reason,
                    remedy="choose a donor whose release is nearer to the base, or another route",
                    guard=use.guard,
                )

    def _report(
        self,
        linked: Linked,
        *,
        code: str,
        module: str,
        line: int,
        wanted: str,
        found: str,
        remedy: str,
        guard: str = "",
        severity: Severity = "blocked",
        repaired: str = "",
    ) -> None:
        if severity == "blocked" and is_elsewhere(guard):
            severity = "note"
        elif severity == "blocked" and guard in {"try", "except"}:
            severity = "note"
        linked.breaches.append(
            Breach(
                code=code,
                severity=severity,
                module=module,
                line=line,
                wanted=wanted,
                found=found,
                remedy=remedy,
                repaired=repaired,
                guard=guard,
                unit=self._decisions.current,
            )
        )

    def _is_grafted(self, found: Found) -> bool:
        return self._decisions.is_grafted(found)

    def _boundary(self, receiver: Found, provider: Found) -> Found | None:
        """First class on the way from ``receiver`` to ``provider`` that stays the base's own."""
        for item in self._donor.ancestry(receiver).classes:
            if self._is_grafted(item):
                continue
            if any(c.dotted == provider.dotted for c in self._donor.ancestry(item).classes):
                return item
        return None

    def _check_call(self, linked: Linked, unit: Unit, call: CallUse) -> None:
        if call.receiver == "construct":
            self._check_forward(linked, unit, call)
        donor_parameters = contract.parameters_for(self._donor, call.callee, call)
        if donor_parameters is None or contract.bind_call(donor_parameters, call) is not None:
            return
        target = self._call_target(call)
        if target is None:
            return
        counterpart, member_owner = target
        base_call = call
        if call.receiver == "super":
            base_call = CallUse(
                owner=call.owner,
                callee=call.callee,
                member=call.member,
                receiver="instance",
                positional=call.positional,
                keywords=call.keywords,
                has_star=call.has_star,
                has_double_star=call.has_double_star,
                span=call.span,
            )
            if call.member == "__init__":
                base_parameters = contract.constructor_parameters(self._base, counterpart)
            else:
                base_parameters = contract.parameters_for(self._base, counterpart, base_call)
        else:
            base_parameters = contract.parameters_for(self._base, counterpart, base_call)
        if base_parameters is None:
            return  # an absent member is a matter of _check_read
        mismatch = contract.bind_call(base_parameters, call)
        if mismatch is None:
            self._check_result(linked, unit, call, counterpart, member_owner)
            self._check_defaults(linked, unit, call, donor_parameters, base_parameters)
            return
        self._repair_call(linked, unit, call, mismatch, donor_parameters, member_owner)

    def _check_forward(self, linked: Linked, unit: Unit, call: CallUse) -> None:
        """See that a module of the base's version can be called as the donor's is.

        Layers are mostly called through containers (``for block in self.blocks: block(...)``), where no
        type is known; so whoever constructs a model-room class of the base's version must find its
        ``forward`` unchanged.
        """
        if not self._decisions.prefers_base(call.callee):
            return
        counterpart = self._decisions.counterpart(call.callee)
        ours = self._donor.member(call.callee, "forward")
        theirs = self._base.member(counterpart, "forward") if counterpart is not None else None
        if ours is None or theirs is None:
            return
        mine, other = ours[1].parameters, theirs[1].parameters
        if [p.name for p in mine] == [p.name for p in other]:
            return
        self._report(
            linked,
            code="G201",
            module=unit.module,
            line=call.span.line,
            wanted=f"{call.callee.dotted}.forward({', '.join(p.name for p in mine[1:])})",
            found=f"the base's takes ({', '.join(p.name for p in other[1:])})",
            remedy="choose a nearer donor or another route",
        )

    def _call_target(self, call: CallUse) -> tuple[Found, Found] | None:
        """The base's definition that a call reaches, and the donor's class or function at the boundary."""
        if not call.member:
            if self._is_grafted(call.callee):
                return None
            counterpart = self._decisions.counterpart(call.callee)
            return None if counterpart is None else (counterpart, call.callee)
        receiver = call.callee
        if call.receiver == "super":
            for item in self._donor.ancestry(receiver).classes[1:]:
                if call.member in item.definition.members:
                    provider = item
                    break
            else:
                return None
        else:
            provided = self._donor.member(receiver, call.member)
            if provided is None:
                if call.receiver != "construct" or self._is_grafted(receiver):
                    return None
                provider = receiver
            else:
                provider = provided[0]
        if self._is_grafted(provider):
            return None
        boundary = self._boundary(receiver, provider)
        if (
            boundary is None
            or boundary.dotted in self._decisions.derived
            and (call.member in self._decisions.derived[boundary.dotted].members)
        ):
            return None
        counterpart = self._decisions.counterpart(boundary)
        return None if counterpart is None else (counterpart, boundary)

    def _repair_call(
        self,
        linked: Linked,
        unit: Unit,
        call: CallUse,
        mismatch: contract.Mismatch,
        donor_parameters: tuple[object, ...],
        boundary: Found,
    ) -> None:
        wanted = f"{boundary.dotted}{'.' + call.member if call.member else ''}"
        why = f"{boundary.name}{'.' + call.member if call.member else ''}: the base's {mismatch.reason}"
        dropped = contract.droppable_keywords(call, mismatch, donor_parameters)  # pyright: ignore[reportArgumentType] parameters
        if dropped is not None:
            for keyword in call.keywords:
                if keyword.name in dropped:
                    linked.rewrites.append(
                        Rewrite(
                            module=unit.module,
                            span=keyword.span,
                            text="",
                            note=f"line {call.span.line}: {keyword.name}={keyword.value} left out: it is the"
                            f" donor's default, and the base's {boundary.name} has no such parameter",
                        )
                    )
            self._report(
                linked,
                code="G202",
                severity="note",
                module=unit.module,
                line=call.span.line,
                wanted=f"{wanted} with {', '.join(dropped)}",
                found=f"the base's {mismatch.reason}",
                remedy="none needed: the value given is the donor's default",
                repaired="keyword left out",
            )
            return
        if not call.member:
            self._decisions.extract(boundary, f"G201 {why}")
            repaired = "the donor's function is extracted"
        elif call.member.startswith("forward") and self._is_declinable_somewhere(unit):
            # Deriving the engine's kernels for the sake of a module that the base has too would trade a
            # proven path for an unproven one.
            repaired = ""
        elif self._can_derive(boundary) and self._decisions.derive(
            boundary, call.member, f"G201 {why}"
        ):
            repaired = "derived with the donor's member"
        else:
            repaired = ""
        self._report(
            linked,
            code="G201",
            severity="review" if repaired else "blocked",
            module=unit.module,
            line=call.span.line,
            wanted=f"{wanted}: {self._shown(call)}",
            found=f"the base's {mismatch.reason}",
            remedy="read the derived definition"
            if repaired
            else "choose a nearer donor or another route",
            repaired=repaired,
        )

    @staticmethod
    def _shown(call: CallUse) -> str:
        parts = ["…"] * call.positional + [f"{k.name}=" for k in call.keywords]
        return f"({', '.join(parts)})"

    def _can_derive(self, boundary: Found) -> bool:
        return not contract.is_enumeration(self._donor, boundary)

    def _check_result(
        self, linked: Linked, unit: Unit, call: CallUse, counterpart: Found, boundary: Found
    ) -> None:
        if not call.unpacked or call.receiver == "construct":
            return
        ours = contract.returned_arities(self._donor, call.callee, call.member)
        theirs = contract.returned_arities(self._base, counterpart, call.member)
        if not ours or not theirs or call.unpacked not in ours or call.unpacked in theirs:
            return
        why = (
            f"G207 {boundary.name}{'.' + call.member if call.member else ''}: the base returns"
            f" {sorted(theirs)} values, {call.unpacked} are unpacked"
        )
        if not call.member:
            self._decisions.extract(boundary, why)
        else:
            self._decisions.derive(boundary, call.member, why)
        self._report(
            linked,
            code="G207",
            severity="review",
            module=unit.module,
            line=call.span.line,
            wanted=f"{call.unpacked} values from {boundary.dotted}",
            found=f"{sorted(theirs)} values",
            remedy="read the extracted definition",
            repaired="the donor's definition is used",
        )

    def _check_defaults(
        self,
        linked: Linked,
        unit: Unit,
        call: CallUse,
        donor_parameters: tuple[object, ...],
        base_parameters: tuple[object, ...],
    ) -> None:
        if call.has_star or call.has_double_star:
            return
        for name, ours, theirs in contract.changed_defaults(
            call, donor_parameters, base_parameters
        ):  # pyright: ignore[reportArgumentType] parameters
            self._report(
                linked,
                code="G216",
                severity="review",
                module=unit.module,
                line=call.span.line,
                wanted=f"{call.callee.dotted}: {name} defaults to {ours}",
                found=f"the base's defaults to {theirs}",
                remedy=f"check that {theirs} means the same for this model",
            )

    def _check_read(self, linked: Linked, unit: Unit, read: ReadUse) -> None:
        receiver = read.receiver
        if read.through == "super":
            provider = next(
                (
                    c
                    for c in self._donor.ancestry(receiver).classes[1:]
                    if read.attribute in c.definition.members
                ),
                None,
            )
        else:
            provided = self._donor.member(receiver, read.attribute)
            provider = None if provided is None else provided[0]
        if provider is None or self._is_grafted(provider):
            return
        boundary = self._boundary(receiver, provider)
        if boundary is None:
            return
        decision = self._decisions.of(boundary)
        if decision.kind == "blocked" or decision.base is None:
            return
        derivation = self._decisions.derived.get(boundary.dotted)
        if derivation is not None and read.attribute in derivation.members:
            return
        base_member = self._base.member(decision.base, read.attribute)
        donor_member = provider.definition.members[read.attribute]
        if base_member is not None:
            if (
                base_member[1].is_stub
                and not donor_member.is_stub
                and read.called
                and self._can_derive(boundary)
            ):
                self._decisions.derive(
                    boundary,
                    read.attribute,
                    f"G203 {boundary.name}.{read.attribute} is only declared in the base",
                )
            return
        if self._provides_dynamically(decision.base):
            return
        self._repair_read(linked, unit, read, boundary, provider)

    def _provides_dynamically(self, base: Found) -> bool:
        """Tell whether a class answers for attributes that its source does not show."""
        return self._base.member(base, "__getattr__") is not None

    def _repair_read(
        self, linked: Linked, unit: Unit, read: ReadUse, boundary: Found, provider: Found
    ) -> None:
        member = provider.definition.members[read.attribute]
        wanted = f"{boundary.dotted}.{read.attribute}"
        missing = f"the base's {boundary.name} has no {read.attribute}"
        made_here = (
            read.through in {"self", "super", "class"} or boundary.dotted in self._constructed
        )
        guard = self._guard_at(unit, read)
        if made_here and self._can_derive(boundary) and member.kind != "instance":
            if self._decisions.derive(boundary, read.attribute, f"G203 {missing}"):
                self._report(
                    linked,
                    code="G203",
                    severity="review",
                    module=unit.module,
                    line=read.span.line,
                    wanted=wanted,
                    found=missing,
                    remedy="read the derived class",
                    repaired="derived with the donor's member",
                )
                return
        if made_here and member.kind == "instance" and self._can_derive(boundary):
            setters = [
                m.name
                for m in provider.definition.members.values()
                if m.kind == "method" and read.attribute in self._written_in(provider, m.name)
            ]
            if setters and all(
                self._decisions.derive(boundary, s, f"G203 {missing}; {s} sets it") for s in setters
            ):
                self._report(
                    linked,
                    code="G203",
                    severity="review",
                    module=unit.module,
                    line=read.span.line,
                    wanted=wanted,
                    found=missing,
                    remedy="read the derived class",
                    repaired=f"derived with the donor's {', '.join(setters)}",
                )
                return
        default = contract.literal_default(member)
        if (
            default is not None
            and member.kind == "attribute"
            and not read.called
            and boundary.module.startswith(_SWITCHES)
            and self._can_derive(boundary)
        ):
            linked.rewrites.append(
                Rewrite(
                    module=unit.module,
                    span=read.span,
                    text=f'getattr(@, "{read.attribute}", {default})',
                    note=f"line {read.span.line}: {read.attribute} read with the donor's default {default}:"
                    f" {missing}",
                )
            )
            self._report(
                linked,
                code="G205",
                severity="review",
                module=unit.module,
                line=read.span.line,
                wanted=wanted,
                found=missing,
                remedy=f"the feature that it switches is not in the base; the donor's default {default}"
                " is assumed",
                repaired="read with the donor's default",
            )
            return
        self._report(
            linked,
            code="G215" if contract.is_enumeration(self._donor, boundary) else "G203",
            module=unit.module,
            line=read.span.line,
            wanted=wanted,
            found=missing,
            remedy="choose a nearer donor or another route",
            guard=guard,
        )

    def _written_in(self, provider: Found, method: str) -> frozenset[str]:
        node = provider.definition.node
        written: set[str] = set()
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == method:
                    written.update(
                        t.attr
                        for t in ast.walk(statement)
                        if isinstance(t, ast.Attribute) and isinstance(t.ctx, ast.Store)
                    )
        return frozenset(written)

    def _guard_at(self, unit: Unit, read: ReadUse) -> str:
        for use in self.uses_of(unit.module).uses:
            if isinstance(use, NameUse) and use.span.line == read.span.line and use.guard:
                return use.guard
        return ""

    # ── operators ─────────────────────────────────────────────────────────────────────────────────────

    def _check_operator(self, linked: Linked, unit: Unit, use: OperatorUse) -> None:
        if use.namespace in {
            "aten",
            "prims",
            "torchvision",
            "higher_order",
            "inductor",
            "_c10d_functional",
            "symm_mem",
        }:
            return
        if use.namespace != "vllm":
            linked.native.append((use, unit.module))
            return
        if any(
            r.name == use.name
            for m in self._decisions.taken
            for r in self.uses_of(m).registrations
            if r.kind == "operator"
        ):
            return
        if self._base.files.containing(f'"{use.name}"'.encode()):
            return
        if not self._donor.files.containing(f'"{use.name}"'.encode()):
            return
        self._report(
            linked,
            code="G208",
            module=unit.module,
            line=use.span.line,
            wanted=f"torch.ops.vllm.{use.name}",
            found="the base registers no such operator",
            remedy="choose a nearer donor or another route",
            guard=use.guard,
        )

    def _check_registrations(self, linked: Linked) -> None:
        for module, taken in self._decisions.taken.items():
            self._decisions.current = module
            for registration in self.uses_of(module).registrations:
                if not self._is_kept(linked, module, registration):
                    continue
                if registration.kind == "operator":
                    linked.operators.setdefault(registration.name, registration.name)
                if not self._base_registers(registration):
                    continue
                new = (
                    f"{registration.name}__from_{taken.target.rpartition('__from_')[2]}"
                    if taken.kind == "beside"
                    else f"{registration.name}__grafted"
                )
                if registration.kind == "operator":
                    linked.operators[registration.name] = new
                linked.rewrites.append(
                    Rewrite(
                        module=module,
                        span=registration.span,
                        text=f'"{new}"',
                        note=f"{registration.name} registered as {new}: the base registers that name already",
                    )
                )
                self._report(
                    linked,
                    code="G209",
                    severity="note",
                    module=module,
                    line=registration.span.line,
                    wanted=f"to register {registration.name}",
                    found="the base registers that name already",
                    remedy="none needed: the grafted code uses the new name throughout",
                    repaired=f"renamed to {new}",
                )

    def _is_kept(self, linked: Linked, module: str, registration: Registration) -> bool:
        return (
            self._decisions.taken[module].kind == "donor"
            or Unit(module, registration.function) in linked.units
        )

    def _base_registers(self, registration: Registration) -> bool:
        needles = (
            [f'op_name="{registration.name}"']
            if registration.kind == "operator"
            else [f'CustomOp.register("{registration.name}")']
        )
        return any(self._base.files.containing(n.encode()) for n in needles)

    # ── classes ───────────────────────────────────────────────────────────────────────────────────────

    def _check_class(self, linked: Linked, unit: Unit) -> None:
        found = self._donor.resolve(unit.module, unit.name)
        if found is None or found.module != unit.module or found.definition.kind != "class":
            return
        for parent in found.definition.parents:
            reached = self._donor.resolve_dotted(unit.module, parent.partition("[")[0])
            if reached is None or reached[1] or not is_inside(reached[0].module):
                continue
            boundary = reached[0]
            if self._is_grafted(boundary) or boundary.definition.kind != "class":
                continue
            counterpart = self._decisions.counterpart(boundary)
            if counterpart is None:
                continue
            for method, callers in contract.orphan_overrides(
                self._donor, self._base, found, boundary, counterpart
            ):
                derivation = self._decisions.derived.get(boundary.dotted)
                if derivation is not None and all(c in derivation.members for c in callers):
                    continue
                for caller in callers:
                    self._decisions.derive(
                        boundary,
                        caller,
                        f"G204 {found.name} overrides {method}, which the base's {boundary.name} never calls",
                    )
                self._report(
                    linked,
                    code="G204",
                    severity="review",
                    module=unit.module,
                    line=found.definition.members[method].line,
                    wanted=f"{boundary.dotted} calls {method}",
                    found=f"the base's {boundary.name} has no {method} and never calls it",
                    remedy="read the derived class",
                    repaired=f"derived with the donor's {', '.join(callers)}",
                )

    def _complete_derivations(self, linked: Linked) -> None:
        """Bring what derived members rely on, and loaders that take the donor's argument kinds."""
        if self._tuple_shards:
            for dotted in sorted(self._constructed):
                module, _, name = dotted.rpartition(".")
                found = self._donor.resolve(module, name)
                if found is None or self._is_grafted(found):
                    continue
                counterpart = self._decisions.counterpart(found)
                if counterpart is None:
                    continue
                for loader in ("weight_loader", "weight_loader_v2"):
                    ours = self._donor.member(found, loader)
                    theirs = self._base.member(counterpart, loader)
                    if contract.refuses_tuple_shards(
                        ours[1] if ours else None, theirs[1] if theirs else None
                    ):
                        self._decisions.derive(
                            found,
                            loader,
                            f"G206 the weight map passes tuples as shard id, which the base's"
                            f" {found.name}.{loader} does not take",
                        )
        for derivation in list(self._decisions.derived.values()):
            for member, provider in list(derivation.members.items()):
                source = provider.definition.members.get(member)
                if source is None:
                    continue
                for called in sorted(source.self_calls):
                    ours = self._donor.member(derivation.donor, called)
                    theirs = self._base.member(derivation.base, called)
                    if ours is None or theirs is None or called in derivation.members:
                        continue
                    if not self._same_member(ours, theirs):
                        self._decisions.derive(
                            derivation.donor, called, f"the derived {member} calls it"
                        )
        del linked

    def _same_member(self, ours: tuple[Found, object], theirs: tuple[Found, object]) -> bool:
        from vllm_graft.link.compare import shape  # noqa: PLC0415

        def node(index: Index, found: Found, name: str) -> ast.AST | None:
            owner = found.definition.node
            if not isinstance(owner, ast.ClassDef):
                return None
            return next(
                (
                    s
                    for s in owner.body
                    if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef) and s.name == name
                ),
                None,
            )

        name = ours[1].name  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        mine, other = node(self._donor, ours[0], name), node(self._base, theirs[0], name)
        return mine is not None and other is not None and shape(mine) == shape(other)


def findings_of(linked: Linked, donor: Index) -> tuple[Finding, ...]:
    """Give the breaches as findings, each once, in order of place."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for breach in linked.breaches:
        finding = Finding(
            code=breach.code,
            severity=breach.severity,
            site=Site(
                install="donor",
                path=donor.path_of(breach.module) or breach.module,
                line=breach.line,
            ),
            wanted=breach.wanted,
            found=breach.found + (f" (where {breach.guard})" if breach.guard else ""),
            remedy=breach.remedy,
        )
        seen.setdefault((breach.code, breach.wanted, breach.found), finding)
    return tuple(seen.values())

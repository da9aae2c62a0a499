# Every use of every unit is held against the base here. What fails goes to repairs.py, which knows what can be
# done about it.
"""Checks of the uses in a graft against the base."""

from vllm_graft.link import contract
from vllm_graft.link.breach import Breach
from vllm_graft.link.class_checks import ClassChecker
from vllm_graft.link.constructors import generates_constructor
from vllm_graft.link.defaults import takes
from vllm_graft.link.derivation_checks import DerivationChecker
from vllm_graft.link.exact_types import refuse_adapters
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Unit, runs_elsewhere
from vllm_graft.link.operators import check_operator, check_registrations
from vllm_graft.link.reach import Callable
from vllm_graft.link.refusals import Refusal
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.self_loading import refusal_to_load
from vllm_graft.link.serving import check_serving
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.unread import unread_keywords
from vllm_graft.link.unrepaired import Moot
from vllm_graft.link.uses import CallUse, OperatorUse, ReadUse, Use
from vllm_graft.values.finding import Site

_MAPPINGS = {"dict", "Mapping", "MutableMapping", "UserDict", "TypedDict"}


class Checker:
    """Holds one round's units against the base."""

    def __init__(self, linked: Linked, repairs: Repairs | None = None) -> None:
        """Check what is linked so far; breaches and repairs are written down there."""
        self._linked = linked
        self._decisions = linked.decisions
        self._pair = linked.decisions.pair
        self._donor = self._pair.donor
        self._base = self._pair.base
        self._repairs = Repairs(linked) if repairs is None else repairs
        self._classes = ClassChecker(linked, self._repairs)
        self._callable = Callable(linked)

    def check(self) -> None:
        """Check every name, call, read, operator, class and registration."""
        self._check_names()
        of_uncalled = Checker(self._linked, Moot(self._linked))
        for unit in sorted(self._linked.units):
            self._decisions.current = unit.dotted
            for use in self._pair.uses_in(unit.module, unit.name, unit.member):
                if not self._decisions.runs(unit.module, use):
                    continue
                is_called = unit.member or self._callable.is_called(unit, use.owner.member)
                (self if is_called else of_uncalled).check_use(unit, use)
            if not unit.member and unit.module in self._decisions.taken:
                self._classes.check(unit)
        check_registrations(self._linked, self._repairs)
        check_serving(self._linked, self._repairs)
        self._check_loaders()
        DerivationChecker(self._linked, self._repairs).check()
        refuse_adapters(self._linked)

    def check_use(self, unit: Unit, use: Use) -> None:
        """Check one use that stands in a unit."""
        if runs_elsewhere(use.owner):
            return
        if isinstance(use, CallUse):
            self._check_call(unit, use)
        elif isinstance(use, ReadUse):
            self._check_read(unit, use)
        elif isinstance(use, OperatorUse):
            check_operator(self._linked, self._repairs, unit, use)

    def _check_names(self) -> None:
        for target, decision, use, unit in list(self._linked.names.values()):
            if decision.kind == "blocked":
                self._decisions.current = unit.dotted
                self._repairs.report(
                    Breach(
                        code="G104",
                        module=unit.module,
                        line=use.span.line,
                        wanted=target.dotted,
                        found=decision.reason,
                        guard=use.guard,
                        about=target.dotted,
                    )
                )

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _check_call(self, unit: Unit, call: CallUse) -> None:
        if call.receiver == "construct":
            self._check_forward(unit, call)
        target = self._call_target(call)
        if target is None:
            return
        donor_signature = self._pair.donor_signature(call)
        if donor_signature is None:
            return
        counterpart, boundary = target
        if call.member == "__init__" and self._pair.factories.class_of_objects(boundary):
            self._report_made(unit, call, boundary, counterpart)
            return
        base_signature = self._pair.base_signature(counterpart, call)
        if base_signature is None:
            return  # an absent member is a matter of _check_read
        mismatch = self._pair.base_outcome(counterpart, base_signature, call) or unread_keywords(
            self._pair, call, donor_signature, base_signature
        )
        if mismatch is not None:
            if self._repairs.repair_call(unit, call, mismatch, donor_signature, boundary):
                self._check_defaults(unit, call, donor_signature, base_signature, counterpart)
            return
        is_made = not call.member and counterpart.definition.kind == "class"
        if is_made or call.receiver == "construct":
            self._check_values(unit, call, counterpart)
        self._check_result(unit, call, counterpart, boundary)
        self._check_defaults(unit, call, donor_signature, base_signature, counterpart)

    def _report_made(self, unit: Unit, call: CallUse, boundary: Found, counterpart: Found) -> None:
        """Tell that an object is made without the function that stands where the base has its class."""
        self._repairs.report(
            Breach(
                code="G201",
                module=unit.module,
                line=call.span.line,
                wanted=f"{boundary.dotted}.__init__",
                found=f"in its place the base has {counterpart.dotted}, which is made otherwise",
                about=f"{boundary.dotted}.__init__",
            )
        )

    def _check_values(self, unit: Unit, call: CallUse, counterpart: Found) -> None:
        for refusal in self._pair.refusals.of_base_alone(call, counterpart):
            wanted = f"{call.callee.dotted} with any {', '.join(sorted(refusal.asks))}"
            self._report_refusal(unit, call, refusal, wanted)
        refusal = refusal_to_load(self._pair, call, unit.module, counterpart)
        if refusal is not None:
            wanted = f"{call.callee.dotted} that loads its own weights"
            self._report_refusal(unit, call, refusal, wanted)

    def _report_refusal(self, unit: Unit, call: CallUse, refusal: Refusal, wanted: str) -> None:
        path = self._base.path_of(refusal.module) or refusal.module
        self._repairs.report(
            Breach(
                code="G224",
                severity="review",
                module=unit.module,
                line=call.span.line,
                wanted=wanted,
                found=f"the base's raises where {refusal.test}",
                remedy="see what this model's configuration says, and how its weights are loaded",
                about=call.callee.dotted,
                met_at=Site(install="base", path=path, line=refusal.line),
            )
        )

    def _check_forward(self, unit: Unit, call: CallUse) -> None:
        """See that a layer of the base's version can be called as the donor's is.

        Layers are mostly called through containers (``for block in self.blocks: block(...)``), where
        no type is known; so whoever constructs a model-room class of the base's version must find its
        ``forward`` with the same parameters.
        """
        if not self._decisions.prefers_base(call.callee):
            return
        counterpart = self._decisions.counterpart(call.callee)
        ours = self._donor.member(call.callee, "forward")
        theirs = self._base.member(counterpart, "forward") if counterpart is not None else None
        if ours is None or theirs is None:
            return
        mine, other = ours[1].parameters, theirs[1].parameters
        if [p.name for p in mine] != [p.name for p in other]:
            self._repairs.report(
                Breach(
                    code="G201",
                    module=unit.module,
                    line=call.span.line,
                    wanted=f"{call.callee.dotted}.forward({', '.join(p.name for p in mine[1:])})",
                    found=f"the base's takes ({', '.join(p.name for p in other[1:])})",
                    about=f"{call.callee.dotted}.forward",
                )
            )

    def _call_target(self, call: CallUse) -> tuple[Found, Found] | None:
        """The base's definition that a call reaches, and the donor's at the boundary."""
        if not call.member:
            if self._decisions.is_grafted(call.callee):
                return None
            counterpart = self._decisions.counterpart(call.callee)
            return None if counterpart is None else (counterpart, call.callee)
        provider = self._provider(call.callee, call.member, through=call.receiver)
        if provider is None and call.receiver == "construct":
            provider = generates_constructor(self._donor, call.callee) or call.callee
        if provider is None:
            return None
        if self._decisions.is_grafted(provider):
            return None
        boundary = self._decisions.boundary(call.callee, provider)
        if boundary is None:
            return None
        derivation = self._decisions.derived.get(boundary.dotted)
        if derivation is not None and call.member in derivation.members:
            return None
        counterpart = self._decisions.counterpart(boundary)
        if counterpart is None and call.receiver == "instance":
            counterpart = self._pair.by_object(boundary)
        return None if counterpart is None else (counterpart, boundary)

    def _provider(self, receiver: Found, name: str, *, through: str) -> Found | None:
        """The donor's class that provides a member; what ``super()`` sees, where it goes through that."""
        if through == "super":
            for item in self._donor.ancestry(receiver).classes[1:]:
                if name in item.definition.members:
                    return item
            return None
        provided = self._donor.member(receiver, name)
        return None if provided is None else provided[0]

    def _check_result(self, unit: Unit, call: CallUse, counterpart: Found, boundary: Found) -> None:
        if not call.unpacked or call.receiver == "construct":
            return
        ours = contract.returned_arities(self._donor, call.callee, call.member)
        if call.unpacked not in ours:
            return
        theirs = contract.returned_arities(self._base, counterpart, call.member)
        if theirs and call.unpacked not in theirs:
            self._repairs.bring_for(
                unit,
                call,
                boundary,
                call.member,
                Breach(
                    module=unit.module,
                    code="G207",
                    line=call.span.line,
                    wanted=f"{call.unpacked} values from {boundary.dotted}",
                    found=f"the base returns {' or '.join(map(str, sorted(theirs)))}",
                    about=boundary.dotted_of(call.member),
                ),
            )

    def _check_defaults(
        self,
        unit: Unit,
        call: CallUse,
        donor_signature: tuple[Parameter, ...],
        base_signature: tuple[Parameter, ...],
        counterpart: Found,
    ) -> None:
        if call.has_star or call.has_double_star:
            return
        changed = contract.changed_defaults(call, donor_signature, base_signature)
        taken = {p.name: p for p in base_signature}
        provided = self._base.member(counterpart, call.member) if call.member else None
        module = (counterpart if provided is None else provided[0]).module
        written = [c for c in changed if takes(self._base, module, taken[c[0]], c[1])]
        if self._repairs.write_out(unit, call, written):
            changed = tuple(c for c in changed if c not in written)
        for name, ours, theirs in changed:
            is_engines = self._decisions.serves_engine(call.callee)
            self._repairs.report(
                Breach(
                    code="G216",
                    severity="note" if is_engines else "review",
                    module=unit.module,
                    line=call.span.line,
                    wanted=f"{call.callee.dotted}: {name} defaults to {ours}",
                    found=f"the base's defaults to {theirs}",
                    remedy="none needed: it is the engine's choice for all models"
                    if is_engines
                    else f"check that {theirs} means the same for this model",
                    about=call.callee.dotted_of(call.member),
                )
            )

    # ── reads ─────────────────────────────────────────────────────────────────────────────────────

    def _check_read(self, unit: Unit, read: ReadUse) -> None:
        provider = self._provider(read.receiver, read.attribute, through=read.through)
        if provider is None or self._decisions.is_grafted(provider):
            return
        boundary = self._decisions.boundary(read.receiver, provider)
        if boundary is None:
            return
        derivation = self._decisions.derived.get(boundary.dotted)
        if derivation is not None and read.attribute in derivation.members:
            return
        counterpart = self._decisions.counterpart(boundary)
        if counterpart is None and read.through == "instance":
            counterpart = self._pair.by_object(boundary)
        if counterpart is None:
            self._check_type(unit, boundary, read)
            return  # the class itself is a matter of _check_names
        base_member = self._base.member(counterpart, read.attribute)
        if base_member is None:
            # A class with __getattr__ answers for attributes that its source does not show.
            if self._base.member(counterpart, "__getattr__") is None:
                self._repairs.repair_read(unit, read, boundary, provider)
            return
        donor_member = provider.definition.members[read.attribute]
        if read.called and base_member[1].is_stub and not donor_member.is_stub:
            self._repairs.bring_for(
                unit,
                read,
                boundary,
                read.attribute,
                Breach(
                    module=unit.module,
                    code="G203",
                    line=read.span.line,
                    wanted=f"{boundary.dotted}.{read.attribute}",
                    found=f"the base's {boundary.name} only declares it",
                    about=f"{boundary.dotted}.{read.attribute}",
                ),
            )

    def _check_type(self, unit: Unit, missing: Found, read: ReadUse) -> None:
        """See that a class that is only named in annotations, but read from, is in the base.

        What a mapping has, the base's engine gives too: it passes a mapping of another class.
        """
        named = self._linked.names.get(missing.dotted)
        is_only_named = (
            missing.dotted in self._linked.types if named is None else named[1].kind == "adapted"
        )
        is_of_mapping = hasattr(dict, read.attribute) and any(
            outside.partition("[")[0].rpartition(".")[2] in _MAPPINGS
            for outside in self._donor.ancestry(missing).outside
        )
        if is_only_named and not is_of_mapping:
            self._repairs.report(
                Breach(
                    code="G104",
                    module=unit.module,
                    line=read.span.line,
                    wanted=f"{missing.dotted}, whose {read.attribute} is read",
                    found=f"the base has no {missing.name}",
                    about=f"{missing.dotted}.{read.attribute}",
                )
            )

    # ── derivations ───────────────────────────────────────────────────────────────────────────────

    def _check_loaders(self) -> None:
        """Bring loaders that take the kinds of shard id that the donor's weight maps use."""
        module = next(
            (m for m in sorted(self._decisions.taken) if self._pair.has_tuple_shard_ids(m)),
            None,
        )
        if module is None:
            return
        for dotted in sorted(self._linked.constructed):
            place, _, name = dotted.rpartition(".")
            constructed = self._donor.resolve(place, name)
            if constructed is None:
                continue
            for loader in ("weight_loader", "weight_loader_v2"):
                ours = self._donor.member(constructed, loader)
                found = None if ours is None else self._decisions.boundary(constructed, ours[0])
                counterpart = None if found is None else self._decisions.counterpart(found)
                if ours is None or found is None or counterpart is None:
                    continue
                theirs = self._base.member(counterpart, loader)
                if contract.refuses_tuple_shards(ours[1], theirs[1] if theirs else None):
                    self._repairs.bring(
                        Unit(module, ""),
                        found,
                        loader,
                        Breach(
                            module=module,
                            code="G206",
                            line=0,
                            wanted=f"{found.dotted}.{loader} with a tuple as shard id",
                            found=f"the base's {found.name}.{loader} takes a single one",
                            about=f"{found.dotted}.{loader}",
                        ),
                    )

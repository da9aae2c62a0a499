# What is true of two installs whatever is asked of them: kept in one place, so that a second plan over the same
# pair finds the first one's work.
"""A pair of installs: their indexes, which definitions correspond, and what donor modules use."""

from collections.abc import Callable, Mapping, Sequence

from vllm_graft.link import contract
from vllm_graft.link.callers import Callers
from vllm_graft.link.collect import UseCollector
from vllm_graft.link.compare import Comparison
from vllm_graft.link.environment import reader_of
from vllm_graft.link.factories import Factories
from vllm_graft.link.index import Found, Index
from vllm_graft.link.infer import Inference
from vllm_graft.link.mentions import Mentions
from vllm_graft.link.obstacles import Obstacles
from vllm_graft.link.refusals import Refusals
from vllm_graft.link.symbols import Definition, Parameter
from vllm_graft.link.uses import CallUse, ModuleUses, Owner, Use, span_of
from vllm_graft.link.vllm import ENVIRONMENT, Room
from vllm_graft.values.install import NativeCode

_LIKENESS = 0.5
_SHORTEST_NAME = 4
_FEWEST_PARAMETERS = 3
"""By which a function is known again under another name."""


class Pair:
    """Two installs, and all that can be said of them without a request."""

    def __init__(
        self,
        donor: Index,
        base: Index,
        room_of: Callable[[str], Room],
        native: NativeCode | None = None,
    ) -> None:
        """Pair two indexes; ``room_of`` tells model code from engine code, ``native`` is the base's."""
        self._native = native if native is not None else NativeCode()
        self.donor = donor
        self.base = base
        self.room_of = room_of
        self.comparison = Comparison(donor, base, lambda module: room_of(module) != "engine")
        self.obstacles = Obstacles(donor, base)
        self.base_callers = Callers(base, room_of)
        self.mentions = Mentions(donor, base)
        self.refusals = Refusals(donor, base)
        self.factories = Factories(donor, base, room_of)
        self.switches: dict[str, str | None] = {}
        """Methods that were asked about → see modes.py."""
        self._inference = Inference(donor)
        self._inference_of_base = Inference(base)
        self._uses: dict[str, ModuleUses] = {}
        self._by_owner: dict[str, Mapping[str, Mapping[str, Sequence[Use]]]] = {}
        self._tuple_shards: dict[str, bool] = {}
        self._counterparts: dict[str, Found | None] = {}
        self._signatures: dict[tuple[str, str, str, str], tuple[Parameter, ...] | None] = {}
        self._outcomes: dict[tuple[object, ...], contract.Mismatch | None] = {}

    # ── what donor modules use ────────────────────────────────────────────────────────────────────

    def uses_of(self, module: str) -> ModuleUses:
        """All uses of one donor module, collected once."""
        if module not in self._uses:
            collected = UseCollector(self.donor, self._inference, module).collect()
            self._uses[module] = collected
            by_owner: dict[str, dict[str, list[Use]]] = {}
            for use in collected.uses:
                by_owner.setdefault(use.owner.name, {}).setdefault(use.owner.member, []).append(use)
            self._by_owner[module] = by_owner
        return self._uses[module]

    def uses_in(self, module: str, name: str, member: str = "") -> Sequence[Use]:
        """Uses in one unit of a donor module; of a class without a member: in all its members."""
        self.uses_of(module)
        if module == ENVIRONMENT:
            return self._uses_of_reader(name)
        members = self._by_owner[module].get(name, {})
        if member:
            return members.get(member, ())
        return [use for uses in members.values() for use in uses]

    def _uses_of_reader(self, name: str) -> Sequence[Use]:
        """Uses in the function that reads a variable of the environment."""
        found = self.donor.resolve(ENVIRONMENT, name)
        reader = None if found is None else reader_of(self.donor, found)
        if reader is None:
            return [u for uses in self._by_owner[ENVIRONMENT].get(name, {}).values() for u in uses]
        place = span_of(reader)
        return [use for use in self._uses[ENVIRONMENT].uses if use.span in place]

    def uses_owned_by(self, module: str, owner: Owner) -> Sequence[Use]:
        """Uses with exactly this owner."""
        self.uses_of(module)
        return self._by_owner[module].get(owner.name, {}).get(owner.member, ())

    def has_native(self, namespace: str, name: str) -> bool:
        """Tell whether the base has a native operator: its binaries name it, or its Python uses it.

        A CPU wheel lacks every CUDA operator, so the donor's own lack proves nothing.
        """
        files = self.base.files
        return (
            name in self._native.operators
            or files.mention(f"{namespace}.{name}".encode())
            or files.mention(f'"{namespace}", "{name}"'.encode())
        )

    def has_tuple_shard_ids(self, module: str) -> bool:
        """Tell whether a weight map of a donor module names tuples as shard ids."""
        if module not in self._tuple_shards:
            self._tuple_shards[module] = contract.has_tuple_shard_ids(self.donor.tree(module))
        return self._tuple_shards[module]

    # ── which definitions correspond ──────────────────────────────────────────────────────────────

    def counterpart(self, found: Found) -> Found | None:
        """The base's definition of the same thing, at the same place or moved; None where it has none."""
        key = found.dotted
        if key not in self._counterparts:
            self._counterparts[key] = self._find_counterpart(found)
        return self._counterparts[key]

    def _find_counterpart(self, found: Found) -> Found | None:
        if found.definition.kind == "submodule":
            return self.base.submodule(found.module)
        made = self.factories.class_of_objects(found)
        if made is not None:
            return made
        same_place = self.base.resolve(found.module, found.name)
        if same_place is not None and same_place.definition.kind == found.definition.kind:
            return same_place
        behind = self.factories.class_behind(found)
        if behind is not None:
            return behind
        if found.definition.kind not in {"class", "function"} or len(found.name) < _SHORTEST_NAME:
            return None
        best: tuple[tuple[float, bool], Found] | None = None
        for candidate in self.base.definers(found.name, found.definition.kind):
            donors_own = self.donor.resolve(candidate.module, candidate.name)
            if donors_own is not None and donors_own.dotted != found.dotted:
                continue  # the donor has that one too, beside this one: another thing of that name
            likeness = _likeness(found, candidate)
            if likeness < _LIKENESS:
                continue
            # Of two that are equally like it, the one with the same body.
            rank = (likeness, self.comparison.same(found, candidate))
            if best is None or rank > best[0]:
                best = (rank, candidate)
        return self._renamed(found) if best is None else best[1]

    def by_object(self, found: Found) -> Found | None:
        """What the base's engine has where the donor's has an object of a class that the base has not.

        Source: vLLM 0.25.1, multimodal/video.py: ``VIDEO_LOADER_REGISTRY`` is an ExtensionManager in 0.20.2.
        """
        summary = self.donor.summary(found.module)
        for name in () if summary is None else sorted(summary.definitions):
            mine = self.donor.resolve(found.module, name)
            value = None if mine is None else self._inference.of_definition(mine)
            if value is None or value.kind != "instance" or value.found.dotted != found.dotted:
                continue
            theirs = self.base.resolve(found.module, name)
            other = None if theirs is None else self._inference_of_base.of_definition(theirs)
            if other is not None and other.kind == "instance":
                return other.found
        return None

    def _renamed(self, found: Found) -> Found | None:
        """The function of the base's module that was given another name since, with more parameters at most.

        Its old name is nowhere in the donor, one name holds the other, and whatever called it by the old name
        can call it by the new one.
        """
        summary = self.base.summary(found.module)
        if found.definition.kind != "function" or summary is None:
            return None
        return next(
            (
                Found(found.module, old)
                for name, old in sorted(summary.definitions.items())
                if old.kind == "function"
                and min(name, found.name, key=len) in max(name, found.name, key=len)
                and _is_extended(found, old)
                and next(self.donor.definers(name, "function"), None) is None
                and self.donor.resolve(found.module, name) is None
            ),
            None,
        )

    # ── what a call meets ─────────────────────────────────────────────────────────────────────────

    def donor_signature(self, call: CallUse) -> tuple[Parameter, ...] | None:
        """Parameters that a call binds to in the donor; None where they are unknown or do not bind."""
        signature = self._signature(self.donor, call.callee, call, call.receiver)
        if signature is None or self._outcome(self.donor, call.callee, signature, call) is not None:
            return None
        return signature

    def base_signature(self, counterpart: Found, call: CallUse) -> tuple[Parameter, ...] | None:
        """Parameters that the same call binds to where it reaches ``counterpart``."""
        receiver = call.receiver
        if receiver == "super":
            receiver = "construct" if call.member == "__init__" else "instance"
        if not receiver and counterpart.definition.kind == "class":
            receiver = "construct"  # the donor has a function that makes it
        return self._signature(self.base, counterpart, call, receiver)

    def base_outcome(
        self, counterpart: Found, signature: Sequence[Parameter], call: CallUse
    ) -> contract.Mismatch | None:
        """Bind a call to the base's signature; None where it binds."""
        return self._outcome(self.base, counterpart, signature, call)

    def _signature(
        self, index: Index, found: Found, call: CallUse, receiver: str
    ) -> tuple[Parameter, ...] | None:
        key = (index.install, found.dotted, call.member, receiver)
        if key not in self._signatures:
            self._signatures[key] = contract.parameters_for(
                index, found, member=call.member, receiver=receiver
            )
        return self._signatures[key]

    def _outcome(
        self, index: Index, found: Found, signature: Sequence[Parameter], call: CallUse
    ) -> contract.Mismatch | None:
        key = (
            index.install,
            found.dotted,
            call.member,
            call.receiver,
            call.positional,
            tuple(k.name for k in call.keywords),
            call.has_star,
            call.has_double_star,
        )
        if key not in self._outcomes:
            self._outcomes[key] = contract.bind_call(signature, call)
        return self._outcomes[key]


def _is_extended(found: Found, old: Definition) -> bool:
    """Tell whether a function has all parameters of an older one, in its order, and gives the same."""
    mine, other = found.definition.parameters, old.parameters
    names = [p.name for p in other]
    return (
        len(names) >= _FEWEST_PARAMETERS
        and [p.name for p in mine if p.name in names] == names
        and {p.name: p.kind for p in mine}.items() >= {p.name: p.kind for p in other}.items()
        and found.definition.returns == old.returns
    )


def _likeness(ours: Found, theirs: Found) -> float:
    """How much of the smaller one's members or parameters two definitions share, from 0 to 1.

    The smaller one counts, since classes grow from release to release.
    """
    if ours.definition.kind == "class":
        mine = {n for n, m in ours.definition.members.items() if m.kind != "instance"}
        other = {n for n, m in theirs.definition.members.items() if m.kind != "instance"}
    else:
        mine = {p.name for p in ours.definition.parameters}
        other = {p.name for p in theirs.definition.parameters}
    if not mine and not other:
        return 1.0
    smaller = min(len(mine), len(other))
    return len(mine & other) / smaller if smaller else 0.0

# How one name of the donor is satisfied. A decision is made from what is there, and remembered; a rule that
# finds the base wanting raises the stakes by putting the definition among those that are taken, extracted or
# derived, and the decision is made again. Decisions only ever move in that direction, so the linker ends.
"""Decisions: how each name that donor code uses is satisfied in the grafted base."""

from vllm_graft.link.breach import Breach
from vllm_graft.link.index import Found
from vllm_graft.link.pair import Pair
from vllm_graft.link.plain import is_plain
from vllm_graft.link.resolution import (
    Decision,
    Derivation,
    Taken,
    as_any,
    listed,
    unneeded,
    version_suffix,
    whereabouts,
)
from vllm_graft.link.uses import NameUse, OperatorUse, Use
from vllm_graft.link.vllm import Room
from vllm_graft.values.plan import ResolutionKind

# Engine packages whose modules hold what the engine itself runs on: they are never brought from a donor.
# Source: design, rule 1; the packages exist in vLLM 0.11 to 0.32.
_ENGINE_CORE = (
    "vllm.v1",
    "vllm.config",
    "vllm.distributed",
    "vllm.engine",
    "vllm.entrypoints",
    "vllm.compilation",
    "vllm.platforms",
    "vllm.plugins",
    "vllm.worker",
    "vllm.executor",
    "vllm.model_executor.model_loader",
    "vllm.kernels",
    "vllm.ir",
    "vllm.multimodal",
    "vllm.renderers",
    "vllm.inputs",
    "vllm.lora",
)
SERVES_THE_ENGINE = "it serves the engine's multimodal machinery, which is the base's"
"""Why a class that differs is not taken from the donor, where that is a matter of what it is."""
# Classes that sit between a model and the engine's multimodal machinery: they follow the engine that calls
# them, so the base's version is preferred where it has one. Source: vLLM 0.14.1 multimodal/processing.py and
# profiling.py; 0.17.1 multimodal/processing/{context,processor,dummy_inputs}.py.
_PLUMBING = frozenset(
    {
        "BaseMultiModalProcessor",
        "BaseProcessingInfo",
        "BaseDummyInputsBuilder",
        "MultiModalDataParser",
    }
)


def is_engine_core(module: str) -> bool:
    """Tell whether a module is of those that the engine itself runs on."""
    return any(module == core or module.startswith(core + ".") for core in _ENGINE_CORE)


class Decisions:
    """All decisions of one graft, and what is taken, extracted and derived because of them."""

    def __init__(self, pair: Pair, *, donor_version: str, family: str) -> None:
        """Decide for one pair of installs; ``family`` is the dotted name of the graft's own module."""
        self.pair = pair
        self.donor = pair.donor
        self.base = pair.base
        self.family = family
        self.taken: dict[str, Taken] = {}
        self.extracted: dict[str, Found] = {}
        self.extraction_reasons: dict[str, str] = {}
        self.derived: dict[str, Derivation] = {}
        self.declined: dict[str, str] = {}
        """Model-room definitions for which the base's version is used after all: dotted → why."""
        self.taught: dict[str, tuple[Found, str]] = {}
        """Functions that come along because they know a word: dotted → definition, why."""
        self.causes: dict[str, str] = {}
        """What was brought → dotted unit whose use made it necessary."""
        self.switched_off: set[tuple[str, str]] = set()
        """Class of the donor and an attribute of it that is False in the graft: see fallbacks.py."""
        self.inserted: set[str] = set()
        """Donor classes and functions whose code is put into base files by edits."""
        self._namesakes: dict[str, set[str]] = {}
        self.required: set[str] = set()
        """Definitions that were asked for: never declined."""
        self.valued: set[str] = set()
        """Definitions that grafted code does more with than to name them in annotations."""
        self._named: dict[str, Decision] = {}
        """Those that the base cannot have and that it only names there."""
        self.current = ""
        """Dotted unit that is being followed or checked."""
        self.repaired: dict[tuple[str, str], Breach] = {}
        """Breaches that a derivation or extraction repaired: (code, what was wanted) → breach."""
        self.suffix = version_suffix(donor_version)
        """The donor's version as part of a name, such as ``0_17_1``."""
        self.changed = False
        self.is_settled = False
        """Nothing more is brought: what nothing asked for so far is needed by nothing that will run."""

    def beside(self, module: str) -> str:
        """Name of the donor's version of a module that the base has too."""
        return f"{module}__from_{self.suffix}"

    def take(self, module: str, why: str, root: str = "") -> Taken:
        """Take a whole donor module: at its own path, or beside the base's version of it."""
        taken = self.taken.get(module)
        if taken is None:
            free = self.base.path_of(module) is None
            taken = Taken(
                module,
                module if free else self.beside(module),
                "donor" if free else "beside",
                why,
            )
            self.taken[module] = taken
            self.causes.setdefault(module, self.current)
            self.changed = True
            if free:
                self._take_packages(module)
        if root and root not in taken.roots:
            taken.roots.add(root)
            self.changed = True
        return taken

    def _take_packages(self, module: str) -> None:
        parent = module.rpartition(".")[0]
        while parent and self.base.path_of(parent) is None and parent not in self.taken:
            if self.donor.path_of(parent) is not None:
                self.taken[parent] = Taken(parent, parent, "donor", f"package of {module}")
            parent = parent.rpartition(".")[0]

    def extract(self, found: Found, why: str) -> str | None:
        """Bring one definition into the graft's own module; give what keeps it from that, if anything."""
        if found.dotted not in self.extracted:
            along = {f.name for f in self.extracted.values() if f.module == found.module}
            obstacle = self.pair.obstacles.to_extracting(found, along)
            if obstacle is not None:
                return obstacle
            self.extracted[found.dotted] = found
            self.extraction_reasons[found.dotted] = why
            self._namesakes.setdefault(found.name, set()).add(found.dotted)
            self.causes.setdefault(found.dotted, self.current)
            self.changed = True
        return None

    def derive(self, found: Found, member: str, why: str) -> bool:
        """Give the base's class one member of the donor's; False where that cannot be."""
        counterpart = self.counterpart(found)
        provided = self.donor.member(found, member)
        if counterpart is None or provided is None:
            return False
        if self.pair.obstacles.to_moving(provided[0], provided[1].names) is not None:
            return False
        derivation = self.derived.get(found.dotted)
        if derivation is None:
            derivation = Derivation(found, counterpart)
            self.derived[found.dotted] = derivation
            self._namesakes.setdefault(found.name, set()).add(found.dotted)
            self.changed = True
        if member not in derivation.members:
            derivation.members[member] = provided[0]
            self.causes.setdefault(f"{found.dotted}.{member}", self.current)
            self.causes.setdefault(f"{provided[0].dotted}.{member}", self.current)
            self.changed = True
        if why not in derivation.reasons:
            derivation.reasons.append(why)
        return True

    def use_as_value(self, found: Found) -> None:
        """Note that grafted code does more with a definition than to name it in an annotation."""
        if found.dotted not in self.valued:
            self.valued.add(found.dotted)
            self.changed = True

    def name_of(self, found: Found) -> str:
        """Name of an extracted or derived definition in the graft's own module.

        Where several have one name, the first by module keeps it.
        """
        namesakes = sorted(self._namesakes[found.name])
        place = namesakes.index(found.dotted)
        return f"{found.name}__{place + 1}" if place else found.name

    def counterpart(self, found: Found) -> Found | None:
        """The base's definition of the same thing, at the same place or moved; None where it has none."""
        return self.pair.counterpart(found)

    def of(self, found: Found) -> Decision:
        """Decide how a donor definition is satisfied now."""
        if found.dotted not in self.derived and self.prefers_base(found):
            return self._base_version(found)
        if found.module in self.taken and not self.prefers_base(found):
            taken = self.taken[found.module]
            if self.is_settled and self._is_cut(taken, found):
                return unneeded(found)
            if found.definition.kind != "submodule" and found.name not in taken.roots:
                taken.roots.add(found.name)
                self.changed = True
            return Decision(
                kind="grafted",
                module=taken.target,
                name="" if found.definition.kind == "submodule" else found.name,
                reason=taken.why,
                base=self.counterpart(found),
            )
        if found.dotted in self.extracted:
            return Decision(
                kind="extracted",
                module=self.family,
                name=self.name_of(found),
                reason=self.extraction_reasons[found.dotted],
                base=self.counterpart(found),
            )
        if found.dotted in self.derived:
            derivation = self.derived[found.dotted]
            return Decision(
                kind="derived",
                module=self.family,
                name=self.name_of(found),
                reason="; ".join(derivation.reasons),
                base=derivation.base,
            )
        return self._plain(found)

    @staticmethod
    def _is_cut(taken: Taken, found: Found) -> bool:
        """Tell whether a module that is taken in part leaves a definition out."""
        is_definition = found.definition.kind != "submodule"
        return taken.kind == "beside" and is_definition and found.name not in taken.roots

    def prefers_base(self, found: Found) -> bool:
        """Tell whether the base's version of a model-room definition is used although the donor's differs."""
        if found.dotted in self.declined:
            return True
        if (
            found.definition.kind != "class"
            or self.pair.room_of(found.module) == "engine"
            or found.dotted in self.required
            or not self.serves_engine(found)
        ):
            return False
        if self.counterpart(found) is None:
            return False
        self.declined[found.dotted] = SERVES_THE_ENGINE
        return True

    def serves_engine(self, found: Found) -> bool:
        """Tell whether a class is one of those between a model and the engine's multimodal machinery."""
        return found.definition.kind == "class" and any(
            c.name in _PLUMBING and self.pair.room_of(c.module) == "engine"
            for c in self.donor.ancestry(found).classes
        )

    def _base_version(self, found: Found) -> Decision:
        counterpart = self.counterpart(found)
        if counterpart is None:  # pragma: no cover  declined only where there is one
            raise AssertionError(found.dotted)
        same = self.pair.comparison.same(found, counterpart)
        return Decision(
            kind="identical" if same else "changed",
            module=counterpart.module,
            name=counterpart.name,
            reason="" if same else f"the base's version is used: {self.declined[found.dotted]}",
            base=counterpart,
        )

    def is_grafted(self, found: Found) -> bool:
        """Tell whether the donor's own code of this definition is in the graft."""
        if found.dotted in self.extracted or found.dotted in self.inserted:
            return True
        return found.module in self.taken and not self.prefers_base(found)

    def boundary(self, receiver: Found, provider: Found) -> Found | None:
        """First class on the way from ``receiver`` to ``provider`` that stays the base's own."""
        for item in self.donor.ancestry(receiver).classes:
            if not self.is_grafted(item) and self.donor.descends(item, provider):
                return item
        return None

    def runs(self, module: str, use: Use) -> bool:
        """Tell whether code of a use can run: not where a flag that is off guards it."""
        if not self.switched_off or not isinstance(use, NameUse | OperatorUse):
            return True
        owner = f"{module}.{use.owner.name}"
        return not any(
            f"self.{flag}" in use.guard.split(" and ")
            for name, flag in self.switched_off
            if name == owner
        )

    def nearest_declinable(self, unit: str) -> Found | None:
        """What could be declined to be rid of a unit: itself, or what made it necessary, and so on."""
        seen: set[str] = set()
        while unit and unit not in seen:
            seen.add(unit)
            found = self._declinable(unit)
            if found is not None:
                return found
            unit = self._cause(unit)
        return None

    def _cause(self, unit: str) -> str:
        """The unit that made another necessary: by its own name, its class or its module."""
        name = unit
        while name:
            if name in self.causes:
                return self.causes[name]
            name = name.rpartition(".")[0]
        return ""

    def _declinable(self, unit: str) -> Found | None:
        """The definition of a unit, where the base's own version could serve in its place."""
        for module, taken in self.taken.items():
            if taken.kind != "beside" or not unit.startswith(module + "."):
                continue
            found = self.donor.resolve(module, unit.removeprefix(module + ".").partition(".")[0])
            if (
                found is not None
                and found.dotted not in self.required
                and found.dotted not in self.declined
                and self.counterpart(found) is not None
            ):
                return found
        return None

    def restart(self) -> None:
        """Forget what was brought, keep what was declined and required."""
        self.taken.clear()
        self.extracted.clear()
        self.extraction_reasons.clear()
        self.derived.clear()
        self._namesakes.clear()
        self.valued.clear()
        self._named.clear()
        self.causes.clear()
        self.repaired.clear()

    def _plain(self, found: Found) -> Decision:
        counterpart = self.counterpart(found)
        room = self.pair.room_of(found.module)
        if counterpart is None:
            return self._missing(found, room)
        name = "" if found.definition.kind == "submodule" else counterpart.name
        moved = counterpart.dotted != found.dotted
        if room != "engine":
            different = self.pair.comparison.differences(found, counterpart)
            if different:
                return self._grafted(
                    found,
                    f"model code comes from the donor; it differs from the base's in"
                    f" {listed(different)}",
                )
            return Decision(
                kind="moved" if moved else "identical",
                module=counterpart.module,
                name=name,
                reason=whereabouts(found, counterpart),
                base=counterpart,
            )
        same = self.pair.comparison.same(found, counterpart)
        kind: ResolutionKind = "moved" if moved else ("identical" if same else "changed")
        reason = whereabouts(found, counterpart)
        if not same:
            reason = f"{reason}; another body" if reason else "same name, another body"
        return Decision(
            kind=kind, module=counterpart.module, name=name, reason=reason, base=counterpart
        )

    def _grafted(self, found: Found, why: str) -> Decision:
        if self.is_settled:
            return unneeded(found)
        taken = self.take(
            found.module, why, "" if found.definition.kind == "submodule" else found.name
        )
        return Decision(
            kind="grafted",
            module=taken.target,
            name="" if found.definition.kind == "submodule" else found.name,
            reason=why,
            base=self.counterpart(found),
        )

    def _missing(self, found: Found, room: Room) -> Decision:
        if self.is_settled and found.dotted in self._named and found.dotted not in self.valued:
            return self._named[found.dotted]
        decision = self._found_missing(found, room)
        if (
            decision.kind == "blocked"
            and not self.is_settled
            and found.dotted not in self.valued
            and found.definition.kind != "submodule"
        ):
            self._named[found.dotted] = as_any(decision)
            return self._named[found.dotted]
        return decision

    def _found_missing(self, found: Found, room: Room) -> Decision:
        if room != "engine" or self.is_settled:
            return self._grafted(found, "the base has no such module or definition")
        core = is_engine_core(found.module)
        if core and is_plain(self.donor, found):
            return self._extracted(found, f"the base has no {found.dotted}")
        if self.base.path_of(found.module) is None:
            if core:
                return Decision(
                    kind="blocked",
                    module="",
                    name=found.name,
                    reason=f"{found.module} is a part of the donor's engine that the base lacks",
                )
            return self._grafted(found, f"the base has no module {found.module}")
        if core and found.definition.kind == "class":
            return Decision(
                kind="blocked",
                module="",
                name=found.name,
                reason=f"{found.dotted} is a class of the donor's engine that the base lacks",
            )
        return self._extracted(found, f"the base's {found.module} has no {found.name}")

    def _extracted(self, found: Found, why: str) -> Decision:
        obstacle = self.extract(found, why)
        if obstacle is not None:
            return Decision(kind="blocked", module="", name=found.name, reason=f"{why}; {obstacle}")
        return Decision(kind="extracted", module=self.family, name=self.name_of(found), reason=why)

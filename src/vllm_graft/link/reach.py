# A donor's engine asks models for things that the base's engine never asks for. Such a method comes along with its class,
# and what it needs may be missing: that matters only if something can call it.
"""Which methods of grafted classes something calls."""

from vllm_graft.link.linked import Linked, Unit

# Ancestors from elsewhere that call no method of a subclass by a name that vLLM does not use itself.
_QUIET_ANCESTORS = frozenset({"torch.nn.Module", "abc.ABC", "typing.Protocol", "typing.Generic"})


class Callable:
    """Looks for calls of methods by name in the base and in the graft."""

    def __init__(self, linked: Linked) -> None:
        """Look in what is linked so far."""
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._known: dict[tuple[str, str], bool] = {}

    def is_called(self, unit: Unit, member: str) -> bool:
        """Tell whether anything may call a method of a class that comes along.

        A name that stands anywhere in the base counts, and one that the graft's own code reads outside
        methods of that name (which pass the call on).
        """
        if not member or member.startswith("_"):
            return True
        key = (unit.dotted, member)
        if key not in self._known:
            self._known[key] = self._may_be_called(unit, member)
        return self._known[key]

    def _may_be_called(self, unit: Unit, member: str) -> bool:
        found = self._donor.resolve(unit.module, unit.name)
        if found is None or found.definition.kind != "class":
            return True
        method = found.definition.members.get(member)
        if method is None or method.kind not in {"method", "classmethod", "staticmethod"}:
            return True
        if not {*self._donor.ancestry(found).outside} <= _QUIET_ANCESTORS:
            return True
        mentions = self._decisions.pair.mentions
        if mentions.in_base(member):
            return True
        modules = {
            *self._decisions.taken,
            *(f.module for f in self._decisions.extracted.values()),
            *(f.module for d in self._decisions.derived.values() for f in d.members.values()),
        }
        spelled = member.encode()
        return any(
            mentions.by(module).get(member, set()) - {member}
            for module in modules
            # Its own definition is one: most names stand nowhere else, and no tree need be walked.
            if self._donor.source(module).count(spelled) > (module == found.module)
        )

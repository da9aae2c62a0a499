# A derived class is the base's with some members of the donor's. What those members call, what the base's own methods
# read of them, and what they get back has to be of one kind.
"""Checks of the classes that a graft derives from the base's."""

import ast

from vllm_graft.link import contract
from vllm_graft.link.breach import Breach
from vllm_graft.link.compare import same_shape
from vllm_graft.link.linked import Linked
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.resolution import Derivation
from vllm_graft.link.symbols import Member


class DerivationChecker:
    """Holds the derived classes of one round together."""

    def __init__(self, linked: Linked, repairs: Repairs) -> None:
        """Check what is derived so far; breaches and repairs are written down by ``repairs``."""
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._base = linked.decisions.base
        self._repairs = repairs

    def check(self) -> None:
        """Bring the donor's version of methods that derived members call on their own object."""
        for derivation in list(self._decisions.derived.values()):
            for name, provider in list(derivation.members.items()):
                member = provider.definition.members.get(name)
                for called in sorted(member.self_calls) if member is not None else ():
                    ours = self._donor.member(derivation.donor, called)
                    theirs = self._base.member(derivation.base, called)
                    if ours is None or theirs is None or called in derivation.members:
                        continue
                    if not _same_method(ours[1], theirs[1]):
                        self._decisions.current = f"{derivation.donor.dotted}.{name}"
                        self._decisions.derive(
                            derivation.donor, called, f"the derived {name} calls it"
                        )
            self._keep_state(derivation)
            self._keep_results(derivation)

    def _keep_state(self, derivation: Derivation) -> None:
        """See that what the base's own methods read is still set, where a derived member replaces what set it."""
        lost = contract.lost_state(self._base, derivation.base, tuple(derivation.members.items()))
        for attribute, reader in contract.readers_of(
            derivation.base, lost, derivation.members.keys()
        ):
            why = (
                f"G220 {reader}: the base's reads {attribute}, which the donor's members do not set"
            )
            # What is to blame is whatever asked for the member that does not set it, not what was checked last.
            self._decisions.current = f"{derivation.donor.dotted}.{_setter(derivation, attribute)}"
            is_there = self._donor.member(derivation.donor, reader) is not None
            if is_there and self._decisions.derive(derivation.donor, reader, why):
                continue
            self._repairs.report(
                Breach(
                    code="G220",
                    module=derivation.donor.module,
                    line=derivation.donor.definition.line,
                    wanted=f"{derivation.donor.dotted} sets {attribute}",
                    found=f"the base's {derivation.base.name}.{reader} reads it, and the donor's members"
                    " that take the place of the base's do not set it",
                    about=f"{derivation.donor.dotted}.{reader}",
                )
            )

    def _keep_results(self, derivation: Derivation) -> None:
        """See that the base's own methods, which unpack what a member returns, get as many values from the donor's.

        A record may unpack into as many names and mean something else: only the same number of values written
        out, or the same annotation, will do.
        """
        for name in derivation.members:
            theirs = contract.returned_arities(self._base, derivation.base, name)
            ours = contract.returned_arities(self._donor, derivation.donor, name)
            if not theirs or (ours and ours <= theirs) or self._promises_alike(derivation, name):
                continue
            callers = contract.callers_within(self._base, derivation.base, name)
            for caller in (each for each in callers if each not in derivation.members):
                self._decisions.current = f"{derivation.donor.dotted}.{name}"
                self._repairs.report(
                    Breach(
                        code="G207",
                        module=derivation.donor.module,
                        line=derivation.donor.definition.members[name].line
                        if name in derivation.donor.definition.members
                        else derivation.donor.definition.line,
                        wanted=f"{' or '.join(map(str, sorted(theirs)))} values from"
                        f" {derivation.donor.dotted}.{name}",
                        found=f"the donor's does not return that, and the base's"
                        f" {derivation.base.name}.{caller} calls it",
                        about=f"{derivation.donor.dotted}.{name}",
                    )
                )

    def _promises_alike(self, derivation: Derivation, name: str) -> bool:
        """Tell whether both versions of a member are annotated to return the same."""
        returns = [
            None if found is None or found[1].function is None else found[1].function.returns
            for found in (
                self._donor.member(derivation.donor, name),
                self._base.member(derivation.base, name),
            )
        ]
        texts = {None if node is None else ast.unparse(node) for node in returns}
        return len(texts) == 1 and None not in texts


def _setter(derivation: Derivation, attribute: str) -> str:
    """The member of a derivation in whose place the base's sets an attribute."""
    own = derivation.base.definition.members
    return next(
        name for name in derivation.members if name in own and attribute in own[name].self_stores
    )


def _same_method(ours: Member, theirs: Member) -> bool:
    return same_shape(ours.node, theirs.node)

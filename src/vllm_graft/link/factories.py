# What was a class in an older release may be a function of the same name in a newer one that makes and gives the object:
# whoever calls it need not know. So a model that calls the donor's function can call the base's class, and what it does
# with the object it does with an object of that class. Both are held to the contract as any other pair of definitions.
"""Functions of the donor that stand where the base has a class of their name."""

import re
from collections.abc import Callable, Iterator

from vllm_graft.link.index import Found, Index
from vllm_graft.link.vllm import Room

_CALLED_AS_A_CLASS = re.compile(rb"^def ([A-Z]\w*)\(", re.MULTILINE)
"""Python's own convention tells such functions from others. Source: PEP 8, "Class Names"."""


class Factories:
    """Knows which of the base's classes the donor makes through functions.

    Source: vLLM 0.20.2 and 0.25.1, ``fused_moe/layer.py``: ``FusedMoE`` is a class, then a function that gives a MoERunner.
    """

    def __init__(self, donor: Index, base: Index, room_of: Callable[[str], Room]) -> None:
        """Compare two installs."""
        self._donor = donor
        self._base = base
        self._room_of = room_of
        self._made: dict[str, Found] | None = None

    def class_behind(self, function: Found) -> Found | None:
        """Give the base's class of the name and place of a function that makes an object."""
        if function.definition.kind != "function" or not function.definition.returns:
            return None
        theirs = self._base.resolve(function.module, function.name)
        is_class = theirs is not None and theirs.definition.kind == "class"
        return theirs if is_class and self.given_by(function) is not None else None

    def class_of_objects(self, found: Found) -> Found | None:
        """Give the base's class whose objects stand where such a function gives objects of a class."""
        if self._made is None:
            self._made = {
                made.dotted: behind
                for function in self._functions()
                if (behind := self.class_behind(function)) is not None
                and (made := self.given_by(function)) is not None
            }
        return self._made.get(found.dotted)

    def given_by(self, function: Found) -> Found | None:
        """The one class that a function is annotated to give."""
        return self._donor.class_named(function.module, function.definition.returns or "")

    def _functions(self) -> Iterator[Found]:
        for path in self._donor.files.containing(b""):
            module = self._donor.module_at(path)
            if self._room_of(module) != "engine":
                continue
            for match in _CALLED_AS_A_CLASS.finditer(self._donor.files.read(path)):
                found = self._donor.resolve(module, match[1].decode())
                if found is not None:
                    yield found

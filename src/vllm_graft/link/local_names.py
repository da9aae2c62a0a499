# Pieces of several donor modules share one module of the graft: what they call by one name may be two things.
"""Names that a module of pieces imports, each standing for one thing."""

from collections.abc import Callable, Collection, Iterator

Writer = Callable[[str], str]
"""Writes the import of one thing under a local name."""


class LocalNames:
    """Gives out local names, and keeps the lines that bind them."""

    def __init__(self, reserved: Collection[str]) -> None:
        """Give out none of the reserved names."""
        self._reserved = frozenset(reserved)
        self._keys: dict[str, str] = {}
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> tuple[str, ...]:
        """Import lines, in the order in which they were asked for."""
        return tuple(self._lines)

    def bind(self, preferred: str, write: Writer, hint: str, key: str = "") -> str:
        """Give a name for a thing: the preferred one, unless that stands for another thing already.

        ``hint`` tells it from others of that name; ``key`` says what it is, where the line does not.
        """
        thing = key or write("@")
        for name in _candidates(preferred, hint):
            if name not in self._reserved and self._keys.setdefault(name, thing) == thing:
                self._lines[write(name)] = None
                return name
        raise AssertionError(preferred)  # pragma: no cover  the candidates never end


def _candidates(preferred: str, hint: str) -> Iterator[str]:
    yield preferred
    yield f"{preferred}__{hint}"
    number = 2
    while True:
        yield f"{preferred}__{hint}_{number}"
        number += 1

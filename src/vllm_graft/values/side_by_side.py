"""Two definitions of one name, one of each install, for reading side by side."""

from dataclasses import dataclass

from vllm_graft.values.finding import Site

MOST_LINES = 24
"""Of each side's source in one plan; what is not there stands in the files, at the lines that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one install has."""

    site: Site
    """Where it begins, decorators included."""
    end_line: int
    """Its last line, from 1; 0 where a whole file is meant."""
    signature: str
    """On one line: of a function or method with its parameters, of a class with its parents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """What a resolution or a finding is about, in both installs."""

    name: str
    """Unique in a plan: dotted in the donor, or a place where no definition is meant."""
    donor: Side | None
    """Absent where the donor has no such thing, or only a place in the base is meant."""
    base: Side | None
    """Absent where the base has nothing of the kind."""
    difference: str
    """From the base's text to the donor's: hunks of a unified diff, numbered as the two files are.

    At most 24 lines of each side. Two different things (a call and what it meets, a method and the class that lacks
    it) are one hunk. Empty where nothing differs, and where all of the donor's text is among the plan's modules.
    """
    is_cut: bool
    """There are more lines that differ."""

# What donor code asks of the world, decided once against the donor's own tree, where everything is
# consistent; the rules then ask whether the base can give the same. That is what makes every rule
# differential: a use that the donor itself does not satisfy is not a use.
"""Uses: names, calls, attribute reads and operators that a module's definitions depend on."""

import ast
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.index import Found

IMPORTS = "<imports>"
"""Owner of the import statements at module level: what importing the whole file asks for."""


Receiver = Literal["", "self", "super", "instance", "class", "construct"]
"""How a call reaches what it runs; empty for a function."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The unit of code that a use stands in: a top-level definition, or one member of a class."""

    name: str
    """Empty for top-level statements that define nothing."""
    member: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a syntax node stands: lines from 1, columns in UTF-8 bytes from 0, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def __contains__(self, other: object) -> bool:
        """Tell whether another span lies within this one."""
        return (
            isinstance(other, Span)
            and (self.line, self.column) <= (other.line, other.column)
            and (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a call writes out, as far as binding asks."""

    positional: int
    has_star: bool
    has_double_star: bool


def passed_by(node: ast.Call) -> Passed:
    """Read the arguments of a call; its keywords are kept by whoever needs them."""
    starred = [isinstance(argument, ast.Starred) for argument in node.args]
    return Passed(
        positional=starred.count(False),
        has_star=any(starred),
        has_double_star=any(keyword.arg is None for keyword in node.keywords),
    )


def span_of(node: ast.expr | ast.stmt) -> Span:
    """Give the span of a node."""
    return Span(
        node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUse:
    """A global name, or a chain of attributes that leads through modules to a definition."""

    owner: Owner
    target: Found
    span: Span
    written: str
    """As it stands there, such as ``envs.VLLM_USE_V1``."""
    guard: str = ""
    as_type: bool = False
    """Only named in an annotation: not called, subscripted or looked into there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """One keyword argument of a call."""

    name: str
    value: str
    """Source text."""
    span: Span
    """Of ``name=value``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUse:
    """A call whose callee is known in the donor."""

    owner: Owner
    callee: Found
    """The function, or the class that is constructed or whose member is called."""
    member: str = ""
    """The member that is called; ``__init__`` for a constructor; empty for a function."""
    receiver: Receiver = ""
    positional: int = 0
    keywords: tuple[Keyword, ...] = ()
    has_star: bool = False
    has_double_star: bool = False
    unpacked: int = 0
    """Number of names that the result is unpacked into; 0 where it is not."""
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUse:
    """An attribute read from an instance or class whose type is known."""

    owner: Owner
    receiver: Found
    """Class of the receiver, as inferred."""
    attribute: str
    through: Literal["self", "super", "instance", "class"]
    span: Span
    value_span: Span
    """Of the receiver expression."""
    called: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorUse:
    """``torch.ops.NAMESPACE.NAME``."""

    owner: Owner
    namespace: str
    name: str
    span: Span
    guard: str
    """Nearest conditions around it, outermost first, joined by ``and``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """An operator or a CustomOp class that a module registers when it is imported."""

    owner: Owner
    kind: Literal["operator", "custom-op", "library"]
    name: str
    function: str
    """Name of the function that implements it; of the class for ``custom-op``."""
    span: Span
    """Of the string that names it."""


Use = NameUse | CallUse | ReadUse | OperatorUse


@dataclass(frozen=True, slots=True)
class ModuleUses:
    """All uses of one module."""

    uses: tuple[Use, ...]
    registrations: tuple[Registration, ...]

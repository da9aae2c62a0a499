# What making an object of a class takes is not always written in one place: a dataclass's constructor is made of its
# fields, and one with ``**kwargs`` may hand them to its parent's.
"""What constructors take."""

from collections.abc import Iterator, Sequence

from vllm_graft.link.handed_on import handed_on, with_those
from vllm_graft.link.index import Found, Index
from vllm_graft.link.symbols import Definition, Member, Parameter

_GENERATED = {"dataclass", "dataclasses.dataclass", "config", "attrs.define", "msgspec.Struct"}


def constructor_parameters(index: Index, found: Found) -> tuple[Parameter, ...] | None:
    """Give what constructing a class takes, ``self`` left out; None where the source does not tell.

    Dataclass fields in the order in which they are declared, ancestors first.
    Source: Python library reference, dataclasses; vLLM's ``@config`` (vllm/config/utils.py) makes one.
    """
    ancestry = index.ancestry(found)
    return _constructed(index, ancestry.classes, is_whole=not ancestry.outside)


def _constructed(
    index: Index, classes: Sequence[Found], *, is_whole: bool
) -> tuple[Parameter, ...] | None:
    """What the constructor of the first of these takes that has one; ``is_whole``: no other class is behind them."""
    for at, item in enumerate(classes):
        initializer = item.definition.members.get("__init__")
        if initializer is not None and initializer.kind == "method":
            own, call = initializer.parameters[1:], handed_on(initializer)
            if call is None:
                return own
            others = _constructed(index, classes[at + 1 :], is_whole=is_whole)
            return own if others is None else with_those(own, call, others)
        if _is_generated(index, item):
            return tuple(_fields(index, item))
    return () if is_whole else None


def nested_class(outer: Found, member: Member) -> Found:
    """Give a class that stands in another one as what is found under both names."""
    definition = Definition(
        name=f"{outer.name}.{member.name}",
        kind="class",
        line=member.line,
        end_line=member.end_line,
        node=member.node,
    )
    return Found(outer.module, definition)


def generates_constructor(index: Index, found: Found) -> Found | None:
    """Find the nearest class whose constructor is made of its fields; None where none is or one is written."""
    for item in index.ancestry(found).classes:
        if "__init__" in item.definition.members:
            return None
        if _is_generated(index, item):
            return item
    return None


def _is_generated(index: Index, found: Found) -> bool:
    return any(d.partition("(")[0] in _GENERATED for d in found.definition.decorators) or any(
        o.endswith(("NamedTuple", "msgspec.Struct", "BaseModel"))
        for o in index.ancestry(found).outside
    )


def _fields(index: Index, found: Found) -> Iterator[Parameter]:
    fields: dict[str, Parameter] = {}
    for item in reversed(index.ancestry(found).classes):
        for member in item.definition.members.values():
            if (
                member.kind == "attribute"
                and member.annotation is not None
                and "ClassVar" not in member.annotation
            ):
                fields[member.name] = Parameter(
                    name=member.name,
                    kind="either",
                    default=member.default,
                    annotation=member.annotation,
                )
    yield from fields.values()

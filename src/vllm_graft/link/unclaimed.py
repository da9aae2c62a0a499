# Some interfaces of the engine only make a model faster: the engine asks whether a model is of that kind, and does
# without where it is not. Where the donor's engine has changed such an interface, a model that is written for the donor's
# is not of the base's kind, and must not say that it is. It then says that it is of the donor's, which the base never asks for.
"""Interfaces of the base's engine that a grafted model does not claim."""

from collections.abc import Iterator

from vllm_graft.link.breach import Breach
from vllm_graft.link.decide import Decisions
from vllm_graft.link.index import Found
from vllm_graft.link.symbols import Member
from vllm_graft.link.vllm import OPTIONAL_INTERFACES


def unclaim(decisions: Decisions, breach: Breach) -> str:
    """Take back the claim through which the base's engine would reach a breach; give the interface, else nothing.

    The breach stands in a method that the engine calls only on models of that interface, and nothing else does.
    """
    for owner, method in _around(decisions, breach):
        if not decisions.is_grafted(owner):
            continue
        for interface in decisions.donor.ancestry(owner).classes:
            if interface.name in OPTIONAL_INTERFACES and method in interface.definition.members:
                return interface.name if _take_back(decisions, owner, interface, method) else ""
    return ""


def _take_back(decisions: Decisions, owner: Found, interface: Found, method: str) -> bool:
    known = decisions.counterpart(interface)
    if (
        known is None
        or not _is_told_apart(decisions, owner, known)
        or not _is_called_by_the_engine_alone(decisions, interface, method)
    ):
        return False
    why = (
        f"the base's {interface.name} asks for other methods, so that the model is not of that kind;"
        " the base's engine does without"
    )
    return decisions.extract(interface, why) is None


def _around(decisions: Decisions, breach: Breach) -> Iterator[tuple[Found, str]]:
    """The class and method of the donor that a breach stands in."""
    summary = decisions.donor.summary(breach.module)
    for name, definition in summary.definitions.items() if summary is not None else ():
        if definition.kind != "class" or not definition.line <= breach.line <= definition.end_line:
            continue
        owner = decisions.donor.resolve(breach.module, name)
        for member in definition.members.values():
            if owner is not None and _holds(member, breach.line):
                yield owner, member.name


def _holds(member: Member, line: int) -> bool:
    return member.function is not None and member.line <= line <= member.end_line


def _is_told_apart(decisions: Decisions, owner: Found, known: Found) -> bool:
    """Tell whether the base's engine sees that a model is not of its own interface.

    It asks with ``isinstance``, which for a protocol looks for every member of it: one that no grafted class has is
    enough. A flag that the engine reads by its name would say otherwise.
    """
    members = known.definition.members
    flags = [name for name, member in members.items() if member.function is None]
    for name in flags:
        for path in decisions.base.files.containing(name.encode()):
            module = decisions.base.module_at(path)
            text = decisions.base.source(module)
            is_engine = decisions.pair.room_of(module) == "engine" and module != known.module
            if is_engine and (f".{name}".encode() in text or f'"{name}"'.encode() in text):
                return False
    return any(
        member.function is not None
        and decisions.donor.member(owner, name) is None
        and not any(f"def {name}(".encode() in decisions.donor.source(m) for m in decisions.taken)
        for name, member in members.items()
    )


def _is_called_by_the_engine_alone(decisions: Decisions, interface: Found, method: str) -> bool:
    """Tell whether no grafted code calls a method of an interface, but methods of that interface."""
    hooks = interface.definition.members
    reached, pending = {method}, [method]
    while pending:
        call = f".{pending.pop()}("
        for member in _members_of_grafted(decisions):
            if call not in member[1]:
                continue
            if member[0] not in hooks:
                return False
            if member[0] not in reached:
                reached.add(member[0])
                pending.append(member[0])
    return True


def _members_of_grafted(decisions: Decisions) -> Iterator[tuple[str, str]]:
    """Name and text of every function and method in the donor's files that come along."""
    for module in decisions.taken:
        summary = decisions.donor.summary(module)
        lines = decisions.donor.source(module).decode("utf-8", "replace").split("\n")
        for definition in summary.definitions.values() if summary is not None else ():
            if definition.kind == "class":
                for member in definition.members.values():
                    if member.function is not None:
                        yield member.name, "\n".join(lines[member.line - 1 : member.end_line])
            elif definition.kind == "function":
                yield (
                    definition.name,
                    "\n".join(lines[definition.line - 1 : definition.end_line]),
                )

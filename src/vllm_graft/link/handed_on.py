# A constructor that takes ``**kwargs`` seems to take any keyword. Where it does nothing with them but hand them to its
# parent's, it takes what that one takes: Python says so only when the class is made.
"""What a constructor takes by handing its ``**kwargs`` to the next one."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_graft.link.index import Found, Index
from vllm_graft.link.symbols import Member, Parameter
from vllm_graft.link.syntax import every_node


@dataclass(frozen=True, slots=True)
class HandedOn:
    """What ``super().__init__(…, **kwargs)`` gives beside the keywords that it hands on."""

    positional: int
    keywords: frozenset[str]


def handed_on(initializer: Member) -> HandedOn | None:
    """Find the call that all further keywords go to whole; None: there is none, or something else is done with them."""
    rest = [p.name for p in initializer.parameters if p.kind == "varkeywords"]
    if not rest or initializer.function is None:
        return None
    body = initializer.function.body
    calls = [
        node.value
        for node in body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_next(node.value)
    ]
    named = [
        node
        for statement in body
        for node in every_node(statement)
        if isinstance(node, ast.Name) and node.id == rest[0]
    ]
    if len(calls) != 1 or len(named) != 1:
        return None
    call = calls[0]
    double = [k.value for k in call.keywords if k.arg is None]
    if double != named or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    return HandedOn(len(call.args), frozenset(k.arg for k in call.keywords if k.arg is not None))


def _is_next(call: ast.Call) -> bool:
    """Tell whether a call is ``super().__init__(…)``."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr="__init__"):
            return True
        case _:
            return False


def with_those(
    own: Sequence[Parameter], call: HandedOn, others: Sequence[Parameter]
) -> tuple[Parameter, ...]:
    """Give a constructor's own parameters and those of the next one that are reached through it, by name alone."""
    plain = [p.name for p in others if p.kind in {"positional", "either"}]
    given = {*plain[: call.positional], *call.keywords, *(p.name for p in own)}
    kept = [p for p in own if p.kind != "varkeywords"]
    reached = [
        replace(p, kind="keyword")
        for p in others
        if p.kind in {"either", "keyword"} and p.name not in given
    ]
    rest = [p for p in others if p.kind == "varkeywords"]
    return (*kept, *reached, *rest)


def is_handed_on(index: Index, found: Found, keyword: str) -> bool:
    """Tell whether a class's constructor has no such parameter itself and hands further keywords on."""
    provided = index.member(found, "__init__")
    return (
        provided is not None
        and handed_on(provided[1]) is not None
        and keyword not in {p.name for p in provided[1].parameters}
    )

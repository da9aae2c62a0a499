# Member and Definition compute their details when they are first asked for: a graft looks closely at one
# definition in fifty. They keep their syntax node for that, and have no slots because of it.
"""Definitions and members of classes, as their source tells."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from vllm_graft.link.scopes import (
    FunctionNode,
    bound_targets,
    dotted,
    flatten,
    global_names,
    statements_in,
)
from vllm_graft.link.syntax import every_node

DefinitionKind = Literal["class", "function", "value", "import", "submodule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a signature."""

    name: str
    kind: Literal["positional", "either", "keyword", "varargs", "varkeywords"]
    default: str | None = None
    """Source text of the default; None where it is required."""
    annotation: str | None = None


@dataclass(frozen=True, kw_only=True)
class Member:
    """One attribute of a class, from its own body or assigned through ``self`` in a method."""

    name: str
    kind: Literal["method", "classmethod", "staticmethod", "property", "attribute", "instance"]
    line: int
    end_line: int
    """Both from 1; decorators included."""
    node: ast.stmt = field(repr=False, compare=False)

    @property
    def function(self) -> "FunctionNode | None":
        """The syntax node of a method; None for anything else."""
        return self.node if isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef) else None

    @property
    def nested(self) -> ast.ClassDef | None:
        """The syntax node of a class that stands in the class; None for anything else."""
        return self.node if isinstance(self.node, ast.ClassDef) else None

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Of methods; ``self`` or ``cls`` included."""
        return () if self.function is None else parameters_of(self.function)

    @cached_property
    def annotation(self) -> str | None:
        """Source text of the annotation of an attribute."""
        return ast.unparse(self.node.annotation) if isinstance(self.node, ast.AnnAssign) else None

    @cached_property
    def default(self) -> str | None:
        """Source text of the value that the attribute is given."""
        if isinstance(self.node, ast.Assign):
            single = all(isinstance(t, ast.Name | ast.Attribute) for t in self.node.targets)
            return ast.unparse(self.node.value) if single else None
        if isinstance(self.node, ast.AnnAssign) and self.node.value is not None:
            return ast.unparse(self.node.value)
        return None

    @cached_property
    def names(self) -> frozenset[str]:
        """Global names that it uses."""
        return global_names(self.node)

    @property
    def is_stub(self) -> bool:
        """The body is only a docstring, ``...``, ``pass`` or ``raise NotImplementedError``."""
        return self.function is not None and is_stub_body(self.function.body)

    @cached_property
    def returns(self) -> str | None:
        """Source text of the return annotation."""
        function = self.function
        return (
            None if function is None or function.returns is None else ast.unparse(function.returns)
        )

    @cached_property
    def _through_receiver(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        nothing = frozenset[str]()
        return (
            (nothing, nothing, nothing) if self.function is None else _receiver_uses(self.function)
        )

    @property
    def self_reads(self) -> frozenset[str]:
        """Attributes that the method reads through its first parameter."""
        return self._through_receiver[0]

    @property
    def self_calls(self) -> frozenset[str]:
        """Those of them that it calls."""
        return self._through_receiver[1]

    @property
    def self_stores(self) -> frozenset[str]:
        """Attributes that the method assigns through its first parameter."""
        return self._through_receiver[2]


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a module binds at its top level, also inside top-level ``if``, ``try`` and ``with`` blocks."""

    name: str
    kind: DefinitionKind
    line: int
    end_line: int
    """Both from 1; decorators included."""
    target_module: str = ""
    """For ``import``: the absolute module."""
    target_name: str = ""
    """For ``import``: the name in that module; empty where the module itself is bound."""
    guard: str = ""
    """Source text of the condition it stands under, ``try``, or empty."""
    node: ast.stmt | None = field(default=None, repr=False, compare=False)
    others: tuple[ast.stmt, ...] = field(default=(), repr=False, compare=False)
    """Assignments that bind the name anew under a condition, such as that of a platform."""
    shadowed: "Definition | None" = field(default=None, repr=False, compare=False)
    """What the name was before a class took it: its parent, in ``class Layer(Layer)``."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Global names that it uses, builtins left out."""
        if self.node is None or self.kind in {"import", "submodule"}:
            return frozenset()
        return frozenset[str]().union(*map(global_names, (self.node, *self.others))) - {self.name}

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Of a function."""
        if isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return parameters_of(self.node)
        return ()

    @cached_property
    def returns(self) -> str | None:
        """Source text of the return annotation of a function."""
        if (
            isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)
            and self.node.returns is not None
        ):
            return ast.unparse(self.node.returns)
        return None

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """Source text of the bases of a class."""
        if isinstance(self.node, ast.ClassDef):
            return tuple(ast.unparse(b) for b in self.node.bases)
        return ()

    @cached_property
    def members(self) -> Mapping[str, Member]:
        """Attributes of a class."""
        return _class_members(self.node) if isinstance(self.node, ast.ClassDef) else {}

    @cached_property
    def decorators(self) -> tuple[str, ...]:
        """Source text of the decorators."""
        if isinstance(self.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return tuple(ast.unparse(d) for d in self.node.decorator_list)
        return ()

    @cached_property
    def value(self) -> str:
        """Source text of a value, cut after 2,000 characters."""
        if (
            isinstance(self.node, ast.Assign | ast.AnnAssign | ast.AugAssign)
            and self.node.value is not None
        ):
            return ast.unparse(self.node.value)[:2000]
        return ""

    @cached_property
    def annotation(self) -> str | None:
        """Source text of the annotation of a value."""
        return ast.unparse(self.node.annotation) if isinstance(self.node, ast.AnnAssign) else None


def is_stub_body(body: Sequence[ast.stmt]) -> bool:
    """Tell whether a function body does nothing: docstring, ``...``, ``pass``, NotImplementedError."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Raise) and statement.exc is not None:
            raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            if dotted(raised) == "NotImplementedError":
                continue
        return False
    return True


def parameters_of(function: FunctionNode | ast.Lambda) -> tuple[Parameter, ...]:
    """Give the signature of a function, in the order in which it is written."""
    found: list[Parameter] = []
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    for index, (argument, default) in enumerate(
        zip(plain, [*defaults, *arguments.defaults], strict=True)
    ):
        found.append(
            _parameter(
                argument,
                "positional" if index < len(arguments.posonlyargs) else "either",
                default,
            )
        )
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, "varargs", None))
    found.extend(
        _parameter(argument, "keyword", default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    )
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, "varkeywords", None))
    return tuple(found)


def _parameter(
    argument: ast.arg,
    kind: Literal["positional", "either", "keyword", "varargs", "varkeywords"],
    default: ast.expr | None,
) -> Parameter:
    return Parameter(
        name=argument.arg,
        kind=kind,
        default=None if default is None else ast.unparse(default),
        annotation=None if argument.annotation is None else ast.unparse(argument.annotation),
    )


def start_line(node: FunctionNode | ast.ClassDef) -> int:
    """First line of a definition, its decorators included."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _receiver_uses(
    node: FunctionNode,
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Attributes read, called and assigned through the first parameter."""
    if not node.args.args:
        return frozenset(), frozenset(), frozenset()
    receiver = node.args.args[0].arg
    reads: set[str] = set()
    calls: set[str] = set()
    stores: set[str] = set()
    for inner in every_node(node):
        if (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == receiver
        ):
            if isinstance(inner.ctx, ast.Load):
                reads.add(inner.attr)
            elif isinstance(inner.ctx, ast.Store):
                stores.add(inner.attr)
        elif (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and isinstance(inner.func.value, ast.Name)
            and inner.func.value.id == receiver
        ):
            calls.add(inner.func.attr)
    return frozenset(reads), frozenset(calls), frozenset(stores)


def _method(node: FunctionNode) -> Member:
    decorators = {dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
    kind: Literal["method", "classmethod", "staticmethod", "property"] = "method"
    if "classmethod" in decorators:
        kind = "classmethod"
    elif "staticmethod" in decorators:
        kind = "staticmethod"
    elif any(d and d.split(".")[-1] in {"property", "cached_property"} for d in decorators):
        kind = "property"
    return Member(
        name=node.name,
        kind=kind,
        line=start_line(node),
        end_line=node.end_lineno or node.lineno,
        node=node,
    )


def _class_members(node: ast.ClassDef) -> dict[str, Member]:
    members: dict[str, Member] = {}
    methods: list[FunctionNode] = []
    for statement in flatten(node.body):
        inner = statement.node
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            if not has_decorator(inner, "overload", "setter"):
                members[inner.name] = _method(inner)
                methods.append(inner)
        elif isinstance(inner, ast.ClassDef):
            members[inner.name] = _attribute(inner.name, "attribute", inner)
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            names = [t.id for t in bound_targets(inner) if isinstance(t, ast.Name)]
            members.update((name, _attribute(name, "attribute", inner)) for name in names)
    for method in methods:
        for name, assignment in _assigned_through_receiver(method):
            members.setdefault(name, _attribute(name, "instance", assignment))
    return members


def _assigned_through_receiver(method: FunctionNode) -> Iterator[tuple[str, ast.stmt]]:
    if not method.args.args:
        return
    receiver = method.args.args[0].arg
    for statement in statements_in(method.body):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for target in bound_targets(statement):
                for name in _stored_attributes(target, receiver):
                    yield name, statement


def has_decorator(node: FunctionNode, *names: str) -> bool:
    """Tell whether a function has a decorator whose last word is one of these."""
    return any((d := dotted(x)) and d.split(".")[-1] in names for x in node.decorator_list)


def _attribute(name: str, kind: Literal["attribute", "instance"], node: ast.stmt) -> Member:
    line = start_line(node) if isinstance(node, ast.ClassDef) else node.lineno
    return Member(name=name, kind=kind, line=line, end_line=node.end_lineno or line, node=node)


def _stored_attributes(target: ast.expr, receiver: str) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _stored_attributes(element, receiver)
    elif isinstance(target, ast.Starred):
        yield from _stored_attributes(target.value, receiver)
    elif (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == receiver
    ):
        yield target.attr

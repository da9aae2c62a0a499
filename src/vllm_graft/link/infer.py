# Types are inferred lightly: annotations, constructor calls, attributes assigned in methods. An expression of
# unknown type gives no use of its attributes, never a guess.
"""What expressions are, as far as the source of one install tells."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.scopes import dotted, string_annotations
from vllm_graft.link.symbols import Member
from vllm_graft.link.syntax import every_statement

_MAX_DEPTH = 12
_CONTAINERS = {"Optional", "Final", "ClassVar", "Annotated", "Required"}


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression is known to be."""

    kind: Literal["instance", "class", "function", "module", "method"]
    found: Found
    member: str = ""
    through: Literal["", "self", "super", "instance", "class"] = ""


class Scope:
    """Names of one function and the class around it."""

    def __init__(self, module: str, owner_class: Found | None, outer: "Scope | None") -> None:
        self.module = module
        self.owner_class = owner_class
        self.outer = outer
        self.receiver = ""
        self.receiver_is_class = False
        self.locals: dict[str, Value | None] = {}

    def lookup(self, name: str) -> "tuple[bool, Value | None]":
        """Tell whether a scope binds the name, and to what, as far as that is known."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.locals:
                return True, scope.locals[name]
            scope = scope.outer
        return False, None


class Inference:
    """Finds out what expressions of one install are, as far as its own source tells."""

    def __init__(self, index: Index) -> None:
        """Infer within one install."""
        self._index = index
        self._definitions: dict[str, Value | None] = {}
        self._attributes: dict[tuple[str, str], Value | None] = {}
        self._annotations: dict[tuple[str, str], Value | None] = {}
        self._constructors: dict[tuple[str, str], dict[str, str]] = {}

    def of_definition(self, found: Found) -> Value | None:
        """Give the value of a top-level name."""
        kind = found.definition.kind
        if kind == "class":
            return Value("class", found)
        if kind == "function":
            return Value("function", found)
        if kind == "submodule":
            return Value("module", found)
        if kind != "value" or not is_inside(found.module):
            return None
        if found.dotted not in self._definitions:
            self._definitions[found.dotted] = None  # a name may be made of itself: x = wrapped(x)
            self._definitions[found.dotted] = self._of_value(found)
        return self._definitions[found.dotted]

    def _of_value(self, found: Found) -> Value | None:
        if found.definition.annotation:
            return self.of_annotation(found.module, found.definition.annotation)
        if found.definition.value:
            return self.of_text(found.module, found.definition.value)
        return None

    def of_text(self, module: str, text: str, depth: int = 0) -> Value | None:
        """Give the value of an expression written at the top level of a module."""
        try:
            node = ast.parse(text, mode="eval").body
        except SyntaxError:
            return None
        return self.of(node, Scope(module, None, None), depth + 1)

    def of_annotation(self, module: str, text: str) -> Value | None:
        """Give an instance of what an annotation names, where it names exactly one class of vLLM."""
        key = (module, text)
        if key not in self._annotations:
            self._annotations[key] = self._parse_annotation(module, text)
        return self._annotations[key]

    def _parse_annotation(self, module: str, text: str) -> Value | None:
        try:
            node = ast.parse(text, mode="eval").body
        except SyntaxError:
            return None
        return self.of_annotation_node(module, node)

    def of_annotation_node(self, module: str, node: ast.expr) -> Value | None:
        """Give an instance of what an annotation names, as ``of_annotation`` does."""
        for part in string_annotations(node):
            names = list(_plain_annotation(part))
            classes: list[Found] = []
            for name in names:
                reached = self._index.class_named(module, name)
                if reached is not None:
                    classes.append(reached)
            if len(classes) == 1 and len(names) == 1:
                return Value("instance", classes[0], through="instance")
        return None

    def of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Value | None:
        """Give the value of an expression in a scope; None where it is not known."""
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Name(id=name):
                return self._of_name(name, scope)
            case ast.Attribute():
                return self._of_attribute(node, scope, depth)
            case ast.Call():
                return self._of_call(node, scope, depth)
            case ast.BoolOp(values=parts):
                return self._first_known(parts, scope, depth)
            case ast.IfExp(body=one, orelse=other):
                return self._first_known((one, other), scope, depth)
            case ast.NamedExpr(value=value):
                return self.of(value, scope, depth + 1)
            case _:
                return None

    def _of_name(self, name: str, scope: Scope) -> Value | None:
        known, value = scope.lookup(name)
        if known:
            return value
        found = self._index.resolve(scope.module, name)
        return None if found is None else self.of_definition(found)

    def _first_known(self, parts: Sequence[ast.expr], scope: Scope, depth: int) -> Value | None:
        """What the first part that is known is: ``given or Default()``, ``a if test else b``."""
        values = (self.of(part, scope, depth + 1) for part in parts)
        return next((value for value in values if value is not None), None)

    def _of_attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> Value | None:
        inner = self.of(node.value, scope, depth + 1)
        if inner is None:
            return None
        if inner.kind == "module":
            found = self._index.resolve(inner.found.module, node.attr)
            return None if found is None else self.of_definition(found)
        if inner.kind in {"instance", "class"}:
            return self.attribute(inner, node.attr, depth)
        return None

    def attribute(self, inner: Value, name: str, depth: int = 0) -> Value | None:
        """Give the value of an attribute of an instance or class."""
        provided = self._index.member(inner.found, name)
        if provided is None:
            return None
        provider, member = provided
        if member.nested is not None:
            return Value("method", inner.found, member=name, through="class")
        if member.kind in {"method", "classmethod", "staticmethod"}:
            through = inner.through or ("class" if inner.kind == "class" else "instance")
            return Value("method", inner.found, member=name, through=through)
        key = (provider.dotted, name)
        if key not in self._attributes:
            self._attributes[key] = None
            self._attributes[key] = self._member_type(provider, member, depth)
        return self._attributes[key]

    def _member_type(self, provider: Found, member: Member, depth: int) -> Value | None:
        annotation = member.returns if member.kind == "property" else member.annotation
        if annotation:
            return self.of_annotation(provider.module, annotation)
        if member.default is None:
            return None
        if member.kind != "instance":
            return self.of_text(provider.module, member.default, depth + 1)
        scope, text = self._constructor_scope(provider), member.default
        if text not in scope.locals:
            text = self._constructor_locals(provider).get(text, text)
        try:
            node = ast.parse(text, mode="eval").body
        except SyntaxError:
            return None
        return self.of(node, scope, depth + 1)

    def _constructor_scope(self, provider: Found) -> Scope:
        """What ``self`` and the parameters of a class's own constructor are."""
        scope = Scope(provider.module, provider, None)
        scope.receiver = "self"
        scope.locals["self"] = Value("instance", provider, through="self")
        initializer = provider.definition.members.get("__init__")
        for parameter in initializer.parameters[1:] if initializer is not None else ():
            scope.locals[parameter.name] = (
                self.of_annotation(provider.module, parameter.annotation)
                if parameter.annotation
                else None
            )
        return scope

    def _constructor_locals(self, provider: Found) -> dict[str, str]:
        """Simple local assignments of a constructor: name → source text."""
        key = (provider.module, provider.name)
        if key not in self._constructors:
            initializer = provider.definition.members.get("__init__")
            function = None if initializer is None else initializer.function
            result: dict[str, str] = {}
            for inner in every_statement(function) if function is not None else ():
                match inner:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        result.setdefault(name, ast.unparse(value))
                    case _:
                        pass
            self._constructors[key] = result
        return self._constructors[key]

    def _of_call(self, node: ast.Call, scope: Scope, depth: int) -> Value | None:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._of_super(node, scope)
        callee = self.of(node.func, scope, depth + 1)
        if callee is None:
            return None
        if callee.kind == "class":
            return Value("instance", callee.found, through="instance")
        returns, module = None, callee.found.module
        if callee.kind == "function":
            returns = callee.found.definition.returns
        elif callee.kind == "method":
            provided = self._index.member(callee.found, callee.member)
            if provided is not None:
                module = provided[0].module
                returns = provided[1].returns
                if returns in {"Self", "typing.Self"}:
                    return Value("instance", callee.found, through="instance")
        return None if returns is None else self.of_annotation(module, returns)

    def _of_super(self, node: ast.Call, scope: Scope) -> Value | None:
        inner: Scope | None = scope
        while inner is not None and inner.owner_class is None:
            inner = inner.outer
        if inner is None or inner.owner_class is None:
            return None
        start = inner.owner_class
        if node.args and isinstance(node.args[0], ast.Name):
            found = self._index.resolve(scope.module, node.args[0].id)
            if found is None or found.definition.kind != "class":
                return None
            start = found
        return Value("instance", start, through="super")


def _plain_annotation(node: ast.expr) -> Iterator[str]:
    """Names of the classes that an annotation allows, None left out; wrappers are looked through."""
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            yield from _plain_annotation(left)
            yield from _plain_annotation(right)
        case ast.Subscript():
            yield from _subscripted(node)
        case ast.Constant(value=None):
            return
        case ast.Constant(value=str()):
            for part in string_annotations(node):
                yield from _plain_annotation(part)
        case _:
            yield dotted(node) or "?"


def _subscripted(node: ast.Subscript) -> Iterator[str]:
    head = dotted(node.value) or "?"
    word = head.rpartition(".")[2]
    elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if word in _CONTAINERS:
        yield from _plain_annotation(elements[0])
    elif word == "Union":
        for element in elements:
            yield from _plain_annotation(element)
    elif word in {"type", "Type", "list", "dict", "tuple", "Sequence", "Callable"}:
        yield f"?{word}"
    else:
        yield head

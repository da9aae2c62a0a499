# Types are inferred lightly: annotations, constructor calls, attributes assigned in methods. An expression of
# unknown type gives no use of its attributes, never a guess.
"""What expressions are, as far as the source of one install tells."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.symbols import Member, dotted, string_annotations

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
        if kind == "value" and is_inside(found.module):
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
        for part in string_annotations(node):
            names = list(_plain_annotation(part))
            classes: list[Found] = []
            for name in names:
                reached = self._index.resolve_dotted(module, name)
                if reached is not None and not reached[1]:
                    target = reached[0]
                    if target.definition.kind == "class":
                        classes.append(target)
            if len(classes) == 1 and len(names) == 1:
                return Value("instance", classes[0], through="instance")
        return None

    def of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Value | None:
        """Give the value of an expression in a scope; None where it is not known."""
        if depth > _MAX_DEPTH:
            return None
        if isinstance(node, ast.Name):
            known, value = scope.lookup(node.id)
            if known:
                return value
            found = self._index.resolve(scope.module, node.id)
            return None if found is None else self.of_definition(found)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope, depth)
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                value = self.of(part, scope, depth + 1)
                if value is not None:
                    return value
            return None
        if isinstance(node, ast.IfExp):
            return self.of(node.body, scope, depth + 1) or self.of(node.orelse, scope, depth + 1)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, scope, depth + 1)
        return None

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
        if member.kind == "instance":
            scope = Scope(provider.module, provider, None)
            scope.receiver = "self"
            scope.locals["self"] = Value("instance", provider, through="self")
            initializer = provider.definition.members.get("__init__")
            if initializer is not None:
                for parameter in initializer.parameters[1:]:
                    scope.locals[parameter.name] = (
                        self.of_annotation(provider.module, parameter.annotation)
                        if parameter.annotation
                        else None
                    )
                locals_ = self._constructor_locals(provider)
                text = locals_.get(member.default)
                if text is not None and member.default not in scope.locals:
                    member_default = text
                    try:
                        node = ast.parse(member_default, mode="eval").body
                    except SyntaxError:
                        return None
                    return self.of(node, scope, depth + 1)
            try:
                node = ast.parse(member.default, mode="eval").body
            except SyntaxError:
                return None
            return self.of(node, scope, depth + 1)
        return self.of_text(provider.module, member.default, depth + 1)

    def _constructor_locals(self, provider: Found) -> dict[str, str]:
        """Simple local assignments of a constructor: name → source text."""
        key = (provider.module, provider.name)
        if key not in self._constructors:
            result: dict[str, str] = {}
            node = provider.definition.node
            if isinstance(node, ast.ClassDef):
                for statement in node.body:
                    if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                        for inner in ast.walk(statement):
                            if (
                                isinstance(inner, ast.Assign)
                                and len(inner.targets) == 1
                                and isinstance(inner.targets[0], ast.Name)
                            ):
                                result.setdefault(inner.targets[0].id, ast.unparse(inner.value))
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
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _plain_annotation(node.left)
        yield from _plain_annotation(node.right)
        return
    if isinstance(node, ast.Subscript):
        head = dotted(node.value) or ""
        word = head.rpartition(".")[2]
        if word in _CONTAINERS:
            inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            yield from _plain_annotation(inner)
        elif word == "Union" and isinstance(node.slice, ast.Tuple):
            for element in node.slice.elts:
                yield from _plain_annotation(element)
        elif word in {"type", "Type", "list", "dict", "tuple", "Sequence", "Callable"}:
            yield f"?{word}"
        else:
            yield head or "?"
        return
    if isinstance(node, ast.Constant):
        if node.value is None:
            return
        if isinstance(node.value, str):
            for part in string_annotations(node):
                yield from _plain_annotation(part)
            return
    name = dotted(node)
    yield name if name is not None else "?"

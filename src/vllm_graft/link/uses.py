# What donor code asks of the world, decided once against the donor's own tree, where everything is
# consistent; the rules then ask whether the base can give the same. That is what makes every rule
# differential: a use that the donor itself does not satisfy is not a use.
#
# Types are inferred lightly: annotations, constructor calls, attributes assigned in methods. An expression of
# unknown type gives no use of its attributes, never a guess.
"""Uses: names, calls, attribute reads and operators that a module's definitions depend on."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.symbols import (
    Definition,
    FunctionNode,
    Member,
    absolute_module,
    dotted,
    flatten,
    string_annotations,
)

IMPORTS = "<imports>"
"""Owner of the import statements at module level: what importing the whole file asks for."""

_MAX_DEPTH = 12
_CONTAINERS = {"Optional", "Final", "ClassVar", "Annotated", "Required"}


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
    """Only in an annotation."""


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
    receiver: Literal["", "self", "super", "instance", "class", "construct"] = ""
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


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression is known to be."""

    kind: Literal["instance", "class", "function", "module", "method"]
    found: Found
    member: str = ""
    through: Literal["", "self", "super", "instance", "class"] = ""


class _Scope:
    """Names of one function and the class around it."""

    def __init__(self, module: str, owner_class: Found | None, outer: "_Scope | None") -> None:
        self.module = module
        self.owner_class = owner_class
        self.outer = outer
        self.receiver = ""
        self.receiver_is_class = False
        self.locals: dict[str, Value | None] = {}

    def lookup(self, name: str) -> "tuple[bool, Value | None]":
        scope: _Scope | None = self
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
        return self.of(node, _Scope(module, None, None), depth + 1)

    def of_annotation(self, module: str, text: str) -> Value | None:
        """Give an instance of what an annotation names, where it names exactly one class of vLLM."""
        try:
            node = ast.parse(text, mode="eval").body
        except SyntaxError:
            return None
        return self._annotated(module, node)

    def _annotated(self, module: str, node: ast.expr) -> Value | None:
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

    def of(self, node: ast.expr, scope: _Scope, depth: int = 0) -> Value | None:
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

    def _of_attribute(self, node: ast.Attribute, scope: _Scope, depth: int) -> Value | None:
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
            scope = _Scope(provider.module, provider, None)
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

    def _of_call(self, node: ast.Call, scope: _Scope, depth: int) -> Value | None:
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

    def _of_super(self, node: ast.Call, scope: _Scope) -> Value | None:
        inner: _Scope | None = scope
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


class UseCollector:
    """Walks one module and collects its uses."""

    def __init__(self, index: Index, inference: Inference, module: str) -> None:
        """Collect from ``module`` of ``index``."""
        self._index = index
        self._inference = inference
        self._module = module
        self._uses: list[Use] = []
        self._registrations: list[Registration] = []
        summary = index.summary(module)
        if summary is None:
            raise KeyError(module)
        self._summary = summary
        self._owner = Owner("")
        self._guards: list[str] = []

    def collect(self) -> ModuleUses:
        """Give all uses, in source order."""
        for item in flatten(self._index.tree(self._module).body):
            node = item.node
            self._guards = [item.guard] if item.guard else []
            if isinstance(node, ast.ClassDef):
                self._class(node, _Scope(self._module, None, None))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._owner = Owner(node.name)
                self._function(node, _Scope(self._module, None, None), None)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                self._owner = Owner(names[0] if names else "")
                self._statement(node, _Scope(self._module, None, None))
            elif isinstance(node, ast.With | ast.For | ast.While | ast.AsyncWith):
                self._owner = Owner("")
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr | ast.withitem):
                        self._walk(part, _Scope(self._module, None, None))
            elif isinstance(node, ast.ImportFrom):
                self._owner = Owner(IMPORTS)
                self._local_import(node)
            elif not isinstance(node, ast.Import):
                self._owner = Owner("")
                self._statement(node, _Scope(self._module, None, None))
        return ModuleUses(tuple(self._uses), tuple(self._registrations))

    def _class(self, node: ast.ClassDef, scope: _Scope) -> None:
        found = self._index.resolve(self._module, node.name)
        if found is None or found.module != self._module:
            found = None
        self._owner = Owner(node.name)
        for part in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self._walk(part, scope)
        self._note_registration(node)
        for statement in flatten(node.body):
            inner = statement.node
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                self._owner = Owner(node.name, inner.name)
                self._function(inner, scope, found)
            else:
                names: list[str] = []
                if isinstance(inner, ast.Assign | ast.AnnAssign):
                    targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                    names = [t.id for t in targets if isinstance(t, ast.Name)]
                self._owner = Owner(node.name, names[0] if names else "")
                self._statement(inner, scope)

    def _function(self, node: FunctionNode, outer: _Scope, owner_class: Found | None) -> None:
        scope = _Scope(self._module, owner_class, outer)
        for decorator in node.decorator_list:
            self._walk(decorator, outer)
        arguments = node.args
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self._walk(default, outer)
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in every:
            value = None
            if argument.annotation is not None:
                value = self._inference._annotated(self._module, argument.annotation)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] one module
                self._annotation(argument.annotation, outer)
            scope.locals[argument.arg] = value
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                scope.locals[star.arg] = None
                if star.annotation is not None:
                    self._annotation(star.annotation, outer)
        if node.returns is not None:
            self._annotation(node.returns, outer)
        decorators = {dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
        if owner_class is not None and every and "staticmethod" not in decorators:
            scope.receiver = every[0].arg
            is_class = "classmethod" in decorators or node.name == "__new__"
            scope.receiver_is_class = is_class
            scope.locals[scope.receiver] = Value(
                "class" if is_class else "instance", owner_class, through="self"
            )
        self._bind_locals(node, scope)
        for statement in node.body:
            self._statement(statement, scope)

    def _bind_locals(self, node: FunctionNode, scope: _Scope) -> None:
        """Bind simple local assignments and imports of a function before its body is walked."""
        assigned: dict[str, list[ast.expr | None]] = {}
        pending: list[ast.AST] = list(node.body)
        while pending:
            inner = pending.pop(0)
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope.locals.setdefault(inner.name, None)
                continue
            if isinstance(inner, ast.Lambda):
                continue
            if isinstance(inner, ast.ImportFrom):
                source = absolute_module(
                    self._module,
                    is_package=self._summary.is_package,
                    level=inner.level,
                    target=inner.module,
                )
                for alias in inner.names:
                    found = self._index.resolve(source, alias.name) if is_inside(source) else None
                    scope.locals[alias.asname or alias.name] = (
                        None if found is None else self._inference.of_definition(found)
                    )
            elif isinstance(inner, ast.Import):
                for alias in inner.names:
                    local = alias.asname or alias.name.split(".")[0]
                    target = alias.name if alias.asname else local
                    found = self._index.submodule(target) if is_inside(target) else None
                    scope.locals[local] = None if found is None else Value("module", found)
            elif isinstance(inner, ast.Assign) and len(inner.targets) == 1:
                target = inner.targets[0]
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(inner.value)
                else:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                            assigned.setdefault(name.id, []).append(None)
            elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                value = self._inference._annotated(self._module, inner.annotation)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] one module
                scope.locals[inner.target.id] = value
                if value is None and inner.value is not None:
                    assigned.setdefault(inner.target.id, []).append(inner.value)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                assigned.setdefault(inner.id, []).append(None)
            elif isinstance(inner, ast.ExceptHandler) and inner.name:
                scope.locals[inner.name] = None
            if isinstance(inner, ast.Assign):
                pending = [inner.value, *pending]
            else:
                pending = [*ast.iter_child_nodes(inner), *pending]
        for name, values in assigned.items():
            if name in scope.locals and scope.locals[name] is not None and name != scope.receiver:
                # A parameter or annotation tells more than a reassignment.
                continue
            scope.locals[name] = None
            known = [self._inference.of(v, scope) if v is not None else None for v in values]
            kinds = {(k.kind, k.found.dotted, k.member) if k else None for k in known}
            scope.locals[name] = known[0] if len(kinds) == 1 else None

    def _annotation(self, node: ast.expr, scope: _Scope) -> None:
        for part in string_annotations(node):
            quoted = part is not node
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name):
                    self._name(
                        inner, inner.id, scope, as_type=True, anchor=node if quoted else None
                    )

    def _statement(self, node: ast.stmt, scope: _Scope) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nested = _Scope(self._module, None, scope)
            self._function(node, nested, None)
            return
        if isinstance(node, ast.If):
            self._walk(node.test, scope)
            condition = ast.unparse(node.test)
            self._guards.append(condition)
            for part in node.body:
                self._statement(part, scope)
            self._guards[-1] = f"not ({condition})"
            for part in node.orelse:
                self._statement(part, scope)
            self._guards.pop()
            return
        if isinstance(node, ast.Try):
            self._guards.append("try")
            for part in node.body:
                self._statement(part, scope)
            self._guards[-1] = "except"
            for handler in node.handlers:
                if handler.type is not None:
                    self._walk(handler.type, scope)
                for part in handler.body:
                    self._statement(part, scope)
            self._guards.pop()
            for part in [*node.orelse, *node.finalbody]:
                self._statement(part, scope)
            return
        if isinstance(node, ast.ImportFrom):
            self._local_import(node)
            return
        if isinstance(node, ast.AnnAssign):
            self._annotation(node.annotation, scope)
            if node.value is not None:
                self._walk(node.value, scope)
            self._walk(node.target, scope)
            return
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Tuple)
            and not any(isinstance(e, ast.Starred) for e in node.targets[0].elts)
        ):
            self._call(node.value, scope, unpacked=len(node.targets[0].elts))
            self._walk(node.targets[0], scope)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child, scope)
            else:
                self._walk(child, scope)

    def _local_import(self, node: ast.ImportFrom) -> None:
        source = absolute_module(
            self._module,
            is_package=self._summary.is_package,
            level=node.level,
            target=node.module,
        )
        if not is_inside(source):
            return
        for alias in node.names:
            found = self._index.resolve(source, alias.name)
            if found is not None:
                self._uses.append(
                    NameUse(
                        owner=self._owner,
                        target=found,
                        span=span_of(node),
                        written=f"{source}:{alias.name}",
                        guard=" and ".join(self._guards),
                    )
                )

    def _walk(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.stmt):
            self._statement(node, scope)
            return
        if isinstance(node, ast.Call):
            self._call(node, scope, unpacked=0)
            return
        if isinstance(node, ast.Attribute):
            self._attribute(node, scope, called=False)
            return
        if isinstance(node, ast.Name):
            self._name(node, node.id, scope)
            return
        if isinstance(node, ast.Lambda):
            inner = _Scope(self._module, None, scope)
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    inner.locals[argument.arg] = None
            self._walk(node.body, inner)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inner = _Scope(self._module, None, scope)
            for generator in node.generators:
                for name in ast.walk(generator.target):
                    if isinstance(name, ast.Name):
                        inner.locals[name.id] = None
            for child in ast.iter_child_nodes(node):
                self._walk(child, inner)
            return
        if isinstance(node, ast.IfExp):
            self._walk(node.test, scope)
            self._guards.append(ast.unparse(node.test))
            self._walk(node.body, scope)
            self._guards.pop()
            self._walk(node.orelse, scope)
            return
        for child in ast.iter_child_nodes(node):
            self._walk(child, scope)

    def _name(
        self,
        node: ast.expr,
        written: str,
        scope: _Scope,
        *,
        as_type: bool = False,
        anchor: ast.expr | None = None,
    ) -> None:
        known, _ = scope.lookup(written.partition(".")[0])
        if known:
            return
        reached = self._index.resolve_dotted(self._module, written)
        if reached is None or not is_inside(reached[0].module):
            return
        target, rest = reached
        if target.definition.kind == "import":
            return
        text = written if not rest else written.removesuffix("." + ".".join(rest))
        place = anchor if anchor is not None else node
        while rest and isinstance(place, ast.Attribute):
            place = place.value
            rest = rest[1:]
        self._uses.append(
            NameUse(
                owner=self._owner,
                target=target,
                span=span_of(place),
                written=text,
                guard=" and ".join(self._guards),
                as_type=as_type,
            )
        )

    def _attribute(self, node: ast.Attribute, scope: _Scope, *, called: bool) -> None:
        chain = dotted(node)
        if chain is not None:
            parts = chain.split(".")
            if parts[:2] == ["torch", "ops"] and len(parts) >= 4:  # noqa: PLR2004  torch.ops.ns.name
                self._uses.append(
                    OperatorUse(
                        owner=self._owner,
                        namespace=parts[2],
                        name=parts[3],
                        span=span_of(node),
                        guard=" and ".join(g for g in self._guards if g),
                    )
                )
                return
            known, _ = scope.lookup(parts[0])
            if not known:
                self._name(node, chain, scope)
        inner = self._inference.of(node.value, scope)
        if (
            inner is not None
            and inner.kind in {"instance", "class"}
            and isinstance(node.ctx, ast.Load)
        ):
            through = inner.through or ("class" if inner.kind == "class" else "instance")
            self._uses.append(
                ReadUse(
                    owner=self._owner,
                    receiver=inner.found,
                    attribute=node.attr,
                    through=through,
                    span=span_of(node),
                    value_span=span_of(node.value),
                    called=called,
                )
            )
        if chain is None or scope.lookup(chain.partition(".")[0])[0]:
            self._walk(node.value, scope)

    def _call(self, node: ast.Call, scope: _Scope, *, unpacked: int) -> None:
        if isinstance(node.func, ast.Attribute):
            self._attribute(node.func, scope, called=True)
        else:
            self._walk(node.func, scope)
        for argument in node.args:
            self._walk(argument, scope)
        for keyword in node.keywords:
            self._walk(keyword.value, scope)
        self._note_operator(node)
        callee = self._inference.of(node.func, scope)
        if callee is None or not is_inside(callee.found.module):
            return
        member, receiver = callee.member, callee.through
        if callee.kind == "class":
            member, receiver = "__init__", "construct"
        elif callee.kind == "instance":
            # Calling an nn.Module runs its forward; a CustomOp's forward takes anything and dispatches.
            # Source: torch.nn.Module.__call__; vLLM 0.14.1 to 0.31.0 model_executor/custom_op.py.
            for name in self._forwards_of(callee.found):
                self._record_call(node, callee.found, name, "instance", unpacked)
            return
        elif callee.kind == "function":
            member, receiver = "", ""
        elif callee.kind != "method":
            return
        self._record_call(node, callee.found, member, receiver, unpacked)

    def _record_call(
        self,
        node: ast.Call,
        callee: Found,
        member: str,
        receiver: Literal["", "self", "super", "instance", "class", "construct"],
        unpacked: int,
    ) -> None:
        self._uses.append(
            CallUse(
                owner=self._owner,
                callee=callee,
                member=member,
                receiver=receiver,
                positional=len([a for a in node.args if not isinstance(a, ast.Starred)]),
                keywords=tuple(
                    Keyword(
                        name=k.arg,
                        value=ast.unparse(k.value),
                        span=Span(
                            k.lineno, k.col_offset, k.end_lineno or k.lineno, k.end_col_offset or 0
                        ),
                    )
                    for k in node.keywords
                    if k.arg is not None
                ),
                has_star=any(isinstance(a, ast.Starred) for a in node.args),
                has_double_star=any(k.arg is None for k in node.keywords),
                unpacked=unpacked,
                span=span_of(node),
            )
        )

    def _forwards_of(self, found: Found) -> tuple[str, ...]:
        """Names of the methods that calling an instance may run."""
        provided = self._index.member(found, "forward")
        if provided is None:
            return ()
        if not any(p.kind == "varargs" for p in provided[1].parameters):
            return ("forward",)
        return tuple(
            name
            for name in ("forward_native", "forward_cuda", "forward_cpu")
            if (variant := self._index.member(found, name)) is not None
            and not any(p.kind == "varargs" for p in variant[1].parameters)
        )

    def _note_operator(self, node: ast.Call) -> None:
        """Record ``direct_register_custom_op`` calls.

        Source: vLLM 0.14.1 to 0.31.0, vllm/utils/torch_utils.py ``direct_register_custom_op(op_name, op_func, …)``.
        """
        name = dotted(node.func)
        if name is None or name.rpartition(".")[2] != "direct_register_custom_op":
            return
        values = {k.arg: k.value for k in node.keywords if k.arg}
        operator = values.get("op_name", node.args[0] if node.args else None)
        function = values.get("op_func", node.args[1] if len(node.args) > 1 else None)
        if isinstance(operator, ast.Constant) and isinstance(operator.value, str):
            self._registrations.append(
                Registration(
                    owner=self._owner,
                    kind="operator",
                    name=operator.value,
                    function="" if function is None else ast.unparse(function),
                    span=span_of(operator),
                )
            )

    def _note_registration(self, node: ast.ClassDef) -> None:
        """Record ``@CustomOp.register("name")``.

        Source: vLLM 0.14.1 to 0.31.0, vllm/model_executor/custom_op.py.
        """
        for decorator in node.decorator_list:
            if (
                isinstance(decorator, ast.Call)
                and (dotted(decorator.func) or "").endswith("CustomOp.register")
                and decorator.args
                and isinstance(decorator.args[0], ast.Constant)
                and isinstance(decorator.args[0].value, str)
            ):
                self._registrations.append(
                    Registration(
                        owner=self._owner,
                        kind="custom-op",
                        name=decorator.args[0].value,
                        function=node.name,
                        span=span_of(decorator.args[0]),
                    )
                )


def is_exact_value(definition: Definition) -> bool:
    """Tell whether a value is written as a literal, so that copying it copies no state."""
    try:
        ast.literal_eval(definition.value)
    except (ValueError, SyntaxError):
        return False
    return True

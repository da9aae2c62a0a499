# What one module defines, imports and uses, read from its syntax tree; the module is never imported.
#
# The one hard idea: a name is *global* in a definition when no function scope around it binds it. That is
# decided here, once, so that closure, extraction and the contract rules agree on what a definition needs.
"""Module summaries: definitions, imports, members and the global names that each definition uses."""

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__all__", "__path__"}

DefinitionKind = Literal["class", "function", "value", "import", "submodule"]

type_checking = "TYPE_CHECKING"
# Where a name has a stand-in at run time (``VllmConfig = object``), what type checkers see says what it is.
_AT_RUN_TIME = f"not ({type_checking})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a signature."""

    name: str
    kind: Literal["positional", "either", "keyword", "varargs", "varkeywords"]
    default: str | None = None
    """Source text of the default; None where it is required."""
    annotation: str | None = None


# Member and Definition compute their details when they are first asked for: a graft looks closely at one
# definition in fifty. They keep their syntax node for that, and have no slots because of it.


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
    def _through_receiver(self) -> tuple[frozenset[str], frozenset[str]]:
        return (
            (frozenset(), frozenset()) if self.function is None else _receiver_uses(self.function)
        )

    @property
    def self_reads(self) -> frozenset[str]:
        """Attributes that the method reads through its first parameter."""
        return self._through_receiver[0]

    @property
    def self_calls(self) -> frozenset[str]:
        """Those of them that it calls."""
        return self._through_receiver[1]


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

    @cached_property
    def names(self) -> frozenset[str]:
        """Global names that it uses, builtins left out."""
        if self.node is None or self.kind in {"import", "submodule"}:
            return frozenset()
        return global_names(self.node) - {self.name}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported name, wherever in the module it stands."""

    module: str
    """Absolute."""
    name: str
    """Empty where the module itself is imported; ``*`` for a star import."""
    local: str
    """The name that is bound."""
    line: int
    owner: str
    """The top-level definition that it stands in; empty at module level."""
    guard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSummary:
    """What one module defines, imports and uses."""

    module: str
    path: str
    is_package: bool
    definitions: Mapping[str, Definition]
    stars: tuple[str, ...]
    """Absolute modules of star imports at module level."""
    lazy: Mapping[str, str]
    """Names served by a module ``__getattr__``: name → absolute module."""
    exports: tuple[str, ...]
    """``__all__`` where it is a literal."""
    has_getattr: bool
    loose: tuple[ast.stmt, ...] = field(repr=False, compare=False)
    """Top-level statements that bind nothing."""


def absolute_module(module: str, *, is_package: bool, level: int, target: str | None) -> str:
    """Resolve a relative import the way the import system does.

    Source: Python language reference, "Package Relative Imports"; PEP 328.
    """
    if level == 0:
        return target or ""
    parts = module.split(".")
    if not is_package:
        parts = parts[:-1]
    parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
    return ".".join([*parts, target] if target else parts)


def dotted(node: ast.expr) -> str | None:
    """Give ``a.b.c`` for a chain of attributes on a name; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None


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


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def statements_in(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Give every statement of a block and of the blocks inside it, nested scopes not entered."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            inner: list[ast.stmt] | None = getattr(statement, name, None)
            if inner:
                yield from statements_in(inner)
        for handler in getattr(statement, "handlers", ()):
            yield from statements_in(handler.body)
        for case in getattr(statement, "cases", ()):
            yield from statements_in(case.body)


def target_names(target: ast.expr) -> Iterator[str]:
    """Plain names that an assignment target binds."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from target_names(element)
    elif isinstance(target, ast.Starred):
        yield from target_names(target.value)


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """Names that one statement binds in its scope, those of blocks inside it left out."""
    match statement:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from target_names(target)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from target_names(target)
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from target_names(target)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from target_names(item.optional_vars)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (a.asname or a.name.split(".")[0] for a in names)
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            yield from (h.name for h in handlers if h.name)
        case ast.Match(cases=cases):
            for inner in (n for case in cases for n in ast.walk(case.pattern)):
                if isinstance(inner, ast.MatchAs | ast.MatchStar) and inner.name:
                    yield inner.name
        case _:
            return


def parameter_names(function: _Scope) -> Iterator[str]:
    """Names of all parameters of a function."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            yield star.arg


def _bound_in(function: _Scope) -> set[str]:
    """Names that a function scope binds, without its nested functions' own."""
    bound = set(parameter_names(function))
    if isinstance(function, ast.Lambda):
        return bound
    released: set[str] = set()
    for statement in statements_in(function.body):
        bound.update(bound_by(statement))
        if isinstance(statement, ast.Global):
            released.update(statement.names)
    return bound - released


class GlobalNames(ast.NodeVisitor):
    """Collects every load of a name that no enclosing function scope binds."""

    def __init__(self) -> None:
        """Start with no scopes."""
        self.names: set[str] = set()
        self._scopes: list[set[str]] = []

    def visit_Name(self, node: ast.Name) -> None:
        if not any(node.id in scope for scope in self._scopes):
            self.names.add(node.id)

    def _function(self, node: FunctionNode | ast.Lambda) -> None:
        arguments = node.args
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                self.visit(decorator)
            for argument in ast.walk(arguments):
                if isinstance(argument, ast.arg) and argument.annotation is not None:
                    self._annotation(argument.annotation)
            if node.returns is not None:
                self._annotation(node.returns)
        self._scopes.append(_bound_in(node))
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for part in body:
            self.visit(part)
        self._scopes.pop()

    def _annotation(self, node: ast.expr) -> None:
        for text in string_annotations(node):
            self.visit(text)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        if self._scopes:
            self._scopes[-1].add(node.target.id)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        self._scopes.append({n for g in node.generators for n in target_names(g.target)})
        self.generic_visit(node)
        self._scopes.pop()

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension  # noqa: N815  ast's names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # Names bound in a class body are seen by the body only; a method that names one means the global.
        for part in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self.visit(part)
        own = {
            target.id
            for statement in node.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            for target in (
                statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            )
            if isinstance(target, ast.Name)
        }
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)
            else:
                self._scopes.append(own)
                self.visit(statement)
                self._scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)


def string_annotations(node: ast.expr) -> Iterator[ast.expr]:
    """Give an annotation with its quoted parts parsed; an unparsable quoted part is left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            yield ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return
        return
    yield node
    for inner in ast.walk(node):
        if inner is not node and isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                yield ast.parse(inner.value, mode="eval").body
            except SyntaxError:
                continue


def global_names(*nodes: ast.AST) -> frozenset[str]:
    """Names that these nodes load from the module's globals, builtins left out."""
    collector = GlobalNames()
    for node in nodes:
        collector.visit(node)
    return frozenset(collector.names - _BUILTINS)


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


def _receiver_uses(node: FunctionNode) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes read and called through the first parameter."""
    if not node.args.args:
        return frozenset(), frozenset()
    receiver = node.args.args[0].arg
    reads: set[str] = set()
    calls: set[str] = set()
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.ctx, ast.Load)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == receiver
        ):
            reads.add(inner.attr)
        elif (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and isinstance(inner.func.value, ast.Name)
            and inner.func.value.id == receiver
        ):
            calls.add(inner.func.attr)
    return frozenset(reads), frozenset(calls)


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
            if any(
                (d := dotted(x)) and d.split(".")[-1] in {"overload", "setter"}
                for x in inner.decorator_list
            ):
                continue
            members[inner.name] = _method(inner)
            methods.append(inner)
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    members[target.id] = _attribute(target.id, "attribute", inner)
        elif isinstance(inner, ast.ClassDef):
            members[inner.name] = _attribute(inner.name, "attribute", inner)
    for method in methods:
        if not method.args.args:
            continue
        receiver = method.args.args[0].arg
        for inner in statements_in(method.body):
            if isinstance(inner, ast.Assign):
                targets = inner.targets
            elif isinstance(inner, ast.AnnAssign | ast.AugAssign):
                targets = [inner.target]
            else:
                continue
            for target in targets:
                for attribute in _stored_attributes(target, receiver):
                    if attribute not in members:
                        members[attribute] = _attribute(attribute, "instance", inner)
    return members


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


@dataclass(frozen=True, slots=True)
class Guarded:
    """A statement and the condition that it stands under."""

    node: ast.stmt
    guard: str


def flatten(body: Iterable[ast.stmt], guard: str = "") -> Iterator[Guarded]:
    """Give statements with those inside ``if``, ``try``, ``with``, ``for`` blocks, in source order."""
    for statement in body:
        if isinstance(statement, ast.If):
            condition = ast.unparse(statement.test)
            if condition.split(".")[-1] == type_checking:
                condition = type_checking
            yield from flatten(statement.body, condition)
            yield from flatten(statement.orelse, f"not ({condition})")
        elif isinstance(statement, ast.Try | ast.TryStar):
            yield from flatten(statement.body, "try")
            for handler in statement.handlers:
                yield from flatten(handler.body, "except")
            yield from flatten(statement.orelse, "try")
            yield from flatten(statement.finalbody, guard)
        elif isinstance(statement, ast.With | ast.AsyncWith | ast.For | ast.While):
            yield Guarded(statement, guard)
            yield from flatten(statement.body, guard)
        else:
            yield Guarded(statement, guard)


def _import_definitions(
    node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield (local name, module, name)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name, ""
            else:
                yield alias.name.split(".")[0], alias.name.split(".")[0], ""
    else:
        source = absolute_module(
            module, is_package=is_package, level=node.level, target=node.module
        )
        for alias in node.names:
            yield alias.asname or alias.name, source, alias.name


def summarize(tree: ast.Module, *, module: str, path: str, is_package: bool) -> ModuleSummary:
    """Summarise a parsed module."""
    definitions: dict[str, Definition] = {}
    stars: list[str] = []
    exports: tuple[str, ...] = ()
    loose: list[ast.stmt] = []
    for item in flatten(tree.body):
        node, guard = item.node, item.guard
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if isinstance(node, ast.FunctionDef) and any(
                (d := dotted(x)) and d.split(".")[-1] == "overload" for x in node.decorator_list
            ):
                continue
            if node.name in definitions and guard == "except":
                continue
            definitions[node.name] = _definition(node, guard)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for local, source, name in _import_definitions(node, module, is_package=is_package):
                if name == "*":
                    stars.append(source)
                elif not (local in definitions and guard == "except"):
                    definitions[local] = Definition(
                        name=local,
                        kind="import",
                        line=node.lineno,
                        end_line=node.end_lineno or node.lineno,
                        target_module=source,
                        target_name=name,
                        guard=guard,
                        node=node,
                    )
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if not names or isinstance(node, ast.AugAssign):
                loose.append(node)
            for target in names:
                if isinstance(target.ctx, ast.Store):
                    if target.id == "__all__" and node.value is not None:
                        exports = tuple(
                            c.value
                            for c in ast.walk(node.value)
                            if isinstance(c, ast.Constant) and isinstance(c.value, str)
                        )
                    if target.id in definitions and guard in {"except", _AT_RUN_TIME}:
                        continue
                    definitions[target.id] = Definition(
                        name=target.id,
                        kind="value",
                        line=node.lineno,
                        end_line=node.end_lineno or node.lineno,
                        guard=guard,
                        node=node,
                    )
        elif not isinstance(node, ast.With | ast.AsyncWith | ast.For | ast.While):
            loose.append(node)
    has_getattr = "__getattr__" in definitions
    return ModuleSummary(
        module=module,
        path=path,
        is_package=is_package,
        definitions=definitions,
        stars=tuple(stars),
        lazy=_lazy_map(tree, module) if has_getattr else {},
        exports=exports,
        has_getattr=has_getattr,
        loose=tuple(loose),
    )


def _definition(node: FunctionNode | ast.ClassDef, guard: str) -> Definition:
    return Definition(
        name=node.name,
        kind="class" if isinstance(node, ast.ClassDef) else "function",
        line=start_line(node),
        end_line=node.end_lineno or node.lineno,
        guard=guard,
        node=node,
    )


def _lazy_map(tree: ast.Module, module: str) -> dict[str, str]:
    """Read dictionaries of a module with ``__getattr__`` that map names to modules.

    Source: vLLM 0.17.1 transformers_utils/configs/__init__.py (name → module) and vllm/__init__.py
    (name → ``".module:name"``).
    """
    lazy: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(
            statement.value, ast.Dict
        ):
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, str)
                    and isinstance(value, ast.Constant)
                    and isinstance(value.value, str)
                ):
                    target = value.value.split(":")[0]
                    if target.startswith("."):
                        target = module + target
                    if target.startswith("vllm"):
                        lazy[key.value] = target
    return lazy


def collect_imports(tree: ast.Module, *, module: str, is_package: bool) -> Iterator[Import]:
    """Give every import of a module, function-level ones included, in source order."""

    def walk(body: Iterable[ast.stmt], owner: str, guard: str, depth: int) -> Iterator[Import]:
        for item in flatten(body, guard):
            node = item.node
            if isinstance(node, ast.Import | ast.ImportFrom):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        yield Import(
                            module=alias.name,
                            name="",
                            local=alias.asname or alias.name.split(".")[0],
                            line=node.lineno,
                            owner=owner,
                            guard=item.guard,
                        )
                else:
                    source = absolute_module(
                        module, is_package=is_package, level=node.level, target=node.module
                    )
                    for alias in node.names:
                        yield Import(
                            module=source,
                            name=alias.name,
                            local=alias.asname or alias.name,
                            line=node.lineno,
                            owner=owner,
                            guard=item.guard,
                        )
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from walk(node.body, owner if depth else node.name, item.guard, depth + 1)

    yield from walk(tree.body, "", "", 0)

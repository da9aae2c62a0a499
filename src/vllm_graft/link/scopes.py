# The one hard idea: a name is *global* in a definition when no function scope around it binds it. That is
# decided here, once, so that closure, extraction and the contract rules agree on what a definition needs.
"""Blocks and scopes of Python source: which names a piece of code takes from its module."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllm_graft.link.syntax import every_node

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__all__", "__path__"}

ONLY_TYPES = "TYPE_CHECKING"
"""The guard of what only type checkers see, however the condition is written."""
AT_RUN_TIME = f"not ({ONLY_TYPES})"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


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


@dataclass(frozen=True, slots=True)
class Guarded:
    """A statement and the condition that it stands under."""

    node: ast.stmt
    guard: str


def has_lazy_annotations(tree: ast.Module) -> bool:
    """Tell whether a module never evaluates its annotations. Source: PEP 563."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )


def annotations_in(node: ast.AST) -> Iterator[ast.expr]:
    """Give every annotation inside a node: of parameters, results and variables."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.returns is not None:
            yield inner.returns
        elif isinstance(inner, ast.arg | ast.AnnAssign) and inner.annotation is not None:
            yield inner.annotation


def flatten(body: Iterable[ast.stmt], guard: str = "") -> Iterator[Guarded]:
    """Give statements with those inside ``if``, ``try``, ``with``, ``for`` blocks, in source order."""
    for statement in body:
        if isinstance(statement, ast.If):
            condition = ast.unparse(statement.test)
            if condition.split(".")[-1] == ONLY_TYPES:
                condition = ONLY_TYPES
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
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (a.asname or a.name.split(".")[0] for a in names)
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            yield from (h.name for h in handlers if h.name)
        case ast.Match(cases=cases):
            yield from (name for case in cases for name in _captured(case.pattern))
        case _:
            for target in bound_targets(statement):
                yield from target_names(target)


def bound_targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """Targets that an assignment, a loop or a ``with`` binds."""
    match statement:
        case ast.Assign(targets=targets):
            yield from targets
        case (
            ast.AnnAssign(target=target)
            | ast.AugAssign(target=target)
            | ast.For(target=target)
            | ast.AsyncFor(target=target)
        ):
            yield target
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (i.optional_vars for i in items if i.optional_vars is not None)
        case _:
            return


def _captured(pattern: ast.pattern) -> Iterator[str]:
    for inner in ast.walk(pattern):
        if isinstance(inner, ast.MatchAs | ast.MatchStar) and inner.name:
            yield inner.name


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
    """Collects every load of a name that no enclosing function scope binds; visitors are called by ast."""

    def __init__(self) -> None:
        """Start with no scopes."""
        self.names: set[str] = set()
        self.nodes: list[ast.Name] = []
        """Where they stand; those in quoted annotations left out."""
        self._is_quoted = False
        self._scopes: list[set[str]] = []

    def visit_Name(self, node: ast.Name) -> None:
        """Take a name that no scope around it binds."""
        if not any(node.id in scope for scope in self._scopes):
            self.names.add(node.id)
            if not self._is_quoted:
                self.nodes.append(node)

    def _function(self, node: FunctionNode | ast.Lambda) -> None:
        arguments = node.args
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                self.visit(decorator)
            for argument in every_node(arguments):
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
        for part in string_annotations(node):
            self._is_quoted = part is not node
            self.visit(part)
        self._is_quoted = False

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind the target in the innermost scope."""
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
        """Enter a scope."""
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Enter a scope."""
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Enter a scope."""
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit a body whose own names its methods do not see."""
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
        """Read a quoted annotation too."""
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
    for inner in every_node(node):
        if inner is not node and isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                yield ast.parse(inner.value, mode="eval").body
            except SyntaxError:
                continue


def global_name_nodes(*nodes: ast.AST) -> tuple[ast.Name, ...]:
    """Places at which these nodes name a global or builtin, those in quoted annotations left out."""
    collector = GlobalNames()
    for node in nodes:
        collector.visit(node)
    return tuple(collector.nodes)


def global_names(*nodes: ast.AST) -> frozenset[str]:
    """Names that these nodes load from the module's globals, builtins left out."""
    collector = GlobalNames()
    for node in nodes:
        collector.visit(node)
    return frozenset(collector.names - _BUILTINS)

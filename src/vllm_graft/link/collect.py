# One walk over one module. What an expression is, is infer.py's business; what is written down, uses.py's.
"""Collects the uses of one module."""

import ast
from collections.abc import Iterable, Iterator
from itertools import chain

from vllm_graft.link.bindings import Bindings
from vllm_graft.link.calls import calls_of, partial_calls_of
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.infer import Inference, Scope
from vllm_graft.link.registrations import class_registration, operator_registration
from vllm_graft.link.scopes import (
    ONLY_TYPES,
    FunctionNode,
    bound_targets,
    dotted,
    flatten,
    string_annotations,
)
from vllm_graft.link.summary import ModuleSummary
from vllm_graft.link.syntax import children, every_node
from vllm_graft.link.uses import (
    IMPORTS,
    ModuleUses,
    NameUse,
    OperatorUse,
    Owner,
    ReadUse,
    Registration,
    Use,
    span_of,
)

_OPERATOR_PARTS = 4  # torch.ops.NAMESPACE.NAME


class UseCollector:
    """Walks one module and collects its uses."""

    def __init__(self, index: Index, inference: Inference, module: str) -> None:
        """Collect from ``module`` of ``index``.

        Raises:
            KeyError: there is no such module.
        """
        self._index = index
        self._inference = inference
        self._module = module
        self._bindings = Bindings(index, inference, module)
        self._tree = index.tree(module)
        summary = index.summary(module)
        self._operators: dict[tuple[Owner | None, str], str] = {}
        """Names that are given ``torch.ops`` or a part of it, by the unit that binds them."""
        self._origins = dict(_origins(summary)) if summary is not None else dict[str, str]()
        self._only_types = summary.only_types if summary is not None else frozenset[str]()
        self._uses: list[Use] = []
        self._registrations: list[Registration] = []
        self._owner = Owner("")
        self._guards: list[str] = []

    def collect(self) -> ModuleUses:
        """Give all uses, in source order."""
        scope = Scope(self._module, None, None)
        for item in flatten(self._tree.body):
            self._guards = [item.guard] if item.guard else []
            self._top_level(item.node, scope)
        return ModuleUses(tuple(self._uses), tuple(self._registrations))

    def _top_level(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.ClassDef():
                self._class(node, scope)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._owner = Owner(name)
                self._function(node, scope, None)
            case ast.Assign() | ast.AnnAssign():
                names = [
                    n.id
                    for t in bound_targets(node)
                    for n in ast.walk(t)
                    if isinstance(n, ast.Name)
                ]
                self._owner = Owner(names[0] if names else "")
                self._statement(node, scope)
            case ast.With() | ast.For() | ast.While() | ast.AsyncWith():
                # What stands inside is given on its own.
                self._owner = Owner("")
                parts = ast.iter_child_nodes(node)
                self._walk_all(
                    (part for part in parts if isinstance(part, ast.expr | ast.withitem)), scope
                )
            case ast.ImportFrom():
                self._owner = Owner(IMPORTS)
                self._import(node)
            case ast.Import():
                pass
            case _:
                self._owner = Owner("")
                self._statement(node, scope)

    # ── definitions ───────────────────────────────────────────────────────────────────────────────

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        found = self._index.resolve(self._module, node.name)
        if found is None or found.module != self._module:
            found = None
        self._owner = Owner(node.name)
        before = None if found is None else self._index.shadowed(found)
        for base in node.bases:
            if before is not None and isinstance(base, ast.Name) and base.id == node.name:
                self._uses.append(
                    NameUse(
                        owner=self._owner,
                        target=before,
                        span=span_of(base),
                        written=base.id,
                        guard=" and ".join(self._guards),
                    )
                )
            else:
                self._walk(base, scope)
        self._walk_all(chain(node.decorator_list, (k.value for k in node.keywords)), scope)
        registration = class_registration(
            node, self._owner, lambda name: self._without_alias(name, scope)
        )
        if registration is not None:
            self._registrations.append(registration)
        for statement in flatten(node.body):
            inner = statement.node
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                self._owner = Owner(node.name, inner.name)
                self._function(inner, scope, found)
                continue
            assigned = inner if isinstance(inner, ast.Assign | ast.AnnAssign) else None
            names = [
                t.id
                for t in (bound_targets(assigned) if assigned is not None else ())
                if isinstance(t, ast.Name)
            ]
            self._owner = Owner(node.name, names[0] if names else "")
            self._statement(inner, scope)

    def _function(self, node: FunctionNode, outer: Scope, owner_class: Found | None) -> None:
        arguments = node.args
        self._walk_all(node.decorator_list, outer)
        self._walk_all((d for d in (*arguments.defaults, *arguments.kw_defaults) if d), outer)
        stars = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars):
            if argument.annotation is not None:
                self._annotation(argument.annotation, outer)
        if node.returns is not None:
            self._annotation(node.returns, outer)
        scope = self._bindings.of_function(node, outer, owner_class)
        self._statements(node.body, scope)

    def _annotation(self, node: ast.expr, scope: Scope) -> None:
        for part in string_annotations(node):
            quoted = part is not node
            opened = {
                id(name)
                for inner in every_node(part)
                if (name := _opened(inner)) is not None and not quoted
            }
            for inner in every_node(part):
                if isinstance(inner, ast.Name):
                    self._name(
                        inner,
                        inner.id,
                        scope,
                        as_type=id(inner) not in opened,
                        anchor=node if quoted else None,
                    )

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def _statements(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, Scope(self._module, None, scope), None)
            case ast.If():
                self._if(node, scope)
            case ast.Try():
                self._try(node, scope)
            case ast.ImportFrom():
                self._import(node)
            case ast.Global(names=names):
                # What a function rebinds in its module is used there, though never read.
                outer = Scope(self._module, None, None)
                for name in names:
                    self._name(node, name, outer)
            case ast.AnnAssign(annotation=annotation, value=value, target=target):
                self._annotation(annotation, scope)
                self._walk_all((part for part in (value, target) if part is not None), scope)
            case ast.Assign(
                targets=[ast.Tuple(elts=names) as target], value=ast.Call() as call
            ) if not any(isinstance(name, ast.Starred) for name in names):
                self._call(call, scope, unpacked=len(names))
                self._walk(target, scope)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value):
                self._walk_all(children(node), scope)
                self._keep_operators(name, value, scope)
            case _:
                self._walk_all(children(node), scope)

    def _if(self, node: ast.If, scope: Scope) -> None:
        self._walk(node.test, scope)
        condition = ast.unparse(node.test)
        self._guards.append(condition)
        self._statements(node.body, scope)
        self._guards[-1] = f"not ({condition})"
        self._statements(node.orelse, scope)
        self._guards.pop()

    def _try(self, node: ast.Try, scope: Scope) -> None:
        self._guards.append("try")
        self._statements(node.body, scope)
        self._guards[-1] = "except"
        for handler in node.handlers:
            if handler.type is not None:
                self._walk(handler.type, scope)
            self._statements(handler.body, scope)
        self._guards.pop()
        self._statements([*node.orelse, *node.finalbody], scope)

    def _import(self, node: ast.ImportFrom) -> None:
        source = self._bindings.source_of(node)
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

    # ── expressions ───────────────────────────────────────────────────────────────────────────────

    def _walk_all(self, nodes: Iterable[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._walk(node, scope)

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.stmt():
                self._statement(node, scope)
            case ast.Call():
                self._call(node, scope, unpacked=0)
            case ast.Attribute():
                self._attribute(node, scope, called=False)
            case ast.Name(id=name):
                self._name(node, name, scope)
            case ast.Lambda(args=arguments, body=body):
                bound = (a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg))
                self._walk(body, self._inner_scope(scope, bound))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                targets = (n for g in node.generators for n in ast.walk(g.target))
                bound = (n.id for n in targets if isinstance(n, ast.Name))
                self._walk_all(children(node), self._inner_scope(scope, bound))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._walk(test, scope)
                condition = ast.unparse(test)
                self._guards.append(condition)
                self._walk(body, scope)
                self._guards[-1] = f"not ({condition})"
                self._walk(orelse, scope)
                self._guards.pop()
            case _:
                self._walk_all(children(node), scope)

    def _inner_scope(self, outer: Scope, bound: Iterable[str]) -> Scope:
        scope = Scope(self._module, None, outer)
        scope.locals.update(dict.fromkeys(bound))
        return scope

    def _name(
        self,
        node: ast.expr | ast.Global,
        written: str,
        scope: Scope,
        *,
        as_type: bool = False,
        anchor: ast.expr | None = None,
    ) -> None:
        head = written.partition(".")[0]
        if scope.lookup(head)[0]:
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
                guard=ONLY_TYPES if head in self._only_types else " and ".join(self._guards),
                as_type=as_type,
            )
        )

    def _attribute(self, node: ast.Attribute, scope: Scope, *, called: bool) -> None:
        chain = dotted(node)
        parts = [] if chain is None else chain.split(".")
        called_as = self._without_alias(chain, scope).split(".") if chain is not None else []
        if called_as[:2] == ["torch", "ops"] and len(called_as) >= _OPERATOR_PARTS:
            self._uses.append(
                OperatorUse(
                    owner=self._owner,
                    namespace=called_as[2],
                    name=called_as[3],
                    span=span_of(node),
                    guard=" and ".join(g for g in self._guards if g),
                )
            )
            return
        if chain is None or scope.lookup(parts[0])[0]:
            self._read(node, scope, called=called)
            self._walk(node.value, scope)
            return
        # A chain from a global name is one use of that name, and a read at each of its links.
        self._name(node, chain, scope)
        link: ast.expr = node
        while isinstance(link, ast.Attribute):
            self._read(link, scope, called=called and link is node)
            link = link.value

    def _read(self, node: ast.Attribute, scope: Scope, *, called: bool) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        inner = self._inference.of(node.value, scope)
        if inner is None or inner.kind not in {"instance", "class"}:
            return
        self._uses.append(
            ReadUse(
                owner=self._owner,
                receiver=inner.found,
                attribute=node.attr,
                through=inner.through or ("class" if inner.kind == "class" else "instance"),
                span=span_of(node),
                value_span=span_of(node.value),
                called=called,
            )
        )

    def _call(self, node: ast.Call, scope: Scope, *, unpacked: int) -> None:
        if isinstance(node.func, ast.Attribute):
            self._attribute(node.func, scope, called=True)
        else:
            self._walk(node.func, scope)
        self._walk_all(chain(node.args, (k.value for k in node.keywords)), scope)
        name = self._without_alias(dotted(node.func) or "", scope)
        registration = operator_registration(node, name, self._owner)
        if registration is not None:
            self._registrations.append(registration)
        callee = self._inference.of(node.func, scope)
        if callee is not None:
            self._uses.extend(calls_of(self._index, callee, node, self._owner, unpacked))
        elif node.args and self._is_partial(node.func, scope):
            bound = self._inference.of(node.args[0], scope)
            if bound is not None:
                self._uses.extend(partial_calls_of(self._index, bound, node, self._owner))

    def _is_partial(self, function: ast.expr, scope: Scope) -> bool:
        """Tell whether this is ``functools.partial``, which calls its first argument later."""
        return self._without_alias(dotted(function) or "", scope) == "functools.partial"

    def _keep_operators(self, name: str, value: ast.Attribute, scope: Scope) -> None:
        """Remember a name that is given ``torch.ops`` or a part of it."""
        origin = self._without_alias(dotted(value) or "", scope)
        if f"{origin}.".startswith("torch.ops."):
            self._operators[self._owner if scope.lookup(name)[0] else None, name] = origin

    def _without_alias(self, name: str, scope: Scope) -> str:
        """Give a dotted name as it is called where it comes from; what a function binds itself is left."""
        head, dot, rest = name.partition(".")
        is_local = scope.lookup(head)[0]
        origin = self._operators.get((self._owner if is_local else None, head))
        if origin is None and not is_local:
            origin = self._origins.get(head)
        return name if origin is None else f"{origin}{dot}{rest}"


def _origins(summary: ModuleSummary) -> Iterator[tuple[str, str]]:
    """Names that a module imports, and what each is called where it comes from."""
    for name, definition in summary.definitions.items():
        if definition.kind == "import":
            parts = (definition.target_module, definition.target_name)
            yield name, ".".join(part for part in parts if part)


def _opened(node: ast.AST) -> ast.expr | None:
    """The part of an annotation that is evaluated as more than a type: ``X`` in ``X[…]``, ``X(…)``, ``X.Y``."""
    match node:
        case ast.Subscript(value=inner) | ast.Call(func=inner) | ast.Attribute(value=inner):
            return inner
        case _:
            return None

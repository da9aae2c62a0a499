# One walk over one module. What an expression is, is infer.py's business; what is written down, uses.py's.
"""Collects the uses of one module."""

import ast
from typing import Literal

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.infer import Inference, Scope, Value
from vllm_graft.link.scopes import (
    FunctionNode,
    bound_by,
    dotted,
    flatten,
    statements_in,
    string_annotations,
)
from vllm_graft.link.summary import absolute_module
from vllm_graft.link.uses import (
    IMPORTS,
    CallUse,
    Keyword,
    ModuleUses,
    NameUse,
    OperatorUse,
    Owner,
    ReadUse,
    Registration,
    Span,
    Use,
    span_of,
)


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
                self._class(node, Scope(self._module, None, None))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._owner = Owner(node.name)
                self._function(node, Scope(self._module, None, None), None)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                self._owner = Owner(names[0] if names else "")
                self._statement(node, Scope(self._module, None, None))
            elif isinstance(node, ast.With | ast.For | ast.While | ast.AsyncWith):
                self._owner = Owner("")
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr | ast.withitem):
                        self._walk(part, Scope(self._module, None, None))
            elif isinstance(node, ast.ImportFrom):
                self._owner = Owner(IMPORTS)
                self._local_import(node)
            elif not isinstance(node, ast.Import):
                self._owner = Owner("")
                self._statement(node, Scope(self._module, None, None))
        return ModuleUses(tuple(self._uses), tuple(self._registrations))

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
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

    def _function(self, node: FunctionNode, outer: Scope, owner_class: Found | None) -> None:
        scope = Scope(self._module, owner_class, outer)
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
                value = self._inference.of_annotation_node(self._module, argument.annotation)
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

    def _bind_locals(self, node: FunctionNode, scope: Scope) -> None:
        """Bind simple local assignments and imports of a function before its body is walked."""
        assigned: dict[str, list[ast.expr | None]] = {}
        for inner in statements_in(node.body):
            if isinstance(inner, ast.ImportFrom):
                self._bind_import_from(inner, scope)
            elif isinstance(inner, ast.Import):
                self._bind_import(inner, scope)
            elif (
                isinstance(inner, ast.Assign)
                and len(inner.targets) == 1
                and isinstance(inner.targets[0], ast.Name)
            ):
                assigned.setdefault(inner.targets[0].id, []).append(inner.value)
            elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                value = self._inference.of_annotation_node(self._module, inner.annotation)
                scope.locals[inner.target.id] = value
                if value is None and inner.value is not None:
                    assigned.setdefault(inner.target.id, []).append(inner.value)
            else:
                for name in bound_by(inner):
                    assigned.setdefault(name, []).append(None)
        for name, values in assigned.items():
            if name in scope.locals and scope.locals[name] is not None and name != scope.receiver:
                # A parameter or annotation tells more than a reassignment.
                continue
            scope.locals[name] = None
            known = [self._inference.of(v, scope) if v is not None else None for v in values]
            kinds = {(k.kind, k.found.dotted, k.member) if k else None for k in known}
            scope.locals[name] = known[0] if len(kinds) == 1 else None

    def _bind_import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        source = absolute_module(
            self._module, is_package=self._summary.is_package, level=node.level, target=node.module
        )
        for alias in node.names:
            found = self._index.resolve(source, alias.name) if is_inside(source) else None
            scope.locals[alias.asname or alias.name] = (
                None if found is None else self._inference.of_definition(found)
            )

    def _bind_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            local = alias.asname or alias.name.split(".")[0]
            target = alias.name if alias.asname else local
            found = self._index.submodule(target) if is_inside(target) else None
            scope.locals[local] = None if found is None else Value("module", found)

    def _annotation(self, node: ast.expr, scope: Scope) -> None:
        for part in string_annotations(node):
            quoted = part is not node
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name):
                    self._name(
                        inner, inner.id, scope, as_type=True, anchor=node if quoted else None
                    )

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nested = Scope(self._module, None, scope)
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

    def _walk(self, node: ast.AST, scope: Scope) -> None:
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
            inner = Scope(self._module, None, scope)
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    inner.locals[argument.arg] = None
            self._walk(node.body, inner)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inner = Scope(self._module, None, scope)
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
        scope: Scope,
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

    def _attribute(self, node: ast.Attribute, scope: Scope, *, called: bool) -> None:
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

    def _call(self, node: ast.Call, scope: Scope, *, unpacked: int) -> None:
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

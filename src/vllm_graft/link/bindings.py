# What the names of a function's own scope are: its parameters, its receiver, what it assigns and imports.
"""Binding the names of functions to what they are known to be."""

import ast

from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.infer import Inference, Scope, Value
from vllm_graft.link.scopes import FunctionNode, bound_by, dotted, statements_in
from vllm_graft.link.summary import absolute_module


class Bindings:
    """Opens the scopes of one module's functions."""

    def __init__(self, index: Index, inference: Inference, module: str) -> None:
        """Bind within ``module`` of ``index``."""
        self._index = index
        self._inference = inference
        self._module = module
        path = index.path_of(module) or ""
        self._is_package = path.endswith("/__init__.py")

    def source_of(self, node: ast.ImportFrom) -> str:
        """Absolute module that a ``from`` import takes its names from."""
        return absolute_module(
            self._module, is_package=self._is_package, level=node.level, target=node.module
        )

    def of_function(self, node: FunctionNode, outer: Scope, owner_class: Found | None) -> Scope:
        """Open the scope of a function; ``owner_class`` where it is a method."""
        scope = Scope(self._module, owner_class, outer)
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in every:
            scope.locals[argument.arg] = (
                None
                if argument.annotation is None
                else self._inference.of_annotation_node(self._module, argument.annotation)
            )
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                scope.locals[star.arg] = None
        if owner_class is not None and every:
            self._bind_receiver(node, every[0].arg, scope, owner_class)
        self._bind_locals(node, scope)
        return scope

    @staticmethod
    def _bind_receiver(node: FunctionNode, name: str, scope: Scope, owner_class: Found) -> None:
        decorators = {dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
        if "staticmethod" in decorators:
            return
        is_class = "classmethod" in decorators or node.name == "__new__"
        scope.receiver = name
        scope.receiver_is_class = is_class
        scope.locals[name] = Value("class" if is_class else "instance", owner_class, through="self")

    def _bind_locals(self, node: FunctionNode, scope: Scope) -> None:
        """Bind simple local assignments and imports of a function before its body is walked."""
        assigned: dict[str, list[ast.expr | None]] = {}
        for inner in statements_in(node.body):
            match inner:
                case ast.ImportFrom():
                    self._bind_import_from(inner, scope)
                case ast.Import():
                    self._bind_import(inner, scope)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    assigned.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    known = self._inference.of_annotation_node(self._module, annotation)
                    scope.locals[name] = known
                    if known is None and value is not None:
                        assigned.setdefault(name, []).append(value)
                case _:
                    for name in bound_by(inner):
                        assigned.setdefault(name, []).append(None)
        for name, values in assigned.items():
            self._bind_assigned(name, values, scope)

    def _bind_assigned(self, name: str, values: list[ast.expr | None], scope: Scope) -> None:
        if scope.locals.get(name) is not None and name != scope.receiver:
            return  # A parameter or annotation tells more than a reassignment.
        scope.locals[name] = None
        known = [None if v is None else self._inference.of(v, scope) for v in values]
        kinds = {(k.kind, k.found.dotted, k.member) if k else None for k in known}
        scope.locals[name] = known[0] if len(kinds) == 1 else None

    def _bind_import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        source = self.source_of(node)
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

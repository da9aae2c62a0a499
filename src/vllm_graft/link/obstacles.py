# A definition that is taken out of its module loses what the module does around it: other bindings of its name,
# statements that fill it, functions that rebind what it reads. Where that would change what it computes, it stays.
"""What keeps a single definition from being taken out of its module."""

import ast
from collections import Counter
from collections.abc import Collection, Iterator

from vllm_graft.link.environment import reader_of
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.scopes import (
    AT_RUN_TIME,
    ONLY_TYPES,
    bound_by,
    bound_targets,
    dotted,
    flatten,
    global_names,
)
from vllm_graft.link.symbols import has_decorator
from vllm_graft.link.syntax import every_node


class Obstacles:
    """Finds obstacles in donor modules, each module looked at once."""

    def __init__(self, donor: Index, base: Index) -> None:
        """Take definitions out of ``donor`` for ``base``."""
        self._donor = donor
        self._base = base
        self._bindings: dict[str, Counter[str]] = {}
        self._filled: dict[str, frozenset[str]] = {}
        self._rebinders: dict[str, dict[str, frozenset[str]]] = {}

    def to_extracting(self, found: Found, along: Collection[str] = ()) -> str | None:
        """Say why a definition cannot be taken alone; None where it can.

        ``along`` names what is taken out of the same module anyway.
        """
        name, module = found.name, found.module
        if self._bindings_in(module)[name] > 1:
            return f"{module} binds {name} in several places, which cannot be taken apart"
        if name in self._filled_in(module):
            return f"statements of {module} fill {name} after it is made"
        if found.definition.kind == "class" and name in self._registered_in(module):
            return f"a statement of {module} registers {name} after it is made"
        if found.definition.kind == "value" and (by := self._registrars_of(module, name)):
            return f"{by[0]} fills {name} as the donor's modules are imported"
        rebinders = self._rebinders_in(module).get(name, frozenset[str]())
        if found.definition.kind == "value" and not rebinders <= {*along}:
            return self._state(found, name)
        reader = reader_of(self._donor, found)
        names = found.definition.names if reader is None else global_names(reader)
        return self.to_moving(found, names)

    def to_moving(self, found: Found, names: Collection[str]) -> str | None:
        """Say why code of the module of ``found`` that uses these global names cannot run elsewhere."""
        rebinders = self._rebinders_in(found.module)
        for name in sorted(rebinders.keys() & names):
            own = rebinders[name]
            brings_all = own <= {found.name, *names} and not any(
                self._base.resolve(found.module, other) for other in (*own, name)
            )
            if not brings_all:
                return self._state(found, name)
        for name in sorted(names):
            if self.fallback_of(found.module, name) == "":
                return f"{found.module} has a substitute for {name} where that cannot be imported"
        return None

    def _state(self, found: Found, name: str) -> str:
        by = " and ".join(sorted(self._rebinders_in(found.module)[name])[:2])
        return f"{found.dotted} depends on {name}, state that {by or found.module} sets at run time"

    def _bindings_in(self, module: str) -> Counter[str]:
        if module not in self._bindings:
            self._bindings[module] = Counter(
                name
                for item in flatten(self._donor.tree(module).body)
                if item.guard not in {ONLY_TYPES, AT_RUN_TIME}
                and not (
                    isinstance(item.node, ast.FunctionDef) and has_decorator(item.node, "overload")
                )
                for name in bound_by(item.node)
            )
        return self._bindings[module]

    def _filled_in(self, module: str) -> frozenset[str]:
        if module not in self._filled:
            self._filled[module] = frozenset(
                name
                for item in flatten(self._donor.tree(module).body)
                for name in _changed_by(item.node)
            )
        return self._filled[module]

    def _registered_in(self, module: str) -> frozenset[str]:
        """Names that statements of a module hand to a function, for what that does: ``register(Okapi)``."""
        return frozenset(
            argument.id
            for item in flatten(self._donor.tree(module).body)
            if isinstance(item.node, ast.Expr) and isinstance(item.node.value, ast.Call)
            for argument in item.node.value.args
            if isinstance(argument, ast.Name)
        )

    def _registrars_of(self, module: str, name: str) -> tuple[str, ...]:
        """Functions of a module that fill a value, and that run as modules are imported: decorators, mostly."""
        tree = self._donor.tree(module)
        run = {
            (dotted(inner.func) or "")
            for statement in tree.body
            for inner in _run_by(statement)
            if isinstance(inner, ast.Call)
        }
        return tuple(
            statement.name
            for statement in tree.body
            if isinstance(statement, ast.FunctionDef)
            and any(
                name in _changed_by(inner)
                for inner in every_node(statement)
                if isinstance(inner, ast.stmt)
            )
            and (
                statement.name in run
                or self._donor.files.mention(f"@{statement.name}\n".encode())
                or self._donor.files.mention(f"@{statement.name}(".encode())
            )
        )

    def _rebinders_in(self, module: str) -> dict[str, frozenset[str]]:
        """Names that functions of a module declare global: name → those functions."""
        if module not in self._rebinders:
            found: dict[str, set[str]] = {}
            if b"global " in self._donor.source(module):
                for item in flatten(self._donor.tree(module).body):
                    owner = getattr(item.node, "name", "")
                    for inner in ast.walk(item.node):
                        if isinstance(inner, ast.Global):
                            for name in inner.names:
                                found.setdefault(name, set()).add(owner)
            self._rebinders[module] = {name: frozenset(owners) for name, owners in found.items()}
        return self._rebinders[module]

    def fallback_of(self, module: str, name: str) -> str | None:
        """What stands for an import from outside vLLM that may fail, as source text.

        None where the import is not guarded, or the base's module has the name anyway; empty where
        it is more than a constant.
        """
        summary = self._donor.summary(module)
        definition = summary.definitions.get(name) if summary else None
        if (
            definition is None
            or definition.kind != "import"
            or definition.guard != "try"
            or is_inside(definition.target_module)
            or self._base.resolve(module, name) is not None
        ):
            return None
        for item in flatten(self._donor.tree(module).body):
            if item.guard == "except" and name in bound_by(item.node):
                value = item.node.value if isinstance(item.node, ast.Assign) else None
                return ast.unparse(value) if isinstance(value, ast.Constant) else ""
        return "None"


def _changed_by(node: ast.stmt) -> Iterator[str]:
    """Names whose object a statement of a module changes: ``a[…] = …``, ``a.b = …``, ``a.update(…)``."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):
            yield from _root(function)
        case _:
            pass
    for target in bound_targets(node) if isinstance(node, ast.Assign | ast.AugAssign) else ():
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield from _root(target)


def _run_by(statement: ast.stmt) -> Iterator[ast.AST]:
    """Nodes that run as a statement of a module runs: not what is inside functions."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for decorator in statement.decorator_list:
            yield from every_node(decorator)
    else:
        yield from every_node(statement)


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id

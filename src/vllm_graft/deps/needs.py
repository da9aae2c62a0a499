# What grafted modules need of transformers is read from their text: names that they import, functions that they call with
# so many arguments, and what their config classes take from the parent of all config classes. What is guarded by `try`
# or by a condition on a version is the donor's own answer to another transformers, and no need.
"""What grafted code needs of transformers."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from vllm_graft.deps.transformers_facts import CONFIG_CLASSES, TransformersFacts
from vllm_graft.link.linked import is_elsewhere
from vllm_graft.link.scopes import ONLY_TYPES, flatten
from vllm_graft.link.syntax import every_node, parse_source_text
from vllm_graft.values.finding import Site
from vllm_graft.values.plan import GraftedModule

NeedKind = Literal[
    "name", "call", "config member", "set argument", "model type", "class", "layer type"
]

PACKAGE = "transformers"
_WORD = re.compile(r"\w+")
CONFIG_FILE = "config.json"
"""Path of the site of what the model's own file asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that transformers must have, or must not refuse."""

    kind: NeedKind
    site: Site
    module: str = ""
    """Of ``name`` and ``call``: where it is imported from."""
    name: str = ""
    positional: int = 0
    """Of ``call``: how many arguments are passed by position."""
    keywords: tuple[str, ...] = ()
    """Of ``call``: those that are passed by name."""

    @property
    def wanted(self) -> str:
        """Say what is needed."""
        match self.kind:
            case "name":
                return f"{self.module}.{self.name}" if self.name else self.module
            case "call":
                shown = [*["…"] * self.positional, *(f"{key}=…" for key in self.keywords)]
                return f"{self.name}({', '.join(shown)})"
            case "config member":
                return f"PretrainedConfig.{self.name}()"
            case "set argument":
                return f"a config class that takes a list as {self.name}"
            case "model type":
                return f"the model type {self.name}"
            case "class":
                return f"the class {self.name}"
            case "layer type":
                return f"the layer type {self.name}"

    def met_by(self, facts: TransformersFacts) -> bool | None:
        """Tell whether one transformers meets it; None where nobody told."""
        match self.kind:
            case "name":
                return facts.binds(self.module, self.name)
            case "call":
                parameters = facts.signature(self.module, self.name)
                return None if parameters is None else self._binds_to(parameters)
            case "config member":
                return facts.has_config_member(self.name)
            case "set argument":
                wants = facts.wants_set(self.name)
                return None if wants is None else not wants
            case "model type":
                return facts.knows_model_type(self.name)
            case "class":
                return facts.knows_class(self.name)
            case "layer type":
                return facts.allows_layer_type(self.name)

    def lack(self, facts: TransformersFacts) -> str:
        """Say what a transformers that does not meet it has instead."""
        match self.kind:
            case "call":
                return f"{self.name}({facts.signature(self.module, self.name)})"
            case "set argument":
                return f"{self.name} is joined with a set: TypeError for a list"
            case "config member":
                return f"PretrainedConfig has no {self.name}"
            case "model type":
                return f"AutoConfig does not know {self.name}"
            case "layer type":
                return f"it refuses {self.name} in layer_types"
            case _:
                return f"it has no {self.wanted}"

    def _binds_to(self, parameters: str) -> bool:
        arguments = _arguments(parameters)
        known = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)}
        positional = len(arguments.posonlyargs) + len(arguments.args)
        if self.positional > positional and arguments.vararg is None:
            return False
        return arguments.kwarg is not None or set(self.keywords) <= known


def _arguments(parameters: str) -> ast.arguments:
    (statement,) = ast.parse(f"def f({parameters}): ...").body
    assert isinstance(statement, ast.FunctionDef)
    return statement.args


@dataclass(frozen=True)
class _Text:
    """One grafted module, parsed."""

    module: GraftedModule
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of its syntax."""
        return tuple(every_node(self.tree))

    @cached_property
    def imported(self) -> Mapping[str, tuple[str, str]]:
        """Local name → module and name of everything that it imports by ``from``."""
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in self.nodes
            if isinstance(node, ast.ImportFrom) and not node.level and node.module
            for alias in node.names
        }

    def site(self, line: int) -> Site:
        """Place a line: modules of the graft's own lie in the base, the others are the donor's."""
        if self.module.kind == "extracted":
            return Site(install="base", path=self.module.path, line=line)
        path = self.module.origin.replace(".", "/")
        package = self.module.path.endswith("/__init__.py")
        return Site(install="donor", path=f"{path}{'/__init__' * package}.py", line=line)


def needs_of_modules(modules: Iterable[GraftedModule]) -> tuple[Need, ...]:
    """Read what grafted modules need of transformers, each need once, at its first place."""
    texts = [_Text(module, parse_source_text(module.text, module.path)) for module in modules]
    found: dict[tuple[object, ...], Need] = {}
    for need in _needs(texts):
        key = (need.kind, need.module, need.name, need.positional, need.keywords)
        found.setdefault(key, need)
    return tuple(found.values())


def names_from(modules: Iterable[GraftedModule], package: str) -> tuple[Need, ...]:
    """Read what grafted modules import from any other package."""
    return tuple(
        Need(kind="name", site=text.site(statement.lineno), module=module, name=name)
        for text in (
            _Text(module, parse_source_text(module.text, module.path)) for module in modules
        )
        for statement, module, name in _needed_imports(text.tree, package)
    )


def _needs(texts: Sequence[_Text]) -> Iterator[Need]:
    classes = {
        (text.module.name, node.name): (text, node)
        for text in texts
        for node in text.tree.body
        if isinstance(node, ast.ClassDef)
    }
    for text in texts:
        for statement, module, name in _needed_imports(text.tree, PACKAGE):
            yield Need(kind="name", site=text.site(statement.lineno), module=module, name=name)
        yield from _calls(text)
    for key in classes:
        yield from _config_needs(key, classes)


def _needed_imports(tree: ast.Module, package: str) -> Iterator[tuple[ast.stmt, str, str]]:
    """Give what is imported from a package whenever the module is, and by its functions when they run."""
    answers = _names_of_versions(tree, package)
    for item in flatten(tree.body):
        if _is_own_answer(item.guard, package, answers):
            continue
        if isinstance(item.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for body in _function_bodies(item.node):
                for inner in flatten(body):
                    if not _is_own_answer(inner.guard, package, answers):
                        yield from _taken(inner.node, package)
        else:
            yield from _taken(item.node, package)


def _function_bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for inner in every_node(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner.body


def _names_of_versions(tree: ast.Module, package: str) -> frozenset[str]:
    """Give the names of a module that say which version of a package is there, or follow from one that does.

    Source: vllm 0.31.0, models/pixtral.py, ``TRANSFORMERS_WITH_AXIAL_ROPE``.
    """
    found: set[str] = set()
    for item in flatten(tree.body):
        match item.node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                said = ast.unparse(value).casefold()
                follows = any(
                    isinstance(each, ast.Name) and each.id in found for each in every_node(value)
                )
                if follows or (package in said and "version" in said):
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def _is_own_answer(guard: str, package: str, answers: frozenset[str]) -> bool:
    """Whether an import stands where its lack is expected, or where this platform never comes."""
    return (
        guard in {"try", "except", ONLY_TYPES}
        or is_elsewhere(guard)
        or "version" in guard.casefold()
        or package in guard
        or not answers.isdisjoint(_WORD.findall(guard))
    )


def _taken(node: ast.stmt, package: str) -> Iterator[tuple[ast.stmt, str, str]]:
    match node:
        case ast.ImportFrom(level=0, module=str(module)) if _is_of(module, package):
            yield from ((node, module, alias.name) for alias in node.names if alias.name != "*")
        case ast.Import(names=names):
            yield from ((node, alias.name, "") for alias in names if _is_of(alias.name, package))
        case _:
            pass


def _is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _calls(text: _Text) -> Iterator[Need]:
    """Give calls of imported functions whose arguments are all written down."""
    for node in text.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        module, name = text.imported.get(node.func.id, ("", ""))
        told = all(keyword.arg for keyword in node.keywords)
        if (
            _is_of(module, PACKAGE)
            and told
            and not any(isinstance(a, ast.Starred) for a in node.args)
        ):
            yield Need(
                kind="call",
                site=text.site(node.lineno),
                module=module,
                name=name,
                positional=len(node.args),
                keywords=tuple(sorted(keyword.arg or "" for keyword in node.keywords)),
            )


# ── config classes ────────────────────────────────────────────────────────────────────────────────

_Classes = Mapping[tuple[str, str], tuple[_Text, ast.ClassDef]]


def _config_needs(key: tuple[str, str], classes: _Classes) -> Iterator[Need]:
    """Give what a config class takes from the parent of all config classes."""
    chain = tuple(_chain(key, classes))
    if not chain or chain[-1] is not None:
        return
    text, node = classes[key]
    own = {name for each in chain if each is not None for name in _members(each)}
    for call in every_node(node):
        if not isinstance(call, ast.Call):
            continue
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in own:
                if _is_method_of_config(name, call, node):
                    yield Need(kind="config member", site=text.site(call.lineno), name=name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name) if (
                not name.startswith("__")
            ):
                yield Need(kind="config member", site=text.site(call.lineno), name=name)
            case _:
                pass
    for name, line in _lists_given(node):
        yield Need(kind="set argument", site=text.site(line), name=name)


def _chain(key: tuple[str, str], classes: _Classes) -> Iterator[ast.ClassDef | None]:
    """Give a class and its parents within the graft; at the end None, if that is PretrainedConfig."""
    seen: set[tuple[str, str]] = set()
    while key in classes and key not in seen:
        seen.add(key)
        text, node = classes[key]
        yield node
        named = node.bases[0] if node.bases else None
        if not isinstance(named, ast.Name):
            return
        module, name = text.imported.get(named.id, (text.module.name, named.id))
        if _is_of(module, PACKAGE) and name in CONFIG_CLASSES:
            yield None
            return
        key = (module, name)


def _members(node: ast.ClassDef) -> Iterator[str]:
    for item in flatten(node.body):
        match item.node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass
    for inner in every_node(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.attr


def _is_method_of_config(name: str, call: ast.Call, node: ast.ClassDef) -> bool:
    """Leave out what is called only where ``hasattr`` has asked for it."""
    asked = f"hasattr(self, '{name}')"
    return not any(
        isinstance(each, ast.If) and asked in ast.unparse(each.test) and call in every_node(each)
        for each in every_node(node)
    )


def _lists_given(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Give keywords that a config class hands to its parent as a list: name, line."""
    for inner in every_node(node):
        match inner:
            case ast.Assign(
                targets=[
                    ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(value=str(key)))
                ],
                value=ast.List() | ast.Tuple(),
            ):
                yield key, inner.lineno
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kwargs"), attr="setdefault"),
                args=[ast.Constant(value=str(key)), ast.List() | ast.Tuple()],
            ):
                yield key, inner.lineno
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                keywords=keywords,
            ):
                for keyword in keywords:
                    if keyword.arg and isinstance(keyword.value, ast.List | ast.Tuple):
                        yield keyword.arg, keyword.value.lineno
            case _:
                pass

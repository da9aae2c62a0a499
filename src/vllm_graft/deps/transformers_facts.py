# What a graft can need of transformers, and what one release of it has. The same questions are answered from the text of
# an installed transformers, or, where none is at hand, from the table of published releases that was made with this file.
"""What one transformers has that vLLM's code may need."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from vllm_graft.deps.library import Library, Text
from vllm_graft.install.transformers_names import AUTO_FILES, TransformersNames, parse_transformers
from vllm_graft.link.syntax import parse_source_text

CONFIG_CLASSES = ("PretrainedConfig", "PreTrainedConfig")
"""The parent of every config class. Source: transformers 5.0 renamed it and keeps the old name."""
CONFIG_MODULE = "transformers.configuration_utils"
_TAKES_SETS_IN = ("configuration_utils", "modeling_rope_utils")


class TransformersFacts(Protocol):
    """One transformers, as far as it is known."""

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def told_by(self) -> str:
        """Say where the answers come from."""
        ...

    @property
    def requires(self) -> tuple[str, ...]:
        """Give its Requires-Dist lines."""
        ...

    def binds(self, module: str, name: str) -> bool | None:
        """Tell whether ``from module import name`` finds something; None where nobody told."""
        ...

    def knows_model_type(self, model_type: str) -> bool | None:
        """Tell whether ``AutoConfig`` has a class for a model type."""
        ...

    def knows_class(self, name: str) -> bool | None:
        """Tell whether a tokenizer or processor class that a checkpoint names is found."""
        ...

    def has_config_member(self, name: str) -> bool | None:
        """Tell whether the parent of all config classes has an attribute or method."""
        ...

    def wants_set(self, argument: str) -> bool | None:
        """Tell whether a config keyword is joined with a set, so that a list given for it is refused."""
        ...

    def allows_layer_type(self, name: str) -> bool | None:
        """Tell whether a config class that checks its ``layer_types`` takes one of this name."""
        ...

    def signature(self, module: str, name: str) -> str | None:
        """Give the parameters of a function, without annotations: ``a, b=None, *, c=1``."""
        ...

    def model_type_of(self, architecture: str) -> str:
        """Give the model type of transformers' own model class of this name; empty where it has none."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReadTransformers:
    """Read from its text, each part when it is first asked for."""

    text: Text
    version: str
    requires: tuple[str, ...] = ()

    @property
    def told_by(self) -> str:
        """Say that its text told."""
        return f"the text of transformers {self.version}"

    @cached_property
    def library(self) -> Library:
        """Its modules."""
        return Library(self.text)

    @cached_property
    def names(self) -> TransformersNames | None:
        """What its auto classes find."""
        found = {name: self._auto(name) for name in AUTO_FILES}
        return parse_transformers({k: v for k, v in found.items() if v is not None}, self.version)

    @cached_property
    def architectures(self) -> Mapping[str, str]:
        """Model class → model type, from the maps of ``AutoModelFor…``."""
        return dict(_mapped_classes(self._tree("transformers/models/auto/modeling_auto.py")))

    @cached_property
    def config_members(self) -> frozenset[str]:
        """Attributes and methods of the parent of all config classes; empty where it was not found."""
        return frozenset(
            member
            for name in CONFIG_CLASSES
            for member in self.library.members(CONFIG_MODULE, name)
        )

    @cached_property
    def set_arguments(self) -> frozenset[str]:
        """Keywords of config classes that are joined with a set."""
        functions = [
            node
            for module in _TAKES_SETS_IN
            for node in ast.walk(self._tree(f"transformers/{module}.py"))
            if isinstance(node, ast.FunctionDef)
        ]
        wanted = {name for each in functions for name in _joined_with_sets(each)}
        while True:
            handed = {name for each in functions for name in _handed_on(each, wanted)}
            if handed <= wanted:
                return frozenset(wanted)
            wanted |= handed

    @cached_property
    def layer_types(self) -> frozenset[str]:
        """What ``layer_types`` of a config may hold, old names that it translates included.

        Source: transformers 4.56 ``ALLOWED_LAYER_TYPES``, 5.0 ``ALLOWED_ATTENTION_LAYER_TYPES``, since 5.22
        ``ALLOWED_ATTN_LAYER_TYPES`` and ``_LEGACY_LAYER_TYPE_REMAP``; all in configuration_utils.py.
        """
        found: set[str] = set()
        for node in self._tree("transformers/configuration_utils.py").body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=items)) if (
                    name.startswith("ALLOWED_") and name.endswith("LAYER_TYPES")
                ):
                    found.update(_texts(items))
                case ast.Assign(
                    targets=[ast.Name(id="_LEGACY_LAYER_TYPE_REMAP")], value=ast.Dict(keys=keys)
                ):
                    found.update(_texts(key for key in keys if key is not None))
                case _:
                    pass
        return frozenset(found)

    def binds(self, module: str, name: str) -> bool | None:
        """Tell whether ``from module import name`` finds something; None where its text does not tell."""
        return self.library.binds(module, name)

    def knows_model_type(self, model_type: str) -> bool | None:
        """Tell whether ``AutoConfig`` has a class for a model type."""
        return None if self.names is None else model_type in self.names.configs

    def knows_class(self, name: str) -> bool | None:
        """Tell whether a tokenizer or processor class is found."""
        return None if self.names is None else self.names.knows_class(name)

    def has_config_member(self, name: str) -> bool | None:
        """Tell whether the parent of all config classes has a member."""
        return name in self.config_members if self.config_members else None

    def wants_set(self, argument: str) -> bool:
        """Tell whether a config keyword is joined with a set."""
        return argument in self.set_arguments

    def allows_layer_type(self, name: str) -> bool | None:
        """Tell whether a config class that checks its ``layer_types`` takes one of this name."""
        return name in self.layer_types if self.layer_types else None

    def signature(self, module: str, name: str) -> str | None:
        """Give the parameters of a function; None for anything else."""
        found = self.library.definition(module, name)
        if found is None or not isinstance(found[1], ast.FunctionDef) or found[1].decorator_list:
            return None
        return plain_parameters(found[1])

    def model_type_of(self, architecture: str) -> str:
        """Give the model type of its own model class of this name; empty where it has none."""
        return self.architectures.get(architecture, "")

    def _tree(self, path: str) -> ast.Module:
        try:
            return parse_source_text(self.text.read(path) or "", path)
        except (SyntaxError, ValueError, RecursionError):
            return ast.Module(body=[], type_ignores=[])

    def _auto(self, name: str) -> str | None:
        return self.text.read(f"transformers/models/auto/{name}")


def _texts(items: Iterable[ast.expr]) -> Iterator[str]:
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value


def plain_parameters(node: ast.FunctionDef) -> str:
    """Give the parameters of a function without their annotations, each default as ``None``."""
    arguments = node.args
    bare = ast.arguments(
        posonlyargs=[ast.arg(arg=each.arg) for each in arguments.posonlyargs],
        args=[ast.arg(arg=each.arg) for each in arguments.args],
        vararg=arguments.vararg and ast.arg(arg=arguments.vararg.arg),
        kwonlyargs=[ast.arg(arg=each.arg) for each in arguments.kwonlyargs],
        kw_defaults=[each and ast.Constant(value=None) for each in arguments.kw_defaults],
        kwarg=arguments.kwarg and ast.arg(arg=arguments.kwarg.arg),
        defaults=[ast.Constant(value=None) for _ in arguments.defaults],
    )
    return ast.unparse(bare)


def _mapped_classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Give class and model type of each pair in the maps.

    Source: transformers 4.56 to 5.24, ``models/auto/modeling_auto.py``: ``OrderedDict([("llama",
    "LlamaForCausalLM"), …])``; a value may be a tuple of classes.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(
                elts=[ast.Constant(value=str(model_type)), ast.Constant(value=str(name))]
            ):
                yield name, model_type
            case ast.Tuple(elts=[ast.Constant(value=str(model_type)), ast.Tuple(elts=classes)]):
                for each in classes:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value, model_type
            case _:
                pass


def _joined_with_sets(function: ast.FunctionDef) -> Iterator[str]:
    """Give local names that meet a set in ``|``, ``&`` or ``-`` and are not made sets before.

    Source: transformers modeling_rope_utils.py: 5.2.0 ``ignore_keys_at_rope_validation | {…}``, a TypeError for a
    list, which 5.3.0 wraps in ``set(…)``; up to 5.4.0 ``received_keys -= ignore_keys``, since 5.5.0 ``set(…)`` too.
    """
    sets = _sets_of(function)
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub(), right=right) if (
                _is_set(left) or _is_set(right)
            ):
                for side in (left, right):
                    if isinstance(side, ast.Name) and side.id not in sets:
                        yield side.id
            case ast.AugAssign(
                target=ast.Name(id=target), op=ast.BitOr() | ast.Sub(), value=ast.Name(id=name)
            ) if target in sets and name not in sets:
                yield name
            case _:
                pass


def _handed_on(function: ast.FunctionDef, wanted: set[str]) -> Iterator[str]:
    """Give what a function passes on under a name that wants a set: its own parameter, or an attribute of self."""
    sets = _sets_of(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                match keyword.value:
                    case ast.Name(id=name) if keyword.arg in wanted and name not in sets:
                        yield name
                    case ast.Attribute(value=ast.Name(id="self"), attr=name) if (
                        keyword.arg in wanted
                    ):
                        yield name
                    case _:
                        pass


def _sets_of(function: ast.FunctionDef) -> frozenset[str]:
    """Give the local names of a function that are sets: made so, or a required parameter that is called one."""
    arguments = function.args.args
    required = arguments[: len(arguments) - len(function.args.defaults)]
    named = {
        each.arg
        for each in required
        if isinstance(each.annotation, ast.Name) and each.annotation.id == "set"
    }
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value):
                named.add(name)
            case _:
                pass
    return frozenset(named)


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.IfExp(body=body, orelse=other):
            return _is_set(body) and _is_set(other)
        case _:
            return False

# What a graft starts from: the request's words (architectures, features) turned into names that the
# donor has. Nothing is compared with the base here.
"""The roots of a graft: model classes, configs, parsers and tokenizers that were asked for."""

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vllm_graft.errors import RequestError
from vllm_graft.link.drafts import DraftRule, draft_prefixes, draft_rules, fired_rules, target_words
from vllm_graft.link.syntax import every_statement
from vllm_graft.link.tables import SourceTrees, absolute_module, package_of, path_of
from vllm_graft.link.vllm import Layout, ModelEntry, Role, room_of

ParserKind = Literal["reasoning-parser", "tool-parser"]


_KIND_OF_MODEL = re.compile(r"(?:For[A-Z]\w*|Model)$")
"""What an architecture's name ends with: ``ForCausalLM``, ``ForConditionalGeneration``, ``Model``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootModel:
    """A model class to graft."""

    architecture: str
    module: str
    """Dotted, in the donor."""
    class_name: str
    why: str
    """``asked for``, or the feature that adds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootConfig:
    """A config class of vLLM's own that the models need."""

    class_name: str
    module: str
    model_types: tuple[str, ...]
    """Keys of the donor's config registry that lead to it; empty for a part of another config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPart:
    """A parser, tokenizer, renderer or processor that is registered by name."""

    role: Role
    name: str
    module: str
    class_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Everything that a graft starts from."""

    models: tuple[RootModel, ...]
    configs: tuple[RootConfig, ...]
    model_types: tuple[str, ...]
    """Of the checkpoint: those of ``config``, else those of the configs that the models import."""
    draft_types: tuple[str, ...]
    """That the donor's speculative code gives to the family's drafts, such as ``qwen3_5_mtp``."""
    parts: tuple[RootPart, ...]

    @property
    def architectures(self) -> tuple[str, ...]:
        """Give the architectures, those that features add last."""
        return tuple(model.architecture for model in self.models)

    @property
    def modules(self) -> tuple[str, ...]:
        """Give every donor module to start from, each once."""
        named = (
            *(model.module for model in self.models),
            *(config.module for config in self.configs),
            *(part.module for part in self.parts),
        )
        return tuple(dict.fromkeys(name for name in named if room_of(name) != "engine"))


def find_roots(
    layout: Layout,
    trees: SourceTrees,
    *,
    architectures: Sequence[str],
    config: Mapping[str, object] | None = None,
    features: Sequence[str] = (),
) -> Roots:
    """Turn the request's words into names that the donor has.

    Features: ``mtp``, ``reasoning-parser[=NAME]``, ``tool-parser[=NAME]``; without a name, the
    parser whose name fits the family is taken.

    Raises:
        RequestError: an architecture, feature or parser that the donor does not have.
    """
    models = [_model(layout, name, "asked for") for name in dict.fromkeys(architectures)]
    if not models:
        message = "no architecture was named"
        raise RequestError(message, remedy="Name one with --arch, or a model with --model.")
    imported = {module: _config_imports(trees, module) for module in _modules(models)}
    rules = tuple(draft_rules(layout, trees))
    model_types = (
        _model_types(layout, trees, models, imported, rules)
        if config is None
        else tuple(dict.fromkeys(_declared_types(config)))
    )
    asked = {model.architecture for model in models}
    targets = target_words(rules, asked)
    if config is None:
        types = {word for word in targets if word not in layout.by_architecture}
        model_types = tuple(sorted({*model_types, *types}))
    family = {*model_types, *asked, *targets}
    fired = fired_rules(rules, family)
    parts: list[RootPart] = []
    for feature in features:
        word, _, wanted = feature.partition("=")
        match word:
            case "mtp" if not wanted:
                models.extend(_drafts(layout, models, fired))
            case "reasoning-parser" | "tool-parser":
                parts.append(_parser(layout, word, wanted, (*model_types, *_stems(models))))
            case _:
                message = f"unknown feature: {feature!r}"
                raise RequestError(
                    message,
                    remedy="Features are mtp, reasoning-parser=NAME and tool-parser=NAME.",
                )
    models.extend(_under_other_names(layout, trees, tuple(models)))
    for module in _modules(models):
        imported.setdefault(module, _config_imports(trees, module))
    return Roots(
        models=tuple(models),
        configs=tuple(_configs(layout, models, model_types, imported)),
        model_types=model_types,
        draft_types=tuple(sorted({name for rule in fired for name in rule.model_types})),
        parts=(*parts, *_named_parts(layout, model_types)),
    )


def _model(layout: Layout, architecture: str, why: str) -> RootModel:
    entry = layout.by_architecture.get(architecture)
    if entry is not None:
        return _root(entry, why)
    if architecture in layout.retired:
        message = (
            f"the donor no longer has {architecture}: "
            f"{layout.retired[architecture]} was the last release with it"
        )
        remedy = f"Use vLLM {layout.retired[architecture]} or older as donor."
    elif architecture in layout.elsewhere:
        message = f"{architecture} is not part of vLLM: it is in a plugin"
        remedy = f"Install the plugin: {layout.elsewhere[architecture]}"
    else:
        message = f"the donor does not have the architecture {architecture!r}"
        near = _closest(architecture, layout.by_architecture)
        remedy = (
            f"Did you mean {near}? Or use a newer donor."
            if near
            else "Use a donor that has it; `vllm-graft inspect DONOR --format json` lists what it has."
        )
    raise RequestError(message, remedy=remedy, code="E201")


def _root(entry: ModelEntry, why: str) -> RootModel:
    return RootModel(
        architecture=entry.architecture, module=entry.module, class_name=entry.class_name, why=why
    )


def _closest(word: str, known: Iterable[str]) -> str:
    by_folded = {name.casefold().replace("_", ""): name for name in known}
    folded = word.casefold().replace("_", "")
    near = difflib.get_close_matches(folded, by_folded, n=3, cutoff=0.6)
    return " or ".join(by_folded[name] for name in near)


def _modules(models: Iterable[RootModel]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model.module for model in models))


def _stems(models: Iterable[RootModel]) -> Iterator[str]:
    return (model.module.rpartition(".")[2] for model in models)


def _config_imports(trees: SourceTrees, module: str) -> Mapping[str, str]:
    """Give the config classes of vLLM's own that a model's files import: class → module.

    A package-style model is all files of its package. A module of the engine's, such as the one that wraps
    models of transformers, serves many models: what it imports is no family's.
    """
    path = path_of(module, trees.files)
    if path is None or room_of(module) == "engine":
        return {}
    paths = [path]
    if path.endswith("/__init__.py"):
        folder = path.removesuffix("__init__.py")
        paths = [
            other
            for other in trees.files.paths()
            if other.startswith(folder) and other.endswith(".py")
        ]
    found: dict[str, str] = {}
    for each in paths:
        if b"onfig" not in trees.files.read(each):
            continue
        tree = trees.tree(each)
        for node in every_statement(tree) if tree is not None else ():
            if isinstance(node, ast.ImportFrom):
                source = absolute_module(node, package_of(each))
                if room_of(source) == "config" or source.endswith(".transformers_utils.configs"):
                    found.update({alias.name: source for alias in node.names})
    return found


def _model_types(
    layout: Layout,
    trees: SourceTrees,
    models: Sequence[RootModel],
    imported: Mapping[str, Mapping[str, str]],
    rules: Sequence[DraftRule],
) -> tuple[str, ...]:
    """Derive the model types of a family from the donor alone."""
    stems = tuple(_stems(models))
    family = dict(_family_configs(layout, stems, imported))
    found = [
        entry.name
        for table in layout.of_role("config-registry")
        for entry in table.entries
        if entry.symbol in family
    ]
    found.extend(_types_of_that_name(layout, models))
    # The classes' own attribute covers text and vision parts, which no registry lists.
    for name, module in family.items():
        found.extend(_class_model_type(trees, name, module))
    if not found:
        # A config of transformers: the model's file is named after the model type, nearly always.
        # Kept only if the donor itself uses that word as a model type.
        known = {word for rule in rules for word in rule.tested}
        found = [stem for stem in stems if stem in known]
    return tuple(sorted(set(found)))


def _types_of_that_name(layout: Layout, models: Sequence[RootModel]) -> Iterator[str]:
    """Give the model types whose config class is called as an architecture is, whatever file serves that.

    Source: vLLM 0.31.0, ``MuseGlimmerAssistantModel`` is served by qwen3_dflash.py and configured by
    ``MuseGlimmerAssistantConfig``, which nothing but the registry of configurations names.
    """
    names = {_KIND_OF_MODEL.sub("Config", model.architecture) for model in models}
    for table in layout.of_role("config-registry"):
        for entry in table.entries:
            if entry.symbol in names:
                yield entry.name


def _family_configs(
    layout: Layout, stems: Sequence[str], imported: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """Give the config classes that are the family's own: class, module.

    A model may import another family's config too (Qwen4Exp imports Qwen3NextConfig); where some
    modules are named like the model, only those count.
    """
    exports = {
        entry.name: entry.module
        for table in layout.of_role("config-exports")
        for entry in table.entries
        if room_of(entry.module) != "engine"  # else transformers' own, under vLLM's name for it
    }
    named: dict[str, str] = {}
    for name, module in exports.items():
        inside = any(module.startswith(f"{model}.") for model in imported)
        if inside or any(_squeezed(module.rpartition(".")[2]) == _squeezed(stem) for stem in stems):
            named[name] = module
    all_imported = {
        name: exports.get(name, module)
        for names in imported.values()
        for name, module in names.items()
        if name[:1].isupper()
    }
    alike = {
        name: module
        for name, module in all_imported.items()
        if any(_alike(module.rpartition(".")[2], stem) for stem in stems)
    }
    yield from ({**named, **alike} or all_imported).items()


def _alike(one: str, other: str) -> bool:
    first, second = _squeezed(one), _squeezed(other)
    return first.startswith(second) or second.startswith(first)


def _declared_types(config: Mapping[str, object]) -> Iterator[str]:
    declared = config.get("model_type")
    if isinstance(declared, str):
        yield declared
    for key, value in config.items():
        if key.endswith("_config") and isinstance(value, Mapping) and key != "quantization_config":
            inner: object = value.get("model_type")  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType] JSON
            if isinstance(inner, str):
                yield inner


def _class_model_type(trees: SourceTrees, name: str, module: str) -> Iterator[str]:
    path = path_of(module, trees.files)
    tree = trees.tree(path) if path is not None else None
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                match line:
                    case (
                        ast.Assign(
                            targets=[ast.Name(id="model_type")],
                            value=ast.Constant(value=str(text)),
                        )
                        | ast.AnnAssign(
                            target=ast.Name(id="model_type"), value=ast.Constant(value=str(text))
                        )
                    ) if text:
                        yield text
                    case _:
                        pass


def _configs(
    layout: Layout,
    models: Sequence[RootModel],
    model_types: Sequence[str],
    imported: Mapping[str, Mapping[str, str]],
) -> Iterator[RootConfig]:
    types: dict[str, list[str]] = {}
    for table in layout.of_role("config-registry"):
        for entry in table.entries:
            types.setdefault(entry.symbol, []).append(entry.name)
    wanted = dict(_family_configs(layout, tuple(_stems(models)), imported))
    for model_type in model_types:
        entry = layout.lookup("config-registry", model_type)
        export = entry and layout.lookup("config-exports", entry.symbol)
        if entry is not None and export is not None:
            wanted[entry.symbol] = export.module
    for name, module in sorted(wanted.items()):
        if room_of(module) != "engine":
            yield RootConfig(class_name=name, module=module, model_types=tuple(types.get(name, ())))


def _drafts(
    layout: Layout, models: Sequence[RootModel], fired: Sequence[DraftRule]
) -> Iterator[RootModel]:
    known = {model.architecture for model in models}
    drafts = [name for rule in fired for name in rule.architectures]
    if not drafts:
        asked = ", ".join(model.architecture for model in models)
        raise RequestError(
            f"nothing in the donor makes an MTP draft of {asked}",
            remedy="Drafts are chosen by the checkpoint's model type: give the model's folder with --model. If"
            " that finds none either, leave the feature mtp out, or use a newer donor.",
            code="E201",
        )
    for name in dict.fromkeys(name for name in drafts if name not in known):
        yield _root(layout.by_architecture[name], "feature mtp")


def _under_other_names(
    layout: Layout, trees: SourceTrees, models: Sequence[RootModel]
) -> Iterator[RootModel]:
    """Give what the same classes are registered as once the engine has put its word before a draft's name.

    Source: vLLM 0.31.0, registry.py: ``MuseGlimmerAssistantModel`` is asked for as ``DFlashMuseGlimmerAssistantModel``.
    """
    known = {model.architecture for model in models}
    for model in models:
        longer = [
            entry
            for name, entry in layout.by_architecture.items()
            if name.endswith(model.architecture)
            and name not in known
            and (entry.module, entry.class_name) == (model.module, model.class_name)
        ]
        prefixes = draft_prefixes(trees) if longer else ()
        for entry in longer:
            if entry.architecture.removesuffix(model.architecture) in prefixes:
                yield _root(entry, f"the name of {model.architecture} as a draft")


def _parser(layout: Layout, kind: ParserKind, wanted: str, words: Sequence[str]) -> RootPart:
    names = {entry.name: entry for table in layout.of_role(kind) for entry in table.entries}
    if not wanted:
        fits = [
            name
            for name in names
            if any(_squeezed(word).startswith(_squeezed(name)) for word in words)
        ]
        if not fits:
            message = f"no {kind} of the donor is named like this model"
            raise RequestError(
                message,
                remedy=f"Name one: {kind}=NAME, of {', '.join(sorted(names))}.",
                code="E201",
            )
        wanted = max(fits, key=len)
    entry = names.get(wanted)
    if entry is None:
        message = f"the donor has no {kind} named {wanted!r}"
        near = _closest(wanted, names)
        remedy = f"Did you mean {near}?" if near else f"It has {', '.join(sorted(names))}."
        raise RequestError(message, remedy=remedy, code="E201")
    return RootPart(role=kind, name=wanted, module=entry.module, class_name=entry.symbol)


def _squeezed(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")


def _named_parts(layout: Layout, model_types: Sequence[str]) -> Iterator[RootPart]:
    """Give the tokenizer and renderer modes that are named after one of the model types."""
    roles: tuple[Role, ...] = ("tokenizer", "renderer")
    for role in roles:
        for table in layout.of_role(role):
            for entry in table.entries:
                if entry.name in model_types:
                    yield RootPart(
                        role=role, name=entry.name, module=entry.module, class_name=entry.symbol
                    )

# Runs inside an install (see inside.py): which configuration class serves an architecture, and its defaults.
"""A configuration to start from: the one that was given, or the defaults of the class that serves it."""

import ast
import contextlib
import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_graft.rehearse.inside_supply import PLAIN

PARTS = (
    (r"vision|vit|image", "siglip_vision_model"),
    (r"audio|speech", "whisper"),
    (r"text|llm|language", "llama"),
)
"""For a part that may be of any kind: one that is common."""

MARKS = (
    "<image>",
    "<img>",
    "</img>",
    "<IMG_CONTEXT>",
    "<image_pad>",
    "<|image|>",
    "<|image_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|video_pad|>",
    "<video>",
    "<audio>",
    "<|audio|>",
)
"""Words for pictures and sound that models look up while they are made."""

WHOLE = 100
"""Weight of a class that the architecture itself asks for."""

KEPT = ("tie_word_embeddings", "architectures", "model_type")


class NoConfigurationError(LookupError):
    """Nothing in this install says which configuration the architecture has."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A configuration as a mapping, and where it is from."""

    values: dict[str, Any]
    origin: str
    config_class: Any = None


def configuration(architecture: str, asked: dict[str, Any]) -> Found:
    """Give the configuration to work with, before it is shrunk."""
    given = asked.get("configuration")
    if given is not None:
        if not asked.get("complete"):
            return Found(values={"architectures": [architecture], **given}, origin="given")
        # What the file leaves to its class (Gemma 3 its layer pattern) must be there to be shrunk.
        found = class_for(given.get("model_type"))
        if found is None:
            return Found(values={"architectures": [architecture], **given}, origin="given")
        made = found(**{k: v for k, v in given.items() if k != "model_type"})
        values = as_mapping(made) | {"architectures": [architecture]}
        return Found(
            values=values, origin=f"given, completed by {name_of(found)}", config_class=found
        )
    errors = []
    for how, found in candidates(architecture, asked.get("model_type")):
        try:
            values = read_again(found, with_parts(found, as_mapping(found())))
        except Exception as error:
            errors.append(f"{name_of(found)}: {type(error).__name__}: {error}")
            continue
        values["architectures"] = [architecture]
        values.setdefault("model_type", found.model_type)
        return Found(
            values=values, origin=f"defaults of {name_of(found)} ({how})", config_class=found
        )
    if asked.get("supply"):
        module = module_of(architecture)
        model_type = module.__name__.rpartition(".")[2] if module else architecture.lower()
        values = {"architectures": [architecture], "model_type": f"{model_type}_made_up", **PLAIN}
        return Found(values=values, origin="made up: no configuration class is known")
    message = f"no configuration class is known for {architecture}"
    raise NoConfigurationError("; ".join([message, *errors]))


def name_of(found: Any) -> str:
    """Name a class by its module."""
    return f"{found.__module__}.{found.__qualname__}"


def as_mapping(config: Any) -> dict[str, Any]:
    """Give a configuration as ``config.json`` has it, all defaults of its class written out."""
    from transformers import PretrainedConfig

    values: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    general = json.loads(PretrainedConfig().to_json_string(use_diff=False))
    return without_general(values, general)


def with_parts(config_class: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Write out the configurations within one that its defaults leave open: towers that a published file has."""
    for key, part in (getattr(config_class, "sub_configs", None) or {}).items():
        if values.get(key) is None:
            model_type = next((kind for pattern, kind in PARTS if re.search(pattern, key)), None)
            known = part if getattr(part, "model_type", "") else class_for(model_type)
            with contextlib.suppress(Exception):
                values[key] = as_mapping(known()) | {"model_type": known.model_type}
    return values


def read_again(config_class: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Make sure that the class reads what it writes.

    Source: DeepSeek-VL2's class of vllm 0.30.0 reads ``language_config`` and writes ``text_config``.
    """
    written = values.get("text_config")
    if not isinstance(written, dict):
        return values
    told = 0.0123
    for key in ("text_config", "language_config", "llm_config"):
        rest = {name: one for name, one in values.items() if name != "text_config"}
        tried = {**rest, key: {**written, "initializer_range": told}}
        with contextlib.suppress(Exception):
            made = config_class(**{k: v for k, v in tried.items() if k != "model_type"})
            part = made.text_config
            if not isinstance(part, dict) and part.initializer_range == told:
                return {**rest, key: written}
    return values


def without_general(values: dict[str, Any], general: dict[str, Any]) -> dict[str, Any]:
    """Leave out what every configuration has and this one says nothing else about.

    Some classes refuse it in the configurations within them (DBRX). It is what they would take anyway.
    """
    return {
        key: without_general(value, general) if isinstance(value, dict) else value
        for key, value in values.items()
        if key not in general or value != general[key] or key in KEPT
    }


def class_for(model_type: str | None) -> Any:
    """Give the class that vLLM makes of a model type: its own first, then transformers'."""
    from transformers import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    if model_type in _CONFIG_REGISTRY:
        return _CONFIG_REGISTRY[model_type]
    # Not with get(): the mapping imports its classes when they are looked up, and get() takes a failure for a lack.
    return CONFIG_MAPPING[model_type] if model_type in CONFIG_MAPPING else None  # noqa: SIM401


def candidates(architecture: str, model_type: str | None) -> Iterator[tuple[str, Any]]:
    """Give configuration classes that may serve an architecture, the likeliest first."""
    seen = set()
    for how, found in _candidates(architecture, model_type):
        if found is not None and found not in seen:
            seen.add(found)
            yield how, found


def _candidates(architecture: str, model_type: str | None) -> Iterator[tuple[str, Any]]:
    if model_type is not None:
        yield "asked for", class_for(model_type)
    for known in types_of(architecture):
        yield "transformers' own model of that name", class_for(known)
    for known in alike(architecture):
        yield "a model type of that name", class_for(known)
    for found in of_the_module(architecture):
        yield "named by vLLM's model file", found
    for parent in parents(architecture):
        for how, found in _candidates(parent, None):
            yield f"of its parent {parent}: {how}", found


def parents(architecture: str) -> list[str]:
    """Give the architectures that a class is derived from."""
    from vllm.model_executor.models import ModelRegistry

    found = import_class(architecture)
    bases = found.__mro__[1:] if found is not None else ()
    return [
        one.__name__
        for one in bases
        if one.__name__ in ModelRegistry.models and one.__name__ != architecture
    ]


def import_class(architecture: str) -> Any:
    """Import the class that the registry has for an architecture; None where it has none."""
    from vllm.model_executor.models import ModelRegistry

    entry = ModelRegistry.models.get(architecture)
    return None if entry is None else entry.load_model_cls()


def added(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Give a configuration with more in it; what is within is merged."""
    return values | {
        key: added(values[key], one)
        if isinstance(one, dict) and isinstance(values.get(key), dict)
        else one
        for key, one in more.items()
    }


def types_of(architecture: str) -> list[str]:
    """Give the model types for which transformers has a class of this name."""
    from transformers.models.auto import modeling_auto

    return [
        model_type
        for name, mapping in vars(modeling_auto).items()
        if name.endswith("_MAPPING_NAMES")
        for model_type, classes in mapping.items()
        if architecture in (classes if isinstance(classes, tuple | list) else (classes,))
    ]


def of_the_module(architecture: str) -> list[Any]:
    """Give the configuration classes that vLLM's model file names, those it asks to be served by first."""
    from transformers import PretrainedConfig

    module = module_of(architecture)
    if module is None:
        return []
    tree = ast.parse(Path(module.__file__).read_text())
    ranked: dict[str, int] = {}
    for node in ast.walk(tree):
        weight, names = 0, ()
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get_hf_config"
        ):
            weight, names = 1000, node.args[:1]
        elif isinstance(node, ast.ClassDef) and node.name == architecture:
            weight = WHOLE
            names = [n.annotation for n in ast.walk(node) if isinstance(n, ast.AnnAssign | ast.arg)]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            weight, names = 1, [node.annotation]
        for one in names:
            for name in ast.walk(one) if one is not None else ():
                if isinstance(name, ast.Name) and name.id.endswith("Config"):
                    ranked[name.id] = ranked.get(name.id, 0) + weight
    from vllm.model_executor.models import registry

    # A multimodal file names the configurations of its parts too; those of the whole stand where it asks for it.
    whole = architecture in getattr(registry, "_MULTIMODAL_MODELS", {})
    stem = plain(stem_of(architecture))
    names = [
        name
        for name in ranked
        if not whole or ranked[name] >= WHOLE or plain(name).startswith(stem)
    ]
    found = [getattr(module, name, None) for name in sorted(names, key=lambda name: -ranked[name])]
    return [
        one
        for one in found
        if isinstance(one, type)
        and issubclass(one, PretrainedConfig)
        and one is not PretrainedConfig
        and getattr(one, "model_type", "")
    ]


def module_of(architecture: str) -> Any:
    """Import the module of an architecture, as vLLM's registry names it; None where it has none."""
    from vllm.model_executor.models import ModelRegistry

    entry = ModelRegistry.models.get(architecture)
    name = getattr(entry, "module_name", None)
    return importlib.import_module(name) if name else None


def alike(architecture: str) -> list[str]:
    """Give the model types whose name is the architecture's without its ending."""
    from transformers import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    stem = plain(stem_of(architecture))
    return [
        known
        for known in {**_CONFIG_REGISTRY, **dict.fromkeys(CONFIG_MAPPING)}
        if plain(known) == stem
    ]


def stem_of(architecture: str) -> str:
    """Give an architecture's name without its ending."""
    return re.sub(r"(For[A-Z]\w+|LMHeadModel|Model|MTP|_?Chat)$", "", architecture)


def plain(name: str) -> str:
    """Give the letters and digits of a name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def know_classes(config: dict[str, Any], found: Found, class_name: str) -> None:
    """Let transformers know the class of a model type that it does not know.

    A class that only the model file names is registered nowhere. Where there is none at all (the checkpoint brings
    its own code, which does not run here), a class that keeps what the file says stands for it, under the name that
    the checkpoint's own has: some models ask for it.
    """
    from transformers import AutoConfig

    model_type = config.get("model_type")
    if not model_type or class_for(model_type) is not None:
        return
    kept = found.config_class
    if kept is None or kept.model_type != model_type:
        kept = keeper(model_type, class_name)
    AutoConfig.register(model_type, kept, exist_ok=True)


def keeper(model_type: str, class_name: str = "KeptConfig") -> Any:
    """Make a configuration class that keeps what the file says, and makes configurations of what is within."""
    from transformers import PretrainedConfig

    def __init__(self: Any, **values: Any) -> None:  # noqa: N807
        made = {}
        for key, value in values.items():
            inner = (
                isinstance(value, dict)
                and re.search(r"config$", key)
                and not re.search(r"quant", key)
            )
            made[key] = class_of_part(value)(**value) if inner else value
        PretrainedConfig.__init__(self, **made)

    # transformers 4 leaves it to each class; every one that comes with a checkpoint has it.
    more = {} if hasattr(PretrainedConfig(), "rope_scaling") else {"rope_scaling": None}
    members = {**more, "model_type": model_type, "__init__": __init__}
    return type(class_name, (PretrainedConfig,), members)


def class_of_part(values: dict[str, Any]) -> Any:
    """Give the class for a configuration within one."""
    found = class_for(values.get("model_type"))
    return found if found is not None else keeper(str(values.get("model_type", "")))


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of bytes; some models ask for one while they are made."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>", "<|pad|>", *MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "model_max_length": 2048,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_processors(folder: Path, model_type: str | None) -> None:
    """Write what transformers' processors of this model type need; some models ask for theirs while they are made."""
    from transformers.models.auto import (
        feature_extraction_auto,
        image_processing_auto,
        video_processing_auto,
    )

    mappings = (
        getattr(image_processing_auto, "IMAGE_PROCESSOR_MAPPING_NAMES", {}),
        getattr(feature_extraction_auto, "FEATURE_EXTRACTOR_MAPPING_NAMES", {}),
        getattr(video_processing_auto, "VIDEO_PROCESSOR_MAPPING_NAMES", {}),
    )
    for mapping in mappings:
        for name in class_names(mapping.get(model_type)):
            with contextlib.suppress(Exception):
                getattr(importlib.import_module("transformers"), name)().save_pretrained(folder)


def class_names(value: Any) -> list[str]:
    """Give the names of classes that an automatic mapping has for one model type, however it writes them."""
    if isinstance(value, str):
        return [value]
    listed = value.values() if isinstance(value, dict) else value or ()
    return [name for one in listed if one for name in class_names(one)]

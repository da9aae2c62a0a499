# The sections of a model's configuration and what each is about: a mapping with a depth of its own is a stack of
# layers. Also what is one quantity under many names. Nothing here knows a model; it knows keys.
#
# This file and its neighbours without `inside` in their names run in this program and in an install alike:
# standard library only.
"""Find the stacks of layers in a configuration, by key and shape."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

Json = Any
"""A decoded value: which kind it is, is asked where it matters."""

Config = Mapping[str, Json]
"""A decoded ``config.json`` or a mapping in it."""

Path = tuple[str, ...]

DEPTH = (
    "num_hidden_layers",
    "n_layers",
    "n_layer",
    "num_layers",
    "layers",
    "depth",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "encoder_num_layers",
    "num_blocks",
    "num_transformer_layers",
)
"""How many layers a stack has. Source: the configuration classes of transformers 5.17 and vllm 0.30.0 (``n_layer``
GPT-2, ``depth`` Qwen2-VL's tower, ``layers`` DeepSeek-VL2's, ``encoder_layers`` Whisper, ``num_blocks`` the
conformer of Phi-4 multimodal)."""

KINDS_OF_LAYERS = ("layers_block_type", "layer_types")

HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "heads",
    "attention_heads",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_query_heads",
)

KEY_VALUE_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "kv_n_heads",
    "num_attention_groups",
    "multi_query_group_num",
)
"""Source: ``num_attention_groups`` Step 3.5, ``multi_query_group_num`` ChatGLM, ``n_head_kv`` Falcon."""

HIDDEN = (
    "embed_dim",
    "hidden_size",
    "n_embd",
    "d_model",
    "model_dim",
    "width",
    "hidden_dim",
    "dim",
    "attention_dim",
    "encoder_embed_dim",
)
"""The width that a stack works in, the most telling name first: Qwen2-VL's tower has ``embed_dim`` for it and
``hidden_size`` for the width that it gives to the language model."""

HEAD_WIDTH = ("head_dim", "kv_channels", "attention_head_dim", "d_kv", "attention_head_size")

MTP = re.compile(
    r"^(num_nextn_predict_layers|num_mtp_(modules|layers)|mtp_num_(hidden_)?layers|n_predict)$"
)
"""Heads that predict several tokens. Source: DeepSeek, GLM (``num_nextn_predict_layers``), Qwen3.5
(``mtp_num_hidden_layers``), MiniMax (``num_mtp_modules``)."""

TOWER = re.compile(r"vi(sion|sual|t)|image|video|audio|speech|encoder|tower|sam|qformer|perceiver")

NOT_A_SECTION = re.compile(
    r"rope|quant|compression|auto_map|label|task_specific|generation|tokenizer|processor|backbone_kwargs|scaling"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A mapping of the configuration that is a stack of layers, or belongs to one."""

    path: Path
    values: Config

    @property
    def depths(self) -> dict[str, int]:
        """Its numbers of layers, by the keys that hold them.

        A list of layers' kinds stands for its own length where nothing else counts them.
        Source: transformers 5.17 writes no ``num_hidden_layers`` for Nemotron-H, which it reads.
        """
        counted = {key: self.values[key] for key in DEPTH if count(self.values.get(key))}
        if counted:
            return counted
        listed = ((key, self.values.get(key)) for key in KINDS_OF_LAYERS)
        return {key: len(value) for key, value in listed if is_list(value) and value}

    @property
    def heads(self) -> str | None:
        """The key of its number of attention heads."""
        return next((key for key in HEADS if some_counts(self.values.get(key))), None)

    @property
    def hidden(self) -> str | None:
        """The key of its width; None where nothing says that it is a stack of its own."""
        if not self.depths and not self.heads:
            return None
        return next((key for key in HIDDEN if count(self.values.get(key))), None)

    @property
    def tower(self) -> bool:
        """Tell whether it reads pictures or sound for another stack."""
        return any(TOWER.search(part) for part in self.path)


def is_mapping(value: Json) -> TypeGuard[Config]:
    """Tell whether a value holds further keys."""
    return isinstance(value, Mapping)


def is_list(value: Json) -> TypeGuard[list[Json]]:
    """Tell whether a value is a list."""
    return isinstance(value, list)


def count(value: Json) -> TypeGuard[int]:
    """Tell whether a value counts something: a positive whole number, not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def some_counts(value: Json) -> TypeGuard[int | list[int]]:
    """Tell whether a value is a count, or one for each layer."""
    return count(value) or (is_list(value) and bool(value) and all(map(count, value)))


def first_count(values: Config, keys: tuple[str, ...]) -> int | None:
    """Give the first of these keys that counts something; the largest where there is one for each layer."""
    for key in keys:
        value = values.get(key)
        if some_counts(value):
            return max(value) if isinstance(value, list) else value
    return None


def sections(config: Config, path: Path = ()) -> Iterator[Section]:
    """Give the configuration itself and the mappings in it, outer before inner."""
    yield Section(path=path, values=config)
    for key, value in config.items():
        if is_mapping(value) and not NOT_A_SECTION.search(key):
            yield from sections(value, (*path, key))

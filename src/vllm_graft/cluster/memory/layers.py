# vLLM asks each of its layers what it keeps; a config.json is not asked but read, by the rules of the families that are known
# here. What a file has beyond these rules makes its cache "not known", never a guess.
"""What each layer of a model keeps in the KV cache."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.values.memory_plan import CacheLayer, LayerKind
from vllm_graft.values.probe import NotKnown

COMPARED = frozenset(
    (
        *("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3"),
        *("gpt_oss", "deepseek_v2", "deepseek_v3", "qwen3_next", "qwen3_5", "qwen3_5_moe"),
        *("nemotron_h", "jamba", "granitemoehybrid", "falcon_h1", "glm4_moe"),
        *("kimi_k2", "phi3", "minimax_m2", "granite"),
    )
)
"""Types of models whose layers and pages were compared with those of vLLM 0.30.0 itself, to the byte (tests/vllm/test_memory_pages.py):
the others are read by the same rules, told apart, and refused nothing for their cache."""

_MLA = frozenset(
    (
        *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite"),
        *("glm_moe_dsa", "pangu_ultra_moe"),
    )
)
"""Source: vLLM 0.30.0, transformers_utils/model_arch_config_convertor.py (``is_deepseek_mla``), without those that have layers of
other kinds beside it."""

_OTHER = (
    *("compress_ratios", "num_kv_shared_layers", "global_head_dim", "attention_other_setting"),
    *("attention_chunk_size", "block_configs", "rswa_window", "index_kpool", "rwkv"),
    *("is_encoder_decoder", "cross_attention_layers", "full_attn_idxs", "attn_type_list"),
    *("linear_attn_config", "conv_L_cache", "block_types", "layer_group_size", "kv_lora_rank"),
    *("dual_chunk_attention_config", "hybrid_layer_pattern", "sliding_window_pattern_list"),
    *(
        "state_size",
        "layers_block_type",
        "ssm_state_size",
        "mamba_d_state",
        "swa_num_key_value_heads",
    ),
)
"""Fields of models whose layers are none of those known here; each family takes out those that it knows."""

_SLIDING_FIRST = frozenset(("gemma2",))
_SLIDING_ALL = frozenset(("mistral", "mixtral", "phi3", "starcoder2"))
_GEMMA3_PATTERN = 6
_TWO, _FOUR = 2, 4

_NAMED: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "linear_attention": "state",
    "mamba": "state",
}
_PATTERN = {"M": "mamba", "*": "attention", "-": "", "E": ""}
"""Source: vLLM 0.30.0, model_executor/models/nemotron_h.py (``ALL_DECODER_LAYER_TYPES``): ``-`` is an MLP, ``E`` a mixture of experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheWishes:
    """What is said of the cache beside the model."""

    tensor_parallel: int = 1
    model_bytes: int = _TWO
    """Of a number in the type that the model is served in."""
    cache_bytes: int = _TWO
    """Of a number in the cache of attention."""
    state_type: str = "auto"
    """``--mamba-ssm-cache-dtype``."""
    speculative_tokens: int = 0
    is_drafting: bool = False
    """Whether the model's own draft layers are served."""


def cache_layers(
    configuration: Configuration, wishes: CacheWishes
) -> tuple[CacheLayer, ...] | NotKnown:
    """Give what one rank keeps for each layer, all pipeline stages together, or why that is not known."""
    if not configuration.layers:
        return NotKnown(not_known="config.json does not say how many layers it has")
    reader = _Reader(configuration, wishes)
    try:
        return (*reader.layers(), *reader.draft())
    except _UntoldError as error:
        return NotKnown(not_known=str(error))


class _UntoldError(Exception):
    """A file does not say what is needed, or has what is not known here."""


@dataclass(frozen=True, slots=True)
class _Reader:
    configuration: Configuration
    wishes: CacheWishes

    def layers(self) -> Iterator[CacheLayer]:
        at = self.configuration
        kind = at.model_type
        if kind in _MLA and at.number("kv_lora_rank"):
            self.refuse_others("kv_lora_rank")
            for number in range(at.layers):
                yield from self.latent(number)
        elif kind == "nemotron_h":
            self.refuse_others("ssm_state_size", "layers_block_type")
            yield from self.named(self.pattern())
        elif kind == "falcon_h1":
            self.refuse_others("mamba_d_state")
            for number in range(at.layers):
                yield self.state(number)
                yield self.attention("full", number)
        elif kind == "jamba":
            self.refuse_others("mamba_d_state", "layers_block_type")
            yield from self.named(self.periodic())
        elif kind == "granitemoehybrid":
            self.refuse_others("mamba_d_state")
            yield from self.named(at.words("layer_types", "layers_block_type"))
        elif at.number("linear_num_value_heads"):
            self.refuse_others()
            yield from self.named(at.words("layer_types") or self.every("full_attention_interval"))
        else:
            self.refuse_others()
            yield from self.attending()

    def draft(self) -> Iterator[CacheLayer]:
        """Give the layers of the model's own draft: each has one of attention, as the full layers of the model have.

        Source: vLLM 0.30.0, model_executor/models/qwen3_5_mtp.py, qwen3_next_mtp.py, deepseek_mtp.py, glm4_moe_mtp.py.
        """
        if not self.wishes.is_drafting:
            return
        at = self.configuration
        names = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_modules")
        for number in range(at.number(*names) or 1):
            if at.model_type in _MLA:
                yield from self.latent(at.layers + number)
            else:
                yield self.attention("full", at.layers + number)

    def refuse_others(self, *known: str) -> None:
        at = self.configuration
        found = [name for name in _OTHER if name not in known and at.says(name)]
        if found:
            raise _UntoldError(f"config.json has {', '.join(found)}, which is not known here")

    def attention(self, kind: LayerKind, layer: int) -> CacheLayer:
        """Give a layer that keeps a key and a value for each head.

        Source: vLLM 0.30.0, v1/kv_cache_interface.py (``AttentionSpec.state_content_size_bytes``), config/model.py
        (``get_num_kv_heads``: at least one on each rank).
        """
        at = self.configuration
        size, keys = at.head_size, at.kv_heads
        if not size or not keys:
            raise _UntoldError("config.json does not say how many heads it has, and of which size")
        window = at.number("sliding_window", "sliding_window_size") or 0
        if kind == "sliding" and not window:
            raise _UntoldError("config.json does not say how far its sliding layers look back")
        heads = max(1, keys // self.wishes.tensor_parallel)
        return CacheLayer(
            kind=kind,
            token_bytes=heads * _TWO * size * self.wishes.cache_bytes,
            window=window if kind == "sliding" else 0,
            layer=layer,
        )

    def latent(self, layer: int) -> Iterator[CacheLayer]:
        """Give a layer of MLA: one latent vector for all heads, on every rank whole.

        Source: vLLM 0.30.0, model_executor/layers/attention/mla_attention.py (``get_kv_cache_spec``); deepseek_v2.py (``Indexer``:
        bytes, and a scale of four for each 128).
        """
        at = self.configuration
        rank, rope = at.number("kv_lora_rank"), at.number("qk_rope_head_dim")
        if not rank or rope is None:
            raise _UntoldError("config.json does not say how large its latent vectors are")
        yield CacheLayer(
            kind="mla", token_bytes=(rank + rope) * self.wishes.cache_bytes, layer=layer
        )
        if at.number("index_topk"):
            size = at.number("index_head_dim") or 128
            yield CacheLayer(kind="indexer", token_bytes=size + size // 128 * _FOUR, layer=layer)

    def named(self, kinds: Sequence[str]) -> Iterator[CacheLayer]:
        at = self.configuration
        if len(kinds) < at.layers:
            raise _UntoldError("config.json does not say of which kind each layer is")
        for number, name in enumerate(kinds[: at.layers]):
            if not name:
                continue
            kind = _NAMED.get(name)
            if kind is None:
                raise _UntoldError(
                    f"config.json has layers of the kind {name!r}, which is not known here"
                )
            yield self.state(number) if kind == "state" else self.attention(kind, number)

    def every(self, name: str) -> tuple[str, ...]:
        """Source: transformers 5.24, models/qwen3_next/configuration_qwen3_next.py."""
        interval = self.configuration.number(name) or _FOUR
        return tuple(
            "full_attention" if (number + 1) % interval == 0 else "linear_attention"
            for number in range(self.configuration.layers)
        )

    def pattern(self) -> tuple[str, ...]:
        at = self.configuration
        if listed := at.words("layers_block_type"):
            return tuple("" if each in ("mlp", "moe") else each for each in listed)
        told = at.word("hybrid_override_pattern")
        if unknown := sorted(set(told) - _PATTERN.keys()):
            raise _UntoldError(f"hybrid_override_pattern has {''.join(unknown)}")
        return tuple(_PATTERN[each] for each in told)

    def periodic(self) -> tuple[str, ...]:
        """Source: transformers 5.24, models/jamba/configuration_jamba.py (``layers_block_type``)."""
        at = self.configuration
        period, offset = at.number("attn_layer_period"), at.number("attn_layer_offset")
        if not period or offset is None:
            return at.words("layers_block_type")
        return tuple(
            "attention" if number % period == offset else "mamba" for number in range(at.layers)
        )

    def attending(self) -> Iterator[CacheLayer]:
        at = self.configuration
        window = at.number("sliding_window", "sliding_window_size")
        listed = at.words("layer_types")
        is_off = at.text.get("use_sliding_window") is False
        if not window or (is_off and not listed):
            kinds: Sequence[str] = ("full_attention",) * at.layers
        elif listed:
            kinds = listed
        elif at.model_type in _SLIDING_FIRST:
            kinds = [
                "full_attention" if number % _TWO else "sliding_attention"
                for number in range(at.layers)
            ]
        elif at.model_type == "gemma3":
            pattern = at.number("sliding_window_pattern") or _GEMMA3_PATTERN
            kinds = [
                "sliding_attention" if (number + 1) % pattern else "full_attention"
                for number in range(at.layers)
            ]
        elif at.model_type in _SLIDING_ALL:
            kinds = ("sliding_attention",) * at.layers
        else:
            raise _UntoldError("config.json does not say which of its layers slide")
        yield from self.named(kinds)

    def state(self, layer: int) -> CacheLayer:
        """Give a layer that keeps a state: what its convolution has seen, and what it remembers.

        Source: vLLM 0.30.0, model_executor/layers/mamba/mamba_utils.py (``MambaStateShapeCalculator``, ``MambaStateDtypeCalculator``),
        and ``get_mamba_state_shape_from_config`` of each model.
        """
        seen, kept = (
            self.linear() if self.configuration.number("linear_num_value_heads") else self.mamba()
        )
        return CacheLayer(
            kind="state",
            state_bytes=prod(seen) * self.wishes.model_bytes + prod(kept) * self.memory_bytes(),
            layer=layer,
        )

    def linear(self) -> tuple[tuple[int, int], tuple[int, int, int]]:
        (values, keys, value, key, kernel) = self.numbers(
            *("linear_num_value_heads", "linear_num_key_heads", "linear_value_head_dim"),
            *("linear_key_head_dim", "linear_conv_kernel_dim"),
        )
        ranks = self.wishes.tensor_parallel
        self.divide(values, "linear_num_value_heads")
        width = key * keys * _TWO + value * values
        state = kernel - 1 + self.wishes.speculative_tokens
        return (width // ranks, state), (values // ranks, value, key)

    def mamba(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        at, ranks = self.configuration, self.wishes.tensor_parallel
        kernel = self.first("mamba_d_conv", "conv_kernel")
        size = self.first("mamba_d_state", "ssm_state_size")
        if at.model_type == "jamba":
            inner = (at.number("mamba_expand") or _TWO) * self.first("hidden_size")
            self.divide(inner, "the width of a Mamba layer")
            return (inner // ranks, kernel - 1), (inner // ranks, size)
        heads = self.first("mamba_n_heads", "mamba_num_heads")
        head = self.first("mamba_d_head", "mamba_head_dim")
        groups = self.first("mamba_n_groups", "n_groups")
        inner = self.inner(heads * head)
        self.divide(heads, "the heads of a Mamba layer")
        if groups % ranks:
            groups += ranks - groups
        state = kernel - 1
        if at.model_type == "nemotron_h":
            state += self.wishes.speculative_tokens
        return ((inner + _TWO * groups * size) // ranks, state), (heads // ranks, head, size)

    def inner(self, product: int) -> int:
        """Give the width of a Mamba layer.

        Source: vLLM 0.30.0: nemotron_h.py takes heads times their size, granitemoehybrid.py ``mamba_expand`` times the hidden size,
        falcon_h1.py ``mamba_d_ssm`` where there is one.
        """
        at = self.configuration
        if at.model_type == "nemotron_h":
            return product
        own = at.number("mamba_d_ssm") if at.model_type == "falcon_h1" else None
        return own or (at.number("mamba_expand") or _TWO) * self.first("hidden_size")

    def memory_bytes(self) -> int:
        """Give the bytes of a number of what a state remembers.

        Source: vLLM 0.30.0, model_executor/models/config.py: Nemotron-H takes ``mamba_ssm_cache_dtype`` of its file, or float32; Qwen3.5
        takes ``mamba_ssm_dtype`` of its file.
        """
        at, told = self.configuration, self.wishes.state_type
        if told == "auto" and at.model_type == "nemotron_h":
            told = at.word("mamba_ssm_cache_dtype") or "float32"
        if told == "auto" and at.model_type.startswith("qwen3_5"):
            told = at.word("mamba_ssm_dtype") or "auto"
        if told == "auto":
            return self.wishes.model_bytes
        return _FOUR if told == "float32" else _TWO

    def numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(self.first(name) for name in names)

    def first(self, *names: str) -> int:
        found = self.configuration.number(*names)
        if not found:
            raise _UntoldError(f"config.json does not say {names[0]}")
        return found

    def divide(self, count: int, what: str) -> None:
        if count % self.wishes.tensor_parallel:
            ranks = self.wishes.tensor_parallel
            raise _UntoldError(f"{what} ({count}) cannot be shared out over {ranks} ranks")

# What each gate is run on first: the description of a model that every vLLM knows, made here so that no file of a published
# model is needed. If it does not pass, the machine or the image is at fault and not the graft.
"""The model on which gates are controlled."""

import json
from collections.abc import Collection, Mapping

_CONTROLS = (
    ("LlamaForCausalLM", "llama"),
    ("Qwen2ForCausalLM", "qwen2"),
    ("MistralForCausalLM", "mistral"),
)
_HEAD, _INNER = 64, 128
_SPECIAL = ("<|end|>", "<|pad|>")


def control_architecture(asked: Collection[str]) -> str:
    """Give an architecture that vLLM has had since its beginnings and that is not the one in question."""
    return next((name for name, _ in _CONTROLS if name not in asked), _CONTROLS[0][0])


def control_files(architecture: str, heads: int = 1) -> Mapping[str, bytes]:
    """Give the files of its folder: config.json and a tokenizer of bytes; ``heads``: as many as ranks share a layer."""
    tokens = [*_alphabet(), *_SPECIAL]
    config = {
        "architectures": [architecture],
        "model_type": dict(_CONTROLS)[architecture],
        "hidden_size": _HEAD * heads,
        "intermediate_size": _INNER * heads,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": len(tokens),
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "torch_dtype": "bfloat16",
        "eos_token_id": tokens.index(_SPECIAL[0]),
        "pad_token_id": tokens.index(_SPECIAL[1]),
        "bos_token_id": None,
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _SPECIAL[0],
        "pad_token": _SPECIAL[1],
        "model_max_length": 512,
    }
    return {
        name: json.dumps(value).encode()
        for name, value in (
            ("config.json", config),
            ("tokenizer_config.json", settings),
            ("tokenizer.json", _tokenizer(tokens)),
        )
    }


def control_tensors(architecture: str, heads: int = 1) -> Mapping[str, tuple[tuple[int, ...], str]]:
    """Give the tensors of its checkpoint, each with shape and type.

    Source: transformers 4.57 to 5.17, models/llama, qwen2, mistral: one layer; Qwen2 has biases at q, k and v.
    """
    hidden, inner = _HEAD * heads, _INNER * heads
    words = len(_alphabet()) + len(_SPECIAL)
    layer = "model.layers.0"
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (words, hidden),
        **{f"{layer}.self_attn.{each}_proj.weight": (hidden, hidden) for each in "qkvo"},
        f"{layer}.mlp.gate_proj.weight": (inner, hidden),
        f"{layer}.mlp.up_proj.weight": (inner, hidden),
        f"{layer}.mlp.down_proj.weight": (hidden, inner),
        f"{layer}.input_layernorm.weight": (hidden,),
        f"{layer}.post_attention_layernorm.weight": (hidden,),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (words, hidden),
    }
    if architecture == "Qwen2ForCausalLM":
        shapes |= {f"{layer}.self_attn.{each}_proj.bias": (hidden,) for each in "qkv"}
    return {name: (shape, "BF16") for name, shape in shapes.items()}


def _alphabet() -> list[str]:
    """Give a printable character for each byte.

    Source: GPT-2's ``bytes_to_unicode``, which the ByteLevel pre-tokenizer of tokenizers keeps to.
    """
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + number) for number in range(len(rest))]


def _tokenizer(tokens: list[str]) -> Mapping[str, object]:
    """Give tokenizer.json: bytes, without merges. Source: tokenizers 0.20 to 0.23, its serialised form."""
    bytes_ = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": tokens.index(token), "content": token, **special, "special": True}
            for token in _SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": bytes_,
        "post_processor": None,
        "decoder": bytes_,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {
                token: number for number, token in enumerate(tokens) if token not in _SPECIAL
            },
            "merges": [],
        },
    }

# The story's checkpoints: a published config.json with small numbers in it, and every tensor under the name that
# the published files have. Written from the tables of Qwen's releases, not by transformers, which writes other
# names than some of the releases hold. Data and pure functions.
"""Tiny Qwen3.5 checkpoints with published configuration fields and tensor names."""

from collections.abc import Mapping
from typing import Any, Literal

from tiny_models import MARKS, QWEN_PROCESSORS, VOCABULARY

Experts = Literal["dense", "fused", "per-expert"]
Shape = list[int]

HIDDEN = 128
INNER = 256
EXPERT_INNER = 64
EXPERTS = 4
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 128
KEY_HEADS, VALUE_HEADS, LINEAR_HEAD_DIM, KERNEL = 2, 4, 128, 4
LAYERS = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
VISION: Mapping[str, Any] = {
    "deepstack_visual_indexes": [],
    "depth": 2,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_size": 128,
    "in_channels": 3,
    "initializer_range": 0.02,
    "intermediate_size": 256,
    "num_heads": 2,
    "num_position_embeddings": 64,
    "out_hidden_size": HIDDEN,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def configuration(experts: Experts) -> dict[str, Any]:
    """Give the ``config.json``.

    Source: Qwen/Qwen3.5-27B (dense) and Qwen/Qwen3.5-122B-A10B, config.json: all their fields, smaller numbers.
    """
    moe = "" if experts == "dense" else "_moe"
    text: dict[str, Any] = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "eos_token_id": 256,
        "full_attention_interval": 4,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "layer_types": LAYERS,
        "linear_conv_kernel_dim": KERNEL,
        "linear_key_head_dim": LINEAR_HEAD_DIM,
        "linear_num_key_heads": KEY_HEADS,
        "linear_num_value_heads": VALUE_HEADS,
        "linear_value_head_dim": LINEAR_HEAD_DIM,
        "max_position_embeddings": 2048,
        "mlp_only_layers": [],
        "model_type": f"qwen3_5{moe}_text",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": HEADS,
        "num_hidden_layers": len(LAYERS),
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-06,
        "use_cache": True,
        "vocab_size": VOCABULARY,
        "mamba_ssm_dtype": "float32",
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [6, 5, 5],
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
        },
    }
    if experts == "dense":
        text["intermediate_size"] = INNER
    else:
        text |= {
            "moe_intermediate_size": EXPERT_INNER,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "router_aux_loss_coef": 0.001,
            "shared_expert_intermediate_size": EXPERT_INNER,
        }
    return {
        "architectures": [f"Qwen3_5{'' if experts == 'dense' else 'Moe'}ForConditionalGeneration"],
        "model_type": f"qwen3_5{moe}",
        "text_config": text,
        "tie_word_embeddings": False,
        "transformers_version": "4.57.0.dev0",
        **MARKS,
        # The older spelling: files written by transformers 5 say qwen3_5_moe_vision.
        "vision_config": {**VISION, "model_type": f"qwen3_5{moe}"},
    }


def tensors(experts: Experts) -> dict[str, Shape]:
    """Give every tensor's name and shape.

    Source: the header tables of Qwen/Qwen3.5-122B-A10B and its FP8 release (per-expert names), the fused names of
    the BF16 release, and the module layout of transformers' qwen3_5.
    """
    found: dict[str, Shape] = {
        "model.language_model.embed_tokens.weight": [VOCABULARY, HIDDEN],
        "model.language_model.norm.weight": [HIDDEN],
        "lm_head.weight": [VOCABULARY, HIDDEN],
    }
    for index, kind in enumerate(LAYERS):
        layer = f"model.language_model.layers.{index}"
        found |= _linear(layer) if kind == "linear_attention" else _full(layer)
        found |= _rest_of_layer(layer, experts)
    found |= _full("mtp.layers.0") | _rest_of_layer("mtp.layers.0", experts)
    found["mtp.fc.weight"] = [HIDDEN, 2 * HIDDEN]
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        found[f"mtp.{name}.weight"] = [HIDDEN]
    return found | _vision()


def _linear(layer: str) -> dict[str, Shape]:
    mixer = f"{layer}.linear_attn"
    key, value = KEY_HEADS * LINEAR_HEAD_DIM, VALUE_HEADS * LINEAR_HEAD_DIM
    return {
        f"{mixer}.in_proj_qkv.weight": [2 * key + value, HIDDEN],
        f"{mixer}.in_proj_z.weight": [value, HIDDEN],
        f"{mixer}.in_proj_a.weight": [VALUE_HEADS, HIDDEN],
        f"{mixer}.in_proj_b.weight": [VALUE_HEADS, HIDDEN],
        f"{mixer}.conv1d.weight": [2 * key + value, 1, KERNEL],
        f"{mixer}.A_log": [VALUE_HEADS],
        f"{mixer}.dt_bias": [VALUE_HEADS],
        f"{mixer}.norm.weight": [LINEAR_HEAD_DIM],
        f"{mixer}.out_proj.weight": [HIDDEN, value],
    }


def _full(layer: str) -> dict[str, Shape]:
    mixer = f"{layer}.self_attn"
    return {
        # Twice the rows: the output gate is packed with the query (attn_output_gate).
        f"{mixer}.q_proj.weight": [2 * HEADS * HEAD_DIM, HIDDEN],
        f"{mixer}.k_proj.weight": [KV_HEADS * HEAD_DIM, HIDDEN],
        f"{mixer}.v_proj.weight": [KV_HEADS * HEAD_DIM, HIDDEN],
        f"{mixer}.o_proj.weight": [HIDDEN, HEADS * HEAD_DIM],
        f"{mixer}.q_norm.weight": [HEAD_DIM],
        f"{mixer}.k_norm.weight": [HEAD_DIM],
    }


def _gated(mlp: str, inner: int) -> dict[str, Shape]:
    return {
        f"{mlp}.gate_proj.weight": [inner, HIDDEN],
        f"{mlp}.up_proj.weight": [inner, HIDDEN],
        f"{mlp}.down_proj.weight": [HIDDEN, inner],
    }


def _rest_of_layer(layer: str, experts: Experts) -> dict[str, Shape]:
    mlp = f"{layer}.mlp"
    found: dict[str, Shape] = {
        f"{layer}.input_layernorm.weight": [HIDDEN],
        f"{layer}.post_attention_layernorm.weight": [HIDDEN],
    }
    if experts == "dense":
        return found | _gated(mlp, INNER)
    found |= {
        f"{mlp}.gate.weight": [EXPERTS, HIDDEN],
        f"{mlp}.shared_expert_gate.weight": [1, HIDDEN],
    }
    found |= _gated(f"{mlp}.shared_expert", EXPERT_INNER)
    if experts == "fused":
        return found | {
            f"{mlp}.experts.gate_up_proj": [EXPERTS, 2 * EXPERT_INNER, HIDDEN],
            f"{mlp}.experts.down_proj": [EXPERTS, HIDDEN, EXPERT_INNER],
        }
    for expert in range(EXPERTS):
        found |= _gated(f"{mlp}.experts.{expert}", EXPERT_INNER)
    return found


def _vision() -> dict[str, Shape]:
    hidden, inner = VISION["hidden_size"], VISION["intermediate_size"]
    patch, merged = VISION["patch_size"], 4 * VISION["hidden_size"]
    visual = "model.visual"
    found: dict[str, Shape] = {
        f"{visual}.patch_embed.proj.weight": [hidden, 3, 2, patch, patch],
        f"{visual}.patch_embed.proj.bias": [hidden],
        f"{visual}.pos_embed.weight": [VISION["num_position_embeddings"], hidden],
        f"{visual}.merger.norm.weight": [hidden],
        f"{visual}.merger.norm.bias": [hidden],
    }
    found |= _linear_with_bias(f"{visual}.merger.linear_fc1", merged, merged)
    found |= _linear_with_bias(f"{visual}.merger.linear_fc2", VISION["out_hidden_size"], merged)
    for block in (f"{visual}.blocks.{i}" for i in range(VISION["depth"])):
        for norm in ("norm1", "norm2"):
            found |= {f"{block}.{norm}.weight": [hidden], f"{block}.{norm}.bias": [hidden]}
        found |= _linear_with_bias(f"{block}.attn.qkv", 3 * hidden, hidden)
        found |= _linear_with_bias(f"{block}.attn.proj", hidden, hidden)
        found |= _linear_with_bias(f"{block}.mlp.linear_fc1", inner, hidden)
        found |= _linear_with_bias(f"{block}.mlp.linear_fc2", hidden, inner)
    return found


def _linear_with_bias(name: str, rows: int, columns: int) -> dict[str, Shape]:
    return {f"{name}.weight": [rows, columns], f"{name}.bias": [rows]}


def recipe(experts: Experts) -> dict[str, Any]:
    """Give what inside_checkpoints.py needs to write it."""
    config = configuration(experts)
    return {
        "architecture": config["architectures"][0],
        "config_class": None,
        "model_class": None,
        "config": config,
        "tensors": tensors(experts),
        "files": dict(QWEN_PROCESSORS),
        "marks": ["<think>", "</think>"],
        "seed": 1,
        "gain": 1.0,
        "head_gain": 4.0,
        "embed_gain": 1.0,
        "renames": [],
    }

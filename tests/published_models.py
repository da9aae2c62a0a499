# Published models as tests need them: the fields of config.json that decide what a model needs of memory, and the tensors of one of
# them. Source of each: the model's page on Hugging Face, or the public copy that is named.
"""Published configurations and checkpoints, as far as memory is concerned."""

import json
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from vllm_graft.values.memory_plan import Tensor

WIDTHS = {"BF16": 2, "F32": 4, "F8_E4M3": 1}

QWEN35_122B: Mapping[str, Any] = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "text_config": {
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_size": 3072,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": 1024,
        "mtp_num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_experts": 256,
        "num_hidden_layers": 48,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000},
        "tie_word_embeddings": False,
    },
}
"""Qwen/Qwen3.5-122B-A10B. Source: ai-dynamo/aiconfigurator @ 095f58a51c4c, model_configs/Qwen--Qwen3.5-122B-A10B_config.json."""

QWEN35_122B_FP8_BYTES = 127_152_313_312
"""``metadata.total_size`` of Qwen/Qwen3.5-122B-A10B-FP8, revision a099dee7."""
QWEN35_122B_FP8_TENSORS = 76_656
QWEN35_122B_VISION = (333, 902_581_728)
"""Its vision tensors: how many, and their bytes."""


def tensor(name: str, shape: tuple[int, ...], dtype: str = "BF16") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape, size=prod(shape) * WIDTHS[dtype])


def matrix(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    """Give a matrix in FP8 with its block scales."""
    yield tensor(f"{name}.weight", (rows, columns), "F8_E4M3")
    yield tensor(f"{name}.weight_scale_inv", (-(-rows // 128), -(-columns // 128)))


def _mixer(layer: str, *, is_full: bool) -> Iterator[Tensor]:
    if is_full:
        at = f"{layer}.self_attn"
        yield from matrix(f"{at}.q_proj", 16384, 3072)
        yield from matrix(f"{at}.k_proj", 512, 3072)
        yield from matrix(f"{at}.v_proj", 512, 3072)
        yield from matrix(f"{at}.o_proj", 3072, 8192)
        yield tensor(f"{at}.q_norm.weight", (256,))
        yield tensor(f"{at}.k_norm.weight", (256,))
        return
    at = f"{layer}.linear_attn"
    yield from matrix(f"{at}.in_proj_qkv", 12288, 3072)
    yield from matrix(f"{at}.in_proj_z", 8192, 3072)
    yield tensor(f"{at}.in_proj_a.weight", (64, 3072))
    yield tensor(f"{at}.in_proj_b.weight", (64, 3072))
    yield tensor(f"{at}.conv1d.weight", (12288, 1, 4))
    yield tensor(f"{at}.A_log", (64,), "F32")
    yield tensor(f"{at}.dt_bias", (64,))
    yield tensor(f"{at}.norm.weight", (128,), "F32")
    yield from matrix(f"{at}.out_proj", 3072, 8192)


def _layer(layer: str, *, is_full: bool) -> Iterator[Tensor]:
    yield tensor(f"{layer}.input_layernorm.weight", (3072,))
    yield tensor(f"{layer}.post_attention_layernorm.weight", (3072,))
    yield from _mixer(layer, is_full=is_full)
    yield tensor(f"{layer}.mlp.gate.weight", (256, 3072))
    yield tensor(f"{layer}.mlp.shared_expert_gate.weight", (1, 3072))
    for expert in ("shared_expert", *(f"experts.{number}" for number in range(256))):
        yield from matrix(f"{layer}.mlp.{expert}.gate_proj", 1024, 3072)
        yield from matrix(f"{layer}.mlp.{expert}.up_proj", 1024, 3072)
        yield from matrix(f"{layer}.mlp.{expert}.down_proj", 3072, 1024)


def qwen35_122b_fp8() -> Iterator[Tensor]:
    """Give the tensors of Qwen/Qwen3.5-122B-A10B-FP8, but for those of vision, which are one of their size.

    Source: names, shapes and types as published (revision a099dee7); their sum is the published total to the byte.
    """
    for number in range(48):
        yield from _layer(f"model.language_model.layers.{number}", is_full=number % 4 == 3)
    yield from _layer("mtp.layers.0", is_full=True)
    yield tensor("mtp.fc.weight", (3072, 6144))
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield tensor(f"mtp.{name}.weight", (3072,))
    yield tensor("model.language_model.embed_tokens.weight", (248320, 3072))
    yield tensor("lm_head.weight", (248320, 3072))
    yield tensor("model.language_model.norm.weight", (3072,))
    yield tensor("model.visual.all.weight", (QWEN35_122B_VISION[1] // 2,))


def config(kind: str, **fields: Any) -> Mapping[str, Any]:
    return {"model_type": kind, **fields}


GPT_OSS_120B = config(
    "gpt_oss",
    num_hidden_layers=36,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=64,
    hidden_size=2880,
    intermediate_size=2880,
    num_local_experts=128,
    sliding_window=128,
    max_position_embeddings=131072,
    layer_types=["sliding_attention", "full_attention"] * 18,
    rope_scaling={"rope_type": "yarn", "factor": 32.0},
    quantization_config={"quant_method": "mxfp4"},
)
DEEPSEEK_V3 = config(
    "deepseek_v3",
    num_hidden_layers=61,
    num_attention_heads=128,
    num_key_value_heads=128,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    hidden_size=7168,
    n_routed_experts=256,
    max_position_embeddings=163840,
    num_nextn_predict_layers=1,
    rope_scaling={"type": "yarn", "factor": 40},
)
GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": config(
        "gemma3_text",
        num_hidden_layers=62,
        num_attention_heads=32,
        num_key_value_heads=16,
        head_dim=128,
        hidden_size=5376,
        sliding_window=1024,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    ),
}
NEMOTRON_H_56B = config(
    "nemotron_h",
    hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    num_hidden_layers=118,
    num_attention_heads=64,
    num_key_value_heads=8,
    attention_head_dim=128,
    hidden_size=8192,
    mamba_num_heads=256,
    mamba_head_dim=64,
    n_groups=8,
    ssm_state_size=256,
    conv_kernel=4,
    max_position_embeddings=8192,
)
LLAMA_70B = config(
    "llama",
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
    hidden_size=8192,
    max_position_embeddings=131072,
    rope_scaling={"rope_type": "llama3", "factor": 8.0},
)
QWEN3_NEXT_80B = config(
    "qwen3_next",
    num_hidden_layers=48,
    num_attention_heads=16,
    num_key_value_heads=2,
    head_dim=256,
    hidden_size=2048,
    full_attention_interval=4,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_value_head_dim=128,
    num_experts=512,
    max_position_embeddings=262144,
)


def write_checkpoint(
    folder: Path, description: Mapping[str, Any], tensors: Iterable[Tensor]
) -> None:
    """Write a checkpoint that takes no room: headers as they would be, and holes in place of numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(description))
    header, end = dict[str, Any](), 0
    for each in tensors:
        offsets = [end, end + each.size]
        header[each.name] = {"dtype": each.dtype, "shape": each.shape, "data_offsets": offsets}
        end = offsets[1]
    said = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(said).to_bytes(8, "little") + said)
        file.truncate(8 + len(said) + end)

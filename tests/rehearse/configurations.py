# Fields and values of published configurations, as few as a rule needs. Written by hand from model pages.
"""Configurations to shrink."""

from collections.abc import Mapping
from typing import Any

QWEN35: Mapping[str, Any] = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "image_token_id": 248056,
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
        "max_position_embeddings": 262144,
        "mlp_only_layers": [],
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": 1024,
        "mtp_num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 2,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000,
            "rope_type": "default",
        },
        "shared_expert_intermediate_size": 1024,
        "vocab_size": 248320,
    },
    "vision_config": {
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 3072,
        "patch_size": 16,
    },
}
"""Source: Qwen/Qwen3.5-122B-A10B, config.json; ``deepstack_visual_indexes`` as Qwen3-VL has them."""

DEEPSEEK: Mapping[str, Any] = {
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "rope_scaling": {"factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"},
    "topk_group": 4,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "max_position_embeddings": 163840,
}
"""Source: deepseek-ai/DeepSeek-V3, config.json."""

NEMOTRON: Mapping[str, Any] = {
    "expand": 2,
    "hidden_size": 4096,
    "hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEM",
    "mamba_head_dim": 64,
    "mamba_num_heads": 128,
    "n_group": 1,
    "n_groups": 8,
    "num_attention_heads": 32,
    "num_hidden_layers": 21,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 131072,
}
"""Source: nvidia's Nemotron 3 Super, config.json, the pattern shortened."""

GPT_OSS: Mapping[str, Any] = {
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "num_attention_heads": 64,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "sliding_window": 128,
    "vocab_size": 201088,
    "eos_token_id": 200002,
}
"""Source: openai/gpt-oss-120b, config.json."""

KIMI: Mapping[str, Any] = {
    "hidden_size": 2304,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "kda_layers": [n for n in range(1, 28) if n % 4 and n != 27],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    "first_k_dense_replace": 1,
    "num_attention_heads": 32,
    "num_hidden_layers": 27,
    "num_key_value_heads": 32,
    "vocab_size": 163840,
}
"""Source: moonshotai/Kimi-Linear-48B-A3B, config.json: layers are counted from one."""

STEP: Mapping[str, Any] = {
    "attention_other_setting": {"num_attention_groups": 8, "num_attention_heads": 96},
    "head_dim": 128,
    "hidden_size": 4096,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
    "moe_layers_enum": ",".join(map(str, range(3, 45))),
    "num_attention_groups": 8,
    "num_attention_heads": 64,
    "num_hidden_layers": 45,
    "num_nextn_predict_layers": 3,
    "vocab_size": 128896,
}
"""Source: stepfun-ai/Step-3.5-Flash: 45 layers and 3 of the multi-token heads in one list of 48."""

GEMMA3N: Mapping[str, Any] = {
    "hidden_size": 2048,
    "head_dim": 256,
    "intermediate_size": [16384] * 35,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    "num_attention_heads": 8,
    "num_hidden_layers": 35,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": 15,
    "vocab_size": 262400,
}
"""Source: transformers 5.17, Gemma3nTextConfig's defaults."""

WHISPER: Mapping[str, Any] = {
    "d_model": 1280,
    "decoder_attention_heads": 20,
    "decoder_ffn_dim": 5120,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "encoder_layers": 32,
    "num_hidden_layers": 32,
    "suppress_tokens": [1, 2, 50257],
    "vocab_size": 51866,
}
"""Source: openai/whisper-large-v3, config.json."""

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "Qwen3.5": QWEN35,
    "DeepSeek-V3": DEEPSEEK,
    "Nemotron 3": NEMOTRON,
    "gpt-oss": GPT_OSS,
    "Kimi Linear": KIMI,
    "Step 3.5": STEP,
    "Gemma 3n": GEMMA3N,
    "Whisper": WHISPER,
}

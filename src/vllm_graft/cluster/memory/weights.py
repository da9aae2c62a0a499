# A tensor goes to ranks by what it is in the model, and that is known from its name: the names are those under which vLLM's own
# loaders look for it. What is not known is counted twice: whole on each rank, and shared out, so that neither a "fits" nor
# a "does not fit" stands on it.
"""Weights that each rank holds."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.values.memory_plan import Tensor, Topology, WeightShare

Sharing = Literal["vocabulary", "split", "keys", "fused", "experts", "whole", "unknown"]
"""``vocabulary``: by its rows; ``split``: by rows or columns; ``keys``: by heads of keys and values, of which each rank has one at
least; ``fused``: queries, keys and values in one; ``experts``: split, or whole ones; ``whole``: on each rank."""

_PARTS = frozenset(
    (
        *("weight", "bias", "weight_scale", "weight_scale_inv", "weight_scale_2"),
        *("weight_packed", "weight_global_scale", "weight_zero_point", "weight_shape"),
        *("input_scale", "input_global_scale", "output_scale", "qweight", "qzeros"),
        *("scales", "g_idx", "k_scale", "v_scale"),
    )
)
"""Last part of a tensor's name that says which of a layer's parameters it is."""

_VOCABULARY = frozenset(
    ("embed_tokens", "lm_head", "word_embeddings", "wte", "embed_in", "embed_out", "embeddings")
)
_HEAD = ("lm_head", "embed_out")
_KEYS = frozenset(("k_proj", "v_proj", "key", "value", "wk", "wv"))
_FUSED = frozenset(("qkv_proj", "query_key_value", "Wqkv", "c_attn"))
_SPLIT = frozenset(
    (
        *("q_proj", "o_proj", "g_proj", "wq", "wo", "out_proj", "dense", "sinks"),
        *("gate_proj", "up_proj", "down_proj", "gate_up_proj", "w1", "w2", "w3"),
        *("dense_h_to_4h", "dense_4h_to_h", "fc1", "fc2", "c_fc", "c_proj"),
        *("q_b_proj", "kv_b_proj", "input_linear", "output_linear"),
        *("in_proj", "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b"),
        *("in_proj_qkvz", "in_proj_ba", "conv1d", "x_proj", "dt_proj"),
        *("A_log", "D", "dt_bias", "fc"),
    )
)
"""Source: vLLM 0.30.0, model_executor/models: names whose layers are ColumnParallelLinear, MergedColumnParallelLinear,
QKVParallelLinear or RowParallelLinear, and parameters with a sharded loader (qwen3_next.py, mamba_mixer.py, mamba_mixer2.py)."""

_WHOLE = frozenset(
    (
        *("gate", "router", "shared_expert_gate", "e_score_correction_bias", "router_bias"),
        *("q_a_proj", "kv_a_proj_with_mqa", "eh_proj", "inv_freq"),
        *("enorm", "hnorm", "norm"),
    )
)
"""Source: vLLM 0.30.0, model_executor/models (ReplicatedLinear, GateLinear, norms): qwen3_moe.py, deepseek_v2.py, mixtral.py."""

_EXPERT = re.compile(
    r"\.experts\.|\.moe\.(?:gate|up|down)_proj\.|block_sparse_moe\.(?:in|out)put_linear\."
)
_NUMBERED_EXPERT = re.compile(r"\.experts\.\d+\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_OTHER_MODALITY = re.compile(
    r"(?:^|\.)(?:visual|vision_tower|vision_model|vision_encoder|multi_modal_projector|audio_tower|mm_projector|patch_merger)\."
)
_DRAFT = re.compile(r"(?:^|\.)mtp\.")

_ROWS = frozenset(("down_proj", "o_proj", "out_proj", "w2", "wo", "dense_4h_to_h"))
"""Layers that are split by their columns, so that what belongs to a row is whole on each rank."""

_HALF, _WIDE = 2, {"F32": 4, "F64": 8}
_PADDED_VOCABULARY = 64
"""Source: vLLM 0.30.0, model_executor/layers/vocab_parallel_embedding.py (``DEFAULT_VOCAB_PADDING_SIZE``)."""
_MXFP4 = (256, 256)
"""Multiples of hidden and inner size to which experts in MXFP4 are padded at most. Source: vLLM 0.30.0,
model_executor/layers/fused_moe/oracle/mxfp4.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWeights:
    """How the weights of a model fall to ranks."""

    stages: tuple[WeightShare, ...]
    """Of one rank of each pipeline stage."""
    unknown: tuple[str, ...]
    """Names of tensors of which it is not known how they are shared out."""


def share_weights(  # noqa: PLR0913 (what is said of weights)
    tensors: Iterable[Tensor],
    configuration: Configuration,
    topology: Topology,
    *,
    is_drafting: bool = False,
    is_wide: bool = False,
    is_text_only: bool = False,
) -> SharedWeights:
    """Say what each rank holds.

    ``is_drafting``: whether the model's own layers for multi-token prediction are loaded; ``is_wide``: whether it is served in float32;
    ``is_text_only``: whether what reads images and sound may be left out.
    """
    stages = stages_of(configuration.layers, topology.pipeline)
    most, least = [0.0] * len(stages), [0.0] * len(stages)
    unknown: list[str] = []
    for tensor in tensors:
        places = _places(tensor.name, configuration, stages, is_drafting=is_drafting)
        if not places:
            continue
        sharing = sharing_of(tensor)
        held = _held(tensor, is_wide=is_wide)
        part = _part(tensor, sharing, configuration, topology) * held
        for place in places:
            most[place] += part if sharing != "unknown" else held
            most[place] += _beside(tensor, topology) + _padding(
                sharing, configuration, topology, part
            )
            if not (is_text_only and _OTHER_MODALITY.search(tensor.name)):
                least[place] += part if sharing != "unknown" else held / topology.tensor
        if sharing == "unknown":
            unknown.append(tensor.name)
    return SharedWeights(
        stages=tuple(
            WeightShare(most=ceil(one), least=int(other))
            for one, other in zip(most, least, strict=True)
        ),
        unknown=tuple(unknown),
    )


def gathered(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Give tensors with the experts of a layer in one, whose size is that of all: a hundred thousand become some thousands."""
    found: dict[tuple[str, str, tuple[int, ...]], Tensor] = {}
    for each in tensors:
        name = _NUMBERED_EXPERT.sub(".experts.0.", each.name)
        key = (name, each.dtype, each.shape)
        before = found.get(key)
        found[key] = replace(each, name=name, size=each.size + (before.size if before else 0))
    return tuple(found.values())


def stages_of(layers: int, pipeline: int) -> tuple[range, ...]:
    """Give the layers of each pipeline stage.

    Source: vLLM 0.30.0, distributed/utils.py (``get_pp_indices``).
    """
    each, rest = divmod(layers, pipeline)
    counts = [each] * pipeline
    for number in range(2, rest + 2):
        counts[-number] += 1
    starts = [sum(counts[:number]) for number in range(pipeline)]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


def sharing_of(tensor: Tensor) -> Sharing:
    """Say how a tensor is shared out, by its name."""
    names = [part for part in tensor.name.split(".") if part not in _PARTS]
    own = names[-1] if names else ""
    if _OTHER_MODALITY.search(tensor.name):
        return "unknown"
    if _EXPERT.search(tensor.name):
        return "experts"
    if own in _WHOLE or "norm" in own or "indexer" in names:
        return "whole"
    if own in _VOCABULARY:
        return "vocabulary"
    if own in _KEYS:
        return "keys"
    if own in _FUSED:
        return "fused"
    return "split" if own in _SPLIT else "unknown"


def _places(
    name: str, configuration: Configuration, stages: Sequence[range], *, is_drafting: bool
) -> tuple[int, ...]:
    """Give the stages that hold a tensor; none: it is not loaded."""
    last = len(stages) - 1
    if _OTHER_MODALITY.search(name):
        return (0,)
    layer = _LAYER.search(name)
    if _DRAFT.search(name) or (layer and int(layer[1]) >= configuration.layers > 0):
        return (last,) if is_drafting else ()
    if layer:
        return tuple(number for number, each in enumerate(stages) if int(layer[1]) in each)
    own = {part for part in name.split(".") if part in _VOCABULARY}
    if own & set(_HEAD):
        return () if configuration.is_tied else (last,)
    if own:
        is_needed_last = configuration.is_tied or is_drafting
        return tuple(dict.fromkeys((0, last) if is_needed_last else (0,)))
    return (last,) if "norm" in name else tuple(range(len(stages)))


def _held(tensor: Tensor, *, is_wide: bool) -> float:
    """Give the bytes of a tensor once it is loaded: matrices take the type that the model is served in.

    Source: vLLM 0.30.0, config/model.py (``_get_and_verify_dtype``: float32 becomes a type of two bytes) and
    model_executor/layers/linear.py (``params_dtype``). Scales of quantised layers keep theirs.
    """
    matrix = len(tensor.shape) > 1 and "scale" not in tensor.name.rpartition(".")[2]
    if is_wide:
        return tensor.size * (2 if matrix and tensor.dtype in ("BF16", "F16") else 1)
    wide = _WIDE.get(tensor.dtype)
    return tensor.size * _HALF / wide if wide and matrix else tensor.size


def _part(
    tensor: Tensor, sharing: Sharing, configuration: Configuration, topology: Topology
) -> float:
    """Give which part of a tensor the fullest rank has.

    Source: vLLM 0.30.0, model_executor/layers/linear.py (``QKVParallelLinear``: with fewer heads of keys than ranks each has one),
    vocab_parallel_embedding.py, and fused_moe/expert_map_manager.py (experts that cannot be shared out evenly).
    """
    ranks = topology.tensor
    match sharing:
        case "vocabulary":
            rows = tensor.shape[0] if tensor.shape else 1
            padded = -(-rows // _PADDED_VOCABULARY) * _PADDED_VOCABULARY
            return padded / max(rows, 1) / ranks
        case "keys":
            return 1 / min(ranks, configuration.kv_heads or 1)
        case "fused":
            heads, keys = configuration.heads, configuration.kv_heads
            if not heads:
                return 1
            return (heads / ranks + 2 * max(1, keys / ranks)) / (heads + 2 * keys)
        case "experts" if topology.is_expert_parallel:
            experts = configuration.experts
            return ceil(experts / ranks) / experts if experts else 1
        case "split" | "experts":
            return 1 if _is_of_rows(tensor) else 1 / ranks
        case "whole" | "unknown":
            return 1


def _is_of_rows(tensor: Tensor) -> bool:
    """Tell whether a small tensor belongs to rows that each rank has whole: a scale or bias of a layer that is split by columns."""
    if all(size == 1 for size in tensor.shape):
        return True
    names = tensor.name.split(".")
    is_flat = len(tensor.shape) == 1 or tensor.shape[-1] == 1
    return is_flat and names[-1] in _PARTS and names[-1] != "weight" and bool(_ROWS & set(names))


def _beside(tensor: Tensor, topology: Topology) -> float:
    """Give what is kept beside a tensor: MLA keeps its up-projections once more, unpacked, where they are quantised.

    Source: vLLM 0.30.0, model_executor/layers/attention/mla_attention.py (``process_weights_after_loading``: W_UV, W_UK_T).
    """
    if not tensor.name.endswith("kv_b_proj.weight") or not tensor.dtype.startswith(("F8", "I8")):
        return 0
    return tensor.size * _HALF / topology.tensor


def _padding(
    sharing: Sharing, configuration: Configuration, topology: Topology, part: float
) -> float:
    if sharing != "experts" or configuration.quantization.get("quant_method") != "mxfp4":
        return 0
    hidden = configuration.number("hidden_size") or 0
    inner = configuration.number("moe_intermediate_size", "intermediate_size") or 0
    if not hidden or not inner:
        return 0
    own = inner if topology.is_expert_parallel else ceil(inner / topology.tensor)
    grown = [-(-size // to) * to / size for size, to in zip((hidden, own), _MXFP4, strict=True)]
    return part * (grown[0] * grown[1] - 1)

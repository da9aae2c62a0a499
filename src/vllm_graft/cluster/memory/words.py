"""What the words for ``vllm serve`` say of memory."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from vllm_graft.cluster.launch import said
from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.cluster.memory.layers import CacheWishes
from vllm_graft.cluster.memory.pages import BLOCK, LATENT_BLOCK, PageWishes
from vllm_graft.values.memory_plan import CacheLayer
from vllm_graft.values.probe import NotKnown

USUAL_SHARE = 0.9
"""``--gpu-memory-utilization`` where nobody says it. Source: vLLM 0.14.1 to 0.17.1, config/cache.py; 0.92 from 0.20.2 on: that gives
more, and asks for more to be free."""

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_UNITS = {
    "": 1,
    "k": 10**3,
    "K": 2**10,
    "m": 10**6,
    "M": 2**20,
    "g": 10**9,
    "G": 2**30,
    "t": 10**12,
    "T": 2**40,
}
_ONE = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_TWO = ("bfloat16", "float16", "half")
_OWN_DRAFT = ("mtp", "deepseek_mtp", "qwen3_next_mtp", "qwen3_5_mtp", "glm4_moe_mtp")
_NO_DRAFT = ("ngram", "suffix")
_BATCH = {True: 8192, False: 2048}
"""Tokens of a batch, on GPUs of 70 GiB and more and on smaller ones. Source: vLLM 0.30.0, engine/arg_utils.py
(``get_batch_defaults``, OpenAI server)."""
_LARGE = 70 << 30
_TEXT_ONLY = ("--language-model-only", "--limit-mm-per-prompt")
"""Source: vLLM 0.30.0, config/multimodal.py: with none of a kind allowed, what reads that kind is not loaded."""
_UNPLANNED = (
    *("--data-parallel-size", "-dp", "--decode-context-parallel-size", "-dcp"),
    *("--tensor-parallel-size", "-tp", "--quantization", "-q", "--cpu-offload-gb"),
    *("--hf-overrides", "--load-format", "--config", "--disable-hybrid-kv-cache-manager"),
)
"""Words that change what is needed in a way that is not planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeWords:
    """What is said, as far as memory is concerned."""

    share: float
    is_share_said: bool
    length: int | None
    """``--max-model-len``; None: the model's own; 0: as long as fits (``auto``)."""
    cache_size: int | None
    """``--kv-cache-memory-bytes``."""
    speculative_tokens: int
    draft: Literal["none", "own", "other"]
    is_expert_parallel: bool
    is_text_only: bool
    """Whether parts for images and sound may be left out."""
    unplanned: str
    """A word with which nothing is planned; empty: none."""


def read_words(args: Sequence[str]) -> ServeWords:
    """Read them; what is not understood is vLLM's to refuse."""
    words = tuple(args)
    share = _share(said(words, "--gpu-memory-utilization"))
    told = said(words, "--max-model-len")
    method, count = _speculative(said(words, "--speculative-config", "-sc"))
    unplanned = next((name for name in _UNPLANNED if said(words, name) is not None), "")
    return ServeWords(
        share=share or USUAL_SHARE,
        is_share_said=share is not None,
        length=None if told is None else read_number(told),
        cache_size=read_number(said(words, "--kv-cache-memory-bytes") or "") or None,
        speculative_tokens=count,
        draft=method,
        is_expert_parallel=said(words, "--enable-expert-parallel", "-ep") is not None,
        is_text_only=any(said(words, name) is not None for name in _TEXT_ONLY),
        unplanned=unplanned,
    )


def read_number(text: str) -> int:
    """Read ``65536``, ``64k`` (64,000) and ``64K`` (65,536); ``auto``, ``-1`` and everything else are 0.

    Source: vLLM 0.30.0, utils/argparse_utils.py (``human_readable_int``).
    """
    found = _NUMBER.fullmatch(text.strip())
    return int(float(found[1]) * _UNITS[found[2]]) if found else 0


def _share(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if 0 < found <= 1 else None


def _speculative(text: str | None) -> tuple[Literal["none", "own", "other"], int]:
    if text is None:
        return "none", 0
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return "other", 0
    if not isinstance(value, Mapping):
        return "other", 0
    told = cast("Mapping[str, object]", value)
    count, method = told.get("num_speculative_tokens"), told.get("method")
    tokens = count if isinstance(count, int) else 1
    if method in _NO_DRAFT:
        return "none", tokens
    is_own = "model" not in told or method in _OWN_DRAFT
    return ("own" if is_own else "other"), tokens


def cache_wishes(
    configuration: Configuration, args: Sequence[str], tensor_parallel: int, words: ServeWords
) -> CacheWishes | NotKnown:
    """Say what is known of the cache's types.

    Source: vLLM 0.30.0, utils/torch_utils.py (``resolve_kv_cache_dtype_string``: a file of modelopt's says the type of the cache).
    """
    told = said(tuple(args), "--kv-cache-dtype") or "auto"
    model = 4 if is_wide(args) else 2
    if told == "auto":
        told = _own_type(configuration) or "auto"
    if told not in ("auto", *_ONE, *_TWO):
        return NotKnown(not_known=f"a cache of the type {told} is not known here")
    return CacheWishes(
        tensor_parallel=tensor_parallel,
        model_bytes=model,
        cache_bytes=1 if told in _ONE else 2 if told in _TWO else model,
        state_type=said(tuple(args), "--mamba-ssm-cache-dtype") or "auto",
        speculative_tokens=words.speculative_tokens,
        is_drafting=words.draft == "own",
    )


def is_wide(args: Sequence[str]) -> bool:
    """Tell whether the model is to be served in numbers of four bytes."""
    return said(tuple(args), "--dtype") in ("float32", "float")


def _own_type(configuration: Configuration) -> str:
    told = configuration.quantization
    if not str(told.get("quant_method", "")).startswith("modelopt"):
        return ""
    inner = told.get("quantization")
    parts = [cast("Mapping[str, object]", inner)] if isinstance(inner, Mapping) else []
    found = [
        value
        for name in ("kv_cache_scheme", "kv_cache_quant_algo")
        for part in (*parts, told)
        if (value := part.get(name))
    ]
    if not found:
        return ""
    scheme = found[0]
    if isinstance(scheme, Mapping):
        each = cast("Mapping[str, object]", scheme)
        bits, kind = each.get("num_bits"), each.get("type")
        if each.get("dynamic") is False and (bits, kind) == (8, "float"):
            return "fp8"
        return "nvfp4" if (bits, kind) == (4, "float") else ""
    return str(scheme).lower()


def page_wishes(
    layers: Sequence[CacheLayer],
    args: Sequence[str],
    words: ServeWords,
    *,
    pipeline: int,
    gpu_memory: int,
) -> PageWishes:
    """Say what is known of pages."""
    given = tuple(args)
    is_latent = any(each.kind == "mla" for each in layers)
    batch = read_number(said(given, "--max-num-batched-tokens") or "")
    return PageWishes(
        block_size=read_number(said(given, "--block-size") or "")
        or (LATENT_BLOCK if is_latent else BLOCK),
        in_flight=(batch or _BATCH[gpu_memory >= _LARGE]) * (pipeline + 1),
        state_mode="none" if said(given, "--no-enable-prefix-caching") is not None else "align",
        speculative_tokens=words.speculative_tokens,
    )

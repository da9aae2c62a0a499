# vLLM gives every layer's memory out of one pool of blocks. Layers of one kind form groups of equally many layers, a block serves
# one group at a time, and what one group keeps in a block has the size of what every other keeps. How many tokens fit
# follows from that, and not from bytes a token alone.
"""How vLLM lays out a KV cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from vllm_graft.values.memory_plan import CacheLayer, CachePages
from vllm_graft.values.probe import NotKnown

BLOCK = 16
"""Source: vLLM 0.30.0, config/cache.py (``DEFAULT_BLOCK_SIZE``), which FlashAttention, FlashInfer and Triton take."""
LATENT_BLOCK = 64
"""Source: vLLM 0.30.0, v1/attention/backends/mla: FlashMLA and FlashInfer take 64, others 16 to 128."""
_LATENT_STEP = 128
"""Source: vLLM 0.30.0, platforms/interface.py (``_align_hybrid_block_size``)."""
_FEW = 1.5
"""Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``_get_kv_cache_groups_uniform_page_size``)."""

StateMode = Literal["none", "align"]
"""Which states are kept: that of each request, or one more, so that a prefix can be found again (by default)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWishes:
    """What is said of pages, and how much is on its way at a time."""

    block_size: int
    step: int = BLOCK
    """Tokens that the kernel of attention takes at least in a block, and in multiples of it."""
    in_flight: int = 2 * 8192
    """Tokens that are scheduled and not yet settled: ``--max-num-batched-tokens`` times the batches under way."""
    state_mode: StateMode = "align"
    speculative_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Page:
    """The layers that are alike, and the pages that they keep."""

    layer: CacheLayer
    block: int
    size: int


def lay_out(
    layers: Sequence[CacheLayer], stages: Sequence[range], length: int, wishes: PageWishes
) -> tuple[CachePages, ...] | NotKnown:
    """Give the pages of each pipeline stage; ``length``: of the longest request.

    Layers behind those of the last stage (a draft's) are in the last stage.
    """
    alike: dict[CacheLayer, list[int]] = {}
    for each in layers:
        alike.setdefault(replace(each, layer=0), []).append(each.layer)
    pages = _pages(tuple(alike), wishes)
    if isinstance(pages, NotKnown):
        return pages
    groups = _groups(pages, alike)
    needed = sum(_blocks(page, length, wishes) for page, _ in groups)
    block = next((page.block for page in pages.values() if page.layer.kind != "state"), 0)
    return tuple(
        CachePages(
            block_size=block,
            page_size=max(page.size for page in pages.values()),
            block_bytes=max(1, *(_in_stage(members, stage, stages[-1]) for _, members in groups)),
            blocks_per_request=needed,
            length=length,
        )
        for stage in stages
    )


def page_of(layer: CacheLayer, layers: Sequence[CacheLayer], wishes: PageWishes) -> int | None:
    """Give the bytes of one page of a layer among others; None: it is not known."""
    alike = tuple(dict.fromkeys(replace(each, layer=0) for each in layers))
    pages = _pages(alike, wishes)
    return None if isinstance(pages, NotKnown) else pages[replace(layer, layer=0)].size


def longest(
    layers: Sequence[CacheLayer],
    stages: Sequence[range],
    caches: Sequence[int],
    at_most: int,
    wishes: PageWishes,
) -> int:
    """Give the longest request that fits into the cache of each stage; 0: none does.

    Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``_estimate_max_model_len_from_groups``).
    """
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        pages = lay_out(layers, stages, middle, wishes)
        if not isinstance(pages, NotKnown) and all(
            page.least <= cache for page, cache in zip(pages, caches, strict=True)
        ):
            low = middle
        else:
            high = middle - 1
    return low


def _pages(
    kinds: Sequence[CacheLayer], wishes: PageWishes
) -> Mapping[CacheLayer, _Page] | NotKnown:
    """Give the pages of each kind, made equally large where there is more than one group.

    Source: vLLM 0.30.0, platforms/interface.py (``_align_hybrid_block_size``), v1/core/kv_cache_utils.py
    (``unify_kv_cache_spec_page_size``).
    """
    attending = [each for each in kinds if each.kind != "state"]
    if not attending:
        return NotKnown(not_known="it has no layer of attention, and its cache is none of blocks")
    states = max((each.state_bytes for each in kinds), default=0)
    block = wishes.block_size
    if states:
        full = next((each for each in attending if each.kind in ("full", "mla")), attending[0])
        step = max(wishes.step, block)
        if full.kind == "mla":
            step = max(step, _LATENT_STEP)
        block = max(block, step * ceil(states / (step * full.token_bytes)))
    found = {each: _Page(each, block, block * each.token_bytes) for each in attending}
    if states or len(_windows(attending)) > 1:
        largest = max(page.size for page in found.values())
        for each, page in found.items():
            ratio, rest = divmod(largest, page.size)
            if rest and each.kind in ("mla", "indexer"):
                return NotKnown(
                    not_known="its layers keep pages of sizes that cannot be made equal"
                )
            found[each] = _Page(each, block if rest else block * ratio, largest)
        found |= {each: _Page(each, block, largest) for each in kinds if each.kind == "state"}
    return found


def _windows(kinds: Sequence[CacheLayer]) -> frozenset[int]:
    """Tell which windows there are: layers of one window go to one group, whatever each keeps of a token."""
    return frozenset(each.window for each in kinds)


def _groups(
    pages: Mapping[CacheLayer, _Page], alike: Mapping[CacheLayer, Sequence[int]]
) -> list[tuple[_Page, list[tuple[int, int]]]]:
    """Give the groups: how each is counted, and the (layer, page size) of its members.

    Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``get_kv_cache_groups``, ``_get_kv_cache_groups_uniform_page_size``).
    """
    if len(_windows(tuple(pages))) == 1 and all(each.kind != "state" for each in pages):
        members = [(layer, page.size) for each, page in pages.items() for layer in alike[each]]
        return [(next(iter(pages.values())), members)]
    counts = [len(alike[each]) for each in pages]
    size = max(counts) if max(counts) < min(counts) * _FEW else min(counts)
    found: list[tuple[_Page, list[tuple[int, int]]]] = []
    for each, page in pages.items():
        numbers = alike[each]
        many = ceil(len(numbers) / size)
        found += [
            (page, [(layer, page.size) for layer in numbers[first::many]]) for first in range(many)
        ]
    return found


def _in_stage(members: Sequence[tuple[int, int]], stage: range, last: range) -> int:
    behind = stage == last
    return sum(
        size for layer, size in members if layer in stage or (behind and layer >= stage.stop)
    )


def _blocks(page: _Page, length: int, wishes: PageWishes) -> int:
    """Give how many blocks a request of this length takes of a group.

    Source: vLLM 0.30.0, v1/kv_cache_interface.py (``max_memory_usage_bytes`` of each kind).
    """
    match page.layer.kind:
        case "state":
            more = {"none": 1, "align": 2}[wishes.state_mode]
            return more + wishes.speculative_tokens
        case "sliding":
            held = min(page.layer.window - 1 + wishes.in_flight, length)
            return ceil(held / page.block) + 1
        case _:
            return ceil(length / page.block)

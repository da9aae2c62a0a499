# One way to share a model out: what a rank of each pipeline stage needs, whatever the node that it is on.
"""What the ranks need of memory, for one way to share a model out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.cluster.memory.layers import COMPARED, cache_layers
from vllm_graft.cluster.memory.pages import PageWishes, lay_out
from vllm_graft.cluster.memory.weights import SharedWeights, share_weights, stages_of
from vllm_graft.cluster.memory.words import (
    ServeWords,
    cache_wishes,
    is_wide,
    page_wishes,
    read_words,
)
from vllm_graft.values.amount import memory
from vllm_graft.values.memory_plan import (
    CacheLayer,
    CachePages,
    MemoryVerdict,
    NodeBudget,
    NodeShare,
    Tensor,
    Topology,
)
from vllm_graft.values.probe import NotKnown

RESERVE = {True: 6 << 30, False: 3 << 30}
"""Bytes a GPU, with unified memory and without, for activations, CUDA graphs, NCCL and what else of a process vLLM counts: an
assumption. Source of the first: https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/118 (5.6 GiB of the host's beside
the model, graphs not counted); the second has none: vLLM itself measures it when it starts."""

_NEWER_SHARE = 0.92
"""Source: vLLM 0.20.2 to 0.31.0, config/cache.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A model, as its files describe it, and how it is to be served."""

    configuration: Configuration
    tensors: tuple[Tensor, ...]
    """Best :func:`gathered`: what is asked of them is asked for every way to share them out."""
    args: tuple[str, ...] = ()
    """Words for ``vllm serve`` of the user's."""

    @property
    def size(self) -> int:
        """Give the bytes of all tensors in their files."""
        return sum(each.size for each in self.tensors)

    @property
    def words(self) -> ServeWords:
        """Give what the words say of memory."""
        return read_words(self.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCache:
    """What is known of the KV cache."""

    layers: tuple[CacheLayer, ...]
    stages: tuple[range, ...]
    pages: tuple[CachePages, ...]
    """Of each stage."""
    wishes: PageWishes
    is_compared: bool
    """Whether vLLM has been seen to have the same layers for models of this type."""

    @property
    def kinds(self) -> Iterator[str]:
        """Say which layers there are."""
        counted: dict[CacheLayer, int] = {}
        for each in self.layers:
            alike = replace(each, layer=0)
            counted[alike] = counted.get(alike, 0) + 1
        for each, count in counted.items():
            is_state = each.kind == "state"
            size = each.state_bytes if is_state else each.token_bytes
            window = f", the last {each.window:,}" if each.window else ""
            yield f"{count} {each.kind} ({size:,} bytes a {'request' if is_state else 'token'}{window})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to share a model out, and what it asks of ranks."""

    topology: Topology
    words: ServeWords
    weights: SharedWeights
    cache: PlannedCache | NotKnown

    @property
    def is_sure(self) -> bool:
        """Whether nothing is said that changes what is needed in a way that is not planned."""
        return not self.words.unplanned and self.words.draft != "other"

    def stages_on(self, node: int, nodes: int) -> tuple[int, ...]:
        """Give the pipeline stages that have ranks on a node.

        Source: vLLM 0.12 to 0.31, distributed/parallel_state.py: the ranks of one stage stand beside one another; every node takes
        equally many (v1/executor/multiproc_executor.py).
        """
        each = max(1, self.topology.ranks // max(1, nodes))
        ranks = range(node * each, (node + 1) * each)
        last = self.topology.pipeline - 1
        return tuple(dict.fromkeys(min(rank // self.topology.tensor, last) for rank in ranks))

    def share(self, budget: NodeBudget, stage: int) -> NodeShare:
        """Give what a rank of a stage gets on a GPU like this, and whether that is enough."""
        asked = ceil(budget.total * self.words.share)
        limit = budget.available if self.words.cache_size else asked
        reserve = RESERVE[budget.is_unified]
        left = limit - self.weights.stages[stage].most - reserve
        made = NodeShare(
            budget=budget,
            asked=asked,
            weights=self.weights.stages[stage],
            reserve=reserve,
            cache=min(left, self.words.cache_size or left),
            needed=self.needed(stage),
            verdict="fits",
        )
        verdict, cause = self.judge(made, limit)
        return replace(made, verdict=verdict, cause=cause)

    def needed(self, stage: int) -> int:
        """Give what the cache needs at least; where vLLM chooses the length itself, room for a few tokens."""
        if isinstance(self.cache, NotKnown):
            return 0
        page = self.cache.pages[stage]
        return 2 * page.block_bytes if self.words.length == 0 else page.least

    def judge(self, made: NodeShare, limit: int) -> tuple[MemoryVerdict, str]:
        """Judge: what vLLM would refuse by its own count does not fit, what hangs on an assumption is tight.

        Source: vLLM 0.14.1 to 0.31.0, v1/worker/utils.py (``request_memory``), v1/core/kv_cache_utils.py
        (``_check_enough_kv_cache_memory``).
        """
        budget, held, words = made.budget, made.weights, self.words
        if budget.available < made.asked:
            return "does not fit", (
                f"vLLM asks for {memory(made.asked)} before it loads anything (share {words.share:g} of {memory(budget.total)}),"
                f" and {memory(budget.available)} can be had"
            )
        if self.is_sure and limit <= held.least:
            return "does not fit", (
                f"each GPU would hold {memory(held.least)} of the weights, and vLLM may take {memory(limit)}"
            )
        known = None if isinstance(self.cache, NotKnown) else self.cache
        if self.is_sure and known and known.is_compared and limit < held.least + made.needed:
            return "does not fit", (
                f"beside {memory(held.least)} of weights, {memory(limit - held.least)} are left, and one request of {known.pages[0].length:,}"
                f" tokens needs {memory(made.needed)} of cache"
            )
        if made.cache < max(made.needed, 1):
            need = f", and one request needs {memory(made.needed)} of it" if made.needed else ""
            return "tight", (
                f"beside {memory(held.most)} of weights and a reserve of {memory(made.reserve)}, {memory(max(0, made.cache))} are left"
                f" for the cache{need}"
            )
        if not words.is_share_said and budget.available < ceil(budget.total * _NEWER_SHARE):
            return "tight", (
                f"{memory(budget.available)} can be had: enough for a share of {words.share:g}, too little for {_NEWER_SHARE:g},"
                " which vLLM takes from 0.20.2 on; say --gpu-memory-utilization"
            )
        if isinstance(self.cache, NotKnown):
            return (
                "not known",
                f"the weights fit; of the cache it is not known: {self.cache.not_known}",
            )
        return "fits", ""


def way(model: PlannedModel, topology: Topology, budgets: Sequence[NodeBudget]) -> Way:
    """Plan one way; ``budgets``: of the GPUs that it is for."""
    words = model.words
    topology = replace(topology, is_expert_parallel=words.is_expert_parallel)
    return Way(
        topology=topology,
        words=words,
        weights=share_weights(
            model.tensors,
            model.configuration,
            topology,
            is_drafting=words.draft == "own",
            is_wide=is_wide(model.args),
            is_text_only=words.is_text_only,
        ),
        cache=_cache(model, topology, words, budgets),
    )


def _cache(
    model: PlannedModel, topology: Topology, words: ServeWords, budgets: Sequence[NodeBudget]
) -> PlannedCache | NotKnown:
    configuration = model.configuration
    told = cache_wishes(configuration, model.args, topology.tensor, words)
    if isinstance(told, NotKnown):
        return told
    layers = cache_layers(configuration, told)
    if isinstance(layers, NotKnown):
        return layers
    length = words.length or configuration.length
    if not length:
        return NotKnown(not_known="config.json does not say how long a request may be")
    least = min((each.total for each in budgets), default=0)
    wishes = page_wishes(layers, model.args, words, pipeline=topology.pipeline, gpu_memory=least)
    stages = stages_of(configuration.layers, topology.pipeline)
    pages = lay_out(layers, stages, length, wishes)
    if isinstance(pages, NotKnown):
        return pages
    return PlannedCache(
        layers=layers,
        stages=stages,
        pages=pages,
        wishes=wishes,
        is_compared=configuration.model_type in COMPARED,
    )

# A plan is arithmetic over three things that others found out: what the tensors are, what each layer keeps, and what each GPU
# can give.
"""Whether a model fits on nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, floor

from vllm_graft.cluster.memory.pages import longest
from vllm_graft.cluster.memory.way import PlannedCache, PlannedModel, Way, way
from vllm_graft.values.amount import a_few, memory
from vllm_graft.values.memory_plan import (
    CacheSummary,
    MemoryPlan,
    MemoryVerdict,
    NodeBudget,
    NodeShare,
    Topology,
)
from vllm_graft.values.probe import NotKnown

_MOST_RANKS = 16
_WORST_FIRST: tuple[MemoryVerdict, ...] = ("does not fit", "tight", "not known", "fits")


def plan_memory(
    model: PlannedModel, topology: Topology, budgets: Sequence[NodeBudget]
) -> MemoryPlan:
    """Plan a model on nodes, by rank; those without a GPU are skipped."""
    ranks = max(1, topology.ranks // max(1, len(budgets)))
    planned = [_used(each, ranks) for each in budgets if each.gpus]
    chosen = way(model, topology, planned)
    stages = [
        chosen.stages_on(number, len(budgets))
        for number, budget in enumerate(budgets)
        if budget.gpus
    ]
    nodes = tuple(
        _fullest(chosen, budget, each) for budget, each in zip(planned, stages, strict=True)
    )
    verdict = _worst(nodes)
    cache = chosen.cache
    return MemoryPlan(
        verdict=verdict,
        topology=chosen.topology,
        utilization=f"{chosen.words.share:g}",
        is_utilization_said=chosen.words.is_share_said,
        size=model.size,
        nodes=nodes,
        cache=cache
        if isinstance(cache, NotKnown)
        else _summary(cache, _rooms(cache, nodes, stages)),
        skipped=tuple(each.node for each in budgets if not each.gpus),
        smallest=_smallest(model, planned) if verdict == "does not fit" else "",
        flags=_flags(chosen, nodes, stages),
        notes=tuple(_notes(model, chosen, nodes)),
    )


def _used(budget: NodeBudget, ranks: int) -> NodeBudget:
    """Leave out the GPUs that no rank takes."""
    free = budget.free[:ranks]
    return replace(budget, available=min(free)) if free else budget


def _worst(nodes: Sequence[NodeShare]) -> MemoryVerdict:
    ordered = sorted(nodes, key=lambda each: _WORST_FIRST.index(each.verdict))
    return ordered[0].verdict if ordered else "not known"


def _fullest(chosen: Way, budget: NodeBudget, stages: Sequence[int]) -> NodeShare:
    shares = [chosen.share(budget, stage) for stage in stages]
    return min(
        shares, key=lambda each: (_WORST_FIRST.index(each.verdict), each.cache - each.needed)
    )


def _rooms(
    cache: PlannedCache, nodes: Sequence[NodeShare], stages: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Give the room for the cache of each stage: that of the node that has least."""
    found: dict[int, int] = {}
    for node, theirs in zip(nodes, stages, strict=True):
        for stage in theirs:
            found[stage] = min(found.get(stage, node.cache), node.cache)
    return tuple(max(0, found.get(stage, 0)) for stage in range(len(cache.pages)))


def _summary(cache: PlannedCache, rooms: Sequence[int]) -> CacheSummary:
    first = cache.pages[0]
    return CacheSummary(
        block_size=first.block_size,
        page_size=first.page_size,
        length=first.length,
        tokens=_tokens(cache, rooms),
        kinds=tuple(cache.kinds),
    )


def _tokens(cache: PlannedCache, rooms: Sequence[int]) -> int:
    """Give how many tokens fit: every stage gets as many blocks as the one that has room for fewest.

    Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``get_kv_cache_configs``).
    """
    return min(page.tokens(room) for page, room in zip(cache.pages, rooms, strict=True))


def _flags(
    chosen: Way, nodes: Sequence[NodeShare], stages: Sequence[Sequence[int]]
) -> tuple[str, ...]:
    """Give words with which it would fit, where words can mend it."""
    short = [each.budget for each in nodes if each.budget.available < each.asked]
    share, found = chosen.words.share, tuple[str, ...]()
    if short:
        share = min(floor(each.available / each.total * 100) / 100 for each in short)
        found = ("--gpu-memory-utilization", f"{share:g}")
    lowered = [
        replace(each, cache=each.cache - each.asked + ceil(each.budget.total * share))
        for each in nodes
    ]
    if any(each.cache <= 0 for each in lowered) or chosen.words.cache_size:
        return ()
    cache = chosen.cache
    if isinstance(cache, NotKnown) or all(each.cache >= each.needed for each in lowered):
        return found
    rooms = _rooms(cache, lowered, stages)
    length = longest(cache.layers, cache.stages, rooms, cache.pages[0].length, cache.wishes)
    return (*found, "--max-model-len", str(length)) if length else ()


def _smallest(model: PlannedModel, budgets: Sequence[NodeBudget]) -> str:
    """Give the smallest way to share the model out that fits on GPUs like the one that can give least.

    Whatever else has memory there now is taken for stopped.
    """
    weakest = min(budgets, key=lambda each: each.total)
    free = replace(weakest, available=weakest.total)
    ranks = 1
    while ranks <= _MOST_RANKS:
        for topology in _ways(ranks, model):
            tried = way(model, topology, [free])
            if all(
                tried.share(free, stage).verdict == "fits" for stage in range(topology.pipeline)
            ):
                many = "one GPU" if ranks == 1 else f"{ranks} GPUs"
                return f"{tried.topology} over {many} with {memory(free.total)} each"
        ranks *= 2
    return ""


def _ways(ranks: int, model: PlannedModel) -> Iterator[Topology]:
    heads, keys = model.configuration.heads, model.configuration.kv_heads
    if heads and heads % ranks == 0 and (keys % ranks == 0 or ranks % keys == 0):
        yield Topology(tensor=ranks)
    if 1 < ranks <= model.configuration.layers:
        yield Topology(pipeline=ranks)


def _notes(model: PlannedModel, chosen: Way, nodes: Sequence[NodeShare]) -> Iterator[str]:
    words, cache = chosen.words, chosen.cache
    if nodes:
        reserve = max(each.reserve for each in nodes)
        yield f"{memory(reserve)} for activations, CUDA graphs and libraries are an assumption; vLLM measures them when it starts"
        if not words.is_share_said:
            yield f"share {words.share:g} is what vLLM takes up to 0.17.1 where nobody says --gpu-memory-utilization; 0.92 from 0.20.2 on"
    if words.unplanned:
        yield f"{words.unplanned} changes what is needed in a way that is not planned"
    if words.draft == "other":
        yield "the draft model of --speculative-config has weights and a cache of its own, which are not planned"
    if isinstance(cache, NotKnown):
        yield f"the KV cache is not planned: {cache.not_known}"
    elif not cache.is_compared:
        kind = model.configuration.model_type or "that it does not name"
        yield f"models of the type {kind} are planned by general rules, which were not compared with vLLM"
    if unknown := chosen.weights.unknown:
        yield f"how {len(unknown):,} tensors are shared out is not known, so that each rank is taken to hold them whole: {a_few(unknown, 3)}"

"""A memory plan as words."""

from collections.abc import Iterator

from vllm_graft.values.amount import memory, size
from vllm_graft.values.memory_plan import MemoryPlan, NodeShare
from vllm_graft.values.probe import NotKnown


def told_memory(plan: MemoryPlan | NotKnown) -> str:
    """Say in one line whether a model fits."""
    if isinstance(plan, NotKnown):
        return f"not planned: {plan.not_known}"
    cache = plan.cache
    if isinstance(cache, NotKnown):
        room = f"what its cache needs is not known: {cache.not_known}"
    elif plan.verdict in ("fits", "tight"):
        room = f"room for about {cache.tokens:,} tokens of KV cache, requests of up to {cache.length:,}"
    else:
        room = ""
    head = f"{size(plan.size)} of weights, {plan.topology}: {plan.verdict}"
    return f"{head}; {room}" if room else head


def share_of(plan: MemoryPlan | NotKnown | None, node: str) -> str:
    """Say what a node's fullest GPU gets; empty where nothing is planned for it."""
    if plan is None or isinstance(plan, NotKnown):
        return ""
    if node in plan.skipped:
        return "no GPU: not planned"
    found = next((each for each in plan.nodes if each.budget.node == node), None)
    return _share(found) if found else ""


def _share(share: NodeShare) -> str:
    left = f"{memory(max(0, share.cache))} for the cache"
    parts = f"{memory(share.weights.most)} weights, {memory(share.reserve)} reserve, {left}"
    each = " a GPU" if share.budget.gpus > 1 else ""
    return f"{share.verdict}: {memory(share.asked)}{each}: {parts}"


def memory_details(plan: MemoryPlan | NotKnown | None) -> Iterator[str]:
    """Say what the cache is made of, and what was assumed."""
    if plan is None or isinstance(plan, NotKnown):
        return
    if not isinstance(plan.cache, NotKnown):
        yield f"cache of a rank: {'; '.join(plan.cache.kinds)}; blocks of {plan.cache.block_size:,} tokens"
    yield from plan.notes

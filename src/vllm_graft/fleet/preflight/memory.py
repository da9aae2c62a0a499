# On a GPU without memory of its own, everything is one pool: the model, the page cache, the desktop, other engines. What can be had
# is what the kernel calls available; vLLM looks at the same figure.
"""Whether there is memory for a model."""

import math
from collections.abc import Iterator, Sequence

from vllm_graft.fleet.preflight.gpus import told_process
from vllm_graft.fleet.preflight.wanted import Seen, Wanted
from vllm_graft.values.amount import memory
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.node_facts import GpuFacts, MemoryFacts
from vllm_graft.values.probe import NotKnown

_USUAL = 0.9
"""``--gpu-memory-utilization`` where nobody says it. Source: vLLM 0.14.1 to 0.17.1, config/cache.py; 0.92 from 0.20.2 on, so that
what does not suffice for this does not for that."""
_MUCH_SWAP = 1 << 30
_LARGE_DIFFERENCE = 0.05


def judge_memory(node: Seen, wanted: Wanted) -> Iterator[NodeFinding]:
    """Say that vLLM would not get its share (N207), what the page cache has of it (N208), and that swap is used (N209).

    Source: vLLM 0.14.1 to 0.31.0, v1/worker/utils.py (``request_memory``): it refuses to start where less is free than its share of
    all; utils/mem_utils.py: with unified memory, free is what the kernel calls available, cache included.
    """
    gpus, whole = node.facts.gpus, node.facts.memory
    if isinstance(gpus, NotKnown):
        return
    share = wanted.utilization or _USUAL
    if any(gpu.memory is None for gpu in gpus):
        if isinstance(whole, MemoryFacts):
            yield from _unified(node, whole, share, wanted)
        return
    for gpu in gpus:
        if gpu.memory and gpu.free is not None and gpu.free < share * gpu.memory:
            yield _too_little(node, gpu.free, gpu.memory, share, wanted, f"GPU {gpu.index}")


def _unified(node: Seen, whole: MemoryFacts, share: float, wanted: Wanted) -> Iterator[NodeFinding]:
    needed = share * whole.total
    if whole.available < needed:
        yield _too_little(node, whole.available, whole.total, share, wanted, "unified memory")
    elif whole.free < needed:
        yield node.finding(
            "N208",
            "note",
            ("up",),
            wanted=f"{memory(math.ceil(needed))} free (share {share:g} of unified memory)",
            found=f"{memory(whole.free)} free; {memory(whole.cached)} are cached files, which give way",
            remedy="vLLM counts them as free from 0.14.1 at the latest; should an older one refuse:"
            " sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
        )
    if whole.swap_used > _MUCH_SWAP:
        yield node.finding(
            "N209",
            "note",
            ("up",),
            wanted="no swap in use where GPU and system share their memory",
            found=f"{memory(whole.swap_used)} of {memory(whole.swap)} are in use",
            remedy="memory was short before; a model that needs swap will not be quick",
        )


def _too_little(  # noqa: PLR0913, PLR0917 (figures)
    node: Seen, free: int, total: int, share: float, wanted: Wanted, what: str
) -> NodeFinding:
    safe = math.floor(free / total * 100) / 100
    processes = node.facts.gpu_processes
    users = () if isinstance(processes, NotKnown) else processes
    stop = (
        f"stop what has it ({'; '.join(map(told_process, users))})"
        if users
        else "see what has it (ps aux --sort=-rss)"
    )
    return node.finding(
        "N207",
        "blocked" if wanted.is_serving else "review",
        ("up",),
        wanted=f"{memory(math.ceil(share * total))} of {what}: share {share:g} of {memory(total)}, --gpu-memory-utilization",
        found=f"{memory(free)} can be had",
        remedy=f"{stop}, or serve with --gpu-memory-utilization {safe:g} at most",
    )


def judge_same_memory(nodes: Sequence[Seen]) -> Iterator[NodeFinding]:
    """Say that memory differs (N210), so that the smallest decides."""
    totals = {node.name: _total(node.facts.gpus, node.facts.memory) for node in nodes}
    known = {name: each for name, each in totals.items() if each}
    if not known or max(known.values()) - min(known.values()) <= _LARGE_DIFFERENCE * max(
        known.values()
    ):
        return
    yield NodeFinding(
        code="N210",
        severity="note",
        nodes=tuple(known),
        stops=("up",),
        wanted="as much memory on each node",
        found="; ".join(f"{name}: {memory(each)}" for name, each in known.items()),
        remedy="the smallest decides what fits: each rank takes the same",
    )


def _total(gpus: tuple[GpuFacts, ...] | NotKnown, whole: MemoryFacts | NotKnown) -> int:
    if isinstance(gpus, NotKnown) or not gpus:
        return 0
    own = [gpu.memory for gpu in gpus if gpu.memory is not None]
    if len(own) == len(gpus):
        return min(own)
    return whole.total if isinstance(whole, MemoryFacts) else 0

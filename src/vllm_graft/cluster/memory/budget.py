# Of a GPU with memory of its own the driver says what is free. One that shares the machine's has no figure of its own: CUDA's
# "all" is the machine's, and what can be had is what the kernel calls available, files that were read included.
"""What the GPUs of a node can really give."""

from vllm_graft.fleet.preflight.gpus import told_process
from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.values.memory_plan import NodeBudget
from vllm_graft.values.node_facts import GpuFacts, GpuProcess, MemoryFacts
from vllm_graft.values.probe import NotKnown


def node_budget(
    node: str,
    gpus: tuple[GpuFacts, ...] | NotKnown,
    memory: MemoryFacts | NotKnown,
    processes: tuple[GpuProcess, ...] | NotKnown,
) -> NodeBudget | NotKnown:
    """Say what one GPU of a node can give, the one that can give least.

    Source: vLLM 0.14.1 to 0.31.0, utils/mem_utils.py (``MemorySnapshot.measure``): on a GPU with unified memory, free is what psutil calls
    available.
    """
    if isinstance(gpus, NotKnown):
        return NodeBudget(node=node, gpus=0) if gpus.is_absent else gpus
    if not gpus:
        return NodeBudget(node=node, gpus=0)
    users = () if isinstance(processes, NotKnown) else tuple(map(told_process, processes))
    if any(gpu.memory is None for gpu in gpus):
        if isinstance(memory, NotKnown):
            return memory
        return NodeBudget(
            node=node,
            gpus=len(gpus),
            is_unified=True,
            total=memory.total,
            available=memory.available,
            cached=max(0, memory.available - memory.free),
            users=users,
        )
    told = [(gpu.free, gpu.memory) for gpu in gpus if gpu.memory and gpu.free is not None]
    if len(told) < len(gpus):
        return NotKnown(not_known="the driver does not say how much of its memory is free")
    free = tuple(each for each, _ in told)
    total = min(each for _, each in told)
    return NodeBudget(
        node=node, gpus=len(gpus), total=total, available=min(free), free=free, users=users
    )


def budget_of(node: Seen) -> NodeBudget | NotKnown:
    """Say it of a node that answered."""
    facts = node.facts
    return node_budget(node.name, facts.gpus, facts.memory, facts.gpu_processes)

"""Memory."""

from vllm_graft.values.node_facts import MemoryFacts
from vllm_graft.values.probe import Probe

_KIB = 1024


def _memory(text: str) -> MemoryFacts:
    told = {
        name: int(value.split()[0]) * _KIB
        for name, _, value in (line.partition(":") for line in text.splitlines())
        if value.strip()
    }
    return MemoryFacts(
        total=told["MemTotal"],
        available=told["MemAvailable"],
        free=told["MemFree"],
        cached=told["Cached"] + told["Buffers"],
        swap=told.get("SwapTotal", 0),
        swap_used=told.get("SwapTotal", 0) - told.get("SwapFree", 0),
    )


MEMORY = Probe(asks="its memory", argv=("cat", "/proc/meminfo"), read=_memory)
"""Source: proc_meminfo(5)."""

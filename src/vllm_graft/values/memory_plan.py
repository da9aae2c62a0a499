"""What a model needs of the memory of each node, and what each can give."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.probe import NotKnown

LayerKind = Literal["full", "sliding", "chunked", "mla", "indexer", "state"]
"""How a layer remembers: every token, the last ones, those of one chunk, one latent vector for each token, keys by which tokens
are chosen, or a state whose size does not depend on the tokens (Mamba, linear attention, gated delta net)."""

MemoryVerdict = Literal["fits", "tight", "does not fit", "not known"]
"""``tight``: it fits only without the reserve, which is an assumption, or as far as tensors are shared out that are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How a model is shared out over GPUs."""

    tensor: int = 1
    pipeline: int = 1
    is_expert_parallel: bool = False

    @property
    def ranks(self) -> int:
        """Give how many GPUs it takes."""
        return self.tensor * self.pipeline

    def __str__(self) -> str:
        """Give ``TP=2, PP=2``."""
        stages = f", PP={self.pipeline}" if self.pipeline > 1 else ""
        experts = ", expert parallel" if self.is_expert_parallel else ""
        return f"TP={self.tensor}{stages}{experts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of a checkpoint."""

    name: str
    dtype: str
    """As safetensors calls it, such as ``BF16`` and ``F8_E4M3``."""
    shape: tuple[int, ...]
    size: int
    """Bytes in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightShare:
    """Weights that one rank holds, in bytes."""

    most: int
    """With every tensor whole of which it is not known how it is shared out."""
    least: int
    """With such tensors shared out over all ranks of a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayer:
    """What one layer keeps in the KV cache of one rank."""

    kind: LayerKind
    token_bytes: int = 0
    """For each token that is kept; 0 of a state."""
    state_bytes: int = 0
    """Whatever the number of tokens; 0 of all others."""
    window: int = 0
    """Tokens that a sliding or chunked layer looks back at."""
    layer: int = 0
    """Number of the layer of the model, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePages:
    """The KV cache of a rank, as vLLM lays it out: blocks that every group of layers takes from one pool."""

    block_size: int
    """Tokens in a block of the layers that keep every token."""
    page_size: int
    """Bytes of one block in one layer, the largest where they differ."""
    block_bytes: int
    """Bytes of one block of the pool."""
    blocks_per_request: int
    """That a request of ``length`` tokens takes at most."""
    length: int

    @property
    def least(self) -> int:
        """Give the bytes without which vLLM refuses to start: one request, and the block that is never given out.

        Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``get_kv_cache_configs``, "Reserve the null block").
        """
        return (self.blocks_per_request + 1) * self.block_bytes

    def tokens(self, size: int) -> int:
        """Give how many tokens vLLM says that a cache of so many bytes holds.

        Source: vLLM 0.30.0, v1/core/kv_cache_utils.py (``get_kv_cache_capacity``).
        """
        blocks = max(size, 0) // self.block_bytes
        return int(blocks / self.blocks_per_request * self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBudget:
    """What one GPU of a node can really give."""

    node: str
    gpus: int
    """0: nothing is planned here."""
    is_unified: bool = False
    """Whether GPU and machine share their memory."""
    total: int = 0
    """What CUDA calls all, in bytes."""
    available: int = 0
    """What vLLM sees as free: of a GPU with memory of its own the driver's figure, else the kernel's, page cache included."""
    free: tuple[int, ...] = ()
    """What each GPU with memory of its own has free, by its number: ranks take the first ones."""
    cached: int = 0
    """Page cache that is part of that."""
    users: tuple[str, ...] = ()
    """Who has memory already, as far as the driver says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """One node of the plan: what its fullest GPU gets."""

    budget: NodeBudget
    asked: int
    """Bytes that vLLM takes of each GPU: the share of all (``--gpu-memory-utilization``)."""
    weights: WeightShare
    reserve: int
    """Bytes for activations, CUDA graphs and libraries: an assumption."""
    cache: int
    """Bytes that are left for the KV cache; below 0: there is too little."""
    needed: int
    """Of the KV cache: one request of the longest length; 0 where it is not known."""
    verdict: MemoryVerdict
    cause: str = ""
    """Why it does not fit, or is tight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSummary:
    """The KV cache of all ranks together."""

    block_size: int
    page_size: int
    length: int
    """Of the longest request, in tokens."""
    tokens: int
    """That all requests together can have."""
    kinds: tuple[str, ...]
    """Such as ``12 full (1024 bytes a token)``, of one rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Whether a model fits on nodes."""

    verdict: MemoryVerdict
    topology: Topology
    utilization: str
    """The share of each GPU that vLLM takes, such as ``0.9``."""
    is_utilization_said: bool
    size: int
    """Bytes of the weights in their files."""
    nodes: tuple[NodeShare, ...]
    """By rank; those without a GPU are left out."""
    cache: CacheSummary | NotKnown
    skipped: tuple[str, ...] = ()
    """Nodes without a GPU: nothing is planned there."""
    smallest: str = ""
    """The smallest way to share it out that would fit on nodes like these; empty where none is known."""
    flags: tuple[str, ...] = ()
    """Words for ``vllm serve`` that follow."""
    notes: tuple[str, ...] = ()
    """What was assumed, and what is not known."""

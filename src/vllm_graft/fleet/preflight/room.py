# An engine that loads an image holds its archive and its layers at the same time: twice the image, for a while; `ship` refuses a
# node with less (E532). Where the base is there already, what is sent is small.
"""Whether there is room for images."""

from collections.abc import Iterator, Sequence

from vllm_graft.fleet.preflight.wanted import Seen, Wanted
from vllm_graft.values.amount import size
from vllm_graft.values.doctor import NodeFinding, Verb
from vllm_graft.values.finding import Severity
from vllm_graft.values.node_facts import SpaceFacts

_LITTLE = 1_000_000_000
"""Bytes for an overlay and for containers."""
_USUAL = 40_000_000_000
"""Bytes: images of vLLM are 18 to 35 GB (seen on DGX Sparks in 2026)."""
_FEW_FILES = 100_000
"""An image of vLLM has about as many."""


def judge_room(node: Seen, others: Sequence[Seen], wanted: Wanted) -> Iterator[NodeFinding]:
    """Say where an image would not fit (N105)."""
    space = node.facts.space
    if not isinstance(space, SpaceFacts):
        return
    needed, severity, why = _needed(node, others, wanted, space.free)
    if space.free < needed:
        yield node.finding(
            "N105",
            severity,
            _verbs(node, wanted),
            wanted=f"{size(needed)} free {why}",
            found=f"{size(space.free)} free of {size(space.size)} at {space.place}",
            remedy="see `docker system df`; `docker image prune` takes away what no container and no name uses",
        )
    if space.free_files is not None and space.free_files < _FEW_FILES:
        yield node.finding(
            "N105",
            "review",
            _verbs(node, wanted),
            wanted=f"room for {_FEW_FILES:,} files more",
            found=f"{space.free_files:,} at {space.place} (df -i)",
            remedy="take away what has many small files there; the number is fixed when a file system is made",
        )


def _verbs(node: Seen, wanted: Wanted) -> tuple[Verb, ...]:
    builds = not wanted.builder or node.name == wanted.builder
    stops: tuple[Verb, ...] = ("build",) if builds else ()
    return (*stops, "ship", "up") if node.serves else stops


def _needed(
    node: Seen, others: Sequence[Seen], wanted: Wanted, free: int
) -> tuple[int, Severity, str]:
    shipped = wanted.shipped(others)
    if free < _LITTLE or not node.serves or (wanted.references and shipped is None):
        return _LITTLE, "blocked", "for what is built and for containers"
    if shipped is None:
        return _USUAL, "review", "for an image of vLLM, should one come here (18 to 35 GB)"
    held, needed = node.held(shipped.layers), 2 * shipped.size
    if held == len(shipped.layers):
        return _LITTLE, "blocked", "for what is sent and for containers"
    why = f"to load {shipped.reference} ({size(shipped.size)}): its layers, and the archive that they come in"
    # How large the layers are that it has is not known here; `ship` counts those that it lacks.
    return needed, "review" if held else "blocked", why

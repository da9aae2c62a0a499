# Runs inside an install (see inside.py): the tensor names that a model's own loader takes, where no checkpoint and
# no other library says them. The loader is asked: a name counts if the loader, given it alone, writes into the
# parameter that it was made for.
"""Find tensor names by asking a model's loader."""

import re
import time
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from vllm_graft.rehearse import inside_weights as weights


def names(model: Any, config: Any, seconds: float) -> dict[str, list[Any]]:
    """Give names, shapes and types that together fill what can be filled.

    Raises:
        TimeoutError: not all parameters could be asked for in the time.
    """
    return Asking(model, config, time.monotonic() + seconds).found()


BEGINNINGS = (
    ("model.", ""),
    ("", "model."),
    ("model.", "mtp."),
    ("model.", "mtp.0."),
    ("model.", "transformer."),
    ("model.", "backbone."),
    ("language_model.", ""),
    ("language_model.model.", "model."),
)
"""Beginnings of vLLM's names and of published ones, beside those that a model's mapper has."""


class Asking:
    """One model that is asked."""

    def __init__(self, model: Any, config: Any, end: float) -> None:
        """Look at the model once."""
        self.model, self.config, self.end = model, config, end
        self.parameters = dict(model.named_parameters())
        self.modules = dict(model.named_modules())
        self.listed: dict[str, list[Any]] = {}
        self.storages = {weights.storage(p): name for name, p in self.parameters.items()}
        self.known: dict[str, tuple[int, tuple[str, str]] | None] = {}

    def found(self) -> dict[str, list[Any]]:
        """Ask for every parameter."""
        prefixes = list(self.prefixes())
        for name, parameter in self.parameters.items():
            if time.monotonic() > self.end:
                message = f"the loader was not asked for {name} and what follows"
                raise TimeoutError(message)
            # What was found for a layer holds for the next; what was not found there is not looked for again.
            alike = re.sub(r"(?<=\.)\d+(?=\.)", "#", name)
            partings = list(enumerate(self.partings(name, parameter)))
            if alike in self.known:
                before = self.known[alike]
                if before is None:
                    continue
                at, prefix = before
                if at < len(partings) and self._try(name, parameter, partings[at][1], prefix):
                    continue
            self.known[alike] = self._ask_for(name, parameter, partings, prefixes)
        return self.listed

    def _ask_for(
        self,
        name: str,
        parameter: Any,
        partings: list[tuple[int, list[tuple[str, list[int]]]]],
        prefixes: list[tuple[str, str]],
    ) -> tuple[int, tuple[str, str]] | None:
        for prefix in [one for one in prefixes if name.startswith(one[0])]:
            for at, parts in partings:
                if self._try(name, parameter, parts, prefix):
                    # The beginning that did for one parameter is tried first for the next.
                    prefixes.remove(prefix)
                    prefixes.insert(0, prefix)
                    return at, prefix
        return None

    def _try(
        self,
        name: str,
        parameter: Any,
        parts: list[tuple[str, list[int]]],
        prefix: tuple[str, str],
    ) -> bool:
        old, new = prefix
        renamed = [(new + part.removeprefix(old), shape) for part, shape in parts]
        poison_one(parameter)
        for part, shape in renamed:
            tensor = weights.numbers(part, shape, str(parameter.dtype), parameter.device.type)
            watching = weights.watch()
            try:
                weights.feed(self.model, self.config, [(part, tensor)], watching)
            except Exception:
                return False
            if name not in {self.storages.get(one) for one in watching.written}:
                return False
        if weights.has_nan(parameter):
            return False
        self.listed.update({part: [shape, str(parameter.dtype)] for part, shape in renamed})
        return True

    def prefixes(self) -> Iterator[tuple[str, str]]:
        """Give beginnings of parameter names and what a checkpoint may have for them."""
        yield "", ""
        mapper = getattr(self.model, "hf_to_vllm_mapper", None)
        for old, new in (getattr(mapper, "orig_to_new_prefix", None) or {}).items():
            if new is not None:
                yield new, old
        yield from BEGINNINGS
        layers = getattr(getattr(self.model, "config", None), "num_hidden_layers", None)
        if layers:
            # A multi-token head is in the checkpoint as the layer behind the last.
            yield "model.layers.0.", f"model.layers.{layers}."

    def partings(self, name: str, parameter: Any) -> Iterator[list[tuple[str, list[int]]]]:
        """Give the ways in which a parameter may be several tensors of a checkpoint, the likeliest first."""
        shape = list(parameter.shape)
        owner, _, leaf = name.rpartition(".")
        module = self.modules.get(owner)
        above, _, last = owner.rpartition(".")
        for splits in self.splits(last):
            for sizes in part_sizes(module, len(splits), shape):
                yield [
                    (f"{above}.{part}.{leaf}", [size, *shape[1:]])
                    for part, size in zip(splits, sizes, strict=True)
                ]
        yield from self.experts(parameter, owner, leaf)
        yield [(name, shape)]
        for other in shapes_alike(module, shape):
            yield [(name, other)]

    def splits(self, last: str) -> Iterator[list[str]]:
        """Give the names of the layers that one fused layer is made of."""
        packed = getattr(self.model, "packed_modules_mapping", None) or {}
        if last in packed and len(packed[last]) > 1:
            yield list(packed[last])
        known = {
            "qkv_proj": (
                ["q_proj", "k_proj", "v_proj"],
                ["query", "key", "value"],
                ["wq", "wk", "wv"],
            ),
            "gate_up_proj": (["gate_proj", "up_proj"], ["w1", "w3"], ["w1", "w2"]),
            "qkv": (["q_proj", "k_proj", "v_proj"], ["query", "key", "value"], ["q", "k", "v"]),
            "kv_proj": (["k_proj", "v_proj"],),
            "fused_qkv_a_proj": (["q_a_proj", "kv_a_proj_with_mqa"],),
            "in_proj": (["in_proj_x", "in_proj_z"],),
        }
        yield from (list(one) for one in known.get(last, ()))

    def experts(
        self, parameter: Any, owner: str, leaf: str
    ) -> Iterator[list[tuple[str, list[int]]]]:
        """Give the tensors of single experts that one parameter of a fused layer holds."""
        shape = list(parameter.shape)
        joined = re.match(r"^(w13|w2)_(weight|bias)$", leaf)
        if joined is None:
            return
        which, kind = joined.groups()
        owner = re.sub(r"\.routed_experts$", "", owner)
        for gate, down, up in (("gate_proj", "down_proj", "up_proj"), ("w1", "w2", "w3")):
            parts = []
            for expert in range(shape[0]):
                if which == "w2":
                    parts.append((f"{owner}.{expert}.{down}.{kind}", shape[1:]))
                else:
                    half = [shape[1] // 2, *shape[2:]]
                    parts += [(f"{owner}.{expert}.{one}.{kind}", half) for one in (gate, up)]
            yield parts


def poison_one(parameter: Any) -> None:
    """Fill one parameter with NaN."""
    import torch

    with torch.no_grad():
        if parameter.is_floating_point() and parameter.device.type != "meta":
            parameter.fill_(float("nan"))


def part_sizes(module: Any, parts: int, shape: list[int]) -> Iterator[list[int]]:
    """Give how many rows each part of a fused layer may have, the likeliest first."""
    heads, width = getattr(module, "total_num_heads", None), getattr(module, "head_size", None)
    if parts == len("qkv") and heads and width:
        rest = (shape[0] - heads * width) // 2
        if rest > 0 and heads * width + 2 * rest == shape[0]:
            yield [heads * width, rest, rest]
    sizes = getattr(module, "output_sizes", None) or getattr(module, "output_partition_sizes", None)
    if sizes and sum(sizes) == shape[0] and parts <= len(sizes):
        # One tensor may hold several of the layer's parts, in their order (Qwen3.5: q, k, v | z).
        for cuts in combinations(range(1, len(sizes)), parts - 1):
            edges = [0, *cuts, len(sizes)]
            yield [int(sum(sizes[a:b])) for a, b in pairwise(edges)]
    if shape and shape[0] % parts == 0:
        yield [shape[0] // parts] * parts


def shapes_alike(module: Any, shape: list[int]) -> Iterator[list[int]]:
    """Give other shapes that a loader may want for a parameter: one row less or more of dimensions, transposed."""
    rows = getattr(module, "org_vocab_size", None)
    if rows and shape and rows != shape[0]:
        yield [int(rows), *shape[1:]]
    match shape:
        case [rows, 1, columns]:
            yield [rows, columns]
        case [rows, columns]:
            yield [rows, 1, columns]
            yield [columns, rows]
        case _:
            pass

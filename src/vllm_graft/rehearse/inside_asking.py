# Runs inside an install (see inside.py): the tensor names that a model's own loader takes, where no checkpoint and
# no other library says them. The loader is asked: a name counts if the loader, given it alone, writes into the
# parameter that it was made for.
"""Find tensor names by asking a model's loader."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from vllm_graft.rehearse import inside_weights as weights


def names(model: Any, config: Any, seconds: float) -> dict[str, list[Any]]:
    """Give names, shapes and types that together fill what can be filled; what took too long to ask is left out."""
    return Asking(model, config, time.monotonic() + seconds).found()


@dataclass(frozen=True)
class Renaming:
    """A part of vLLM's name of a parameter, and what a checkpoint has there."""

    here: str
    there: str
    anywhere: bool = False

    def fits(self, name: str) -> bool:
        """Tell whether a name has that part."""
        return self.here in name if self.anywhere else name.startswith(self.here)

    def __call__(self, name: str) -> str:
        """Rename."""
        if self.anywhere:
            return name.replace(self.here, self.there)
        return self.there + name.removeprefix(self.here)


RENAMINGS = (
    Renaming("model.", ""),
    Renaming("", "model."),
    Renaming("model.", "mtp."),
    Renaming("model.", "mtp.0."),
    Renaming("model.", "transformer."),
    Renaming("model.", "backbone."),
    Renaming("language_model.", ""),
    Renaming("language_model.model.", "model."),
    Renaming(".mtp_block.", ".", anywhere=True),
    Renaming(".mlp.fc", ".fc", anywhere=True),
    Renaming("draft_id_to_target_id", "d2t"),
)
"""Beside those that a model's mapper has."""


class Asking:
    """One model that is asked."""

    def __init__(self, model: Any, config: Any, end: float) -> None:
        """Look at the model once."""
        self.model, self.config, self.end = model, config, end
        self.parameters = dict(model.named_parameters())
        self.modules = dict(model.named_modules())
        self.listed: dict[str, list[Any]] = {}
        self.storages = {weights.storage(p): name for name, p in self.parameters.items()}
        self.known: dict[str, tuple[int, Renaming] | None] = {}

    def found(self) -> dict[str, list[Any]]:
        """Ask for every parameter."""
        renamings = list(self.renamings())
        for name, parameter in self.parameters.items():
            if time.monotonic() > self.end:
                break
            # What was found for a layer holds for the next; what was not found there is not looked for again.
            alike = re.sub(r"(?<=\.)\d+(?=\.)", "#", name)
            partings = list(enumerate(self.partings(name, parameter)))
            if alike in self.known:
                before = self.known[alike]
                if before is None:
                    continue
                at, renaming = before
                if at < len(partings) and self._try(name, parameter, partings[at][1], renaming):
                    continue
            self.known[alike] = self._ask_for(name, parameter, partings, renamings)
        return self.listed

    def _ask_for(
        self,
        name: str,
        parameter: Any,
        partings: list[tuple[int, list[tuple[str, list[int]]]]],
        renamings: list[Renaming],
    ) -> tuple[int, Renaming] | None:
        for renaming in [one for one in renamings if one.fits(name)]:
            for at, parts in partings:
                if self._try(name, parameter, parts, renaming):
                    # The beginning that did for one parameter is tried first for the next.
                    renamings.remove(renaming)
                    renamings.insert(0, renaming)
                    return at, renaming
        return None

    def _try(
        self,
        name: str,
        parameter: Any,
        parts: list[tuple[str, list[int]]],
        renaming: Renaming,
    ) -> bool:
        renamed = [(renaming(part), shape) for part, shape in parts]
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

    def renamings(self) -> Iterator[Renaming]:
        """Give what a checkpoint may have in the place of parts of parameter names."""
        yield Renaming("", "")
        mapper = getattr(self.model, "hf_to_vllm_mapper", None)
        for old, new in (getattr(mapper, "orig_to_new_prefix", None) or {}).items():
            if new is not None:
                yield Renaming(new, old)
        for old, new in (getattr(mapper, "orig_to_new_substr", None) or {}).items():
            if new:
                yield Renaming(new, old, anywhere=True)
        yield from RENAMINGS
        layers = getattr(getattr(self.model, "config", None), "num_hidden_layers", None)
        if layers:
            # A multi-token head is in the checkpoint as the layer behind the last.
            yield Renaming("model.layers.0.", f"model.layers.{layers}.")
            yield Renaming("model.", f"model.layers.{layers}.")

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
        yield [(owner, shape)]  # Hunyuan V4: "hc_fn", a layer's weight here
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
            "conv1d": (["q_conv1d", "k_conv1d", "v_conv1d"],),
            "wk_weights_proj": (["wk", "weights_proj"],),
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

# The header of a shard says what is in it: names, types and shapes of a hundred gigabytes in some megabytes.
"""Which tensors a checkpoint holds."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import cast

from vllm_graft.fleet.weights.safetensors import SUFFIX, Shard
from vllm_graft.values.memory_plan import Tensor

INDEX = "model.safetensors.index.json"
_OTHER_FORM = "consolidated"


def loaded_files(names: Sequence[str]) -> tuple[str, ...]:
    """Give the safetensors files of a folder that vLLM loads, where it has no index.

    Source: vLLM 0.30.0, model_executor/model_loader/default_loader.py and weight_utils.py
    (``filter_duplicate_safetensors_files``). Mistral's own form of the same weights lies beside the usual one.
    """
    found = sorted(name for name in names if name.endswith(SUFFIX) and "/" not in name)
    usual = [name for name in found if not name.startswith(_OTHER_FORM)]
    return tuple(usual or found)


def indexed_files(index: bytes) -> frozenset[str]:
    """Give the files that an index names; empty where it is none."""
    try:
        told = cast("dict[str, dict[str, str]]", json.loads(index))["weight_map"]
        return frozenset(str(file) for file in told.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()


def read_tensors(shards: Mapping[str, Shard]) -> tuple[Tensor, ...] | str:
    """Give the tensors of these files, or why they cannot be read.

    Source: safetensors 0.8, README, "Format".
    """
    found: dict[str, Tensor] = {}
    for path, shard in sorted(shards.items()):
        try:
            found |= {each.name: each for each in _tensors(shard.header or b"")}
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return f"{path} has no header that can be read"
    return tuple(found.values()) or "there are no safetensors files"


def _tensors(header: bytes) -> Iterator[Tensor]:
    told = cast("dict[str, dict[str, object]]", json.loads(header))
    for name, each in told.items():
        if name == "__metadata__":
            continue
        start, end = cast("list[int]", each["data_offsets"])
        shape = tuple(cast("list[int]", each["shape"]))
        if end < start or prod(shape) < 0:
            raise ValueError(name)
        yield Tensor(name=name, dtype=str(each["dtype"]), shape=shape, size=end - start)

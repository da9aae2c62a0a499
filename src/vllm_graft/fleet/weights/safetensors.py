# A shard says in its first bytes how long it is; the index says which shards there are. So whether a model is whole is known
# from some megabytes of headers, without the network and without reading a hundred gigabytes.
"""Whether the weights of a model are whole."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from vllm_graft.values.amount import a_few

SUFFIX = ".safetensors"
_INDEX = ".index.json"
_WEIGHTS = (SUFFIX, ".bin", ".pt", ".pth", ".gguf")
_DESCRIPTIONS = ("config.json", "params.json", "adapter_config.json", "model_index.json")
"""Of a model, of Mistral's own format, of a LoRA, of a pipeline."""
_ONE_OF = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What a safetensors file says of itself."""

    header: bytes | None
    """Its JSON; None: the file ends before that does, or has no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What speaks against a model being whole."""

    problems: tuple[str, ...]
    """Each is a reason not to take it."""
    notes: tuple[str, ...]


def is_index(path: str) -> bool:
    """Tell whether a file lists the shards of a model."""
    return path.endswith(_INDEX)


def judge(
    sizes: Mapping[str, int], shards: Mapping[str, Shard], indexes: Mapping[str, bytes]
) -> Judged:
    """Judge the files of a model: path → size; of each safetensors file its header; of each index its content.

    Source: safetensors 0.8, README, "Format": 8 bytes with the length of the header, its JSON, and the data, of which the
    header says where each tensor ends; nothing may stand behind the last. Hugging Face's ``model.safetensors.index.json``:
    ``weight_map`` is tensor → file beside it, ``metadata.total_size`` the bytes of all tensors.
    """
    ends: dict[str, int] = {}
    names: dict[str, frozenset[str]] = {}
    problems: list[str] = []
    notes: list[str] = []
    for path, shard in sorted(shards.items()):
        read = _read(shard)
        if read is None:
            problems.append(f"{path} is cut short or no safetensors file: {sizes[path]:,} bytes")
            continue
        names[path], ends[path] = read
        length = 8 + len(shard.header or b"") + ends[path]
        if sizes[path] < length:
            problems.append(f"{path} is cut short: it has {sizes[path]:,} of {length:,} bytes")
        elif sizes[path] > length:
            problems.append(f"{path} has {sizes[path] - length:,} bytes more than it says")
    for path, content in sorted(indexes.items()):
        told = _weight_map(content)
        if told is None:
            problems.append(f"{path} is no index: it has no weight_map")
            continue
        problems += _lacking(path, told, sizes, names)
        notes += _other_total(path, content, told, ends)
    listed = {_folder(path) for path in indexes}
    problems += _numbered(path for path in sizes if _folder(path) not in listed)
    if not any(path.endswith(_WEIGHTS) for path in sizes):
        problems.append("there are no weights, only other files")
    if shards and not any(each in sizes for each in _DESCRIPTIONS):
        problems.append("config.json is lacking")
    unread = [path for path in sizes if path.endswith(_WEIGHTS[1:])]
    if unread and not shards:
        notes.append(
            f"{a_few(unread)}: such a file does not say how long it is, so only its size is compared"
        )
    return Judged(problems=tuple(problems), notes=tuple(notes))


def tensors_served(
    shards: Mapping[str, Shard], indexes: Mapping[str, bytes]
) -> Mapping[str, tuple[tuple[int, ...], str]]:
    """Give the tensors that an engine would load, name → shape and type.

    They are those of the files in the model's folder itself; where there is an index, of those that it names.

    Source: vllm 0.14.1 to 0.31.0, model_executor/model_loader/weight_utils.py, ``filter_duplicate_safetensors_files``: whole
    files are left out, and of a file that stays every tensor is loaded.
    """
    told = _weight_map(indexes.get(f"model{SUFFIX}{_INDEX}", b""))
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for path, shard in sorted(shards.items()):
        if "/" in path or (told is not None and path not in set(told.values())):
            continue
        if _read(shard) is None:
            continue
        listed = cast("dict[str, dict[str, object]]", json.loads(shard.header or b"{}"))
        for name, each in listed.items():
            if name != "__metadata__":
                shape = tuple(int(one) for one in cast("list[int]", each["shape"]))
                found[name] = (shape, str(each["dtype"]))
    return found


def _read(shard: Shard) -> tuple[frozenset[str], int] | None:
    """Give the names of the tensors, and where the last one ends."""
    try:
        value: object = json.loads(shard.header or b"")
        told = cast("dict[str, dict[str, list[int]]]", value)
        tensors = {name: each for name, each in told.items() if name != "__metadata__"}
        return frozenset(tensors), max(
            (each["data_offsets"][1] for each in tensors.values()), default=0
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None


def _weight_map(content: bytes) -> Mapping[str, str] | None:
    try:
        told = cast("dict[str, dict[str, str]]", json.loads(content))["weight_map"]
        return {name: str(file) for name, file in told.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _lacking(
    index: str,
    told: Mapping[str, str],
    sizes: Mapping[str, int],
    names: Mapping[str, frozenset[str]],
) -> Iterator[str]:
    where = f"{folder}/" if (folder := _folder(index)) else ""
    files = sorted({f"{where}{file}" for file in told.values()})
    absent = [file for file in files if file not in sizes]
    if absent:
        yield f"{len(absent)} of {len(files)} shards are lacking: {a_few(absent)}"
    lost = sorted(
        name
        for name, file in told.items()
        if (held := names.get(f"{where}{file}")) is not None and name not in held
    )
    if lost:
        yield f"{index} names {len(lost)} tensors that are not in their shards: {a_few(lost)}"


def _other_total(
    index: str, content: bytes, told: Mapping[str, str], ends: Mapping[str, int]
) -> Iterator[str]:
    """Tell a sum that is another. The index of a quantised model is often that of the model before it was quantised."""
    where = f"{folder}/" if (folder := _folder(index)) else ""
    files = {f"{where}{file}" for file in told.values()}
    metadata = cast("dict[str, dict[str, object]]", json.loads(content)).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    held = sum(ends.get(file, 0) for file in files)
    if isinstance(total, int) and files <= set(ends) and total != held:
        yield f"{index} tells a total of {total:,} bytes, and its shards hold {held:,}, each whole by what it says itself"


def _numbered(paths: Iterator[str]) -> Iterator[str]:
    """Find what lacks among files that are numbered, where there is no index."""
    sets: dict[tuple[str, str, str], set[int]] = {}
    for path in paths:
        if (found := _ONE_OF.fullmatch(path)) is not None:
            key = (found["stem"], found["count"], found["suffix"])
            sets.setdefault(key, set()).add(int(found["number"]))
    for (stem, count, suffix), numbers in sorted(sets.items()):
        absent = [
            f"{stem}-{each:05}-of-{count}{suffix}"
            for each in range(1, int(count) + 1)
            if each not in numbers
        ]
        if absent:
            yield f"{len(absent)} of {int(count)} shards are lacking: {a_few(absent)}"


def _folder(path: str) -> str:
    return path.rpartition("/")[0]

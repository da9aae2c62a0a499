"""Tiny checkpoints, written by hand: real safetensors files, in a folder or as a Hugging Face cache has them."""

import hashlib
import json
import random
import struct
from collections.abc import Mapping
from pathlib import Path


def safetensors(tensors: Mapping[str, int], *, seed: int = 0) -> bytes:
    """Give a file with these tensors: name → number of bytes, all random.

    Source: safetensors 0.8, README, "Format".
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    data = random.Random(seed).randbytes(end)  # noqa: S311 (the same ones each time)
    return struct.pack("<Q", len(told)) + told + data


def checkpoint(shards: int = 3, *, size: int = 200_000, seed: int = 0) -> dict[str, bytes]:
    """Give the files of a model of so many shards of about ``size`` bytes: path → content."""
    weight_map: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for number in range(1, shards + 1):
        name = f"model-{number:05}-of-{shards:05}.safetensors"
        tensors = {f"layers.{number}.{part}": size // 2 for part in ("up", "down")}
        files[name] = safetensors(tensors, seed=seed + number)
        weight_map |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": shards * (size // 2) * 2}, "weight_map": weight_map}
    return {
        **files,
        "model.safetensors.index.json": json.dumps(index).encode(),
        "config.json": json.dumps({"architectures": ["Tiny"], "seed": seed}).encode(),
        "tokenizer.json": b"{}" + b" " * 3000,
        "original/notes of mine.txt": b"in a folder, and with spaces\n",
    }


def blob_name(path: str, content: bytes) -> str:
    """Give the name of a blob: what git names a small file, the sha256 of a large one (git's LFS)."""
    if path.endswith((".safetensors", "tokenizer.json")):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()  # noqa: S324 (git's)


def commit_of(files: Mapping[str, bytes]) -> str:
    """Give a commit that is as good as a name for these files."""
    told = repr(sorted((path, hashlib.sha256(each).hexdigest()) for path, each in files.items()))
    return hashlib.sha1(told.encode()).hexdigest()  # noqa: S324 (as git)


def cache(hub: Path, model: str, files: Mapping[str, bytes], *, reference: str = "main") -> str:
    """Put a model into a Hugging Face cache, as huggingface_hub lays it out; gives the commit."""
    place, commit = hub / f"models--{model.replace('/', '--')}", commit_of(files)
    for path, content in files.items():
        blob = place / "blobs" / blob_name(path, content)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link = place / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (path.count("/") + 2)
        link.unlink(missing_ok=True)
        link.symlink_to(f"{up}blobs/{blob.name}")
    if reference:
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / reference).write_text(commit)
    return commit


def folder(place: Path, files: Mapping[str, bytes]) -> None:
    """Put a model into a plain folder."""
    for path, content in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

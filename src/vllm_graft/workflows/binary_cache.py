# A `*.so` of 200 MB takes a second to read. What was found in it holds as long as the file is the same one
# with the same size and times, which is what git and make go by as well.
"""Remembering what a binary of a folder declares."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TypedDict, cast

from vllm_graft.install.native import READER, Binary
from vllm_graft.run.cache import Cache
from vllm_graft.values.digest import Digest


class _Kept(TypedDict):
    schemas: dict[str, list[str]]
    modules: list[str]
    digest: str
    gpus: list[str]


def cached_binary(signature: str, read: Callable[[], Binary], *, cache: Cache) -> Binary:
    """Give what the binary with this signature declares, reading it only the first time."""
    key = f"{READER}\0{signature}"
    if (known := _known(key, cache)) is not None:
        return known
    binary = read()
    content = cache.put(json.dumps(asdict(binary), sort_keys=True).encode())
    cache.remember("binaries", key, {"content": str(content)})
    return binary


def _known(key: str, cache: Cache) -> Binary | None:
    pointer = cache.lookup("binaries", key)
    try:
        block = cache.get(Digest.parse((pointer or {}).get("content", "")))
    except ValueError:
        return None
    if block is None:
        return None
    kept = cast("_Kept", json.loads(block))
    return Binary(
        schemas={name: tuple(texts) for name, texts in kept["schemas"].items()},
        modules=tuple(kept["modules"]),
        digest=kept["digest"],
        gpus=tuple(kept["gpus"]),
    )

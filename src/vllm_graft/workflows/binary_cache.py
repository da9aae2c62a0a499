# A `*.so` of 200 MB takes a second to read. What was found in it holds as long as the file is the same one
# with the same size and times, which is what git and make go by as well.
"""Remembering what a binary of a folder declares."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TypedDict, cast

from vllm_graft.install.native import Binary
from vllm_graft.run.cache import Cache
from vllm_graft.values.digest import Digest


class _Kept(TypedDict):
    schemas: dict[str, list[str]]
    modules: list[str]
    digest: str


def cached_binary(signature: str, read: Callable[[], Binary], *, cache: Cache) -> Binary:
    """Give what the binary with this signature declares, reading it only the first time."""
    pointer = cache.lookup("binaries", signature)
    if pointer is not None and "content" in pointer:
        block = cache.get(Digest.parse(pointer["content"]))
        if block is not None:
            kept = cast("_Kept", json.loads(block))
            return Binary(
                schemas={name: tuple(texts) for name, texts in kept["schemas"].items()},
                modules=tuple(kept["modules"]),
                digest=kept["digest"],
            )
    binary = read()
    content = cache.put(json.dumps(asdict(binary), sort_keys=True).encode())
    cache.remember("binaries", signature, {"content": str(content)})
    return binary

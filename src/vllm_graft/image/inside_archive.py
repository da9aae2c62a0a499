# How an archive is written that every engine loads: in both forms at once, since no form alone is taken by all. Engines with
# classic stores and podman go by manifest.json, Docker with containerd's store by index.json.
#
# This file and inside_save.py also run on nodes, by whatever Python 3.9 or later is there: standard library, nothing else.
"""Writing the archive of an image, piece by piece."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"

END = b"\0" * (2 * tarfile.BLOCKSIZE)
"""Of an archive."""

_TRIED = 4 << 20
"""Bytes by which it is decided whether compressing is worth it."""
_WORTH = 0.9
"""Of what was, at most so much may be left."""
_CLEARLY = 2
"""So many times faster than the link this machine must compress: others have work to do too, and the receiver unpacks it."""

Described = Mapping[str, Any]
"""A descriptor: ``mediaType``, ``digest``, ``size``."""


def canonical_json(value: object) -> bytes:
    """Give the one form of a JSON value."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def described(content: bytes, media_type: str) -> dict[str, Any]:
    """Describe content.

    Source: OCI image specification 1.1, descriptor.md.
    """
    digest = hashlib.sha256(content).hexdigest()
    return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(content)}


def blob(digest: str) -> str:
    """Give the path of content in the archive."""
    return "blobs/" + digest.replace(":", "/")


def naming_documents(
    config: bytes, layers: Sequence[Described], names: Mapping[str, str]
) -> dict[str, bytes]:
    """Give all files of the archive but the layers: path → content.

    ``config``: the configuration. ``layers``: the descriptors of all, lowest first, also of those that the archive has not.
    ``names``: ``tag`` as in ``vllm:1``, ``full`` with the host, ``short`` what stands behind the colon.
    Source: OCI image specification 1.1, image-layout.md and manifest.md; Docker 20.10 to 28, ``image/tarexport``.
    """
    told = json.loads(config)
    platform = {key: told[key] for key in ("architecture", "os", "variant") if told.get(key)}
    manifest = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": described(config, _CONFIG),
            "layers": [dict(each) for each in layers],
        }
    )
    notes = {
        "io.containerd.image.name": names["full"],
        "org.opencontainers.image.ref.name": names["short"],
    }
    entry = {**described(manifest, _MANIFEST), "platform": platform, "annotations": notes}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
    config_path = blob(described(config, _CONFIG)["digest"])
    docker = {
        "Config": config_path,
        "RepoTags": [names["tag"]],
        "Layers": [blob(each["digest"]) for each in layers],
    }
    return {
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": canonical_json(index),
        "manifest.json": canonical_json([docker]),
        config_path: config,
        blob(described(manifest, _MANIFEST)["digest"]): manifest,
    }


def head(path: str, size: int) -> bytes:
    """Give what stands before a file; the same path and size give the same bytes."""
    member = tarfile.TarInfo(path)
    member.size = size
    member.mode = 0o644
    return member.tobuf(format=tarfile.PAX_FORMAT)


def tail(size: int) -> bytes:
    """Give what stands behind a file."""
    return b"\0" * (-size % tarfile.BLOCKSIZE)


def file_pieces(path: str, content: bytes) -> Iterator[bytes]:
    """Give one file of an archive."""
    yield head(path, len(content))
    yield content
    yield tail(len(content))


def packed(pieces: Iterable[bytes], rate: int, clock: Callable[[], float]) -> Iterator[bytes]:
    """Give a stream as it is, or compressed with gzip where that gets it through a link in less time.

    That is tried with its beginning: compressed is what becomes clearly smaller, where this machine compresses clearly
    faster than the link takes bytes. ``rate``: bytes a second of the link; 0, not known: nothing is compressed.
    """
    rest = iter(pieces)
    if not rate:
        yield from rest
        return
    first: list[bytes] = []
    while sum(map(len, first)) < _TRIED and (piece := next(rest, b"")):
        first.append(piece)
    begun = b"".join(first)
    if not _is_worth_packing(begun[:_TRIED], rate, clock):
        yield begun
        yield from rest
        return
    packing = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    yield packing.compress(begun)
    for piece in rest:
        yield packing.compress(piece)
    yield packing.flush()


def _is_worth_packing(begun: bytes, rate: int, clock: Callable[[], float]) -> bool:
    began = clock()
    left = len(zlib.compress(begun, 1))
    took = max(clock() - began, 1e-6)
    return left < _WORTH * len(begun) and len(begun) / took > _CLEARLY * rate

# Docker with containerd's store keeps layers as they were pulled, compressed, under digests that say nothing of what is in
# them; and its interface names those digests nowhere. An image that points to anything else than what is there runs, and
# cannot be inspected or saved. So the store is asked for its own manifests.
#
# The hard idea is how, for who may use the engine but is not root: the store is given a small image whose one layer is, by its
# digest, the manifest that is wanted, which it has; and asked to save that image. It is for a machine that nobody has, so
# that nothing of it is unpacked.
"""Questions to containerd's store about content."""

import io
import json
import tarfile
from collections.abc import Mapping
from typing import cast

from vllm_graft.image.archive import names_of, parse_tag
from vllm_graft.image.engine import Engine
from vllm_graft.image.inside_archive import blob, canonical_json, naming_documents
from vllm_graft.image.oci import Descriptor
from vllm_graft.values.command import Command
from vllm_graft.values.digest import Digest

_NOBODYS = "mips64le"
_ANY = "application/octet-stream"


def ask_descriptor(engine: Engine, reference: str) -> Command:
    """Ask what an image's name leads to in the store.

    Source: Docker Engine API 1.48 (28.0), ``GET /images/{name}/json``: Descriptor. Older ones have no such field, and refuse.
    """
    return engine.command(
        *("image", "inspect", "--format", "{{json .Descriptor}}", "--", reference),
        why=f"see where {reference} lies in the store",
    )


def parse_pointer(said: bytes) -> tuple[Digest, int] | None:
    """Read the answer: digest and bytes; None where it is not told."""
    try:
        told = cast("Mapping[str, object]", json.loads(said))
        return Digest.parse(str(told["digest"])), int(str(told["size"]))
    except (ValueError, KeyError, TypeError):
        return None


def question(digest: Digest, size: int) -> tuple[str, Mapping[str, bytes]]:
    """Give the name and the files of the image that is asked with."""
    name = f"vllm-graft-asks:{digest.hex[:16]}"
    config = canonical_json(
        {
            "architecture": _NOBODYS,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [str(digest)]},
        }
    )
    pointer = {"mediaType": _ANY, "digest": str(digest), "size": size}
    return name, naming_documents(config, [pointer], names_of(parse_tag(name)))


def parse_saved(archive: bytes, digest: Digest) -> bytes | None:
    """Give the content out of what was saved; None where it is not there."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            found = opened.extractfile(blob(str(digest)))
            content = found.read() if found is not None else b""
    except (tarfile.TarError, KeyError):
        return None
    return content if Digest.of(content) == digest else None


def sizes_of(document: bytes) -> Mapping[Digest, int]:
    """Give digest and bytes of everything that a manifest or an index points to."""
    told = cast("Mapping[str, object]", json.loads(document))
    pointers: list[object] = [told.get("config")]
    for key in ("manifests", "layers"):
        pointers += cast("list[object]", told.get(key) or [])
    found = (parse_pointer(json.dumps(each).encode()) for each in pointers if each)
    return dict(each for each in found if each is not None)


def as_described(layer: Descriptor) -> Mapping[str, object]:
    """Give the descriptor as a manifest has it."""
    return {"mediaType": layer.media_type, "digest": str(layer.digest), "size": layer.size}

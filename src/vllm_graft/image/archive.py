# An archive that an engine loads which has the base already: the new layer, and of the base's layers only the names. It
# is in both forms at once, since no form alone is taken by all: engines with classic stores and podman go by manifest.json,
# Docker with containerd's store by index.json.
"""A grafted image as an archive without its base."""

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.errors import RequestError
from vllm_graft.image.configuration import canonical_json, encode_configuration
from vllm_graft.image.oci import Descriptor
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<repository>(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?",
    re.ASCII,
)
"""Source: distribution/reference 0.6, ``regexp.go``: optional host, parts of the path, tag."""

_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """The name of an image, without host."""

    repository: str
    tag: str

    def __str__(self) -> str:
        """Give ``vllm-node:latest``."""
        return f"{self.repository}:{self.tag}"

    @property
    def full(self) -> str:
        """Give the name as containerd's store has it."""
        first, slash, _ = self.repository.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            return str(self)
        return f"docker.io/{self}" if slash else f"docker.io/library/{self}"


def parse_tag(text: str) -> Tag:
    """Read the name that the new image gets.

    Raises:
        RequestError: E216, it names no image.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise RequestError(
            f"not a name for an image: {text!r}",
            remedy="write NAME or NAME:TAG, the name in lower case, such as vllm-node-qwen35:1",
            code="E216",
        )
    return Tag(repository=found["repository"], tag=found["tag"] or "latest")


def image_documents(
    facts: ImageFacts, layer: bytes, tag: Tag, *, stored: tuple[Descriptor, ...] = ()
) -> Mapping[str, bytes]:
    """Give the files of an OCI layout with manifest.json: path → content.

    ``stored``: the base's layers as a store has them; without, they are named by their diff ids, which is what an engine
    that was loaded with the base knows them by.
    """
    config = encode_configuration(facts)
    below = [
        {"mediaType": each.media_type, "digest": str(each.digest), "size": each.size}
        for each in stored
    ] or [{"mediaType": _LAYER, "digest": str(each), "size": 1} for each in facts.layers[:-1]]
    own = {"mediaType": _LAYER, "digest": str(Digest.of(layer)), "size": len(layer)}
    manifest = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(config, _CONFIG),
            "layers": [*below, own],
        }
    )
    platform = {"architecture": facts.architecture, "os": facts.system}
    if facts.variant:
        platform["variant"] = facts.variant
    names = {"io.containerd.image.name": tag.full, "org.opencontainers.image.ref.name": tag.tag}
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [
            {**_described(manifest, _MANIFEST), "platform": platform, "annotations": names}
        ],
    }
    docker = [
        {
            "Config": _blob(Digest.of(config)),
            "RepoTags": [str(tag)],
            "Layers": [*(_blob(each) for each in facts.layers[:-1]), _blob(Digest.of(layer))],
        }
    ]
    return {
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": canonical_json(index),
        "manifest.json": canonical_json(docker),
        _blob(Digest.of(config)): config,
        _blob(Digest.of(manifest)): manifest,
        _blob(Digest.of(layer)): layer,
    }


def _described(content: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": str(Digest.of(content)), "size": len(content)}


def _blob(digest: Digest) -> str:
    return f"blobs/sha256/{digest.hex}"


def archive_pieces(documents: Mapping[str, bytes]) -> Iterator[bytes]:
    """Give the archive piece by piece; the same documents give the same bytes."""
    for path in sorted(documents):
        content = documents[path]
        member = tarfile.TarInfo(path)
        member.size = len(content)
        member.mode = 0o644
        yield member.tobuf(format=tarfile.PAX_FORMAT)
        yield content
        yield b"\0" * (-len(content) % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def archive_bytes(documents: Mapping[str, bytes]) -> bytes:
    """Give the whole archive."""
    stream = io.BytesIO()
    for piece in archive_pieces(documents):
        stream.write(piece)
    return stream.getvalue()

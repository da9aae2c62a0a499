# An archive that an engine loads which has the base already: the new layer, and of the base's layers only the names.
"""A grafted image as an archive without its base."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.errors import RequestError
from vllm_graft.image.configuration import encode_configuration
from vllm_graft.image.inside_archive import (
    END,
    LAYER,
    Described,
    blob,
    described,
    file_pieces,
    naming_documents,
)
from vllm_graft.image.oci import Descriptor
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import IMAGE_NAME, ImageFacts


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
    found = IMAGE_NAME.fullmatch(text)
    if found is None:
        raise RequestError(
            f"not a name for an image: {text!r}" if text else "the new image has no name",
            remedy="write -t NAME or -t NAME:TAG, the name in lower case, such as vllm-node-qwen35:1",
            code="E216",
        )
    return Tag(repository=found["repository"], tag=found["tag"] or "latest")


def image_documents(
    facts: ImageFacts, layer: bytes | None, tag: Tag, *, stored: tuple[Descriptor, ...] = ()
) -> Mapping[str, bytes]:
    """Give the files of an OCI layout with manifest.json: path → content.

    ``layer``: the uppermost; None where an engine has every layer already, and only a name is wanted for them.
    ``stored``: the base's layers as a store has them; without, they are named by their diff ids, which is what an engine
    that was loaded with the base knows them by.
    """
    config = encode_configuration(facts, is_layered=layer is not None)
    lower = facts.layers if layer is None else facts.layers[:-1]
    layers: list[Described] = [
        {"mediaType": each.media_type, "digest": str(each.digest), "size": each.size}
        for each in stored
    ] or [stand_in(each) for each in lower]
    own = {} if layer is None else {_blob(Digest.of(layer)): layer}
    layers += [described(each, LAYER) for each in own.values()]
    return {**naming_documents(config, layers, names_of(tag)), **own}


def stand_in(layer: Digest) -> Described:
    """Describe a layer that only the engine has: its diff id stands for it, since more is not known.

    Source: seen with Docker 20.10 and 28.5 (classic and containerd store) and podman 4.3: nobody opens it where the layer is
    there already. An image that was loaded so into containerd's store cannot be saved from there.
    """
    return {"mediaType": LAYER, "digest": str(layer), "size": 1}


def names_of(tag: Tag) -> Mapping[str, str]:
    """Give the names that an archive says."""
    return {"tag": str(tag), "full": tag.full, "short": tag.tag}


def _blob(digest: Digest) -> str:
    return blob(str(digest))


def archive_pieces(documents: Mapping[str, bytes]) -> Iterator[bytes]:
    """Give the archive piece by piece; the same documents give the same bytes."""
    for path in sorted(documents):
        yield from file_pieces(path, documents[path])
    yield END


def archive_bytes(documents: Mapping[str, bytes]) -> bytes:
    """Give the whole archive."""
    return b"".join(archive_pieces(documents))

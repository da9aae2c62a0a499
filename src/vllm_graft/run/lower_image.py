# What lies below a layer of an image is an image too, whether or not it still has a name. An engine that has the upper one
# has all its layers; to be read, the lower one needs only a name, which is taken away again.
"""An image that lies below another in an engine."""

import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from vllm_graft.errors import BuildError, SourceError
from vllm_graft.image.archive import Tag, archive_pieces, image_documents
from vllm_graft.image.engine import Engine
from vllm_graft.image.holdings import is_same
from vllm_graft.run.engine import load_image, take_name
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.stored_layers import images_of, stored_there
from vllm_graft.values.image import ImageFacts


def find_same(engine: Engine, wanted: ImageFacts, variables: Mapping[str, str]) -> str | None:
    """Give a name of an image that is this one by content; None where the engine has none."""
    images = images_of(engine, variables)
    return next((each.reference for each in images if is_same(each, wanted)), None)


@contextmanager
def lower_image(engine: Engine, wanted: ImageFacts, variables: Mapping[str, str]) -> Generator[str]:
    """Give a name of this image: one that it has, or one that lasts as long as the block.

    Raises:
        SourceError: E339, the engine does not give what it has of it a name.
    """
    if (found := find_same(engine, wanted, variables)) is not None:
        yield found
        return
    tag = Tag(repository=f"vllm-graft-base-{uuid.uuid4().hex[:12]}", tag="latest")
    stored = stored_there(engine, wanted, len(wanted.layers), variables)
    pieces = archive_pieces(image_documents(wanted, None, tag, stored=stored))
    try:
        try:
            load_image(engine, str(tag), pieces, variables)
        except BuildError as error:
            raise SourceError(
                f"{engine.said} has {wanted.reference} no more, and does not give its layers a name: {error.what}",
                remedy="Load or pull that base into the engine, then run this again.",
                code="E339",
            ) from error
        yield str(tag)
    finally:
        with held_interrupts():
            take_name(engine, str(tag), variables)

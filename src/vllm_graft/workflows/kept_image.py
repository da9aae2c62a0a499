# An engine gives an image whole or not at all, and the layer that was built is a hundredth of it. So what is built is also
# kept as it is: a node that has the base then gets that layer and nothing has to be read out of an engine.
"""The layers that were built here last."""

from dataclasses import dataclass

from vllm_graft.image.configuration import canonical_digest, encode_configuration
from vllm_graft.run.cache import Cache
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts

_KIND = "built-image"
_MOST = 4 << 30
"""Bytes of all layers that are kept; the one that was built last is kept in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptImage:
    """What of a built image is kept."""

    config: bytes
    """Its configuration, as it was written."""
    layer: bytes
    """The uppermost."""


def keep_built(facts: ImageFacts, layer: bytes | None, cache: Cache) -> None:
    """Keep what was built, and forget what was built long ago. An image without a layer of its own has nothing to keep."""
    if layer is None:
        return
    cache.remember(
        _KIND,
        str(canonical_digest(facts)),
        {
            "content": str(cache.put(layer)),
            "config": str(cache.put(encode_configuration(facts))),
        },
    )
    cache.forget_oldest(_KIND, most=_MOST)


def find_kept(facts: ImageFacts, cache: Cache) -> KeptImage | None:
    """Give what is kept of an image that an engine has; None where that is nothing, or not what it should be."""
    told = cache.lookup(_KIND, str(canonical_digest(facts)))
    if told is None or told.get("content") != str(facts.layers[-1]):
        return None
    layer = cache.get(facts.layers[-1])
    try:
        config = cache.get(Digest.parse(told.get("config", "")))
    except ValueError:
        return None
    return None if layer is None or config is None else KeptImage(config=config, layer=layer)

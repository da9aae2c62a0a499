# A layer is known by all that lies below it: an engine that has any image with these lowest layers can put another on top of
# them, whatever the image is called, and whether it is called anything. Seen with Docker 20.10 (classic store): also where the
# base itself was removed, and where only an untagged image is left.
"""What of an image an engine has."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from vllm_graft.image.configuration import canonical_digest
from vllm_graft.values.image import ImageFacts


def is_same(there: ImageFacts, wanted: ImageFacts) -> bool:
    """Tell whether two engines speak of the same image: platform, settings and layers, not the ID."""
    return there.layers == wanted.layers and canonical_digest(there) == canonical_digest(wanted)


def held_layers(wanted: ImageFacts, there: Iterable[ImageFacts]) -> int:
    """Give how many of the lowest layers of an image an engine has, that has these images."""
    return max((_shared(wanted, each) for each in there), default=0)


def _shared(wanted: ImageFacts, other: ImageFacts) -> int:
    if (wanted.system, wanted.architecture) != (other.system, other.architecture):
        return 0
    pairs = zip(wanted.layers, other.layers, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def lacking_size(history: Sequence[int], layers: int, held: int) -> int:
    """Give how many bytes the layers above the lowest ``held`` have.

    ``history``: bytes of each step that the image was made in, the last one first: steps without a layer have none, and so
    have layers without a file. Where it cannot be told apart, it is what it may be at most.
    """
    if held == 0:
        return sum(history)
    sizes = [each for each in history if each]
    return sum(sizes[: layers - held])

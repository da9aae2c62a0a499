# Wheels that were locked become files of a layer, in an image that is looked at once more where they go.
"""Put wheels into a layer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_graft.deps.wheels import target_of
from vllm_graft.image.installed import Surroundings, survey, wheel_scheme
from vllm_graft.image.wheel_files import WheelFile, place_wheel
from vllm_graft.run.cache import Cache
from vllm_graft.values.environment import Environment
from vllm_graft.values.source import ImageSource
from vllm_graft.values.wheels import LockedWheel
from vllm_graft.workflows.image_layers import OpenedImage
from vllm_graft.workflows.lock_wheels import fetch_wheels
from vllm_graft.workflows.whole_image import whole_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedWheels:
    """What wheels bring into a layer."""

    files: tuple[WheelFile, ...] = ()
    surroundings: Surroundings = field(default_factory=Surroundings)

    @property
    def notes(self) -> tuple[str, ...]:
        """Say which files of the image a wheel covers although no replaced distribution has them, and which two wheels have."""
        contents: dict[str, set[bytes]] = {}
        for file in self.files:
            contents.setdefault(file.place, set()).add(file.content)
        return (
            *(f"{place} of the image is covered by a wheel" for place in self.surroundings.covered),
            *(
                f"{place} is in several of the wheels, each with other content"
                for place, found in contents.items()
                if len(found) > 1
            ),
        )


def place_wheels(
    wheels: Sequence[LockedWheel],
    opened: OpenedImage,
    *,
    source: ImageSource,
    environment: Environment,
    cache: Cache,
) -> PlacedWheels:
    """Give the files of wheels, and what the image has where they go.

    Raises:
        SourceError: E313 to E315, E318, a wheel cannot be had; as :func:`open_image`.
        BuildError: E404, E430 to E432, one cannot be put into this image.
    """
    if not wheels:
        return PlacedWheels()
    target = target_of(opened.facts, opened.install)
    contents = fetch_wheels(wheels, target, environment=environment, cache=cache)
    files = tuple(
        file
        for wheel in wheels
        for file in place_wheel(
            contents[wheel.digest], wheel, wheel_scheme(wheel, opened.placement)
        )
    )
    with whole_tree(source, opened.facts, environment=environment) as tree:
        found = survey(
            tree,
            placement=opened.placement,
            wheels=wheels,
            places=[file.place for file in files],
            facts=opened.facts,
        )
    return PlacedWheels(files=files, surroundings=found)

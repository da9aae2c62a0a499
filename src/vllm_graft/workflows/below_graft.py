# Several models go into one graft, in one layer. So a grafted image as base stands for its own base: what is planned onto it is
# planned together with what it has, and what is built on it takes that layer's place.
"""The base of a grafted image."""

from dataclasses import dataclass, replace

from vllm_graft.errors import BuildError
from vllm_graft.image.oci import refuse_other_platform
from vllm_graft.image.provenance import (
    below_graft,
    plan_place,
    read_earlier,
    read_provenance,
    without_own_labels,
)
from vllm_graft.link.layout import read_layout
from vllm_graft.link.plan import LinkRequest
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import DRAFTS_TABLE
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.run.engine import container_files, engine_at, inspect_image
from vllm_graft.run.lower_image import lower_image
from vllm_graft.values.build import EarlierGraft, Provenance
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan, PlanSource
from vllm_graft.values.source import (
    DockerSource,
    ImageSource,
    PathSource,
    Platform,
    PyPISource,
    Source,
    SourceOptions,
    WheelSource,
)
from vllm_graft.workflows.image_layers import Layered, OpenedImage, read_layers
from vllm_graft.workflows.open_image import EngineImage, known_image, open_in_engine, open_layered
from vllm_graft.workflows.open_source import open_install


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBase:
    """An image to graft onto."""

    opened: OpenedImage
    earlier: EarlierGraft | None = None
    """Where the image is grafted: with what. ``opened`` is then what lies below."""


def open_base_install(
    source: Source, *, options: SourceOptions, environment: Environment, console: Console
) -> tuple[Install, EarlierGraft | None]:
    """Read the install to graft onto; of a grafted image, that of its base, and what was grafted.

    Raises:
        SourceError: it cannot be read, or holds no vLLM.
        BuildError: E423, the base of a grafted image cannot be told.
    """
    if isinstance(source, PyPISource | WheelSource | PathSource):
        return open_install(source, options=options, environment=environment, console=console), None
    cache = Cache.at(environment.cache_directory, console)
    base = open_base(source, platform=options.platform, environment=environment, cache=cache)
    return base.opened.install, base.earlier


def open_base(
    source: ImageSource,
    *,
    platform: Platform | None,
    environment: Environment,
    cache: Cache,
    planned: PlanSource | None = None,
) -> OpenedBase:
    """Read an image to graft onto; of a grafted one, what lies below the graft.

    ``planned``: where a layer is built on it that no other distribution takes part in, for what.

    Raises:
        SourceError: as for any image; E339, the engine has the base no more.
        BuildError: E423, the base of a grafted image cannot be told.
    """
    if isinstance(source, DockerSource):
        return _base_in_engine(source, platform, environment, cache, planned)
    image = read_layers(source, platform, environment)
    provenance = read_provenance(image.facts)
    if provenance is None or provenance.route != "graft":
        plain = replace(image, facts=without_own_labels(image.facts))
        return OpenedBase(opened=open_layered(source, plain, cache))
    lower = Layered(
        facts=below_graft(image.facts, provenance),
        layer=image.layer,
        place=image.place,
        stored=image.stored[:-1],
    )
    opened = open_layered(source, lower, cache)
    wanted = plan_place(opened.placement.root, provenance).lstrip("/")
    uppermost = image.layer(len(image.facts.layers) - 1).entries
    found = next((each.content for each in uppermost if each.path == wanted), None)
    return _seen_through(opened, found, image.facts, provenance)


def _base_in_engine(
    source: DockerSource,
    platform: Platform | None,
    environment: Environment,
    cache: Cache,
    planned: PlanSource | None,
) -> OpenedBase:
    variables = environment.variables
    with engine_at(source.node, variables) as engine:
        facts = inspect_image(engine, source.reference, variables)
        refuse_other_platform(facts, platform)
        image = EngineImage(engine=engine, facts=facts, variables=variables)
        provenance = read_provenance(facts)
        if provenance is None or provenance.route != "graft":
            opened = open_in_engine(source, image, cache, planned=planned)
            return OpenedBase(opened=replace(opened, facts=without_own_labels(opened.facts)))
        below = below_graft(facts, provenance)
        opened = known_image(source, below, cache)
        if opened is None:
            with lower_image(engine, below, variables) as name:
                lower = replace(image, facts=replace(below, reference=name))
                opened = open_in_engine(source, lower, cache, planned=planned)
        place = plan_place(opened.placement.root, provenance)
        with container_files(engine, facts, variables) as files:
            found = next((each.content for each in files.one(place)), None)
    return _seen_through(replace(opened, facts=below), found, facts, provenance)


def _seen_through(
    opened: OpenedImage, plan: bytes | None, facts: ImageFacts, provenance: Provenance
) -> OpenedBase:
    earlier = read_earlier(plan, facts, provenance)
    install = replace(
        opened.install,
        source=earlier.base_source,
        location=f"{opened.placement.root} in {opened.facts.reference}",
        image=opened.facts,
    )
    if str(install.digest) != earlier.base_vllm:
        raise BuildError(
            f"the vLLM below the graft in {facts.reference} is not the one that its plan names: wanted"
            f" {earlier.base_vllm}, found {install.version}, {install.digest}",
            remedy=f"plan all architectures at once onto its base: --base {earlier.base_source}",
            code="E423",
        )
    return OpenedBase(opened=replace(opened, install=install), earlier=earlier)


def replanned(earlier: EarlierGraft, asked: LinkRequest, donor: Install) -> LinkRequest | None:
    """Give what is to be planned together: what was grafted before, and what is asked for now.

    None where it was grafted before, all of it, from this very donor. Drafts stand among a plan's architectures, and come
    again with the feature ``mtp`` that brought them.
    """
    grafted = earlier.architectures
    same = str(donor.digest) == earlier.donor_vllm
    if same and {*asked.architectures} <= {*grafted} and {*asked.features} <= {*earlier.features}:
        return None
    if "mtp" in earlier.features:
        known = read_layout(SourceTrees(donor.files), install="donor").by_architecture
        grafted = tuple(
            name for name in grafted if name not in known or known[name].table != DRAFTS_TABLE
        )
    return replace(
        asked,
        architectures=tuple(dict.fromkeys((*grafted, *asked.architectures))),
        features=tuple(dict.fromkeys((*earlier.features, *asked.features))),
    )


def refuse_lost(plan: GraftPlan, earlier: EarlierGraft | None) -> None:
    """Refuse a plan that would take something away from the image that it is for.

    From another donor the same model may come in other files; the places that are edited are the base's, and stay.

    Raises:
        BuildError: E428.
    """
    if earlier is None:
        return
    paths = {each.path for each in plan.edits}
    wanted = earlier.edits
    if str(plan.donor.digest) == earlier.donor_vllm:
        paths |= {each.path for each in plan.modules}
        wanted |= earlier.modules
    decided = {(each.name, each.decision) for each in plan.dependencies}
    lost = [
        *(name for name in earlier.architectures if name not in plan.architectures),
        *(name for name in earlier.features if name not in plan.features),
        *sorted(wanted - paths),
        *(f"{name} ({decision})" for name, decision in sorted(earlier.dependencies - decided)),
    ]
    if lost:
        raise BuildError(
            f"{earlier.image} would lose what it has from its graft: this plan is without {', '.join(lost)}",
            remedy=f"plan all at once onto its base: --base {earlier.base_source}"
            f" --arch {' --arch '.join(earlier.architectures)}, with --model for what was planned with a config.json and --accept for what was accepted",
            code="E428",
        )

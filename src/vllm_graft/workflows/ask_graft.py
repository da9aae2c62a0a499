"""Where a grafted image comes from, and whether its graft is still needed."""

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from vllm_graft.errors import GraftError, RequestError
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.provenance import read_provenance
from vllm_graft.link.layout import read_layout
from vllm_graft.link.roots import find_roots
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.console import Console
from vllm_graft.values.build import Provenance
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.inspection import GraftAnswer
from vllm_graft.values.install import Install
from vllm_graft.values.source import parse_source
from vllm_graft.workflows.open_source import open_install


def ask_graft(
    install: Install, *, against: str = "", environment: Environment, console: Console
) -> GraftAnswer | None:
    """Read the labels of a grafted image, and look at its base as it is today; None where it is not grafted.

    ``against``: the source of another base to look at instead, such as a newer one.

    Raises:
        RequestError: there is something to be held against, and the image is not grafted.
        SourceError: what ``against`` names cannot be read. A recorded base that cannot be is told, and no error.
    """
    provenance = read_provenance(install.image) if install.image is not None else None
    if install.image is None or provenance is None:
        if against:
            raise RequestError(
                f"{install.source} is not grafted: there is nothing to hold against {against}",
                remedy="name an image that `vllm-graft build` made; to see what a base knows, inspect it with --arch",
            )
        return None
    below, config = provenance.stands_on
    source = against or below
    intact = str(canonical_digest(install.image)) == provenance.config and (
        not provenance.layer or str(install.image.layers[-1]) == provenance.layer
    )
    try:
        base = open_install(parse_source(source), environment=environment, console=console)
        lacks = tuple(_lacking(base, provenance))
    except GraftError as error:
        if against:
            raise
        console.tell(f"its base cannot be looked at: {error.what}")
        return GraftAnswer(
            provenance=provenance, intact=intact, base_now="not found", base_now_source=source
        )
    if _is_base(base.image, config):
        return GraftAnswer(
            provenance=provenance, intact=intact, base_now="unchanged", base_now_source=source
        )
    return GraftAnswer(
        provenance=provenance,
        intact=intact,
        base_now="changed",
        base_now_source=source,
        base_now_version=base.version,
        base_now_lacks=lacks,
    )


def _is_base(image: ImageFacts | None, config: str) -> bool:
    return image is not None and str(canonical_digest(image)) == config


def _lacking(base: Install, provenance: Provenance) -> Iterator[str]:
    """Give what was grafted and this base does not have by itself."""
    trees = SourceTrees(base.files)
    layout = read_layout(trees)
    known = [each for each in provenance.architectures if each in layout.by_architecture]
    yield from (each for each in provenance.architectures if each not in known)
    for feature in provenance.features if known else ():
        try:
            find_roots(layout, trees, architectures=known, features=(feature,))
        except RequestError:
            yield feature
        else:
            # A parser keeps its name from release to release; only a later one is known to have the later text.
            if "=" in feature and not _is_later(base.version, provenance.donor_version):
                yield f"{feature} (it has one of that name, perhaps an older one)"


def _is_later(version: str, donor: str) -> bool:
    try:
        return Version(version) >= Version(donor)
    except InvalidVersion:
        return False

"""Where a grafted image comes from, and whether its graft is still needed."""

from vllm_graft.errors import GraftError
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.provenance import read_provenance
from vllm_graft.link.layout import read_layout
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.inspection import GraftAnswer
from vllm_graft.values.install import Install
from vllm_graft.values.source import parse_source
from vllm_graft.workflows.open_source import open_install


def ask_graft(
    install: Install, *, environment: Environment, console: Console
) -> GraftAnswer | None:
    """Read the labels of a grafted image, and look at its base as it is today; None where it is not grafted."""
    if install.image is None:
        return None
    provenance = read_provenance(install.image)
    if provenance is None:
        return None
    intact = (
        str(canonical_digest(install.image)) == provenance.config
        and str(install.image.layers[-1]) == provenance.layer
    )
    try:
        source = parse_source(provenance.base_source)
        base = open_install(source, environment=environment, console=console)
        known = read_layout(SourceTrees(base.files)).by_architecture
    except GraftError as error:
        console.tell(f"its base cannot be looked at: {error.what}")
        return GraftAnswer(provenance=provenance, intact=intact, base_now="not found")
    if base.image is not None and str(canonical_digest(base.image)) == provenance.base_config:
        return GraftAnswer(provenance=provenance, intact=intact, base_now="unchanged")
    return GraftAnswer(
        provenance=provenance,
        intact=intact,
        base_now="changed",
        base_now_version=base.version,
        base_now_lacks=tuple(each for each in provenance.architectures if each not in known),
    )

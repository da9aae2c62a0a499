# A plan names the image that it was made for. Where that very image is built on, all that was to be found out of it was found
# out then; only what the layer is made from is read again, and not what else lies beside vLLM (torch alone is gigabytes).
"""The vLLM of an image that a plan was made for."""

from dataclasses import replace

from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.places import interpreter_within, interpreters
from vllm_graft.image.tree import ImageTree
from vllm_graft.install.assemble import Contents, assemble
from vllm_graft.install.pins import OWN_NAMES
from vllm_graft.install.search import KEPT_METADATA
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.plan import PlanSource
from vllm_graft.values.source import ImageSource
from vllm_graft.workflows.image_layers import OpenedImage


def is_planned(facts: ImageFacts, planned: PlanSource) -> bool:
    """Tell whether this is the very image that was planned for."""
    return planned.image == str(canonical_digest(facts))


def read_planned(
    source: ImageSource, facts: ImageFacts, tree: ImageTree, planned: PlanSource
) -> OpenedImage | None:
    """Read only vLLM and its own metadata; None where they are not where they are looked for first, or are others.

    Other distributions are not in what is given.
    """
    found = (
        (interpreter_within(source.within, tree),) if source.within else interpreters(facts, tree)
    )
    for interpreter in found:
        for site in interpreter.sites:
            if tree.exists(f"{site}/vllm/__init__.py"):
                return _read(source, facts, tree, site, planned)
    return None


def _read(
    source: ImageSource, facts: ImageFacts, tree: ImageTree, site: str, planned: PlanSource
) -> OpenedImage | None:
    if tree.real_path(f"{site}/vllm") != f"{site}/vllm":
        return None
    walked = tree.walk(site, "vllm", (".py", ".so"))
    texts = [(each.path, tree.read(each.place)) for each in walked if each.path.endswith(".py")]
    binaries = [(each.path, tree.binary(each)) for each in walked if each.path.endswith(".so")]
    names = (f"{name.replace('-', '_')}-{planned.version}.dist-info" for name in OWN_NAMES)
    dist_info = next((name for name in names if tree.exists(f"{site}/{name}")), "")
    if dist_info:
        tree.fetch(f"{site}/{dist_info}")
        texts += [
            (f"{dist_info}/{name}", tree.read(place))
            for name in KEPT_METADATA
            if tree.exists(place := f"{site}/{dist_info}/{name}")
        ]
    contents = Contents(files=tuple(texts), binaries=tuple(binaries), dist_info=dist_info)
    install = assemble(contents, source=str(source), location=f"{site} in {facts.reference}")
    if install.digest != planned.digest:
        return None
    elsewhere = facts.variables.get("PYTHONPYCACHEPREFIX", "").rstrip("/")
    return OpenedImage(
        install=replace(install, image=facts),
        facts=facts,
        placement=tree.placement(site, bytecode=elsewhere),
    )

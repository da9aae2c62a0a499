# An image is read as a file system and not run. What was read is kept by the digests of its layers: they say all.
"""Open an image."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import cast

from vllm_graft.errors import SourceError
from vllm_graft.image.engine import Engine
from vllm_graft.image.oci import refuse_other_platform
from vllm_graft.image.owner_files import read_owner_files
from vllm_graft.image.places import (
    Interpreter,
    install_place,
    interpreter_within,
    interpreters,
    metadata_places,
)
from vllm_graft.image.tree import ImageTree
from vllm_graft.install.assemble import assemble, pack, unpack
from vllm_graft.install.environment_layout import interpreter_of_site
from vllm_graft.install.search import Copy, find_copies, read_copy
from vllm_graft.install.transformers_names import AUTO_FILES
from vllm_graft.run.cache import Cache
from vllm_graft.run.engine import container_files, engine_at, inspect_image
from vllm_graft.run.image_files import altered
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts, OwnerFiles, Placed, Placement
from vllm_graft.values.plan import PlanSource
from vllm_graft.values.source import DockerSource, ImageSource, Platform
from vllm_graft.workflows.image_layers import Layered, OpenedImage, read_layers
from vllm_graft.workflows.read_planned import is_planned, read_planned

_READER = "4"
"""Goes up whenever the same layers are read otherwise."""
_PLANNED = "vLLM alone"
"""What is read for a layer that was planned."""


def open_image(
    source: ImageSource,
    *,
    platform: Platform | None,
    environment: Environment,
    cache: Cache,
) -> OpenedImage:
    """Read an image.

    Raises:
        SourceError: E322 it is none, or damaged; E323 it is not said which; E324 it was altered; E320 it holds no
            vLLM; E321 it holds several; E330 to E335 the engine does not give it.
        NodeError: E500 to E507, the node that it is on.
    """
    match source:
        case DockerSource():
            variables = environment.variables
            with engine_at(source.node, variables) as engine:
                facts = inspect_image(engine, source.reference, variables)
                refuse_other_platform(facts, platform)
                image = EngineImage(engine=engine, facts=facts, variables=variables)
                return open_in_engine(source, image, cache)
        case _:
            return open_layered(source, read_layers(source, platform, environment), cache)


def open_layered(source: ImageSource, image: Layered, cache: Cache) -> OpenedImage:
    """Read what is in an image that is given layer by layer."""
    opened = known_image(source, image.facts, cache)
    if opened is None:
        opened = read_tree(source, image.facts, lay_layers(image))
        _keep(cache, _key(source, image.facts), opened)
    return replace(opened, stored=image.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """An image of an engine, and what that said of it."""

    engine: Engine
    facts: ImageFacts
    variables: Mapping[str, str]


def open_in_engine(
    source: DockerSource, image: EngineImage, cache: Cache, *, planned: PlanSource | None = None
) -> OpenedImage:
    """Read what is in an image of an engine.

    ``planned``: where a layer is to be built on it and nothing else is asked, for what; if it is the very image that
    was planned for, other distributions are not read.
    """
    facts = image.facts
    if (known := known_image(source, facts, cache)) is not None:
        return known
    if planned is not None and is_planned(facts, planned):
        if (known := known_image(source, facts, cache, part=_PLANNED)) is not None:
            return known
        with container_files(image.engine, facts, image.variables) as supply:
            found = read_planned(source, facts, ImageTree(supply=supply), planned)
        if found is not None:
            _keep(cache, _key(source, facts, _PLANNED), found)
            return found
    with container_files(image.engine, facts, image.variables) as supply:
        opened = read_tree(source, facts, ImageTree(supply=supply))
    _keep(cache, _key(source, facts), opened)
    return opened


def lay_layers(image: Layered, *, everything: bool = False) -> ImageTree:
    """Lay the layers over one another; ``everything``: with the name of every file.

    Raises:
        SourceError: E324, one is not what the image says.
    """
    tree = ImageTree(everything=everything)
    for number, (layer, wanted) in enumerate(zip(image.layers, image.facts.layers, strict=True), 1):
        if layer.diff_id != wanted:
            raise altered(f"layer {number} of {image.place}", wanted, layer.diff_id)
        tree.add(layer.entries)
    return tree


def _key(source: ImageSource, facts: ImageFacts, part: str = "") -> str:
    # Where vLLM is looked for depends on the environment and the working directory.
    told = (dict(facts.variables), str(facts.settings.get("WorkingDir") or ""))
    return "\0".join(
        (_READER, *map(str, facts.layers), json.dumps(told), source.within, *filter(None, (part,)))
    )


def read_tree(source: ImageSource, facts: ImageFacts, tree: ImageTree) -> OpenedImage:
    """Find vLLM in the file system of an image and read it.

    Raises:
        SourceError: E320 there is none; E321 there are several.
    """
    found = (
        (interpreter_within(source.within, tree),) if source.within else interpreters(facts, tree)
    )
    copies = _copies(tree, found)
    if not copies and not source.within:
        tree.fetch("/")
        copies = _copies(tree, _elsewhere(tree))
    if not copies:
        raise _no_vllm(facts, source, tree, found)
    if len(copies) > 1:
        raise _several(facts, source, list(copies.values()))
    ((copy, interpreter),) = copies.values()
    sites = interpreter.sites
    own = interpreter_of_site(copy.root) if copy.root in sites else None
    if own is not None:
        sites = tuple(site for site in sites if interpreter_of_site(site) in {own, None})
    contents = replace(read_copy(tree, copy, sites, tree.binary), sites=())
    others = [root for root in tree.packages() if root != copy.root and _is_import_place(root)]
    notes = tuple(
        f"another vLLM lies in {root}, which no interpreter on PATH imports" for root in others
    )
    contents = replace(contents, notes=(*contents.notes, *notes))
    install = assemble(contents, source=str(source), location=_location(copy.root, facts))
    install = replace(
        install,
        beside=_beside(tree, interpreter.sites),
        image=facts,
        owner_files=read_owner_files(facts, tree),
    )
    placement = tree.placement(
        copy.root, bytecode=facts.variables.get("PYTHONPYCACHEPREFIX", "").rstrip("/")
    )
    site, python = install_place(copy.root, interpreter, tree)
    return OpenedImage(
        install=install,
        facts=facts,
        placement=replace(
            placement, site=site, python=python, metadata=metadata_places(sites, tree)
        ),
    )


def _is_import_place(root: str) -> bool:
    # What pip and uv keep for other environments is nobody's import.
    return PurePosixPath(root).name in ("site-packages", "dist-packages")


def _copies(tree: ImageTree, found: Iterable[Interpreter]) -> dict[str, tuple[Copy, Interpreter]]:
    copies: dict[str, tuple[Copy, Interpreter]] = {}
    for interpreter in found:
        for site in interpreter.sites:
            # All of it is asked for in any case, and an engine gives a folder as quickly as a file.
            tree.fetch(site)
        for copy in find_copies(tree, interpreter.sites):
            copies.setdefault(copy.root, (copy, interpreter))
    return copies


def _elsewhere(tree: ImageTree) -> tuple[Interpreter, ...]:
    """Give every site directory with a vLLM, wherever it is: of interpreters that are started by their path."""
    return tuple(
        Interpreter(prefix=root, sites=(root,))
        for root in tree.packages()
        if _is_import_place(root)
    )


def _location(root: str, facts: ImageFacts) -> str:
    return f"{root} in {facts.reference}"


def _beside(tree: ImageTree, sites: tuple[str, ...]) -> dict[str, bytes]:
    for site in sites:
        folder = f"{site}/transformers/models/auto"
        if tree.exists(f"{folder}/configuration_auto.py"):
            return {
                f"transformers/models/auto/{name}": tree.read(f"{folder}/{name}")
                for name in AUTO_FILES
                if tree.exists(f"{folder}/{name}")
            }
    return {}


def _no_vllm(
    facts: ImageFacts, source: ImageSource, tree: ImageTree, found: tuple[Interpreter, ...]
) -> SourceError:
    sites = [site for interpreter in found for site in interpreter.sites]
    looked = f" (looked in {', '.join(sites)})" if sites else " (it has no Python either)"
    lying = [root for root in tree.packages() if root not in sites]
    remedy = "Give an image that vLLM is installed in."
    if lying:
        remedy = (
            f"There is one in {' and '.join(lying)}, which no interpreter imports; if that is the one that is meant,"
            f" give {source}#{lying[0]}."
        )
    return SourceError(f"no vLLM in {facts.reference}{looked}", remedy=remedy, code="E320")


def _several(
    facts: ImageFacts, source: ImageSource, copies: list[tuple[Copy, Interpreter]]
) -> SourceError:
    shown = " and ".join(
        f"{copy.root}/vllm" + (f" ({copy.how})" if copy.how else "") for copy, _ in copies
    )
    first = copies[0][0].root
    return SourceError(
        f"{len(copies)} copies of vLLM in {facts.reference}: {shown}",
        remedy=f"Say which one is meant: {replace(source, within=first)}.",
        code="E321",
    )


# --- the cache -----------------------------------------------------------------------------------------------------


def _keep(cache: Cache, key: str, opened: OpenedImage) -> None:
    placement = opened.placement
    told = {
        "root": placement.root,
        "entries": {place: asdict(each) for place, each in placement.entries.items()},
        "links": dict(placement.links),
        "site": placement.site,
        "python": placement.python,
        "metadata": dict(placement.metadata),
        "owner_files": asdict(opened.install.owner_files or OwnerFiles()),
    }
    cache.remember(
        "images",
        key,
        {
            "install": str(cache.put(pack(opened.install))),
            "placement": str(cache.put(json.dumps(told, sort_keys=True).encode())),
        },
    )


def known_image(
    source: ImageSource, facts: ImageFacts, cache: Cache, *, part: str = ""
) -> OpenedImage | None:
    """Give what was read before of an image with these layers; None where nothing was."""
    pointer = cache.lookup("images", _key(source, facts, part)) or {}
    try:
        block = cache.get(Digest.parse(pointer.get("install", "")))
        told = cache.get(Digest.parse(pointer.get("placement", "")))
    except ValueError:
        return None
    if block is None or told is None:
        return None
    value = cast("dict[str, dict[str, dict[str, int]]]", json.loads(told))
    around = cast("dict[str, object]", value["owner_files"])
    placement = Placement(
        root=str(value["root"]),
        entries={
            place: Placed(
                mode=each["mode"],
                uid=each["uid"],
                gid=each["gid"],
                is_folder=bool(each["is_folder"]),
            )
            for place, each in value["entries"].items()
        },
        links={place: str(target) for place, target in value["links"].items()},
        site=str(value["site"]),
        python=str(value["python"]),
        metadata={name: str(place) for name, place in value["metadata"].items()},
    )
    install = unpack(block, source=str(source), location=_location(placement.root, facts))
    if install is None:
        return None
    owner_files = OwnerFiles(
        scripts=tuple(cast("list[str]", around["scripts"])),
        partly=bool(around["partly"]),
        exports=cast("dict[str, str]", around["exports"]),
        exports_file=str(around["exports_file"]),
    )
    install = replace(install, image=facts, owner_files=owner_files)
    return OpenedImage(install=install, facts=facts, placement=placement)

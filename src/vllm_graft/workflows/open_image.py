# An image is read as a file system and never run. What was read is kept by the digests of its layers: they say all.
"""Open an image."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import cast

from vllm_graft.errors import SourceError
from vllm_graft.image.entries import ScannedLayer
from vllm_graft.image.oci import (
    Candidate,
    Descriptor,
    candidates_of_docker,
    candidates_of_index,
    choose,
    parse_configuration,
    refuse_other_platform,
)
from vllm_graft.image.places import Interpreter, interpreter_within, interpreters
from vllm_graft.image.registry import parse_address
from vllm_graft.image.tree import ImageTree
from vllm_graft.install.assemble import assemble, pack, unpack
from vllm_graft.install.environment_layout import interpreter_of_site
from vllm_graft.install.search import Copy, find_copies, read_copy
from vllm_graft.install.transformers_names import AUTO_FILES
from vllm_graft.run.cache import Cache
from vllm_graft.run.engine import container_files, find_engine, inspect_image
from vllm_graft.run.image_files import ImageArchive, Layout, altered, read_archive
from vllm_graft.run.registry import RegistryImage
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts, Placed, Placement
from vllm_graft.values.install import Install
from vllm_graft.values.source import (
    ArchiveSource,
    DockerSource,
    ImageSource,
    OciSource,
    Platform,
    RegistrySource,
)

_READER = "1"
"""Goes up whenever the same layers are read otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedImage:
    """An image's vLLM, and where it lies."""

    install: Install
    facts: ImageFacts
    placement: Placement
    stored: tuple[Descriptor, ...] = ()
    """The image's layers as a manifest describes them; empty where there is none."""


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
    """
    match source:
        case DockerSource():
            return _open_in_engine(source, environment.variables, platform, cache)
        case RegistrySource():
            return _open_in_registry(source, environment, platform, cache)
        case OciSource(path=path):
            return _open_layout(source, Layout(at_home(path, environment)), platform, cache)
        case ArchiveSource(path=path):
            return _open_archive(source, at_home(path, environment), platform, cache)


def at_home(path: str, environment: Environment) -> str:
    """Give the path that is meant: a shell does not expand the tilde of `path:~/vllm`."""
    if path == "~" or path.startswith("~/"):
        return str(PurePosixPath(environment.home) / path[2:])
    return path


def _open_in_engine(
    source: DockerSource, variables: Mapping[str, str], platform: Platform | None, cache: Cache
) -> OpenedImage:
    engine = find_engine(variables)
    facts = inspect_image(engine, source.reference, variables)
    refuse_other_platform(facts, platform)
    if (known := _known(source, facts, cache)) is not None:
        return known
    with container_files(engine, facts, variables) as supply:
        opened = read_tree(source, facts, ImageTree(supply=supply))
    _keep(cache, _key(source, facts), opened)
    return opened


def _open_in_registry(
    source: RegistrySource, environment: Environment, platform: Platform | None, cache: Cache
) -> OpenedImage:
    address = parse_address(source.reference)
    assert address is not None, "the source was read"
    image = RegistryImage(address, environment)
    return _open_layout(source, image, platform, cache)


def _open_layout(
    source: OciSource | RegistrySource,
    layout: Layout | RegistryImage,
    platform: Platform | None,
    cache: Cache,
) -> OpenedImage:
    candidates = list(candidates_of_index(layout.index(), layout.blob, layout.place))
    chosen = source.chosen if isinstance(source, OciSource) else ""
    candidate = choose(candidates, chosen=chosen, platform=platform, where=layout.place)
    content = layout.blob(Digest.parse(candidate.config))
    facts = parse_configuration(
        content, reference=_name(candidate, layout.place), where=layout.place
    )
    refuse_other_platform(facts, platform)

    def layers() -> Iterable[ScannedLayer]:
        for name in candidate.layers:
            yield layout.layer(Digest.parse(name))

    opened = _open(source, facts, lambda: _laid(facts, layers(), layout.place), cache)
    return replace(opened, stored=candidate.stored)


def _open_archive(
    source: ArchiveSource, place: str, platform: Platform | None, cache: Cache
) -> OpenedImage:
    archive = read_archive(place)
    candidate = choose(
        list(_candidates(archive, place)), chosen=source.chosen, platform=platform, where=place
    )
    content = _document(archive, candidate.config, place)
    facts = parse_configuration(content, reference=_name(candidate, place), where=place)
    refuse_other_platform(facts, platform)
    layers = [_layer(archive, name, place) for name in candidate.layers]
    return _open(source, facts, lambda: _laid(facts, layers, place), cache)


def _candidates(archive: ImageArchive, place: str) -> Iterable[Candidate]:
    # An archive may be in both forms at once; manifest.json then names its images as a user knows them.
    if "manifest.json" in archive.documents:
        return candidates_of_docker(archive.documents["manifest.json"], place)
    index = archive.documents.get("index.json")
    if index is None:
        raise SourceError(
            f"{place} is no archive of an image: it has neither manifest.json nor index.json",
            remedy="Give what `docker save IMAGE -o FILE` writes; `docker export` writes no image.",
            code="E322",
        )
    return candidates_of_index(index, lambda digest: _document(archive, str(digest), place), place)


def _document(archive: ImageArchive, name: str, place: str) -> bytes:
    member = f"blobs/sha256/{name.removeprefix('sha256:')}" if name.startswith("sha256:") else name
    content = archive.documents.get(archive.links.get(member, member))
    if content is None:
        raise _lacking(place, member)
    named = PurePosixPath(member).name.removesuffix(".json")
    if len(named) == len(Digest.of(b"").hex) and Digest.of(content).hex != named:
        raise altered(f"{place}: {member}", Digest(named), Digest.of(content))
    return content


def _layer(archive: ImageArchive, name: str, place: str) -> ScannedLayer:
    member = f"blobs/sha256/{name.removeprefix('sha256:')}" if name.startswith("sha256:") else name
    found = archive.layers.get(archive.links.get(member, member))
    if found is None:
        raise _lacking(place, member)
    if name.startswith("sha256:") and str(found.digest) != name:
        raise altered(f"{place}: {member}", Digest.parse(name), found.digest)
    return found


def _lacking(place: str, member: str) -> SourceError:
    return SourceError(
        f"a part of the image is not in {place}: {member}",
        remedy="Save the image again, whole; an archive that was made for an engine which has the base cannot be"
        " read without that base.",
        code="E322",
    )


def _name(candidate: Candidate, place: str) -> str:
    return candidate.names[0] if candidate.names else place


def _laid(facts: ImageFacts, layers: Iterable[ScannedLayer], place: str) -> ImageTree:
    tree = ImageTree()
    for number, layer in enumerate(layers):
        if number >= len(facts.layers) or layer.diff_id != facts.layers[number]:
            wanted = facts.layers[number] if number < len(facts.layers) else Digest.of(b"")
            raise altered(f"layer {number + 1} of {place}", wanted, layer.diff_id)
        tree.add(layer.entries)
    return tree


def _open(
    source: ImageSource, facts: ImageFacts, laid: Callable[[], ImageTree], cache: Cache
) -> OpenedImage:
    if (known := _known(source, facts, cache)) is not None:
        return known
    opened = read_tree(source, facts, laid())
    _keep(cache, _key(source, facts), opened)
    return opened


def _key(source: ImageSource, facts: ImageFacts) -> str:
    # Where vLLM is looked for depends on the environment and the working directory.
    told = (dict(facts.variables), str(facts.settings.get("WorkingDir") or ""))
    return "\0".join((_READER, *map(str, facts.layers), json.dumps(told), source.within))


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
    return OpenedImage(
        install=replace(install, beside=_beside(tree, interpreter.sites), image=facts),
        facts=facts,
        placement=tree.placement(
            copy.root, bytecode=facts.variables.get("PYTHONPYCACHEPREFIX", "").rstrip("/")
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
    }
    cache.remember(
        "images",
        key,
        {
            "install": str(cache.put(pack(opened.install))),
            "placement": str(cache.put(json.dumps(told, sort_keys=True).encode())),
        },
    )


def _known(source: ImageSource, facts: ImageFacts, cache: Cache) -> OpenedImage | None:
    pointer = cache.lookup("images", _key(source, facts)) or {}
    try:
        block = cache.get(Digest.parse(pointer.get("install", "")))
        told = cache.get(Digest.parse(pointer.get("placement", "")))
    except ValueError:
        return None
    if block is None or told is None:
        return None
    value = cast("dict[str, dict[str, dict[str, int]]]", json.loads(told))
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
    )
    install = unpack(block, source=str(source), location=_location(placement.root, facts))
    if install is None:
        return None
    return OpenedImage(install=replace(install, image=facts), facts=facts, placement=placement)

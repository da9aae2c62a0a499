# Folders, archives and registries give the layers of an image one by one; only an engine gives them laid over one another.
"""Images that are read layer by layer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

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
from vllm_graft.image.registry import parse_address
from vllm_graft.run.image_files import ImageArchive, Layout, altered, read_archive
from vllm_graft.run.registry import RegistryImage
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts, Placement
from vllm_graft.values.install import Install
from vllm_graft.values.source import ArchiveSource, OciSource, Platform, RegistrySource


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedImage:
    """An image's vLLM, and where it lies."""

    install: Install
    facts: ImageFacts
    placement: Placement
    stored: tuple[Descriptor, ...] = ()
    """The image's layers as a manifest describes them; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """An image whose layers can be read one by one."""

    facts: ImageFacts
    layer: Callable[[int], ScannedLayer]
    """Number from 0 → that layer."""
    place: str
    stored: tuple[Descriptor, ...] = ()

    @property
    def layers(self) -> Iterable[ScannedLayer]:
        """Read all of them, lowest first."""
        return map(self.layer, range(len(self.facts.layers)))


def read_layers(
    source: RegistrySource | OciSource | ArchiveSource,
    platform: Platform | None,
    environment: Environment,
) -> Layered:
    """Find an image that is not in an engine; its layers are not read yet, but for those of an archive.

    Raises:
        SourceError: E322 to E324, E340 to E342.
    """
    match source:
        case RegistrySource(reference=reference):
            address = parse_address(reference)
            assert address is not None, "the source was read"
            return _of_layout(source, RegistryImage(address, environment), platform)
        case OciSource(path=path):
            return _of_layout(source, Layout(at_home(path, environment)), platform)
        case ArchiveSource(path=path):
            return _of_archive(source, at_home(path, environment), platform)


def at_home(path: str, environment: Environment) -> str:
    """Give the path that is meant: a shell does not expand the tilde of `path:~/vllm`."""
    if path == "~" or path.startswith("~/"):
        return str(PurePosixPath(environment.home) / path[2:])
    return path


def _of_layout(
    source: OciSource | RegistrySource, layout: Layout | RegistryImage, platform: Platform | None
) -> Layered:
    candidates = list(candidates_of_index(layout.index(), layout.blob, layout.place))
    chosen = source.chosen if isinstance(source, OciSource) else ""
    candidate = choose(candidates, chosen=chosen, platform=platform, where=layout.place)
    content = layout.blob(Digest.parse(candidate.config))
    facts = parse_configuration(
        content, reference=_name(candidate, layout.place), where=layout.place
    )
    refuse_other_platform(facts, platform)
    _refuse_other_count(candidate, facts, layout.place)
    return Layered(
        facts=facts,
        layer=lambda number: layout.layer(Digest.parse(candidate.layers[number])),
        place=layout.place,
        stored=candidate.stored,
    )


def _of_archive(source: ArchiveSource, place: str, platform: Platform | None) -> Layered:
    archive = read_archive(place)
    candidate = choose(
        list(_candidates(archive, place)), chosen=source.chosen, platform=platform, where=place
    )
    content = _document(archive, candidate.config, place)
    facts = parse_configuration(content, reference=_name(candidate, place), where=place)
    refuse_other_platform(facts, platform)
    _refuse_other_count(candidate, facts, place)
    layers = [_layer(archive, name, place) for name in candidate.layers]
    return Layered(facts=facts, layer=layers.__getitem__, place=place)


def _refuse_other_count(candidate: Candidate, facts: ImageFacts, place: str) -> None:
    if len(candidate.layers) != len(facts.layers):
        raise SourceError(
            f"{place} was altered: its configuration names {len(facts.layers)} layers, its manifest"
            f" {len(candidate.layers)}",
            remedy="Fetch or save the image again; what differs from its digest is not read.",
            code="E324",
        )


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

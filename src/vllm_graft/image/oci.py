# What the JSON documents of an image say. Two forms are in use: the layout of the OCI (index.json, blobs) and that of
# `docker save` (manifest.json); the configuration is the same in both.
"""Manifests, indexes and configurations of images."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from vllm_graft.errors import SourceError
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.source import Platform

_GO_MACHINES = {"x86_64": "amd64"}
"""The spelling of the command line → that of images (Go's), where they differ."""

_REFERENCE = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
_MOST_NESTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A pointer to content.

    Source: OCI image specification 1.1, descriptor.md.
    """

    media_type: str
    digest: Digest
    size: int
    platform: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One image among several in a folder or file."""

    names: tuple[str, ...]
    platform: str
    """Empty where only its configuration tells."""
    config: str
    """Name of the member or digest of the blob that holds the configuration."""
    layers: tuple[str, ...]
    """Likewise, lowest first."""
    stored: tuple[Descriptor, ...] = ()
    """The layers as a manifest describes them; empty where there is none."""


def parse_object(content: bytes, where: str) -> Mapping[str, object]:
    """Read a JSON object.

    Raises:
        SourceError: E322, it is none.
    """
    try:
        value: object = json.loads(content)
    except ValueError as error:
        raise _no_image(where, f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise _no_image(where, "wanted a JSON object")
    return cast("Mapping[str, object]", value)


def parse_descriptor(value: object, where: str) -> Descriptor:
    """Read a descriptor.

    Raises:
        SourceError: E322, it has no digest, or one of another kind than sha256.
    """
    told = _mapping(value)
    try:
        digest = Digest.parse(str(told.get("digest")))
    except ValueError as error:
        raise _no_image(where, f"it points to {told.get('digest')!r}") from error
    size = told.get("size")
    platform = _mapping(told.get("platform"))
    notes = _mapping(told.get("annotations"))
    words = [str(platform.get(key) or "") for key in ("os", "architecture", "variant")]
    return Descriptor(
        media_type=str(told.get("mediaType") or ""),
        digest=digest,
        size=size if isinstance(size, int) else 0,
        platform="/".join(filter(None, words)),
        names=tuple(str(notes[key]) for key in (_FULL_NAME, _REFERENCE) if key in notes),
    )


def candidates_of_index(
    index: bytes, blob: Callable[[Digest], bytes], where: str, *, depth: int = 0
) -> Iterator[Candidate]:
    """Give the images that an index leads to; attestations and other artefacts are no images.

    Raises:
        SourceError: E322, a document is damaged.
    """
    told = parse_object(index, where)
    entries = _sequence(told.get("manifests"))
    for entry in entries:
        if _is_attestation(entry):
            continue
        pointer = parse_descriptor(entry, where)
        content = blob(pointer.digest)
        inner = parse_object(content, f"{where}: {pointer.digest}")
        if "manifests" in inner:
            if depth < _MOST_NESTED:
                for each in candidates_of_index(content, blob, where, depth=depth + 1):
                    yield _named(each, pointer.names)
        elif (found := candidate_of_manifest(content, where)) is not None:
            yield _named(found, pointer.names, pointer.platform)


def candidate_of_manifest(content: bytes, where: str) -> Candidate | None:
    """Read a manifest; None where it is that of no image.

    Raises:
        SourceError: E322, it is damaged.
    """
    told = parse_object(content, where)
    layers = _sequence(told.get("layers"))
    if not _mapping(told.get("config")) or not layers:
        if told.get("schemaVersion") == 1:
            raise _no_image(where, "it is in the form of before 2016 (schema 1)")
        return None
    stored = tuple(parse_descriptor(layer, where) for layer in layers)
    return Candidate(
        names=(),
        platform="",
        config=str(parse_descriptor(told["config"], where).digest),
        layers=tuple(str(each.digest) for each in stored),
        stored=stored,
    )


def candidates_of_docker(manifest: bytes, where: str) -> Iterator[Candidate]:
    """Give the images of a ``manifest.json``.

    Source: Docker 20.10 to 28, ``image/tarexport``: a list of Config, RepoTags and Layers.

    Raises:
        SourceError: E322, it is damaged.
    """
    try:
        value: object = json.loads(manifest)
    except ValueError as error:
        raise _no_image(where, f"its manifest.json is no JSON: {error}") from error
    for entry in _sequence(value):
        told = _mapping(entry)
        yield Candidate(
            names=tuple(str(name) for name in _sequence(told.get("RepoTags"))),
            platform="",
            config=str(told.get("Config") or ""),
            layers=tuple(str(layer) for layer in _sequence(told.get("Layers"))),
        )


def parse_configuration(content: bytes, *, reference: str, where: str) -> ImageFacts:
    """Read an image configuration.

    Raises:
        SourceError: E322, it is damaged.
    """
    told = parse_object(content, where)
    layers = _sequence(_mapping(told.get("rootfs")).get("diff_ids"))
    try:
        diff_ids = tuple(Digest.parse(str(layer)) for layer in layers)
    except ValueError as error:
        raise _no_image(where, f"its configuration is damaged: {error}") from error
    if not told.get("architecture") or not told.get("os"):
        raise _no_image(where, "its configuration names no platform")
    return ImageFacts(
        reference=reference,
        architecture=str(told["architecture"]),
        system=str(told["os"]),
        variant=str(told.get("variant") or ""),
        settings=_mapping(told.get("config")),
        layers=diff_ids,
    )


def choose(
    candidates: Sequence[Candidate], *, chosen: str, platform: Platform | None, where: str
) -> Candidate:
    """Give the image that is meant.

    Raises:
        SourceError: E323, none is, or it is not said which.
    """
    left = [each for each in candidates if not chosen or _is_called(each, chosen)]
    if platform is not None:
        wanted = _spelled(platform)
        left = [each for each in left if not each.platform or _is_for(each.platform, wanted)]
    by_content = {each.config: each for each in left}
    if len(by_content) == 1:
        return next(iter(by_content.values()))
    asked = " ".join(filter(None, (chosen, str(platform or ""))))
    known = "; ".join(_shown(each) for each in candidates)
    if not candidates:
        raise _no_image(where, "it holds no image")
    if not by_content:
        raise SourceError(f"no image {asked} in {where}", remedy=f"It holds {known}.", code="E323")
    raise SourceError(
        f"{len(by_content)} images in {where}: {known}",
        remedy="Say which: with --platform, or with its name behind a #, as in archive:FILE#NAME.",
        code="E323",
    )


def refuse_other_platform(facts: ImageFacts, platform: Platform | None) -> None:
    """Refuse an image that is for another platform than the one that was asked for.

    Raises:
        SourceError: E323.
    """
    if platform is not None and not _is_for(facts.platform, _spelled(platform)):
        raise SourceError(
            f"{facts.reference} is for {facts.platform}, not for {platform}",
            remedy="Leave --platform away, or name the image for that platform.",
            code="E323",
        )


def _spelled(platform: Platform) -> str:
    return f"{platform.system}/{_GO_MACHINES.get(platform.machine, platform.machine)}"


def _is_called(candidate: Candidate, chosen: str) -> bool:
    return any(name in (chosen, f"{chosen}:latest") for name in candidate.names)


def _is_for(platform: str, wanted: str) -> bool:
    return platform == wanted or platform.startswith(f"{wanted}/")


def _shown(candidate: Candidate) -> str:
    names = " = ".join(candidate.names) or candidate.config[:19]
    return f"{names} ({candidate.platform})" if candidate.platform else names


def _named(candidate: Candidate, names: tuple[str, ...], platform: str = "") -> Candidate:
    return replace(
        candidate,
        names=tuple(dict.fromkeys((*candidate.names, *names))),
        platform=platform or candidate.platform,
    )


def _is_attestation(entry: object) -> bool:
    # Source: BuildKit 0.11 to 0.17, docs/attestations/attestation-storage.md.
    told = _mapping(entry)
    return "vnd.docker.reference.type" in _mapping(told.get("annotations"))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def _no_image(where: str, why: str) -> SourceError:
    return SourceError(
        f"{where} is no image that can be read: {why}",
        remedy="Give a folder in OCI layout as oci:DIR, or what `docker save` wrote as archive:FILE.",
        code="E322",
    )

# Images that lie on this machine as files. An archive is read in one pass, front to back, since it may be compressed and
# names its layers wherever it likes; which of them belong to the image, and in which order, is known at its end.
"""Reading images from files."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import cast

from vllm_graft.errors import SourceError
from vllm_graft.image.entries import ScannedLayer
from vllm_graft.run.compression import BROKEN, STEP, buffered, decompressed, is_compressed
from vllm_graft.run.layers import damaged, scan_layer
from vllm_graft.values.digest import Digest

_LARGEST_DOCUMENT = 1 << 24
"""Source: OCI distribution specification 1.1: manifests are at most 4 MiB; configurations with long histories pass that."""
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArchive:
    """All that an archive holds."""

    documents: Mapping[str, bytes]
    """Its JSON files, by name."""
    layers: Mapping[str, ScannedLayer]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that are links to others, by which ``docker save`` writes a layer only once."""


def read_archive(place: str) -> ImageArchive:
    """Read a docker-archive or an OCI layout in a tar, compressed or not.

    Raises:
        SourceError: E322, it is damaged or no archive; E300, it may not be read.
    """
    wanted: dict[str, frozenset[str]] = {}
    found, missing = _read_archive(place, wanted)
    if missing:
        # Hard links whose other name nobody could know to be of interest: once more, with those.
        found, _ = _read_archive(place, missing)
    return found


def _read_archive(
    place: str, extra: Mapping[str, frozenset[str]]
) -> tuple[ImageArchive, dict[str, frozenset[str]]]:
    documents: dict[str, bytes] = {}
    layers: dict[str, ScannedLayer] = {}
    links: dict[str, str] = {}
    missing: dict[str, frozenset[str]] = {}
    try:
        with (
            _opened(place) as raw,
            tarfile.open(
                fileobj=decompressed(buffered(raw)),
                mode="r|",
                bufsize=STEP,
            ) as archive,
        ):
            while (member := archive.next()) is not None:
                vars(archive)["members"] = []  # it would keep them all
                name = member.name.removeprefix("./")
                if member.issym() or member.islnk():
                    links[name] = _link_target(name, member)
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                stream = buffered(cast("io.RawIOBase", content))
                start = stream.peek(_BLOCK)[:_BLOCK]
                if member.size <= _LARGEST_DOCUMENT and start.lstrip()[:1] in (b"{", b"["):
                    documents[name] = stream.read()
                elif _may_be_layer(name) and (member.size >= _BLOCK or is_compressed(start)):
                    layers[name], lacking = scan_layer(
                        stream,
                        where=f"{place}: {name}",
                        extra=extra.get(name, frozenset()),
                    )
                    if lacking:
                        missing[name] = lacking
    except (tarfile.TarError, *BROKEN) as error:
        raise _not_archive(place, error) from error
    return ImageArchive(documents=documents, layers=layers, links=links), missing


def _may_be_layer(name: str) -> bool:
    # Source: `docker save` 20.10 (HEX/layer.tar) and 25 (blobs/sha256/HEX), `podman save` 4 (HEX.tar), kaniko 1.20
    # (HEX.tar.gz).
    return name.startswith("blobs/") or name.endswith((".tar", ".tar.gz", ".tgz", ".tar.zst"))


def _link_target(name: str, member: tarfile.TarInfo) -> str:
    if member.islnk():
        return member.linkname.removeprefix("./")
    steps: list[str] = []
    for step in (PurePosixPath(name).parent / member.linkname).parts:
        if step == "..":
            steps = steps[:-1]
        else:
            steps.append(step)
    return "/".join(steps)


def _opened(place: str) -> io.FileIO:
    try:
        return Path(place).open("rb", buffering=0)
    except FileNotFoundError as error:
        raise SourceError(
            f"no such file: {place}", remedy="Give the path of an image's archive."
        ) from error
    except IsADirectoryError as error:
        raise SourceError(
            f"{place} is a folder, not an archive", remedy=f"Did you mean oci:{place}?"
        ) from error
    except OSError as error:
        raise SourceError(
            f"{place} may not be read: {error.strerror}",
            remedy="Give yourself the right to read it.",
        ) from error


def _not_archive(place: str, error: Exception) -> SourceError:
    if isinstance(error, tarfile.ReadError) and "end" not in str(error):
        return SourceError(
            f"{place} is no archive of an image: {error}",
            remedy="Give what `docker save IMAGE -o FILE` writes, plain or compressed (gzip, zstd).",
            code="E322",
        )
    return damaged(place, error)


@dataclass(frozen=True, slots=True)
class Layout:
    """A folder in the layout of the OCI."""

    place: str

    def index(self) -> bytes:
        """Give index.json.

        Raises:
            SourceError: E322, there is none.
        """
        try:
            return (Path(self.place) / "index.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            if not Path(self.place).is_dir():
                kind = "a file" if Path(self.place).exists() else "no such folder"
                raise SourceError(
                    f"{self.place} is no folder in OCI layout: {kind}",
                    remedy=f"Give a folder; for a file, archive:{self.place}.",
                    code="E322",
                ) from error
            raise SourceError(
                f"{self.place} is no folder in OCI layout: it has no index.json",
                remedy="Give the folder that holds index.json and blobs/; for an install, path:DIR.",
                code="E322",
            ) from error
        except OSError as error:
            raise damaged(f"{self.place}/index.json", error) from error

    def blob(self, digest: Digest) -> bytes:
        """Give a document.

        Raises:
            SourceError: E322, it is not there; E324, it is not what its name says.
        """
        place = self.path(digest)
        try:
            content = Path(place).read_bytes()
        except OSError as error:
            raise _absent(place, error) from error
        if Digest.of(content) != digest:
            raise altered(place, digest, Digest.of(content))
        return content

    def layer(self, digest: Digest) -> ScannedLayer:
        """Read a layer.

        Raises:
            SourceError: E322, it is not there, or damaged; E324, it is not what its name says.
        """
        place = self.path(digest)
        extra: frozenset[str] = frozenset()
        while True:
            with _opened_blob(place) as stream:
                found, missing = scan_layer(stream, where=place, extra=extra)
            if found.digest != digest:
                raise altered(place, digest, found.digest)
            if not missing or extra:
                return found
            extra = missing

    def checked(self, digest: Digest) -> str:
        """Give the place of a blob that is what its name says.

        Raises:
            SourceError: E322, it is not there; E324, it is not what its name says.
        """
        place = self.path(digest)
        with _opened_blob(place) as stream:
            found = Digest(hashlib.file_digest(stream, "sha256").hexdigest())
        if found != digest:
            raise altered(place, digest, found)
        return place

    def path(self, digest: Digest) -> str:
        """Give the place of a blob."""
        return f"{self.place}/blobs/sha256/{digest.hex}"


def _opened_blob(place: str) -> io.FileIO:
    try:
        return Path(place).open("rb", buffering=0)
    except OSError as error:
        raise _absent(place, error) from error


def altered(where: str, wanted: Digest, found: Digest) -> SourceError:
    """Say that content is not what its name says."""
    return SourceError(
        f"{where} was altered: wanted {wanted}, found {found}",
        remedy="Fetch or save the image again; what differs from its digest is not read.",
        code="E324",
    )


def _absent(place: str, error: OSError) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return SourceError(
            f"a part of the image is not there: {place}",
            remedy="Copy the image again, whole; a layout that was made for an engine which has the base"
            " cannot be read without that base.",
            code="E322",
        )
    return damaged(place, error)

# An engine gives an image whole or not at all: `docker save` of 20 GB for the 70 MB that are lacking elsewhere. So it is run
# where the image is, and of what it says only the layers that are lacking are passed on, as they come by: nothing is written
# to a disk.
#
# The hard idea: a layer's bytes come before anything says which layer they are. Newer engines and podman name a layer's file
# by its diff id; then one reading will do. Docker before 25 and containerd's store name it by something else, and say at the
# end which is which: then that is read first, and what was saved is saved once more; unless whoever asks has asked the store.
#
# What ends early is no archive: the documents without which nobody loads anything come last.
#
# Runs as `python3 -c PROGRAM REQUEST`, with inside_archive.py in it.
"""Save an image of an engine, without the layers that somebody else has."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, cast

from vllm_graft.image.inside_archive import (
    END,
    LAYER,
    blob,
    described,
    file_pieces,
    head,
    naming_documents,
    packed,
    tail,
)

PIECE = 1 << 20
_SMALL = 4 << 20
"""Bytes of a file that may be a document, or a layer whose name says nothing: it is kept until it is known which."""
_MOST_KEPT = 1 << 30

_OTHER, _LACKING = 3, 4
"""Status where the image is another one by now, and where the engine has not all of its bytes."""


class Refused(Exception):  # noqa: N818 (no defect: the answer)
    """What was asked cannot be given."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Saved:
    """One reading of what the engine says."""

    def __init__(
        self, request: Mapping[str, Any], table: Mapping[str, str], sent: set[str]
    ) -> None:
        """Take what is wanted; ``table``: path of a file → the diff id of the layer that it is; ``sent``: diff ids."""
        self.diff_ids: list[str] = request["diff_ids"]
        self.lacking = set(self.diff_ids[request["held"] :])
        self.lower: Sequence[Mapping[str, Any]] = request["lower"]
        """The lowest layers, as the engine describes them that is to take the archive; empty where it does not."""
        self.names: Mapping[str, str] = request["names"]
        self.table = table
        self.sent = sent
        self.sizes: dict[str, int] = {}
        self.kept: dict[str, bytes] = {}
        self.unnamed = False
        """Whether a file came by that is too large to be kept, and nothing said which layer it is."""

    def pieces(self, archive: tarfile.TarFile) -> Iterator[bytes]:
        """Give the lacking layers as they come by, where it is known which they are."""
        for member in archive:
            path = member.name.removeprefix("./")
            if not member.isreg():
                continue
            stream = archive.extractfile(member)
            assert stream is not None, "it is a regular file"
            layer = self.table.get(path) or self.named_by(path)
            if layer is not None:
                self.sizes.setdefault(layer, member.size)
                if layer in self.lacking and layer not in self.sent:
                    self.sent.add(layer)
                    yield from self.passed(self.path(layer, path), member.size, stream)
            elif member.size <= _SMALL and sum(map(len, self.kept.values())) < _MOST_KEPT:
                self.kept[path] = stream.read()
            else:
                self.unnamed = True

    def named_by(self, path: str) -> str | None:
        """Give the diff id that a path says: ``blobs/sha256/HEX`` of Docker 25 and later, ``HEX.tar`` of podman."""
        digest = "sha256:" + path.rpartition("/")[2].removesuffix(".tar")
        return digest if digest in self.diff_ids else None

    def path(self, layer: str, path: str) -> str:
        """Give where a layer lies in the new archive: what is compressed is not what its diff id says."""
        return path if path.startswith("blobs/") else blob(layer)

    def passed(self, path: str, size: int, stream: IO[bytes]) -> Iterator[bytes]:
        """Give a file as it comes by."""
        yield head(path, size)
        left = size
        while piece := stream.read(min(PIECE, left)):
            left -= len(piece)
            yield piece
        yield tail(size)

    def documents(self) -> tuple[bytes, Sequence[str], Sequence[Mapping[str, Any]]]:
        """Give the configuration, and for each layer its path and its descriptor.

        Raises:
            Refused: it is another image.
        """
        if "manifest.json" not in self.kept:
            raise Refused(_LACKING, "it does not say what the image consists of")
        told = [each for each in json.loads(self.kept["manifest.json"]) if self.is_it(each)]
        if not told:
            raise Refused(_OTHER, "the engine has another image of this name by now")
        config = self.kept[told[0]["Config"]]
        paths: list[str] = told[0]["Layers"]
        lower = self.lower
        stored = self.stored(config)
        if len(stored) == len(paths):
            return config, paths, [*lower, *stored[len(lower) :]]
        for digest, path in zip(self.diff_ids, paths):
            if path in self.kept:
                self.sizes.setdefault(digest, len(self.kept[path]))
        standing = [
            {"mediaType": LAYER, "digest": digest, "size": self.sizes.get(digest, 1)}
            for digest in self.diff_ids
        ]
        return config, paths, [*lower, *standing[len(lower) :]]

    def is_it(self, entry: Mapping[str, Any]) -> bool:
        """Tell whether this is the image that is meant."""
        config = parse_document(self.kept.get(entry.get("Config", ""), b""))
        return config.get("rootfs", {}).get("diff_ids") == self.diff_ids

    def stored(self, config: bytes) -> Sequence[Mapping[str, Any]]:
        """Give the layers as a manifest describes them, if one came by."""
        wanted = described(config, "")["digest"]
        for content in self.kept.values():
            told = parse_document(content)
            if "layers" in told and digest_of(told.get("config")) == wanted:
                return cast("Sequence[Mapping[str, Any]]", told["layers"])
        return []

    def last(self) -> Iterator[bytes]:
        """Give the layers that were kept, and the documents.

        Raises:
            Refused: the image is another one, or not all of it is there.
        """
        config, paths, layers = self.documents()
        if any(self.table.get(path, it) != it for it, path in zip(self.diff_ids, paths)):
            raise Refused(_OTHER, "the engine's files are not the layers that its store said")
        for diff_id, path in zip(self.diff_ids, paths):
            if diff_id in self.lacking and diff_id not in self.sent and path in self.kept:
                self.sent.add(diff_id)
                yield from file_pieces(self.path(diff_id, path), self.kept[path])
        if absent := sorted(self.lacking - self.sent):
            raise Refused(_LACKING, "absent: " + ", ".join(absent))
        documents = naming_documents(config, layers, self.names)
        for path in sorted(documents):
            yield from file_pieces(path, documents[path])
        yield END


def parse_document(content: bytes) -> dict[str, Any]:
    """Read a JSON object; what is none, such as a small layer, gives an empty one."""
    if not content.startswith(b"{"):
        return {}
    try:
        return json.loads(content)
    except ValueError:
        return {}


def digest_of(descriptor: object) -> str:
    """Give the digest that a descriptor names; empty where it is none."""
    if not isinstance(descriptor, dict):
        return ""
    return str(cast("Mapping[str, Any]", descriptor).get("digest"))


def filtered(request: Mapping[str, Any]) -> Iterator[bytes]:
    """Give the archive without the layers that somebody has."""
    sent: set[str] = set()
    table: dict[str, str] = dict(request["table"])
    is_read = False
    while True:
        saved = Saved(request, table, sent)
        with saving(request) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            yield from saved.pieces(archive)
        if not saved.unnamed:
            yield from saved.last()
            return
        if is_read:
            raise Refused(_OTHER, "the engine does not say what all of its files are")
        is_read = True
        _, paths, _ = saved.documents()
        table = dict(zip(paths, saved.diff_ids))


@contextmanager
def saving(request: Mapping[str, Any]) -> Generator[IO[bytes]]:
    """Run the engine's save; how it ends matters where it is read to its end.

    Raises:
        Refused: it failed.
    """
    child = subprocess.Popen(request["save"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    stream = child.stdout
    assert stream is not None, "it was asked for"
    try:
        pass_over(stream, request["marker"].encode())
        yield stream
        while stream.read(PIECE):
            pass  # what stands behind the archive
        if child.wait():
            raise Refused(
                child.returncode if child.returncode > 0 else 1, "the engine did not save the image"
            )
    except tarfile.TarError as error:
        raise Refused(child.wait() or 1, f"the engine broke off: {error}") from error
    finally:
        child.kill()
        child.wait()
        stream.close()


def pass_over(stream: IO[bytes], marker: bytes) -> None:
    """Read up to where the command itself begins to speak: before that, a login shell may."""
    while marker and (line := stream.readline()):
        if line.endswith(marker):
            return


def whole(request: Mapping[str, Any]) -> Iterator[bytes]:
    """Give what the engine says, as it says it."""
    with saving(request) as stream:
        while piece := stream.read(PIECE):
            yield piece


def main(request: Mapping[str, Any], out: BinaryIO) -> int:
    """Write the archive; gives the exit status."""
    pieces = filtered(request) if request["held"] else whole(request)
    try:
        out.writelines(packed(pieces, request["rate"], time.monotonic))
        out.flush()
    except Refused as refused:
        sys.stderr.write(f"{refused}\n")
        return refused.status
    except BrokenPipeError:
        return 141
    return 0

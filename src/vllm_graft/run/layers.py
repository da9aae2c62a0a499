# A layer is read once, from its first byte to its last, whatever it is compressed with; nothing of it is unpacked, and
# what was read is held against both digests that an image gives of it.
"""Reading one layer."""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from vllm_graft.errors import SourceError
from vllm_graft.image.entries import (
    LayerEntry,
    ScannedLayer,
    clean_path,
    is_binary,
    is_kept,
    whiteout_of,
)
from vllm_graft.install.native import Binary, read_binary
from vllm_graft.run.compression import (
    BROKEN,
    PIECE,
    STEP,
    DigestingReader,
    Readable,
    buffered,
    decompressed,
)

_LARGEST_TEXT = 1 << 26
"""No file of Python or metadata is larger; more is not taken into memory."""


def scan_layer(
    stream: Readable, *, where: str, extra: frozenset[str] = frozenset()
) -> tuple[ScannedLayer, frozenset[str]]:
    """Read a layer; gives also the paths that hard links lead to and that must be among ``extra`` to be read.

    Raises:
        SourceError: E322, it is damaged or truncated.
    """
    stored = DigestingReader(stream)
    try:
        archive = DigestingReader(decompressed(buffered(stored)))
        entries, missing = scan_archive(archive, where=where, extra=extra)
        diff_id = archive.drain()
        digest = stored.drain()
    except (tarfile.TarError, *BROKEN) as error:
        raise damaged(where, error) from error
    return ScannedLayer(entries=entries, digest=digest, diff_id=diff_id), missing


def damaged(where: str, error: Exception) -> SourceError:
    """Say that something is truncated or damaged."""
    said = getattr(error, "strerror", None) or str(error) or "it ends too early"
    return SourceError(
        f"{where} cannot be read: {said}",
        remedy="It is truncated or damaged: fetch or save the image again.",
        code="E322",
    )


def scan_archive(
    stream: Readable,
    *,
    where: str,
    extra: frozenset[str] = frozenset(),
    below: str = "",
    most: int | None = None,
) -> tuple[tuple[LayerEntry, ...], frozenset[str]]:
    """Read the entries of an archive that is not compressed, as :func:`scan_layer` does.

    ``below``: the folder of the image in which it was packed; ``most``: entries that are read.
    """
    found: list[LayerEntry] = []
    held: dict[str, tuple[bytes | None, Binary | None]] = {}
    missing: set[str] = set()
    with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|", bufsize=STEP) as archive:
        while len(found) != most and (member := archive.next()) is not None:
            vars(archive)["members"] = []  # it would keep them all
            _put_below(member, below)
            path = clean_path(member.name, where=where)
            entry = _entry(archive, member, path, where=where, extra=extra)
            if entry.path in extra:
                held[entry.path] = (entry.content, entry.binary)
            elif entry.kind == "hard link" and _is_read(entry.path) and not _is_read(entry.target):
                if entry.target in held:
                    content, binary = held[entry.target]
                    entry = _like(entry, content, binary)
                else:
                    missing.add(entry.target)
            found.append(entry)
    return tuple(found), frozenset(missing - extra)


def scan_some(
    stream: Readable, *, where: str, below: str, limit: int
) -> tuple[tuple[LayerEntry, ...], bool]:
    """Read the entries in the first ``limit`` bytes of an archive, and tell whether these are all."""
    found: list[LayerEntry] = []
    with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|", bufsize=STEP) as archive:
        while (member := archive.next()) is not None:
            vars(archive)["members"] = []
            _put_below(member, below)
            path = clean_path(member.name, where=where)
            found.append(_entry(archive, member, path, where=where, extra=frozenset()))
            if archive.offset > limit:  # where the next one begins: what is between is not read
                return tuple(found), False
    return tuple(found), True


def _put_below(member: tarfile.TarInfo, below: str) -> None:
    if below:
        member.name = f"{below}/{member.name}"
        member.linkname = f"{below}/{member.linkname}" if member.islnk() else member.linkname


def _is_read(path: str) -> bool:
    return is_kept(path) or is_binary(path)


def _entry(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    path: str,
    *,
    where: str,
    extra: frozenset[str],
) -> LayerEntry:
    plain = LayerEntry(
        path=path,
        kind="file",
        mode=member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
    )
    if (gone := whiteout_of(path)) is not None:
        return LayerEntry(path=gone[1], kind=gone[0])
    if member.isdir():
        return LayerEntry(path=path, kind="folder", mode=plain.mode, uid=plain.uid, gid=plain.gid)
    if member.issym():
        return LayerEntry(path=path, kind="link", target=member.linkname)
    if member.islnk():
        target = clean_path(member.linkname, where=where)
        return LayerEntry(
            path=path,
            kind="hard link",
            mode=plain.mode,
            uid=plain.uid,
            gid=plain.gid,
            target=target,
        )
    if not member.isreg():
        return plain  # a device or pipe: it may hide what lower layers have
    if path in extra:
        content = b"".join(_pieces(archive, member))
        return _like(plain, content, read_binary([content]))
    if is_binary(path):
        return _like(plain, None, read_binary(_pieces(archive, member)))
    if is_kept(path) and member.size <= _LARGEST_TEXT:
        return _like(plain, b"".join(_pieces(archive, member)), None)
    return plain


def _like(entry: LayerEntry, content: bytes | None, binary: Binary | None) -> LayerEntry:
    return LayerEntry(
        path=entry.path,
        kind=entry.kind,
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        target=entry.target,
        content=content,
        binary=binary,
    )


def _pieces(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    stream = archive.extractfile(member)
    assert stream is not None, "it is a regular file"
    while piece := stream.read(PIECE * 4):
        yield piece

# What is kept of a layer while it passes by. A layer of 8 GB is read once, from front to back, and never unpacked; so
# what may be asked later is decided here, by names alone.
"""Entries of layers, and which files' contents are kept."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.errors import SourceError
from vllm_graft.install.environment_layout import own_dist_infos
from vllm_graft.install.native import Binary
from vllm_graft.install.search import KEPT_METADATA
from vllm_graft.values.digest import Digest

_DEEPEST_HOME = 3

EntryKind = Literal["folder", "file", "link", "hard link", "whiteout", "opaque"]
"""``whiteout``: the name is gone in this layer; ``opaque``: all that lower layers have in the folder is."""

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_AUFS = ".wh..wh."
"""Source: OCI image specification 1.1, layer.md, "Whiteouts"; names that begin so are aufs' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEntry:
    """One entry of a layer."""

    path: str
    """POSIX, relative to the root of the image, without ``.`` and ``..``; empty for the root itself."""
    kind: EntryKind
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    target: str = ""
    """Of a link: as it stands there; of a hard link: a path like ``path``."""
    content: bytes | None = None
    """None where nobody asks what is in this file."""
    binary: Binary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedLayer:
    """A layer that was read once, from its first byte to its last."""

    entries: tuple[LayerEntry, ...]
    """In the order of the archive."""
    digest: Digest
    """Of the bytes as they were stored, compressed or not."""
    diff_id: Digest
    """Of the archive itself, uncompressed."""


def clean_path(name: str, *, where: str) -> str:
    """Give the path of an archive's member below the root of the image.

    Raises:
        SourceError: E322, it leads out of the image.
    """
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if ".." in steps or "\0" in name:
        raise SourceError(
            f"{where} holds a path that leaves the image: {name!r}",
            remedy="Do not use this image; no tool that builds images writes such a path.",
            code="E322",
        )
    return "/".join(steps)


def whiteout_of(path: str) -> tuple[EntryKind, str] | None:
    """Tell whether this member says that something is gone: which kind, and the path that is meant."""
    folder, _, name = path.rpartition("/")
    if name == _OPAQUE:
        return "opaque", folder
    if name.startswith(_AUFS) or not name.startswith(_WHITEOUT):
        return None
    gone = name.removeprefix(_WHITEOUT)
    return "whiteout", f"{folder}/{gone}" if folder else gone


def is_kept(path: str) -> bool:
    """Tell whether the content of this file may be asked for."""
    folders, _, name = path.rpartition("/")
    steps = folders.split("/")
    if name.endswith(".py"):
        return (
            "vllm" in steps
            or folders.endswith("transformers/models/auto")
            or (name.startswith("__editable__") and name.endswith("_finder.py"))
        )
    if name in KEPT_METADATA or name in ("PKG-INFO", "plan.json", "graft.lock"):
        return _is_kept_metadata(steps[-1], name)
    if name.endswith((".pth", ".egg-link")) or name == "pyvenv.cfg":
        return True
    if name == ".bashrc":
        return len(steps) <= _DEEPEST_HOME
    # The tag of a checkout tells its version.
    return "/.git" in f"/{folders}" and (name in ("HEAD", "packed-refs") or "refs/heads" in folders)


def _is_kept_metadata(folder: str, name: str) -> bool:
    if name in ("METADATA", "PKG-INFO", "RECORD"):
        return folder.endswith((".dist-info", ".egg-info"))
    if name in ("plan.json", "graft.lock"):
        return folder.startswith("vllm_graft_overlay-")
    return bool(own_dist_infos([folder]))


def is_binary(path: str) -> bool:
    """Tell whether this file is a binary of vLLM."""
    return path.endswith(".so") and "vllm" in path.split("/")[:-1]


def is_noted(path: str) -> bool:
    """Tell whether the existence of this file may be asked for."""
    folders, _, name = path.rpartition("/")
    steps = folders.split("/")
    return (
        (name.endswith(".pyc") and "vllm" in steps)
        or (name.startswith("python") and steps[-1] == "bin")
        or name.endswith(".sh")
    )

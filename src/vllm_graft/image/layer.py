# The overlay as one layer: an archive that is the same to the byte wherever and whenever it is made. It says of every folder
# above a file what the base says of it: a folder that a layer does not name is made anew by some engines, as root's, 0755.
"""An overlay as a layer of an image."""

import base64
import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import InvalidVersion, Version

from vllm_graft.errors import BuildError
from vllm_graft.image.installed import Surroundings
from vllm_graft.image.overlay import OverlayFile
from vllm_graft.image.wheel_files import WheelFile
from vllm_graft.values.codec import encode_plan, plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import Placed, Placement
from vllm_graft.values.plan import GraftPlan

DISTRIBUTION = "vllm-graft-overlay"
"""What ``pip list`` shows in a grafted image."""

_TIME = 315_532_800
"""1980-01-01: the first second that every archive format can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """One file that the layer puts in place."""

    place: str
    """Absolute."""
    content: bytes
    like: Placed
    """Mode and owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """What a layer does."""

    files: tuple[LayerFile, ...]
    gone: tuple[str, ...]
    """Absolute paths of what it removes."""
    folders: Mapping[str, Placed]
    """Absolute path of every folder above these → mode and owner."""


NO_LAYER = LayerPlan(files=(), gone=(), folders={})
"""To begin with where wheels are all that a layer holds."""


def plan_layer(
    plan: GraftPlan, overlay: Sequence[OverlayFile], placement: Placement, *, bytecode: str = ""
) -> LayerPlan:
    """Decide what the layer does.

    ``bytecode``: the folder under which the image's Python keeps all bytecode (``PYTHONPYCACHEPREFIX``).

    Raises:
        BuildError: E404, a file lies behind a link.
    """
    root = placement.root
    folders: dict[str, Placed] = {}
    files: list[LayerFile] = []
    gone: list[str] = []
    compiled = _bytecode(placement)
    contents = [(f"{root}/{file.path}", file.content) for file in overlay]
    contents += [(f"{root}/{path}", text) for path, text in _metadata(plan, overlay).items()]
    for place, content in contents:
        above = _note_folders(place, placement, folders)
        like = placement.entries.get(place)
        if like is None or like.is_folder:
            like = Placed(mode=0o644, uid=above.uid, gid=above.gid, is_folder=False)
        files.append(LayerFile(place=place, content=content, like=like))
        for stale in _stale(place, compiled, bytecode):
            _note_folders(stale, placement, folders)
            gone.append(stale)
    return LayerPlan(
        files=tuple(sorted(files, key=lambda each: each.place)),
        gone=tuple(sorted(gone)),
        folders={place: folders[place] for place in sorted(folders)},
    )


def with_wheels(
    planned: LayerPlan, files: Sequence[WheelFile], surroundings: Surroundings
) -> LayerPlan:
    """Give a layer that also holds the files of wheels, and hides what they replace."""
    placement = Placement(root="", entries={**planned.folders, **surroundings.entries})
    folders = dict(planned.folders)
    placed = {each.place: each for each in planned.files}
    for file in files:
        above = _note_folders(file.place, placement, folders)
        mode = 0o755 if file.executable else 0o644
        like = Placed(mode=mode, uid=above.uid, gid=above.gid, is_folder=False)
        placed[file.place] = LayerFile(place=file.place, content=file.content, like=like)
    for place in surroundings.gone:
        _note_folders(place, placement, folders)
    return LayerPlan(
        files=tuple(placed[place] for place in sorted(placed)),
        gone=tuple(sorted({*planned.gone, *surroundings.gone})),
        folders={place: folders[place] for place in sorted(folders)},
    )


def _note_folders(place: str, placement: Placement, folders: dict[str, Placed]) -> Placed:
    """Note each folder above a file as the base has it; a new one is like the one above it."""
    like = Placed(mode=0o755, uid=0, gid=0, is_folder=True)
    above = ""
    for step in place.split("/")[1:-1]:
        above += f"/{step}"
        if above in placement.links:
            raise BuildError(
                f"{place} lies behind a link: {above} leads to {placement.links[above]}",
                remedy="install vLLM in the base with its files copied (uv: --link-mode=copy)",
                code="E404",
            )
        like = folders[above] = placement.entries.get(above, like)
    return like


def _bytecode(placement: Placement) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for place in placement.entries:
        if place.endswith(".pyc"):
            folder, _, name = place.rpartition("/")
            found.setdefault(folder, []).append(name)
    return found


def _stale(place: str, compiled: Mapping[str, Sequence[str]], bytecode: str) -> Iterable[str]:
    """Give what Python compiled from this file before.

    Source: PEP 3147 and 488: ``__pycache__/NAME.TAG.pyc``, ``NAME.TAG.opt-N.pyc``; under ``PYTHONPYCACHEPREFIX`` without
    ``__pycache__``. A stale one wins over the new text where size and time agree, and always where it is an
    unchecked hash-based one (PEP 552).
    """
    path = PurePosixPath(place)
    if path.suffix != ".py":
        return
    for folder in (f"{path.parent}/__pycache__", f"{bytecode}{path.parent}"):
        for name in compiled.get(folder, ()):
            if name.split(".")[0] == path.stem:
                yield f"{folder}/{name}"


def _metadata(plan: GraftPlan, overlay: Sequence[OverlayFile]) -> dict[str, bytes]:
    """Give the ``*.dist-info`` of the graft.

    Its RECORD names what the graft adds. What it edits stays in vLLM's own RECORD: uninstalling the graft with pip must not
    remove vLLM's files.
    """
    version = overlay_version(plan)
    folder = metadata_folder(version)
    names = ", ".join(plan.architectures)
    texts = {
        "INSTALLER": b"vllm-graft\n",
        "METADATA": (
            f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version}\n"
            f"Summary: {names} from vLLM {plan.donor.version}, grafted by vllm-graft\n"
        ).encode(),
        "plan.json": encode_plan(plan),
    }
    found = {f"{folder}/{name}": text for name, text in texts.items()}
    added = {file.path: file.content for file in overlay if file.before is None}
    rows = [f"{path},{_hash(text)},{len(text)}\n" for path, text in sorted((added | found).items())]
    found[f"{folder}/RECORD"] = "".join((*rows, f"{folder}/RECORD,,\n")).encode()
    return found


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def overlay_version(plan: GraftPlan) -> str:
    """Give a version that says what was grafted onto what, such as ``0.14.1+from.0.17.1.1f3a09bc``."""
    return spell_version(plan.base.version, plan.donor.version, plan_digest(plan))


def spell_version(base: str, donor: str, plan: Digest) -> str:
    """Give the version of a graft of a donor's release onto a base's."""
    try:
        public = Version(base).public
    except InvalidVersion:
        public = "0"
    words = ".".join(re.findall(r"[a-z0-9]+", donor.lower()))
    return f"{public}+from.{words}.{plan.hex[:8]}"


def metadata_folder(version: str) -> str:
    """Name the ``*.dist-info`` of a graft; its plan lies in it as ``plan.json``."""
    return f"{DISTRIBUTION.replace('-', '_')}-{version}.dist-info"


def encode_layer(planned: LayerPlan) -> bytes:
    """Give the archive: folders before what is in them, all in the order of their paths, one fixed time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for place, (kind, like, content) in sorted(_members(planned).items()):
            member = tarfile.TarInfo(place.lstrip("/"))
            member.type = kind
            member.mode, member.uid, member.gid = like.mode, like.uid, like.gid
            member.mtime = _TIME
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _members(planned: LayerPlan) -> dict[str, tuple[bytes, Placed, bytes]]:
    found = {place: (tarfile.DIRTYPE, like, b"") for place, like in planned.folders.items()}
    for file in planned.files:
        found[file.place] = (tarfile.REGTYPE, file.like, file.content)
    nobody = Placed(mode=0o644, uid=0, gid=0, is_folder=False)
    for place in planned.gone:
        folder, _, name = place.rpartition("/")
        found[f"{folder}/.wh.{name}"] = (tarfile.REGTYPE, nobody, b"")
    return found


def diff_id(layer: bytes) -> Digest:
    """Name a layer: the digest of the archive, uncompressed."""
    return Digest.of(layer)

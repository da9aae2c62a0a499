# Finding vLLM among files, be they a folder of this machine or the layers of an image. It may lie in a site directory,
# or elsewhere with only a note left behind (an editable install). All copies are looked for, since Python would take one
# of them silently, and a graft into the other would change nothing.
"""Copies of vLLM in an environment, and what is read of one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from vllm_graft.errors import SourceError
from vllm_graft.install.assemble import Contents
from vllm_graft.install.environment_layout import (
    folders_of_pth,
    interpreter_of_site,
    own_dist_infos,
    packages_of_finder,
    version_of_tags,
)
from vllm_graft.install.metadata import (
    parse_editable_target,
    parse_metadata,
    parse_wheel_interpreter,
)
from vllm_graft.install.native import Binary
from vllm_graft.values.install import Distribution

KEPT_METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "direct_url.json")
"""What is kept of vLLM's own ``*.dist-info``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file of a tree."""

    path: str
    """POSIX, relative to the root that was walked."""
    place: str
    """Where it lies, links resolved."""
    signature: str
    """Changes whenever the file does; empty where what is read cannot change."""


class FileSystem(Protocol):
    """A folder of this machine or an image; nothing in it is run."""

    def exists(self, place: str) -> bool:
        """Tell whether something is there, links followed."""
        ...

    def names(self, place: str) -> list[str]:
        """Give the sorted names in a folder; empty where there is none."""
        ...

    def read(self, place: str) -> bytes:
        """Read one file.

        Raises:
            SourceError: it cannot be read.
        """
        ...

    def real_path(self, place: str) -> str:
        """Resolve every link."""
        ...

    def walk(self, root: str, folder: str, suffixes: tuple[str, ...]) -> list[Found]:
        """Find the files under ``root/folder`` with one of these suffixes, sorted by path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One ``vllm`` package that an environment would import."""

    root: str
    """The folder that holds ``vllm/``, links resolved."""
    how: str
    """Empty where it simply lies there; else a sentence for messages."""


def find_copies(files: FileSystem, sites: Sequence[str]) -> list[Copy]:
    """Give every copy that these site directories hold or lead to, each once, sorted.

    Raises:
        SourceError: E320, a note leads to a place without vLLM; E300, one is linked under another name.
    """
    found: dict[str, Copy] = {}
    for site in sites:
        for copy in _copies_of(files, site):
            found.setdefault(copy.root, copy)
    return [found[root] for root in sorted(found)]


def _copies_of(files: FileSystem, site: str) -> Iterator[Copy]:
    if files.exists(f"{site}/vllm/__init__.py"):
        real = files.real_path(f"{site}/vllm")
        root = str(PurePosixPath(real).parent)
        if PurePosixPath(real).name != "vllm":
            raise SourceError(
                f"{site}/vllm is a link to {real}, whose name is not vllm",
                remedy="Copy the install with its links resolved (cp -rL FROM TO) and give the copy.",
            )
        yield Copy(root=root, how="" if root == site else f"{site}/vllm is a link to {real}")
    for name in files.names(site):
        yield from _noted_copies(files, site, name)


def _noted_copies(files: FileSystem, site: str, name: str) -> Iterator[Copy]:
    """Give the copies that a file in a site directory leads to."""
    place = f"{site}/{name}"
    if name.endswith(".pth"):
        for line in folders_of_pth(_text(files, place)):
            yield from _copy_at(files, str(PurePosixPath(site) / line), f"{place} leads to it")
    elif name.startswith("__editable__") and name.endswith("_finder.py"):
        target = packages_of_finder(_text(files, place)).get("vllm")
        if target is not None:
            parent = str((PurePosixPath(site) / target).parent)
            yield from _demanded(files, parent, f"editable install, {place} leads to it")
    elif name.endswith(".egg-link") and name.startswith("vllm"):
        folder = (_text(files, place).splitlines() or [""])[0].strip()
        yield from _demanded(files, folder, f"editable install, {place} leads to it")
    elif own_dist_infos([name]) and files.exists(f"{place}/direct_url.json"):
        target = parse_editable_target(files.read(f"{place}/direct_url.json"))
        if target is not None:
            yield from _demanded(files, target, f"editable install, {place} leads to it")


def _copy_at(files: FileSystem, folder: str, how: str) -> Iterator[Copy]:
    if files.exists(f"{folder}/vllm/__init__.py"):
        root = str(PurePosixPath(files.real_path(f"{folder}/vllm")).parent)
        yield Copy(root=root, how=how)


def _demanded(files: FileSystem, folder: str, how: str) -> Iterator[Copy]:
    found = list(_copy_at(files, folder, how)) or list(_copy_at(files, f"{folder}/src", how))
    if not found:
        raise SourceError(
            f"{how}: {folder}, but no vLLM is there",
            remedy="Give the checkout itself as path:DIR; in a copy of an image, its path inside the copy.",
            code="E320",
        )
    yield from found


def read_copy(
    files: FileSystem, copy: Copy, sites: tuple[str, ...], binary: Callable[[Found], Binary]
) -> Contents:
    """Read one copy, with the metadata of its environment."""
    found = files.walk(copy.root, "vllm", (".py", ".so"))
    texts = [(each.path, files.read(each.place)) for each in found if each.path.endswith(".py")]
    binaries = [(each.path, binary(each)) for each in found if each.path.endswith(".so")]
    looked_in = tuple(dict.fromkeys((copy.root, *sites)))
    homes = [(site, name) for site in looked_in for name in own_dist_infos(files.names(site))]
    notes = [copy.how] if copy.how else []
    dist_info = ""
    tag = None
    if homes:
        site, dist_info = _belonging(homes, dict(texts).get("vllm/_version.py", b""), notes)
        texts.extend(
            (f"{dist_info}/{name}", files.read(place))
            for name in KEPT_METADATA
            if files.exists(place := f"{site}/{dist_info}/{name}")
        )
        if dist_info.endswith(".egg-info") and files.exists(
            place := f"{site}/{dist_info}/PKG-INFO"
        ):
            texts.append((f"{dist_info}/METADATA", files.read(place)))
        tag = parse_wheel_interpreter(dict(texts).get(f"{dist_info}/WHEEL", b""))
    interpreters = [tag_of_site for site in sites if (tag_of_site := interpreter_of_site(site))]
    return Contents(
        files=tuple(texts),
        binaries=tuple(binaries),
        dist_info=dist_info,
        others=tuple(_distributions(files, sites)),
        interpreter=interpreters[0] if interpreters else tag,
        told_version=_tagged_version(files, copy.root),
        sites=sites,
        notes=tuple(notes),
    )


def _belonging(
    homes: list[tuple[str, str]], version_file: bytes, notes: list[str]
) -> tuple[str, str]:
    """Give the metadata folder that goes with the files; several are a damaged environment."""
    if len(homes) > 1:
        notes.append("several metadata folders of vLLM: " + ", ".join(f"{a}/{b}" for a, b in homes))
        text = version_file.decode("utf-8", "replace")
        for site, name in homes:
            if f"'{name.rsplit('.', 1)[0].split('-', 1)[1]}'" in text.replace('"', "'"):
                return site, name
    return homes[0]


def _distributions(files: FileSystem, sites: tuple[str, ...]) -> Iterator[Distribution]:
    for site in sites:
        for name in files.names(site):
            if name.endswith(".dist-info"):
                place = f"{site}/{name}/METADATA"
            elif name.endswith(".egg-info"):
                place = f"{site}/{name}/PKG-INFO"
            else:
                continue
            if files.exists(place):
                found = parse_metadata(files.read(place))
                if found is not None:
                    yield found


def _tagged_version(files: FileSystem, root: str) -> str:
    if not files.exists(f"{root}/.git/HEAD") or not files.exists(f"{root}/.git/packed-refs"):
        return ""
    packed = _text(files, f"{root}/.git/packed-refs")
    head = _text(files, f"{root}/.git/HEAD").strip()
    if head.startswith("ref: "):
        ref = f"{root}/.git/{head.removeprefix('ref: ')}"
        head = _text(files, ref).strip() if files.exists(ref) else ""
    return version_of_tags(head, packed) if head else ""


def _text(files: FileSystem, place: str) -> str:
    return files.read(place).decode("utf-8", "replace")

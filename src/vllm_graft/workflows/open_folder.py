# A folder that somebody points at may be a site-packages, a virtual environment, a whole prefix, or a checkout;
# vLLM may lie in it, or elsewhere with only a note left behind (an editable install). All copies are looked
# for, since Python would take one of them silently, and a graft into the other would change nothing.
"""Open a folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from vllm_graft.errors import SourceError
from vllm_graft.install.assemble import Contents, assemble
from vllm_graft.install.environment_layout import (
    SITE_PATTERNS,
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
from vllm_graft.install.native import Binary, read_binary
from vllm_graft.run.cache import Cache
from vllm_graft.run.directory import (
    Found,
    exists,
    match_folders,
    names,
    read_file,
    read_pieces,
    real_path,
    walk,
)
from vllm_graft.values.install import Distribution, Install
from vllm_graft.workflows.binary_cache import cached_binary
from vllm_graft.workflows.open_wheel import KEPT_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One ``vllm`` package that an environment would import."""

    root: str
    """The folder that holds ``vllm/``, links resolved."""
    how: str
    """Empty where it simply lies there; else a sentence for messages."""


def open_folder(path: str, *, source: str, cache: Cache) -> Install:
    """Read a site-packages, a virtual environment, a prefix or a checkout.

    Raises:
        SourceError: there is no such folder, it holds no vLLM (E320), or several (E321); a link leaves the
            tree or something may not be read.
    """
    if not exists(path):
        raise SourceError(
            f"no such folder: {path}", remedy="Give the path of a folder that exists."
        )
    sites = _sites(path)
    copies = _copies(sites)
    if not copies:
        raise _no_vllm(path, sites)
    if len(copies) > 1:
        raise _several(path, copies)
    return _read(copies[0], _sites_of(copies[0], sites), source=source, cache=cache)


def _sites(path: str) -> tuple[str, ...]:
    """Give the folders that an interpreter of this environment would look in, links resolved."""
    if exists(f"{path}/vllm"):
        return (real_path(path),)
    below = match_folders(path, SITE_PATTERNS)
    return tuple(dict.fromkeys(real_path(site) for site in below)) or (real_path(path),)


def _sites_of(copy: Copy, sites: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the folders of other interpreters, where the place of vLLM tells which one is meant."""
    own = interpreter_of_site(copy.root) if copy.root in sites else None
    if own is None:
        return sites
    return tuple(site for site in sites if interpreter_of_site(site) in {own, None})


def _copies(sites: tuple[str, ...]) -> list[Copy]:
    found: dict[str, Copy] = {}
    for site in sites:
        for copy in _copies_of(site):
            found.setdefault(copy.root, copy)
    return [found[root] for root in sorted(found)]


def _copies_of(site: str) -> Iterator[Copy]:
    if exists(f"{site}/vllm/__init__.py"):
        real = real_path(f"{site}/vllm")
        root = str(PurePosixPath(real).parent)
        if PurePosixPath(real).name != "vllm":
            raise SourceError(
                f"{site}/vllm is a link to {real}, whose name is not vllm",
                remedy="Copy the install with its links resolved (cp -rL FROM TO) and give the copy.",
            )
        yield Copy(root=root, how="" if root == site else f"{site}/vllm is a link to {real}")
    for name in names(site):
        yield from _noted_copies(site, name)


def _noted_copies(site: str, name: str) -> Iterator[Copy]:
    """Give the copies that a file in a site directory leads to."""
    place = f"{site}/{name}"
    if name.endswith(".pth"):
        for line in folders_of_pth(_text(place)):
            yield from _copy_at(str(PurePosixPath(site) / line), f"{place} leads to it")
    elif name.startswith("__editable__") and name.endswith("_finder.py"):
        target = packages_of_finder(_text(place)).get("vllm")
        if target is not None:
            parent = str((PurePosixPath(site) / target).parent)
            yield from _demanded(parent, f"editable install, {place} leads to it")
    elif name.endswith(".egg-link") and name.startswith("vllm"):
        folder = (_text(place).splitlines() or [""])[0].strip()
        yield from _demanded(folder, f"editable install, {place} leads to it")
    elif own_dist_infos([name]) and exists(f"{place}/direct_url.json"):
        target = parse_editable_target(read_file(f"{place}/direct_url.json"))
        if target is not None:
            yield from _demanded(target, f"editable install, {place} leads to it")


def _copy_at(folder: str, how: str) -> Iterator[Copy]:
    if exists(f"{folder}/vllm/__init__.py"):
        root = str(PurePosixPath(real_path(f"{folder}/vllm")).parent)
        yield Copy(root=root, how=how)


def _demanded(folder: str, how: str) -> Iterator[Copy]:
    found = list(_copy_at(folder, how)) or list(_copy_at(f"{folder}/src", how))
    if not found:
        raise SourceError(
            f"{how}: {folder}, but no vLLM is there",
            remedy="Give the checkout itself as path:DIR; in a copy of an image, its path inside the copy.",
            code="E320",
        )
    yield from found


def _no_vllm(path: str, sites: tuple[str, ...]) -> SourceError:
    remedy = "Give a site-packages, a virtual environment, or a checkout with vllm/ in it."
    if PurePosixPath(path).name == "vllm" and exists(f"{path}/model_executor"):
        remedy = f"Give the folder that holds it: path:{PurePosixPath(path).parent}."
    elif exists(f"{path}/vllm") and not exists(f"{path}/vllm/__init__.py"):
        remedy = f"{path}/vllm has no __init__.py. {remedy}"
    elif path.endswith(".whl"):
        remedy = f"Name a wheel as one: wheel:{path}."
    looked = "" if sites == (real_path(path),) else f" (looked in {', '.join(sites)})"
    return SourceError(f"no vLLM in {path}{looked}", remedy=remedy, code="E320")


def _several(path: str, copies: list[Copy]) -> SourceError:
    shown = " and ".join(
        f"{copy.root}/vllm" + (f" ({copy.how})" if copy.how else "") for copy in copies
    )
    return SourceError(
        f"{len(copies)} copies of vLLM in {path}: {shown}",
        remedy="Remove the one that is not used, or give the folder of one of them as path:DIR.",
        code="E321",
    )


def _read(copy: Copy, sites: tuple[str, ...], *, source: str, cache: Cache) -> Install:
    found = walk(copy.root, "vllm", (".py", ".so"))
    files = [(each.path, read_file(each.place)) for each in found if each.path.endswith(".py")]
    binaries = [(each.path, _binary(each, cache)) for each in found if each.path.endswith(".so")]
    looked_in = tuple(dict.fromkeys((copy.root, *sites)))
    homes = [(site, name) for site in looked_in for name in own_dist_infos(names(site))]
    notes = [copy.how] if copy.how else []
    dist_info = ""
    tag = None
    if homes:
        site, dist_info = _belonging(homes, dict(files).get("vllm/_version.py", b""), notes)
        files.extend(
            (f"{dist_info}/{name}", read_file(place))
            for name in KEPT_METADATA
            if exists(place := f"{site}/{dist_info}/{name}")
        )
        if dist_info.endswith(".egg-info") and exists(place := f"{site}/{dist_info}/PKG-INFO"):
            files.append((f"{dist_info}/METADATA", read_file(place)))
        tag = parse_wheel_interpreter(dict(files).get(f"{dist_info}/WHEEL", b""))
    interpreters = [tag_of_site for site in sites if (tag_of_site := interpreter_of_site(site))]
    return assemble(
        Contents(
            files=tuple(files),
            binaries=tuple(binaries),
            dist_info=dist_info,
            others=tuple(_distributions(sites)),
            interpreter=interpreters[0] if interpreters else tag,
            told_version=_tagged_version(copy.root),
            sites=sites,
            notes=tuple(notes),
        ),
        source=source,
        location=copy.root,
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


def _binary(found: Found, cache: Cache) -> Binary:
    return cached_binary(
        found.signature, lambda: read_binary(read_pieces(found.place)), cache=cache
    )


def _distributions(sites: tuple[str, ...]) -> Iterator[Distribution]:
    for site in sites:
        for name in names(site):
            if name.endswith(".dist-info"):
                place = f"{site}/{name}/METADATA"
            elif name.endswith(".egg-info"):
                place = f"{site}/{name}/PKG-INFO"
            else:
                continue
            if exists(place):
                found = parse_metadata(read_file(place))
                if found is not None:
                    yield found


def _tagged_version(root: str) -> str:
    if not exists(f"{root}/.git/HEAD") or not exists(f"{root}/.git/packed-refs"):
        return ""
    packed = _text(f"{root}/.git/packed-refs")
    head = _text(f"{root}/.git/HEAD").strip()
    if head.startswith("ref: "):
        ref = f"{root}/.git/{head.removeprefix('ref: ')}"
        head = _text(ref).strip() if exists(ref) else ""
    return version_of_tags(head, packed) if head else ""


def _text(place: str) -> str:
    return read_file(place).decode("utf-8", "replace")

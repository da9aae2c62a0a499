# What an image has in its site directories where wheels go in: what must be hidden so that no trace of an older release stays, and
# what the folders are like that new files go into. A trace is worse than it looks: an empty folder is a package to Python, and a
# metadata folder that is left over makes a distribution seem to be there twice.
"""Distributions of an image that are replaced."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from vllm_graft.errors import BuildError
from vllm_graft.image.tree import ImageTree, placed
from vllm_graft.image.wheel_files import Scheme
from vllm_graft.install.metadata import parse_record_paths
from vllm_graft.values.image import ImageFacts, Placed, Placement
from vllm_graft.values.wheels import LockedWheel

SIDE = "/opt/vllm-graft"
"""Holds what only the process that serves this model imports."""


def image_scheme(placement: Placement) -> Scheme:
    """Give where the image's own interpreter wants distributions.

    Raises:
        BuildError: E431, it has no place for them.
    """
    if not placement.site:
        raise BuildError(
            f"vLLM lies in {placement.root}, and no site directory was found beside it to put distributions into",
            remedy="use a base whose vLLM is installed in a site-packages or dist-packages folder",
            code="E431",
        )
    prefix = str(PurePosixPath(placement.site).parents[2])
    return Scheme(
        site=placement.site,
        scripts=f"{prefix}/bin",
        data=prefix,
        python=placement.python or "/usr/bin/env python3",
    )


def side_scheme(placement: Placement) -> Scheme:
    """Give where distributions lie that only one process imports."""
    site = f"{SIDE}/site"
    python = placement.python or "/usr/bin/env python3"
    return Scheme(site=site, scripts=f"{site}/bin", data=site, python=python)


def side_path(facts: ImageFacts) -> str:
    """Give what ``PYTHONPATH`` must be for a process that is to see them: in front of what the image says."""
    return ":".join(filter(None, (f"{SIDE}/site", facts.variables.get("PYTHONPATH", ""))))


def wheel_scheme(wheel: LockedWheel, placement: Placement) -> Scheme:
    """Give where the files of this wheel go."""
    return side_scheme(placement) if wheel.place == "side by side" else image_scheme(placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the image has where the files of wheels go."""

    entries: Mapping[str, Placed] = field(default_factory=dict[str, Placed])
    """Absolute path of each folder that exists above a new file → mode and owner."""
    gone: tuple[str, ...] = ()
    """What must be hidden: files, and folders in which nothing is left."""
    covered: tuple[str, ...] = ()
    """Files of the image that belong to no replaced distribution and have the path of a new one."""


def survey(
    tree: ImageTree,
    *,
    placement: Placement,
    wheels: Iterable[LockedWheel],
    places: Iterable[str],
    facts: ImageFacts,
) -> Surroundings:
    """Look at what is where wheels go.

    ``tree`` has every file; ``places`` are those of the new files.

    Raises:
        BuildError: E404, a folder is a link; E432, a distribution that is to be replaced has no RECORD.
    """
    new = frozenset(places)
    prefix = facts.variables.get("PYTHONPYCACHEPREFIX", "").rstrip("/")
    old: set[str] = set()
    for wheel in wheels:
        if wheel.replaces and wheel.place == "in place":
            old.update(_files_of(tree, wheel, placement))
    compiled = {each for place in sorted(old | new) for each in _compiled(tree, place, prefix)}
    covered = tuple(place for place in sorted(new - old) if _is_file(tree, place))
    gone = _folded(tree, {each for each in (old | compiled) if each not in new}, new, placement)
    entries = dict(_folders(tree, (*new, *gone)))
    return Surroundings(entries=entries, gone=gone, covered=covered)


def _files_of(tree: ImageTree, wheel: LockedWheel, placement: Placement) -> Iterator[str]:
    """Give the files of the release that the image has, by its RECORD."""
    folder = placement.metadata.get(wheel.name, "")
    record = f"{folder}/RECORD"
    if folder.endswith(".dist-info") and tree.exists(record):
        site = folder.rpartition("/")[0]
        for top in sorted({path.split("/")[0] for path in parse_record_paths(tree.read(record))}):
            if top != "..":
                tree.fetch(f"{site}/{top}")
        for path in parse_record_paths(tree.read(record)):
            place = _joined(site, path)
            if _is_file(tree, place):
                yield place
        yield from _below(tree, folder)
        return
    if folder and folder.rpartition("/")[0] != placement.site:
        return  # of the system's packager, in a place that is looked at later: the new one is found first
    raise BuildError(
        f"{wheel.name} {wheel.replaces} cannot be replaced by {wheel.version}: nothing in the image tells which files"
        " are its own (it has no RECORD)",
        remedy="use a base in which it was installed with pip or uv",
        code="E432",
    )


def _folders(tree: ImageTree, places: Iterable[str]) -> Iterator[tuple[str, Placed]]:
    for place in sorted({str(above) for each in places for above in PurePosixPath(each).parents}):
        node = tree.find(place)
        if node is None or place == "/":
            continue
        if tree.real_path(place) != place:
            raise BuildError(
                f"distributions cannot be put below {place}: it is a link to {tree.real_path(place)}",
                remedy="install them in the base with their files copied (uv: --link-mode=copy)",
                code="E404",
            )
        if node.children is not None:
            yield place, placed(node)


def _joined(site: str, path: str) -> str:
    steps: list[str] = [] if path.startswith("/") else site.strip("/").split("/")
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


def _is_file(tree: ImageTree, place: str) -> bool:
    node = tree.find(place)
    return node is not None and node.children is None


def _below(tree: ImageTree, folder: str) -> Iterator[str]:
    for name in tree.names(folder):
        place = f"{folder}/{name}"
        if _is_file(tree, place):
            yield place
        else:
            yield from _below(tree, place)


def _compiled(tree: ImageTree, place: str, prefix: str) -> Iterator[str]:
    """Give what Python compiled from this file. Source: PEP 3147 and 488."""
    path = PurePosixPath(place)
    if path.suffix != ".py":
        return
    folders = [f"{path.parent}/__pycache__"]
    if prefix:
        folders.append(f"{prefix}{path.parent}")
    for folder in folders:
        for name in tree.names(folder):
            if name.endswith(".pyc") and name.split(".")[0] == path.stem:
                yield f"{folder}/{name}"


def _folded(
    tree: ImageTree, gone: set[str], new: frozenset[str], placement: Placement
) -> tuple[str, ...]:
    """Give a folder in place of all that is in it, where all of it goes and nothing new comes."""
    if not gone:
        return ()
    staying = (*new, f"{placement.site}/.", f"{image_scheme(placement).scripts}/.")
    kept = {str(above) for each in staying for above in PurePosixPath(each).parents}
    kept |= {placement.site, image_scheme(placement).scripts}
    found = set(gone)
    pending = sorted({each.rpartition("/")[0] for each in gone}, key=lambda p: (-p.count("/"), p))
    while pending:
        folder = pending.pop(0)
        inside = {f"{folder}/{name}" for name in tree.names(folder)}
        if folder in kept or not inside or not inside <= found:
            continue
        found = {each for each in found if not each.startswith(f"{folder}/")} | {folder}
        above = folder.rpartition("/")[0]
        if above and above not in pending:
            pending.append(above)
    return tuple(sorted(found))

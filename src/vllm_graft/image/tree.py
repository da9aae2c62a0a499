# The file system of an image, as its layers make it. Only names that may be asked for are in it: folders, links, and
# the files that entries.py keeps or notes; what else an image holds takes part only by hiding these.
"""Layers laid over one another."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol, Self

from vllm_graft.errors import SourceError
from vllm_graft.image.entries import LayerEntry, is_binary, is_kept, is_noted
from vllm_graft.install.native import Binary
from vllm_graft.install.search import Found
from vllm_graft.values.image import Placed, Placement

_MOST_LINKS = 40
"""As Linux: a chain of links that is longer leads nowhere."""


@dataclass(slots=True)
class Node:
    """One name in the tree."""

    entry: LayerEntry
    layer: int
    """The layer that says what is here."""
    children: dict[str, "Node"] | None = None
    """None: this is no folder."""


def _folder(layer: int, path: str = "") -> Node:
    return Node(LayerEntry(path=path, kind="folder"), layer, {})


class Supply(Protocol):
    """Where a tree that is not there yet comes from, part by part; paths are absolute, no link in them."""

    def one(self, place: str) -> Iterable[LayerEntry]:
        """Give what is at this place, without what is in it; nothing where nothing is."""
        ...

    def all(self, place: str) -> Iterable[LayerEntry]:
        """Give this folder with everything in it."""
        ...

    def some(self, place: str) -> tuple[Iterable[LayerEntry], bool]:
        """Give what of this folder comes quickly, and whether that is all."""
        ...


@dataclass(slots=True)
class ImageTree:
    """The merged file system; paths are absolute, and a link never leads out of it."""

    root: Node = field(default_factory=lambda: _folder(-1))
    layers: int = 0
    supply: Supply | None = None
    """None: all is there."""
    everything: bool = False
    """Whether every file is in it, also those that nobody asks about else."""
    known: set[str] = field(default_factory=set[str])
    """Places that were asked of the supply."""
    whole: set[str] = field(default_factory=set[str])
    """Folders that were asked of the supply with all that is in them."""

    @classmethod
    def of(cls, layers: Iterable[Iterable[LayerEntry]]) -> Self:
        """Lay these over one another, lowest first."""
        tree = cls()
        for entries in layers:
            tree.add(entries)
        return tree

    # --- laying a layer over what is there ---------------------------------------------------------------------

    def add(self, entries: Iterable[LayerEntry]) -> None:
        """Lay one layer over what is there.

        Source: OCI image specification 1.1, layer.md: a whiteout hides what lower layers have and never what its
        own layer has, wherever in the archive it stands.
        """
        layer = self.layers
        self.layers += 1
        for entry in entries:
            match entry.kind:
                case "whiteout":
                    self._hide(entry.path, layer)
                case "opaque":
                    found = self._node(entry.path)
                    if found is not None and found.children is not None:
                        _hide_lower(found, layer)
                case _:
                    self._put(entry, layer)

    def _hide(self, path: str, layer: int) -> None:
        folder, _, name = path.rpartition("/")
        above = self._node(folder)
        if above is None or above.children is None or name not in above.children:
            return
        node = above.children[name]
        if node.layer == layer and node.children is None:
            return
        _hide_lower(node, layer)
        if node.layer < layer and not node.children:
            del above.children[name]

    def _put(self, entry: LayerEntry, layer: int) -> None:
        if not entry.path:
            self.root.entry, self.root.layer = entry, layer
            return
        folder, _, name = entry.path.rpartition("/")
        if entry.kind == "hard link":
            entry = self._linked(entry)
        # A file that nobody asks about matters only where it takes the place of something.
        quiet = entry.kind == "file" and not (
            self.everything or is_kept(entry.path) or is_noted(entry.path)
        )
        if quiet and not is_binary(entry.path):
            above = self._node(folder)
            if above is None or above.children is None or name not in above.children:
                return
        above = self._made(folder, layer)
        assert above.children is not None
        before = above.children.get(name)
        if entry.kind == "folder" and before is not None and before.children is not None:
            before.entry, before.layer = entry, layer
            return
        above.children[name] = Node(entry, layer, {} if entry.kind == "folder" else None)

    def _linked(self, entry: LayerEntry) -> LayerEntry:
        found = self._node(entry.target)
        if found is None:
            # The other name is one that nobody asks about: the scan hands its content over with this one.
            return replace(entry, kind="file", target="")
        other = found.entry
        return replace(
            other,
            path=entry.path,
            content=entry.content if other.content is None else other.content,
            binary=entry.binary if other.binary is None else other.binary,
        )

    def _node(self, path: str) -> Node | None:
        """Give what has this path; of links, only those above it are followed, as an engine does."""
        folder, _, name = path.rpartition("/")
        above = self.find(folder)
        if not name or above is None:
            return above
        return (above.children or {}).get(name)

    def _made(self, path: str, layer: int) -> Node:
        found = self.find(path)
        if found is not None and found.children is not None:
            return found
        node = self.root
        done: list[str] = []
        for step in filter(None, self.real_path(path).split("/")):
            done.append(step)
            assert node.children is not None
            inner = node.children.get(step)
            if inner is None or inner.children is None:
                inner = node.children[step] = _folder(layer, "/".join(done))
            node = inner
        return node

    # --- asking ------------------------------------------------------------------------------------------------

    def real_path(self, place: str) -> str:
        """Resolve every link; steps that do not exist stay as they are."""
        return self._resolved(place)[0]

    def find(self, place: str) -> Node | None:
        """Give what is there, links followed."""
        return self._resolved(place)[1]

    def _resolved(self, place: str) -> tuple[str, Node | None]:
        pending = [step for step in place.split("/") if step][::-1]
        trail: list[tuple[str, Node]] = []
        links = 0
        while pending:
            step = pending.pop()
            if step == ".":
                continue
            if step == "..":
                if trail:
                    trail.pop()
                continue
            node = trail[-1][1] if trail else self.root
            self._ask(trail, step)
            inner = None if node.children is None else node.children.get(step)
            if inner is None:
                rest = [step, *pending[::-1]]
                return "/" + "/".join([name for name, _ in trail] + rest), None
            if inner.entry.kind != "link":
                trail.append((step, inner))
                continue
            links += 1
            if links > _MOST_LINKS:
                return place, None
            if inner.entry.target.startswith("/"):
                trail.clear()
            pending += [each for each in inner.entry.target.split("/") if each][::-1]
        return "/" + "/".join(name for name, _ in trail), trail[-1][1] if trail else self.root

    def _ask(self, trail: list[tuple[str, Node]], step: str) -> None:
        if self.supply is None:
            return
        above = ""
        for name, _ in trail:
            above += f"/{name}"
            if above in self.whole:
                return
        place = f"{above}/{step}"
        if "/" not in self.whole and place not in self.known:
            self.known.add(place)
            self._take(self.supply.one(place))

    def fetch(self, place: str) -> None:
        """See to it that all that is in this folder is there."""
        node = self.find(place)
        real = self.real_path(place)
        steps = ["/", *(f"/{each}" for each in accumulate(real.split("/")[1:], "{}/{}".format))]
        if self.supply is None or node is None or node.children is None:
            return
        if self.whole.isdisjoint(steps):
            self.whole.add(real)
            self._take(self.supply.all(real))

    def fetch_some(self, place: str) -> bool:
        """See to it that what is in this folder is there, unless it is very large; tells whether all is."""
        node = self.find(place)
        real = self.real_path(place)
        steps = ["/", *(f"/{each}" for each in accumulate(real.split("/")[1:], "{}/{}".format))]
        if self.supply is None or node is None or node.children is None:
            return True
        if not self.whole.isdisjoint(steps):
            return True
        entries, is_all = self.supply.some(real)
        self._take(entries)
        if is_all:
            self.whole.add(real)
        return is_all

    def _take(self, entries: Iterable[LayerEntry]) -> None:
        taken = tuple(entries)
        supply, self.supply = self.supply, None
        self.add(taken)
        self.supply = supply

    def exists(self, place: str) -> bool:
        """Tell whether something is there, links followed."""
        return self.find(place) is not None

    def names(self, place: str) -> list[str]:
        """Give the sorted names in a folder; empty where there is none."""
        self.fetch(place)
        node = self.find(place)
        return sorted(node.children) if node is not None and node.children is not None else []

    def read(self, place: str) -> bytes:
        """Give the content of a file.

        Raises:
            SourceError: E322, it is not there, or was not kept.
        """
        node = self.find(place)
        if node is None or node.entry.content is None:
            raise SourceError(
                f"the image's {place} cannot be read: {'it is no file' if node else 'no such file'}",
                remedy="The image is damaged, or built in a way that is not known; please report it.",
                code="E322",
            )
        return node.entry.content

    def binary(self, found: Found) -> Binary:
        """Give what a binary declares, which was read while its layer passed by."""
        node = self.find(found.place)
        assert node is not None, "it was found"
        return node.entry.binary or Binary(schemas={}, modules=(), digest="")

    def walk(self, root: str, folder: str, suffixes: tuple[str, ...]) -> list[Found]:
        """Find the files under ``root/folder`` with one of these suffixes, sorted by path, links followed."""
        found: list[Found] = []
        start = f"{root}/{folder}"
        pending = [(start, folder, frozenset({self.real_path(start)}))]
        while pending:
            place, shown, above = pending.pop()
            for name in self.names(place):
                real, node = self._resolved(f"{place}/{name}")
                path = f"{shown}/{name}"
                if node is None or real in above or name == "__pycache__":
                    continue
                if node.children is not None:
                    pending.append((real, path, above | {real}))
                elif name.endswith(suffixes):
                    found.append(Found(path=path, place=real, signature=""))
        return sorted(found, key=lambda each: each.path)

    def packages(self) -> list[str]:
        """Give every folder of the image that holds a ``vllm`` package, sorted."""
        found: list[str] = []
        pending = [("", self.root)]
        while pending:
            place, node = pending.pop()
            for name, inner in (node.children or {}).items():
                if inner.children is None:
                    continue
                if name == "vllm" and "__init__.py" in inner.children:
                    found.append(place or "/")
                pending.append((f"{place}/{name}", inner))
        return sorted(found)

    # --- what a new layer must repeat --------------------------------------------------------------------------

    def placement(self, root: str, *, bytecode: str = "") -> Placement:
        """Give what is above and below ``root/vllm``, with owners and modes.

        ``bytecode``: the folder under which the image's Python keeps all bytecode; empty where it does not.
        """
        entries: dict[str, Placed] = {}
        links: dict[str, str] = {}
        starts = [f"{root}/vllm"]
        if bytecode and self.exists(f"{bytecode}{root}/vllm"):
            starts.append(self.real_path(f"{bytecode}{root}/vllm"))
        for start in starts:
            self.fetch(start)
            self._note_above(start, entries)
            self._note_below(start, entries, links)
        return Placement(root=root, entries=entries, links=links)

    def _note_above(self, place: str, entries: dict[str, Placed]) -> None:
        above = ""
        for step in place.split("/")[1:-1]:
            above += f"/{step}"
            node = self.find(above)
            assert node is not None, "it is above what was found"
            entries[above] = placed(node)

    def _note_below(self, start: str, entries: dict[str, Placed], links: dict[str, str]) -> None:
        pending = [start]
        while pending:
            place = pending.pop()
            real, node = self._resolved(place)
            if node is None:
                continue
            if real != place and node.children is not None:
                links[place] = real
            elif place not in entries:
                entries[place] = placed(node)
                pending += [f"{place}/{name}" for name in node.children or ()]


def placed(node: Node) -> Placed:
    """Give mode and owner."""
    entry = node.entry
    return Placed(
        mode=entry.mode, uid=entry.uid, gid=entry.gid, is_folder=node.children is not None
    )


def _hide_lower(node: Node, layer: int) -> None:
    for name, inner in list((node.children or {}).items()):
        if inner.layer < layer and inner.children is None:
            del (node.children or {})[name]
        elif inner.children is not None:
            _hide_lower(inner, layer)
            if inner.layer < layer and not inner.children:
                del (node.children or {})[name]

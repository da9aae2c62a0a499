# What one machine has whole is what all are to have. Which that is, and what each other one lacks of it, is decided here from
# what they said.
"""What is to be sent of a model."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.errors import NodeError
from vllm_graft.fleet.weights.asking import SMALL, Found, FoundFile
from vllm_graft.fleet.weights.layout import link_to, shown, stored
from vllm_graft.fleet.weights.safetensors import is_index
from vllm_graft.values.amount import a_few
from vllm_graft.values.amount import size as said_size
from vllm_graft.values.weights import ModelName, WeightFile, Weights

_BLOB = re.compile(r"(?:\.\./)+blobs/(?P<name>[0-9a-f]{40}|[0-9a-f]{64})")
_SHARD = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_SPARE = 100
"""A hundredth more than is sent must be free."""


def commit_of(found: Found, name: ModelName) -> tuple[str, str]:
    """Give the commit that is meant, and the name that it is to be found under; both empty where the machine does not know.

    Source: huggingface_hub 1.x and 2.x: ``refs/NAME`` holds the commit; without a revision, ``main`` is asked for.
    """
    wanted = name.revision or "main"
    if wanted in found.references:
        return found.references[wanted], wanted
    if wanted in found.snapshots:
        return wanted, ""
    if (
        not name.revision and len(found.snapshots) == 1
    ):  # fetched by its commit, and no other is there
        return found.snapshots[0], wanted
    return "", ""


def files_of(described: Mapping[str, FoundFile], commit: str) -> tuple[WeightFile, ...]:
    """Give the files of a model from what a machine says of its folder; those that cannot be read are left out."""
    head = f"snapshots/{commit}/" if commit else ""
    return tuple(
        _file(each, path.removeprefix(head), commit)
        for path, each in sorted(described.items())
        if each.size is not None
    )


def _file(found: FoundFile, path: str, commit: str) -> WeightFile:
    assert found.size is not None, "it can be read"
    match = _BLOB.fullmatch(found.target) if commit else None
    blob = match["name"] if match and found.target == link_to(path, match["name"]) else ""
    return WeightFile(path=path, size=found.size, seal=found.seal, blob=blob)


def unreadable(described: Mapping[str, FoundFile], commit: str) -> tuple[str, ...]:
    """Say which files are named and not there, or may not be read."""
    head = f"snapshots/{commit}/" if commit else ""
    return tuple(
        f"{path.removeprefix(head)} {'may not be read' if each.is_shut else 'leads to nothing'}"
        for path, each in sorted(described.items())
        if each.size is None
    )


def changed(
    files: Iterable[WeightFile], described: Mapping[str, FoundFile], commit: str
) -> tuple[str, ...]:
    """Give the small files of a cache whose content is not what their name says: somebody has edited them."""
    found = [
        (file, described[shown(file, commit)]) for file in files if file.blob and file.size <= SMALL
    ]
    return tuple(file.path for file, each in found if file.blob not in (each.git_name, each.seal))


def indexes(files: Iterable[WeightFile]) -> tuple[str, ...]:
    """Give the files that list shards."""
    return tuple(file.path for file in files if is_index(file.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What a machine lacks of a model."""

    files: tuple[WeightFile, ...]
    """Those that are not to be found where they are looked for."""
    sent: tuple[WeightFile, ...]
    """Those of them whose bytes are not there either."""
    other: tuple[str, ...] = ()
    """Those of a plain folder that are there with another content, which may be somebody's own."""
    replaced: tuple[str, ...] = ()
    """Those that are there with another content, and will not be any more."""

    @property
    def size(self) -> int:
        """Give the bytes that are to be sent."""
        return sum({file.blob or file.path: file.size for file in self.sent}.values())


def paths_of(weights: Weights) -> tuple[str, ...]:
    """Give what a machine is to be asked about: where each file is looked for, and where its bytes are."""
    ways = (shown, stored)
    return tuple(dict.fromkeys(way(file, weights.commit) for file in weights.files for way in ways))


def lack_of(weights: Weights, described: Mapping[str, FoundFile]) -> Lack:
    """Decide what a machine lacks."""
    commit = weights.commit
    files = tuple(
        file for file in weights.files if not is_same(file, described.get(shown(file, commit)))
    )
    sent = tuple(file for file in files if not is_same(file, described.get(stored(file, commit))))
    there = [file for file in sent if _is_there(described.get(stored(file, commit)))]
    own = [] if commit else [file for file in there if not _is_cut(file, described[file.path])]
    return Lack(
        files=files,
        sent=sent,
        other=tuple(file.path for file in own),
        replaced=tuple(file.path for file in there if file not in own),
    )


def is_same(file: WeightFile, found: FoundFile | None) -> bool:
    """Tell whether a file is what it is to be."""
    return found is not None and (found.size, found.seal) == (file.size, file.seal)


def _is_there(found: FoundFile | None) -> bool:
    return found is not None and (found.size is not None or found.is_shut)


def _is_cut(file: WeightFile, found: FoundFile) -> bool:
    """Tell a shard that is shorter than it is to be: nobody wants that."""
    return file.path.endswith(_SHARD) and found.size is not None and found.size < file.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What an earlier run has sent."""

    sizes: Mapping[str, int]
    """Path from the model's root → bytes that are there."""
    wrong: tuple[str, ...]
    """Paths of those that cannot become what they are to be."""

    @property
    def size(self) -> int:
        """Give the bytes that are there."""
        return sum(self.sizes.values())


def arrived(weights: Weights, lack: Lack, described: Mapping[str, FoundFile]) -> Arrived:
    """Decide what an earlier run has sent can be gone on with."""
    sizes: dict[str, int] = {}
    wrong: list[str] = []
    for file in lack.sent:
        path = stored(file, weights.commit)
        found = described.get(path)
        if found is None or not _is_there(found):
            continue
        if found.size is not None and (found.size < file.size or is_same(file, found)):
            sizes[path] = found.size
        else:
            wrong.append(path)
    return Arrived(sizes=sizes, wrong=tuple(wrong))


def refuse(found: Found, weights: Weights, lack: Lack, had: Arrived, node: str) -> NodeError | None:
    """Say why nothing is sent to a machine; None where nothing speaks against it."""
    if not lack.files and _has_reference(found, weights):
        return None
    if lack.other:
        return NodeError(
            f"{found.root} on {node} has another content in {len(lack.other)} files: {a_few(lack.other)}",
            remedy=f"see whether somebody has changed them there; if not, remove them (ssh {node}, then rm) and run this again",
            code="E557",
        )
    shut = [
        (owner, folder)
        for owner, folder in found.shut
        if not folder.startswith(f"{found.root}/snapshots/")
        or folder == f"{found.root}/snapshots/{weights.commit}"
    ]
    if shut:
        told = ", ".join(f"{folder} belongs to {owner}" for owner, folder in shut[:3])
        return NodeError(
            f"{found.user} may not write what is lacking on {node}: {told}",
            remedy=_mend(found, node, shut[0][1]),
            code="E554",
        )
    needed = lack.size - had.size
    if needed + needed // _SPARE > found.free:
        return NodeError(
            f"{node} has no room for what is lacking: {said_size(needed)} are to be sent, and {said_size(found.free)} are free at"
            f" {found.root}",
            remedy="make room there and run this again; or have the cache elsewhere (--hub DIR)",
            code="E553",
        )
    return None


def _mend(found: Found, node: str, folder: str) -> str:
    """Say what lets this user write: a folder of the model or of the cache is given to him, and no other."""
    hub = found.root.rpartition("/models--")[0]
    cache = (hub, hub.removesuffix("/hub")) if hub.endswith("/huggingface/hub") else (hub,)
    if folder.startswith(found.root) or folder in filter(None, cache):
        return (
            f"on {node}: sudo chown -R {found.user}: {folder} (a container that runs as root makes such folders: let it read the"
            " cache only, or run it as the user)"
        )
    return f"on {node}: sudo install -d -o {found.user} {found.root}"


def _has_reference(found: Found, weights: Weights) -> bool:
    return not weights.reference or found.references.get(weights.reference) == weights.commit


def is_done(found: Found, weights: Weights, lack: Lack) -> bool:
    """Tell whether a machine has everything as it is to be."""
    return not lack.files and _has_reference(found, weights)


def other_reference(found: Found, weights: Weights) -> str:
    """Say that a name will lead to another commit than before; empty where it does not."""
    before = found.references.get(weights.reference, "")
    if not weights.reference or before in ("", weights.commit):
        return ""
    return f"{weights.reference} was {before[:12]} there, which is kept, and is {weights.commit[:12]} now"


def misplaced(weights: Weights, described: Mapping[str, FoundFile]) -> tuple[str, ...]:
    """Give the paths, from the model's root, of files that are not where and what they are to be."""
    return tuple(
        path
        for file in weights.files
        if not is_same(file, described.get(path := shown(file, weights.commit)))
    )


def nobody_has_it(name: ModelName, said: Sequence[tuple[str, str]]) -> NodeError:
    """Say that no machine has the weights whole, and what each has; ``said``: (machine, why it is not taken)."""
    told = "".join(f"\n  {machine}: {why}" for machine, why in said)
    if name.is_folder:
        remedy = "put the model there on one of them, or name the machine that has it with --from NODE; then run this again"
    else:
        revision = f" --revision {name.revision}" if name.revision else ""
        remedy = (
            f"name the machine that has it with --from NODE; or on one of them: hf download {name.text}{revision} (it goes on where"
            " it ended), then run this again; nothing is fetched from the network by this program. If the cache is elsewhere: --hub DIR"
        )
    return NodeError(f"no machine has {name.said} whole:{told}", remedy=remedy, code="E555")

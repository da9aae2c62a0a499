# A model is on each node at a place of that node: a folder of the same name everywhere, or a snapshot in the node's own Hugging
# Face cache. Containers see it at one place, and what is served is one commit, never "what main is there".
"""Where a node has the model, and whether all have the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from vllm_graft.errors import NodeError
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.deployment import ServedModel

FOLDER_PLACE = "/opt/vllm-graft/model"
HUB_PLACE = "/opt/vllm-graft/hub"
"""Where containers see the model's folder, or the cache that it is in: its files are links there."""

_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_SNAPSHOT = re.compile(
    r"(?P<hub>.*)/models--(?P<who>[^/]+)--(?P<what>[^/]+)/snapshots/(?P<commit>[^/]+)"
)
_LISTING = timedelta(minutes=2)

_COUNTED = (
    *(".json", ".safetensors", ".bin", ".pt", ".pth", ".gguf"),
    *(".model", ".tiktoken", ".txt", ".jinja", ".py"),
)
"""Files that are loaded; what else lies there may differ."""

DESCRIPTIONS = (
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "hf_quant_config.json",
)
"""What says which model it is, beside the weights: what ``plan`` reads of it."""

_FIND = """\
case $1 in "~/"*) set -- "$HOME/${1#??}" ;; esac
cd -- "$1" 2>/dev/null || exit 3
pwd -P
find -L . -maxdepth 1 -type f -exec sh -c 'for each; do printf "%s %s\\n" "$(wc -c <"$each")" "${each#./}"; done' sh {} +
"""
_FIND_CACHED = """\
hub=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}}
model=$hub/models--$1
commit=$2
[ ! -f "$model/refs/$commit" ] || commit=$(cat "$model/refs/$commit")
cd -- "$model/snapshots/$commit" 2>/dev/null || { printf '%s\\n' "$hub"; exit 3; }
pwd -P
find -L . -maxdepth 1 -type f -exec sh -c 'for each; do printf "%s %s\\n" "$(wc -c <"$each")" "${each#./}"; done' sh {} +
"""
"""Source: huggingface_hub 1.x, "Understand caching", and constants.py for the variables; those are of a shell that is no login shell."""

_ABSENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedModel:
    """A model, as the user names it."""

    text: str
    """A Hugging Face id, or a folder of the nodes: absolute, or below the home there (``~/``)."""
    revision: str = ""

    @property
    def is_cached(self) -> bool:
        """Tell whether it is an id."""
        return _ID.fullmatch(self.text) is not None and not self.text.startswith(("~", "."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlace:
    """Where a node has the model."""

    folder: str
    """Absolute, links resolved."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of each file that counts, in bytes; those that links lead to."""

    @property
    def mounted(self) -> str:
        """Give the folder that containers must see: a snapshot is links into the cache around it."""
        found = _SNAPSHOT.fullmatch(self.folder)
        return found["hub"] if found else self.folder

    @property
    def within(self) -> str:
        """Give where the model is in that folder; empty: it is that folder."""
        return self.folder.removeprefix(self.mounted).lstrip("/")


def ask_model(wanted: WantedModel) -> Command:
    """Ask a node where it has the model, and how large its files are."""
    if wanted.is_cached:
        script, *words = _FIND_CACHED, wanted.text.replace("/", "--"), wanted.revision or "main"
    else:
        script, *words = _FIND, wanted.text
    return Command(
        argv=("sh", "-c", script, "sh", *words),
        why=f"see where it has {wanted.text}",
        timeout=_LISTING,
    )


def parse_model(answer: Completed, wanted: WantedModel, node: str) -> ModelPlace:
    """Read the answer.

    Raises:
        NodeError: E578, the node has no such model.
    """
    lines = answer.stdout.decode("utf-8", "surrogateescape").splitlines()
    if not answer.passed:
        raise _absent(answer, wanted, node, lines)
    listed = (line.strip().partition(" ") for line in lines[1:])
    sizes = {name: int(size) for size, _, name in listed if size.isdecimal() and _counts(name)}
    if "config.json" not in sizes or not any(sizes.values()):
        raise NodeError(
            f"{lines[0]} on {node} holds no model: it has no config.json",
            remedy="give the folder that holds the model's config.json and its weights",
            code="E578",
        )
    return ModelPlace(folder=lines[0], sizes=sizes)


def _counts(name: str) -> bool:
    return name.endswith(_COUNTED)


def _absent(answer: Completed, wanted: WantedModel, node: str, lines: Sequence[str]) -> NodeError:
    if answer.status != _ABSENT:
        what = f"{node} does not say where it has {wanted.text}: {answer.last_lines(2)}"
    elif wanted.is_cached:
        revision = f" at {wanted.revision}" if wanted.revision else ""
        what = f"{wanted.text}{revision} is not in the Hugging Face cache of {node} ({''.join(lines[:1])})"
    else:
        what = f"there is no folder {wanted.text} on {node}"
    fetch = f" Nobody has it yet: hf download {wanted.text} on one of them." * wanted.is_cached
    return NodeError(
        what,
        remedy=f"bring it there from a node that has it: {_shipped(wanted)} --from NODE {node}; nothing was started.{fetch}",
        code="E578",
    )


def _shipped(wanted: WantedModel) -> str:
    return f"vllm-graft ship --weights {wanted.text}"


def served_model(wanted: WantedModel, name: str, places: Mapping[str, ModelPlace]) -> ServedModel:
    """Give the model as all nodes have it; ``name``: what clients call it, where the user said so.

    Raises:
        NodeError: E578, they have not the same.
        RequestError: E222, one has it in a cache and another in a plain folder.
    """
    (first, place), *others = places.items()
    for node, other in others:
        if other.within != place.within:
            raise NodeError(
                f"{first} and {node} have other commits of {wanted.text}: {place.within or place.folder} and"
                f" {other.within or other.folder}",
                remedy=f"say which one with [model] revision, and have that one on every node: {_shipped(wanted)}"
                f" --revision COMMIT {first} {node}",
                code="E578",
            )
        if differences := _differences(place.sizes, other.sizes):
            raise NodeError(
                f"{wanted.text} is not the same on {first} and {node}: {'; '.join(differences[:6])}",
                remedy=f"{_shipped(wanted)} {first} {node} says which of them has it whole, and sends what the other lacks"
                f" ({place.folder} on {first}, {other.folder} on {node}); nothing was started",
                code="E578",
            )
    mounted = HUB_PLACE if place.within else FOLDER_PLACE
    return ServedModel(
        name=name or _name(wanted, place),
        mounted=mounted,
        path=f"{mounted}/{place.within}" if place.within else mounted,
    )


def _name(wanted: WantedModel, place: ModelPlace) -> str:
    if wanted.is_cached:
        return wanted.text
    found = _SNAPSHOT.fullmatch(place.folder)
    return f"{found['who']}/{found['what']}" if found else place.folder.rpartition("/")[2]


def _differences(ours: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    told = [f"{name} is not there" for name in sorted(ours.keys() - theirs.keys())]
    told += [f"{name} is only there" for name in sorted(theirs.keys() - ours.keys())]
    told += [
        f"{name} has {theirs[name]:,} bytes there, {ours[name]:,} here"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    return told

"""The weights of a model: which files they are, and where they are."""

import re
from dataclasses import dataclass
from typing import Literal

from vllm_graft.errors import RequestError

_ID = re.compile(r"(?:[\w.-]+/)?[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[\w./-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """Which weights are meant."""

    text: str
    """A Hugging Face id, or a folder."""
    revision: str = ""
    """Commit, branch or tag of the id; empty: ``main``, as the machine has it that the weights are taken from."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, the same on each machine, or below each one's own home (``~/``)."""
        return self.text.startswith(("/", "~/"))

    @property
    def said(self) -> str:
        """Give it as a person reads it."""
        return f"{self.text} at {self.revision}" if self.revision else self.text


def parse_model_name(text: str, revision: str, folder: str) -> ModelName:
    """Read what the user wrote; ``folder``: the one that he is in, which ``./`` and ``../`` are of.

    Raises:
        RequestError: E200, it is neither an id nor a folder, or a folder has no revision.
    """
    if text.startswith(("./", "../")) or text in (".", ".."):
        text = _joined(folder, text)
    if text.startswith(("/", "~/")):
        if "\n" in text or "\t" in text:
            raise RequestError(f"no name of a folder: {text!r}", remedy="rename the folder")
        if revision:
            raise RequestError(
                f"{text} is a folder, which has no revisions",
                remedy="leave out --revision, or give the Hugging Face id",
            )
        return ModelName(text=text.rstrip("/") or "/")
    if _ID.fullmatch(text) is None or text.startswith(".") or ".." in text or "--" in text:
        raise RequestError(
            f"neither a Hugging Face id nor a folder: {text!r}",
            remedy="write ORG/NAME, or a folder as /PLACE, ./PLACE or '~/PLACE' (in quotes: each machine's own home)",
        )
    if revision and (_REVISION.fullmatch(revision) is None or ".." in revision):
        raise RequestError(
            f"no revision: {revision!r}", remedy="give a commit, a branch or a tag of the model"
        )
    return ModelName(text=text, revision=revision)


def _joined(folder: str, text: str) -> str:
    steps = folder.rstrip("/").split("/")
    for step in text.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """One file of a model."""

    path: str
    """Within the model's folder."""
    size: int
    """Bytes."""
    seal: str
    """What its bytes are told by: all of a small file, both ends of a large one. Two files of one size and seal are taken for
    the same."""
    blob: str = ""
    """In a Hugging Face cache, the name under which the bytes are kept; empty: they are kept under ``path``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The files of a model, as one machine has them whole."""

    name: ModelName
    commit: str
    """Which revision of the id it is; empty for a folder."""
    reference: str
    """The name that this revision is to be found under, such as ``main``; empty: its commit alone."""
    files: tuple[WeightFile, ...]
    notes: tuple[str, ...] = ()
    """What is odd about it and yet no reason to refuse it."""

    @property
    def size(self) -> int:
        """Give the bytes of all files."""
        return sum(file.size for file in self.files)


SendingMeans = Literal["", "rsync", "stream"]
"""``stream``: files as they are, where one of the two has no rsync or all goes through this machine."""
WeightsOutcome = Literal["sent", "already there", "would be sent", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsOnNode:
    """What was done about the weights of one machine."""

    node: str
    outcome: WeightsOutcome
    place: str
    """The folder that vLLM can be given; empty where it is not known."""
    source: str = ""
    """The machine that they came from; empty: nothing came."""
    path: str = ""
    """How: over which address and interface, or through this machine."""
    means: SendingMeans = ""
    """What carried them."""
    files: int = 0
    """How many were lacking."""
    size: int = 0
    """Bytes that were lacking; what an earlier run had sent of them is not taken off."""
    seconds: int = 0
    """That sending took."""
    notes: tuple[str, ...] = ()
    code: str = ""
    """Of the error, for ``failed``."""
    error: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsReceipt:
    """The same weights on every machine, or why not."""

    model: str
    commit: str
    """Empty for a folder."""
    reference: str
    """The name under which each machine finds this commit without a network; empty: none was asked for."""
    source: str
    """The machine whose weights they are."""
    files: int
    size: int
    """Bytes."""
    nodes: tuple[WeightsOnNode, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def failed(self) -> bool:
        """Whether a machine does not have them."""
        return any(each.outcome == "failed" for each in self.nodes)

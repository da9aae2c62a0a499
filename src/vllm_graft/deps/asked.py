# What was read of the base's transformers is put to the image's own interpreter, where the user asks for that. Its answers
# stand before what was read; what nobody put to it stays as it was read. This file has the words of the question and
# what the answer means: the container itself is made elsewhere.
"""Questions to the interpreter of a base, and its answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from packaging.version import InvalidVersion, Version

from vllm_graft.deps.needs import CONFIG_FILE, PACKAGE, Need
from vllm_graft.deps.transformers_facts import TransformersFacts
from vllm_graft.values.finding import Finding, Site

State = Literal["yes", "no", "fails", "not asked"]
MARK = "vllm-graft-answer: "
"""Begins the line that is the answer; inside_transformers.py writes it."""
_STATES = frozenset({"yes", "no", "fails", "not asked"})
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the interpreter said to one question."""

    state: State
    """``no``: it is not there. ``fails``: importing or loading it ends in an error, whose cause may lie elsewhere."""
    text: str = ""
    """Of ``no`` and ``fails``: what is wrong. Of a call's ``yes``: its parameters. Of a config's: the class."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was executed, and what it said."""

    by: str
    """The interpreter and the image: completes the sentence "asked of …"."""
    version: str
    """Of the transformers that it imports; empty where it imports none."""
    error: str = ""
    """How importing transformers itself ended; empty where it did not fail."""
    answers: Mapping[Need, Answer] = field(default_factory=dict[Need, Answer])
    config: Answer | None = None
    """Of loading the model's config.json; None where transformers does not read it, or there is none."""

    def of(self, kind: str, name: str, module: str = "") -> Answer | None:
        """Give the answer about something; None where it was not put to it."""
        for need, answer in self.answers.items():
            if (need.kind, need.name) == (kind, name) and module in ("", need.module):
                return None if answer.state == "not asked" else answer
        return None

    @property
    def sentence(self) -> str:
        """Say what was run and what it said."""
        if self.error:
            return f"asked of {self.by}: it does not import transformers ({self.error})"
        told = [each for each in self.answers.values() if each.state != "not asked"]
        good = sum(each.state == "yes" for each in told)
        parts = [
            f"transformers {self.version}, {good} of {len(told)} things are there when imported"
        ]
        if rest := len(self.answers) - len(told):
            parts.append(f"{rest} more only read")
        if self.config is not None and self.config.state == "yes":
            parts.append(f"{self.config.text} loads the model's config.json")
        elif self.config is not None:
            parts.append(f"the model's config.json does not load ({self.config.text})")
        return f"asked of {self.by}: {'; '.join(parts)}"


def questions(
    needs: Sequence[Need], config: Mapping[str, object] | None
) -> Sequence[Mapping[str, object]]:
    """Give what is put to the interpreter: each need, then the model's config if transformers is to read it."""
    asked: list[Mapping[str, object]] = [
        {"kind": need.kind, "module": need.module, "name": need.name} for need in needs
    ]
    if config is not None and _reads_config(needs):
        asked.append({"kind": "config", "name": config.get("model_type"), "config": config})
    return asked


def _reads_config(needs: Sequence[Need]) -> bool:
    # vLLM's own config classes, and those that a graft brings, are not transformers' to load.
    return any(need.kind == "model type" and need.site.path == CONFIG_FILE for need in needs)


def program(script: str, asked: Sequence[Mapping[str, object]]) -> bytes:
    """Give what goes to the interpreter's stdin."""
    return f"{script}\n\nmain({json.dumps(asked)!r})\n".encode()


def parse_answers(stdout: bytes, needs: Sequence[Need], *, by: str) -> Asked | None:
    """Read what the interpreter said; None where that is no answer to these questions."""
    lines = [
        line.removeprefix(MARK)
        for line in stdout.decode("utf-8", "replace").splitlines()
        if line.startswith(MARK)
    ]
    try:
        told = cast("Mapping[str, object]", json.loads(lines[-1]))
        version, error = str(told["version"]), str(told["error"])
        answers = [_answer(each) for each in cast("Sequence[Sequence[str]]", told["answers"])]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    if error:
        return Asked(by=by, version="", error=error)
    if len(answers) not in (len(needs), len(needs) + 1):
        return None
    return Asked(
        by=by,
        version=version,
        answers=dict(zip(needs, answers, strict=False)),
        config=answers[-1] if len(answers) > len(needs) else None,
    )


def _answer(told: Sequence[str]) -> Answer:
    state, text = told
    if state not in _STATES:
        raise ValueError(state)
    return Answer(state=cast("State", state), text=str(text))


@dataclass(frozen=True, kw_only=True)
class AskedTransformers:
    """A transformers whose own interpreter was asked: a :class:`TransformersFacts`."""

    asked: Asked
    read: TransformersFacts | None
    """What was read of it; None where nothing is known of that release."""
    version: str
    requires: tuple[str, ...] = ()

    @property
    def told_by(self) -> str:
        """Say that its interpreter told."""
        return f"transformers {self.version} in the image"

    def binds(self, module: str, name: str) -> bool | None:
        """Tell whether it was imported."""
        read = self.read.binds(module, name) if self.read else None
        return self._told(self.asked.of("name", name, module), read=read)

    def knows_model_type(self, model_type: str) -> bool | None:
        """Tell whether its ``AutoConfig`` has a class for a model type."""
        read = self.read.knows_model_type(model_type) if self.read else None
        return self._told(self.asked.of("model type", model_type), read=read)

    def knows_class(self, name: str) -> bool | None:
        """Tell whether a tokenizer or processor class is there."""
        read = self.read.knows_class(name) if self.read else None
        return self._told(self.asked.of("class", name), read=read)

    def has_config_member(self, name: str) -> bool | None:
        """Tell whether the parent of all config classes has a member."""
        read = self.read.has_config_member(name) if self.read else None
        return self._told(self.asked.of("config member", name), read=read)

    def wants_set(self, argument: str) -> bool | None:
        """Tell what was read: only the donor's config classes would show it, and they are not imported."""
        return self.read.wants_set(argument) if self.read else None

    def allows_layer_type(self, name: str) -> bool | None:
        """Tell whether its check of layer types takes one of this name."""
        read = self.read.allows_layer_type(name) if self.read else None
        return self._told(self.asked.of("layer type", name), read=read)

    def signature(self, module: str, name: str) -> str | None:
        """Give the parameters of a plain function."""
        told = self.asked.of("call", name, module)
        if told is None:
            return self.read.signature(module, name) if self.read else None
        return told.text if told.state == "yes" else None

    def model_type_of(self, architecture: str) -> str:
        """Give what was read."""
        return self.read.model_type_of(architecture) if self.read else ""

    @staticmethod
    def _told(answer: Answer | None, *, read: bool | None) -> bool | None:
        if answer is None:
            return read
        return {"yes": True, "no": False}.get(answer.state)


def contradictions(asked: Asked, read: TransformersFacts | None, found: str) -> Iterator[Finding]:
    """Give what the interpreter says against what was read; ``found``: the version that METADATA has.

    What it has though it was read otherwise is no finding: its answer simply counts.
    """
    if asked.error:
        text = f"importing it ends with {asked.error}"
        yield _finding(f"transformers {found}".strip(), text, asked, ())
        return
    if not _is_same(asked.version, found):
        text = f"it is {asked.version}, where METADATA has {found or 'none'}"
        yield _finding(f"transformers {found}".strip(), text, asked, ())
    groups: dict[tuple[str, bool], list[Need]] = {}
    for need, answer in asked.answers.items():
        was = need.met_by(read) if read is not None else None
        if answer.state == "fails" or (answer.state == "no" and was is True):
            groups.setdefault((answer.text, was is True), []).append(need)
    for (text, was), needs in groups.items():
        release = found if was else ""
        yield _finding(f"transformers with {_listed(needs)}", text, asked, needs, metadata=release)
    if asked.config is not None and asked.config.state != "yes":
        text = f"loading it ends with {asked.config.text}"
        yield _finding("transformers that loads the model's config.json", text, asked, ())


def unread(asked: Asked, read: TransformersFacts | None) -> tuple[Need, ...]:
    """Give what the interpreter has, though it was read that it has not."""
    return tuple(
        need
        for need, answer in asked.answers.items()
        if answer.state == "yes"
        and need.kind != "call"
        and read is not None
        and need.met_by(read) is False
    )


def _finding(
    wanted: str, text: str, asked: Asked, needs: Sequence[Need], *, metadata: str = ""
) -> Finding:
    site = needs[0].site if needs else Site(install="base", path=PACKAGE, line=0)
    release = f"transformers {metadata} was read to have it; " if metadata else ""
    return Finding(
        code="G408",
        severity="review",
        site=site,
        wanted=wanted,
        found=f"{release}{asked.by} says: {text}",
        remedy="see what the image has in place of that release, or which other distribution its import fails at",
    )


def _is_same(told: str, found: str) -> bool:
    try:
        return Version(told).public == Version(found).public
    except InvalidVersion:
        return told == found


def _listed(needs: Sequence[Need]) -> str:
    shown = list(dict.fromkeys(need.wanted for need in needs))
    rest = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

# The words of a rehearsal: what goes to the interpreter's stdin, and what its lines mean. Everything that the model's folder
# says travels with the question, so that nothing of this machine is mounted into the container.
"""The question to an install, and its answers."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from vllm_graft.rehearse.gates import Said

MARK = "vllm-graft-gate: "
"""Begins each line that is an answer; inside_gates.py writes it."""

_LOADER = """\
import sys, types
sys.path[:] = [each for each in sys.path if each]
for _name in ("vllm_graft", "vllm_graft.rehearse"):
    sys.modules[_name] = types.ModuleType(_name)
    sys.modules[_name].__path__ = []
for _name, _text in {texts!r}:
    _made = sys.modules[_name] = types.ModuleType(_name)
    exec(compile(_text, _name, "exec"), _made.__dict__)
sys.modules[{entry!r}].main({request!r})
"""
_PACKAGE = "vllm_graft.rehearse"


def program(texts: Mapping[str, str], request: Mapping[str, object]) -> bytes:
    """Give what goes to the interpreter's stdin; ``texts``: name of each inside file → its text, the entry last."""
    named = [(f"{_PACKAGE}.{name}", text) for name, text in texts.items()]
    words = {"texts": named, "entry": named[-1][0], "request": json.dumps(request)}
    return _LOADER.format(**words).encode()


def packed(files: Mapping[str, bytes]) -> Mapping[str, str]:
    """Give files in a form that fits into a question."""
    return {
        name: base64.b64encode(zlib.compress(content)).decode() for name, content in files.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """All that was said."""

    vllm: Mapping[str, str]
    """What vLLM says of itself: version, place, python, platform; empty where it was not imported."""
    trouble: Said | None
    """How importing vLLM itself ended, where it was begun and did not pass."""
    said: Mapping[tuple[str, str], Said]
    """(gate, ``control`` or ``real``) → what was said of it."""
    ended: bool
    """Whether it came to its end."""

    def of(self, gate: str, phase: str) -> Said:
        """Give what was said of a gate; one that was not reached has said nothing."""
        return self.said.get((gate, phase), Said())

    @property
    def doing(self) -> str:
        """Say what it was doing when it ended, where it did not come to its end."""
        if self.trouble is not None and not self.trouble.ended:
            return "the import of vLLM"
        for (gate, phase), said in self.said.items():
            if said.begun and not said.ended:
                return f"the gate {gate}" + (" on the control" if phase == "control" else "")
        return ""


def parse_said(stdout: bytes) -> Heard:
    """Read what was said; lines that are no answers are passed over."""
    said: dict[tuple[str, str], Said] = {}
    vllm: dict[str, str] = {}
    trouble: Said | None = None
    ended = False
    for told in _lines(stdout):
        gate, phase = str(told.get("gate", "")), str(told.get("phase", ""))
        if gate == "end":
            ended = True
        elif gate == "vllm" and told.get("begins"):
            trouble = Said(begun=True)
        elif gate == "vllm":
            found = _said(told)
            trouble = None if found.passed else found
            if found.passed:
                keys = ("version", "place", "python", "platform")
                vllm = {key: str(told.get(key, "")) for key in keys}
                vllm["platform"] += ", in place of a GPU" * bool(told.get("instead"))
        elif told.get("begins"):
            said[gate, phase] = Said(begun=True)
        else:
            said[gate, phase] = replace(_said(told), begun=True)
    return Heard(vllm=vllm, trouble=trouble, said=said, ended=ended)


def _lines(stdout: bytes) -> Iterator[Mapping[str, Any]]:
    for line in stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(MARK):
            try:
                yield cast("Mapping[str, Any]", json.loads(line.removeprefix(MARK)))
            except ValueError:
                continue


def _said(told: Mapping[str, Any]) -> Said:
    faults = cast("Sequence[Sequence[str]]", told.get("faults") or ())
    facts = cast("Mapping[str, Any]", told.get("facts") or {})
    return Said(
        ended=True,
        seconds=float(told.get("seconds", 0)),
        error=str(told.get("error", "")),
        frames=tuple(str(each) for each in told.get("frames") or ()),
        faults=tuple((str(wanted), str(found)) for wanted, found in faults),
        facts={
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in facts.items()
        },
        text=str(told.get("said", "")),
        unable=str(told.get("unable", "")),
    )


# ── what the user plans ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What serving words and features come to."""

    parsers: Mapping[str, str]
    """``reasoning-parser`` or ``tool-parser`` → name; empty where the graft's own is meant."""
    speculative: Mapping[str, object] | None
    way: str
    """To several nodes: ``ray``, ``native``, ``any``, or empty where one node is planned."""
    trust: bool
    """Whether code that the model brings may be run, in the container."""
    width: int = 1
    """Ranks that share a layer."""


_MTP: Mapping[str, object] = {"method": "mtp", "num_speculative_tokens": 1}
_WIDTHS = ("--tensor-parallel-size", "-tp")
_PARSERS = {"--reasoning-parser": "reasoning-parser", "--tool-call-parser": "tool-parser"}


def planned(serve: Sequence[str], features: Sequence[str], *, nodes: int, trust: bool) -> Planned:
    """Read off what is planned; words of ``vllm serve`` stand before features."""
    parsers: dict[str, str] = {}
    for feature in features:
        kind, _, name = feature.partition("=")
        if kind in _PARSERS.values():
            parsers[kind] = name
    for option, kind in _PARSERS.items():
        if (name := _value(serve, option)) is not None:
            parsers[kind] = name
    return Planned(
        parsers=parsers,
        speculative=_speculative(serve, features),
        way=_way(serve, nodes),
        trust=trust or _has(serve, "--trust-remote-code"),
        width=max(1, *(int(_number(_value(serve, option))) for option in _WIDTHS)),
    )


def _speculative(serve: Sequence[str], features: Sequence[str]) -> Mapping[str, object] | None:
    told = _value(serve, "--speculative-config")
    told = _value(serve, "-sc") if told is None else told
    if told is not None:
        try:
            found: object = json.loads(told)
        except ValueError:
            return _MTP  # the gate `flags` says what is wrong with it
        return cast("Mapping[str, object]", found) if isinstance(found, dict) else _MTP
    return _MTP if "mtp" in features else None


def _way(serve: Sequence[str], nodes: int) -> str:
    if _value(serve, "--distributed-executor-backend") == "ray":
        return "ray"
    if _has(serve, "--headless") or int(_number(_value(serve, "--nnodes"))) > 1:
        return "native"
    return "any" if nodes > 1 else ""


def _number(text: str | None) -> str:
    return text if text is not None and re.fullmatch(r"\d{1,4}", text) else "0"


def _has(serve: Sequence[str], option: str) -> bool:
    return any(_spelled(word.partition("=")[0]) == option for word in serve)


def _value(serve: Sequence[str], option: str) -> str | None:
    """Give the value of an option, the last one that is given.

    Source: vllm 0.14.1 to 0.31.0, utils/argparse_utils.py: an option may be spelled with underscores.
    """
    found = None
    for number, word in enumerate(serve):
        name, equals, value = word.partition("=")
        if _spelled(name) == option:
            found = value if equals else next(iter(serve[number + 1 : number + 2]), "")
    return found


def _spelled(option: str) -> str:
    return option.replace("_", "-") if option.startswith("--") else option

# A line of an engine's log comes through several hands, and each puts something before it: vLLM the process and its own
# header, Ray the worker, Docker and Compose a time or a service, a terminal its colours. What was said stands behind.
"""One line of a log, and who said it."""

import json
import re
import unicodedata
from dataclasses import dataclass

_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# `docker logs -t`, the CRI of Kubernetes, `docker compose logs`, in the order in which they can stand.
_CARRIER = re.compile(
    r"^(?:[\w.-]+ +\| )?(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?)?"
)
# Source: vLLM 0.17.1 utils/system_utils.py (decorate_logs): "(NAME pid=N) "; Ray's log monitor: "(NAME pid=N, ip=A) ",
# "(raylet) "; torch's excepthook: "[rank0]: ".
_WHO = re.compile(
    r"\((?P<process>[\w.+:-]+)(?: rank=\d+)? pid=\d+[^)]*\) ?|\((?P<ray>raylet|autoscaler)[^)]*\) ?|\[(?P<rank>rank\d+)\]: ?"
)
# Source: vLLM 0.17.1 logger.py: "LEVEL MM-DD HH:MM:SS [file:line] ".
_HEADER = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\]|[\w.]+:\d+\]) ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """What was said, by whom."""

    who: str
    """``Worker_TP1``, ``EngineCore_0``, ``rank0``; empty where the line does not tell."""
    level: str
    """Of vLLM's header; empty where it has none."""
    text: str
    """With its own indentation, without what others put before it."""


def without_colours(text: str) -> str:
    """Take what steers a terminal out of a text (ECMA-48)."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def harmless(text: str) -> str:
    """Give a line so that a terminal shows it and obeys nothing in it.

    Of a progress bar, which overwrites itself, the last state is given. What else steers, breaks lines or turns their direction
    is written as an escape, and so are bytes that are no text.
    """
    states = [each for each in without_colours(text).split("\r") if each.strip()]
    line = states[-1].rstrip() if states else ""
    return "".join(each if each == "\t" or _is_shown(each) else _escape(each) for each in line)


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def unwrapped(line: str) -> str:
    """Take a line out of Docker's own file of a container (the json-file driver)."""
    if not line.startswith('{"log":"'):
        return line
    try:
        return str(json.loads(line)["log"])
    except (ValueError, KeyError, TypeError):
        return line


def read_line(line: str) -> LogLine:
    """Take a line apart that is :func:`unwrapped` and :func:`without_colours`."""
    place = found.end() if (found := _CARRIER.match(line)) else 0
    who = level = ""
    while found := _WHO.match(line, place):
        who = found["process"] or found["ray"] or found["rank"]
        place = found.end()
    if found := _HEADER.match(line, place):
        level, place = found["level"], found.end()
    return LogLine(who=who, level=level, text=_CONTROL.sub("", line[place:]).rstrip())

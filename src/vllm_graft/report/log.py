# What a log shows: the first cause at length, everything else in the order in which one would look at it.
"""The renderings of a diagnosed log."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.values.log import LOG_SCHEMA, LogDiagnosis, LogEvent

_MOST_RANKS = 6


def render_log(diagnosis: LogDiagnosis, form: Form, ink: Ink) -> str:
    """Render it."""
    if form == "json":
        value = {"schema": LOG_SCHEMA, **asdict(diagnosis)}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    lines = _markdown(diagnosis) if form == "markdown" else _text(diagnosis, ink)
    return "\n".join(lines).rstrip("\n") + "\n"


def _headline(diagnosis: LogDiagnosis) -> str:
    first = diagnosis.first
    if first is not None:
        return f"First cause: {first.cause}"
    if diagnosis.unexplained:
        return "Something failed, and what is not known here: see the exceptions below, the first one first."
    if diagnosis.consequences:
        return (
            "Something failed, and this log shows only what followed from it: the cause stands in another process's log, "
            "or before the part that was given."
        )
    return f"Nothing in these {diagnosis.lines} lines is known to be a failure."


def _others(diagnosis: LogDiagnosis) -> Iterator[tuple[str, tuple[LogEvent, ...]]]:
    yield "Exceptions that are not known here", diagnosis.unexplained
    yield "Other causes, in the order of the log", diagnosis.causes[1:]
    yield "Consequences", diagnosis.consequences
    yield "Worth a look", diagnosis.notices


def _place(event: LogEvent) -> str:
    told = [f"line {event.line}"]
    ranks = [rank for rank in event.ranks if rank]
    if ranks:
        more = len(ranks) - _MOST_RANKS
        told.append(", ".join(ranks[:_MOST_RANKS]) + (f" and {more} more" if more > 0 else ""))
    if event.count > 1:
        told.append(f"{event.count} times")
    return ", ".join(told)


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def _text(diagnosis: LogDiagnosis, ink: Ink) -> Iterator[str]:
    style = "red" if diagnosis.failed else "green"
    yield from _wrapped(_headline(diagnosis), ink, style=style)
    if diagnosis.first is not None:
        yield from _event(diagnosis.first, ink, told=True)
    for title, events in _others(diagnosis):
        if events:
            yield ""
            yield ink.mark("bold", title)
        for event in events:
            yield from _event(event, ink)


def _event(event: LogEvent, ink: Ink, *, told: bool = False) -> Iterator[str]:
    name = f"{ink.mark('bold', event.signature)}: " if event.signature else ""
    yield f"  {name}{ink.mark('blue', _place(event))}"
    yield from _wrapped(f"| {event.text}", ink, indent="    ", style="dim")
    if event.cause and not told:
        yield from _wrapped(event.cause, ink, indent="    ")
    if event.remedy:
        yield from _wrapped(f"help: {event.remedy}", ink, indent="    ")
    if event.source:
        yield from _wrapped(f"known from: {event.source}", ink, indent="    ", style="dim")


def _wrapped(text: str, ink: Ink, *, indent: str = "", style: str = "") -> Iterator[str]:
    lines = textwrap.wrap(
        text,
        ink.width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        yield ink.mark(style, line) if style else line


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────────


def _markdown(diagnosis: LogDiagnosis) -> Iterator[str]:
    yield f"### {_headline(diagnosis)}\n"
    if diagnosis.first is not None:
        yield from _block(diagnosis.first, told=True)
    for title, events in _others(diagnosis):
        if events:
            yield f"#### {title}\n"
        for event in events:
            yield from _block(event)


def _block(event: LogEvent, *, told: bool = False) -> Iterator[str]:
    name = f"**{event.signature}**, " if event.signature else ""
    yield f"{name}{_place(event)}\n"
    # Longer than any fence that stands in a log.
    yield f"`````text\n{event.text}\n`````\n"
    if event.cause and not told:
        yield f"{event.cause}\n"
    if event.remedy:
        yield f"What to do: {event.remedy}\n"
    if event.source:
        yield f"Known from: {event.source}\n"

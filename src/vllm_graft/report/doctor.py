# For a person who asks "what would stop it?": facts first, since they are looked up; then what is to be done, the worst last, where
# a terminal leaves the eye.
"""What ``doctor`` found, as text, JSON or Markdown."""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import assert_never, cast

from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.memory import memory_details, told_memory
from vllm_graft.report.node_facts import Row, fact_rows
from vllm_graft.values.digest import Digest
from vllm_graft.values.doctor import DOCTOR_SCHEMA, DoctorReport, NodeFinding, NodeReport
from vllm_graft.values.probe import NotKnown

_NARROWEST = 26
"""Characters of a column: with less, a table is harder to read than one node below the other."""
_WIDEST_LABEL = 16
_GAP = 2
_NO_BREAK = "\xa0"


def render_doctor(report: DoctorReport, form: Form, ink: Ink) -> str:
    """Say what was found in the form asked for."""
    match form:
        case "json":
            value = {"schema": DOCTOR_SCHEMA, **cast("dict[str, object]", _plain(report))}
            return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        case "text":
            return _text(report, ink)
        case "markdown":
            return _markdown(report)
        case _:
            assert_never(form)


def _plain(value: object) -> object:
    match value:
        case Digest():
            return str(value)
        case tuple():
            return [_plain(each) for each in cast("tuple[object, ...]", value)]
        case dict():
            return {name: _plain(each) for name, each in cast("dict[str, object]", value).items()}
        case _ if is_dataclass(value):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value


def _title(node: NodeReport) -> str:
    role = {"builder": "has the base"}.get(node.role, node.role)
    return f"{node.name} ({role})" if role else node.name


def _text(report: DoctorReport, ink: Ink) -> str:
    rows = fact_rows(report)
    label = min(max((len(name) for name, _ in rows), default=0), _WIDEST_LABEL)
    width = (ink.width - label - _GAP) // len(report.nodes) - _GAP
    if width >= _NARROWEST:
        lines = list(_side_by_side(report, rows, label, width, ink))
    else:
        lines = list(_one_below_the_other(report, rows, label, ink))
    if report.memory is not None:
        lines += ["", *_memory(report, ink)]
    for finding in report.findings:
        lines += ["", *_finding(finding, ink)]
    return "\n".join([*lines, "", _verdict(report, ink)]) + "\n"


def _memory(report: DoctorReport, ink: Ink) -> Iterator[str]:
    """Say whether the model fits, and what the figures stand on."""
    if report.memory is None:
        return
    for number, text in enumerate((told_memory(report.memory), *memory_details(report.memory))):
        yield from textwrap.wrap(
            text if number else f"memory plan: {text}",
            ink.width,
            initial_indent="  " * bool(number),
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )


def _side_by_side(
    report: DoctorReport, rows: Sequence[Row], label: int, width: int, ink: Ink
) -> Iterator[str]:
    titles = [_wrapped(_title(node), width) for node in report.nodes]
    table = [[[""], *([ink.mark("bold", each) for each in one] for one in titles)]]
    table += [
        [_wrapped(name, label), *(_wrapped(cell, width) for cell in cells)] for name, cells in rows
    ]
    widths = [label, *(width for _ in report.nodes)]
    for row in table:
        for number in range(max(map(len, row))):
            parts = [cell[number] if number < len(cell) else "" for cell in row]
            padded = [
                part + " " * (most - ink.length(part))
                for part, most in zip(parts, widths, strict=True)
            ]
            yield (" " * _GAP).join(padded).rstrip()


_WITH_UNIT = re.compile(r"(?<=\d) (?=(?:[kMGT]?B|GiB|Gb/s|ms|s|bytes|CPUs)\b)")


def _wrapped(text: str, width: int) -> list[str]:
    """Break lines, but not between a figure and its unit."""
    kept = _WITH_UNIT.sub(_NO_BREAK, text)
    return [
        line.replace(_NO_BREAK, " ")
        for part in kept.split("\n")
        for line in textwrap.wrap(part, width, break_on_hyphens=False) or [""]
    ]


def _one_below_the_other(
    report: DoctorReport, rows: Sequence[Row], label: int, ink: Ink
) -> Iterator[str]:
    for number, node in enumerate(report.nodes):
        if number:
            yield ""
        yield ink.mark("bold", _title(node))
        for name, cells in rows:
            if not cells[number]:
                continue
            labels = _wrapped(name, label)
            texts = _wrapped(cells[number], ink.width - label - 2 * _GAP)
            for left, text in zip_longest(labels, texts, fillvalue=""):
                yield f"  {left:{label}}  {text}".rstrip()


def _finding(finding: NodeFinding, ink: Ink) -> Iterator[str]:
    head = f"{ink.verdict(finding.severity)} {finding.code} {_listed(finding.nodes)}"
    yield f"{head}: {_stops(finding)}"
    for name, text in (
        ("wanted", finding.wanted),
        ("found", finding.found),
        ("help", finding.remedy),
    ):
        yield from textwrap.wrap(
            text,
            ink.width,
            initial_indent=f"  {name + ':':8}",
            subsequent_indent=" " * 10,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _stops(finding: NodeFinding) -> str:
    verbs = _listed(finding.stops)
    match finding.severity:
        case "blocked":
            return f"stops {verbs}"
        case "review":
            return f"may stop {verbs}"
        case "note":
            return f"good to know for {verbs}"
        case _:
            assert_never(finding.severity)


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def _verdict(report: DoctorReport, ink: Ink) -> str:
    counts = [
        sum(each.severity == severity for each in report.findings)
        for severity in ("blocked", "review")
    ]
    stopped = sorted(
        {verb for each in report.findings if each.severity == "blocked" for verb in each.stops},
        key=("build", "ship", "up").index,
    )
    look = f"{counts[1]} {'thing' if counts[1] == 1 else 'things'} to look at" if counts[1] else ""
    more = " `vllm-graft explain CODE` says more of each." if report.findings else ""
    if report.verdict == "blocked":
        many = f"{_listed(stopped)} would stop" if len(stopped) > 1 else f"{stopped[0]} would stop"
        also = f"; {look}" if look else ""
        return f"{ink.mark('red', 'Blocked')}: {many}{also}.{more}"
    if report.verdict == "review":
        return f"{ink.mark('yellow', 'Review')}: nothing would stop for certain; {look}.{more}"
    return f"{ink.mark('green', 'ok')}: nothing that was looked for would stop build, ship or up.{more}"


def _markdown(report: DoctorReport) -> str:
    ink = Ink()
    rows = fact_rows(report)
    titles = [_title(node) for node in report.nodes]
    lines = [
        "# Nodes",
        "",
        f"| | {' | '.join(map(_cell, titles))} |",
        f"| --- |{' --- |' * len(titles)}",
        *(f"| {_cell(name)} | {' | '.join(map(_cell, cells))} |" for name, cells in rows),
    ]
    for node in report.nodes:
        if isinstance(node.facts, NotKnown):
            lines += ["", f"Nothing is known of {node.name}: {node.facts.not_known}"]
    if report.memory is not None:
        lines += ["", f"Memory plan: {told_memory(report.memory)}", ""]
        lines += [f"- {each}" for each in memory_details(report.memory)]
    if report.findings:
        lines += ["", "| | code | nodes | wanted | found | what to do |", f"|{' --- |' * 6}"]
        lines += [
            f"| {_stops(each)} | {each.code} | {', '.join(each.nodes)} | {_cell(each.wanted)} | {_cell(each.found)} | {_cell(each.remedy)} |"
            for each in reversed(report.findings)
        ]
    return "\n".join([*lines, "", _verdict(report, ink)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")

# What a rehearsal showed: gate by gate, and of what failed the cause.
"""The renderings of a rehearsal."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.values.rehearsal import REHEARSAL_SCHEMA, Fault, GateResult, Rehearsal

_HEADLINES = {
    "passed": "Every gate passed.",
    "failed": "A gate failed: this would have been found after the weights were loaded.",
    "not runnable here": "Nothing failed, but not every gate could be run here: what those show is not shown.",
}


def render_rehearsal(rehearsal: Rehearsal, form: Form, ink: Ink) -> str:
    """Render it."""
    if form == "json":
        value = {"schema": REHEARSAL_SCHEMA, "outcome": rehearsal.outcome, **asdict(rehearsal)}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    lines = _markdown(rehearsal) if form == "markdown" else _text(rehearsal, ink)
    return "\n".join(lines).rstrip("\n") + "\n"


def _subject(rehearsal: Rehearsal) -> str:
    vllm = f"vLLM {rehearsal.vllm}, " if rehearsal.vllm else ""
    platform = f", {rehearsal.platform}" if rehearsal.platform else ""
    python = f"Python {rehearsal.python}" if rehearsal.python else "its interpreter"
    return (
        f"{rehearsal.model} ({', '.join(rehearsal.architectures)}) in {rehearsal.install}: {vllm}{python}{platform};"
        f" control {rehearsal.control}; {rehearsal.milliseconds / 1000:.1f} s"
    )


def _seconds(gate: GateResult) -> str:
    return f"{gate.milliseconds / 1000:.1f} s"


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def _text(rehearsal: Rehearsal, ink: Ink) -> Iterator[str]:
    yield from _wrapped(f"{rehearsal.until}: {_HEADLINES[rehearsal.outcome]}", ink)
    yield from _wrapped(_subject(rehearsal), ink, indent="  ")
    if rehearsal.since != "P4":
        yield f"  Rungs below {rehearsal.since} were not climbed."
    if not rehearsal.grafted:
        yield from _wrapped(
            "The install says nothing of a graft: whether an edit is missing in it cannot be told, only what comes of that.",
            ink,
            indent="  ",
        )
    yield ""
    for gate in rehearsal.gates:
        yield f"{ink.verdict(gate.outcome)}  {ink.mark('bold', gate.gate)}  {_seconds(gate)}"
        if gate.why:
            yield from _wrapped(gate.why, ink, indent="    ")
        for fault in gate.faults:
            yield from _fault(fault, ink)


def _fault(fault: Fault, ink: Ink) -> Iterator[str]:
    yield from _wrapped(f"{fault.code}: wanted {fault.wanted}", ink, indent="    ")
    yield from _wrapped(f"found {fault.found}", ink, indent="    ")
    if fault.cause:
        yield from _wrapped(f"cause: {fault.cause}", ink, indent="    ")
    yield from _wrapped(f"help: {fault.remedy}", ink, indent="    ")


def _wrapped(text: str, ink: Ink, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        ink.width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────────


def _markdown(rehearsal: Rehearsal) -> Iterator[str]:
    yield f"### {rehearsal.until}: {_HEADLINES[rehearsal.outcome]}\n\n{_subject(rehearsal)}\n"
    if rehearsal.since != "P4":
        yield f"Rungs below {rehearsal.since} were not climbed.\n"
    yield "| gate | outcome | time | shows |\n| --- | --- | --- | --- |"
    for gate in rehearsal.gates:
        yield f"| {gate.gate} | {gate.outcome} | {_seconds(gate)} | {gate.shows} |"
    yield ""
    for gate in rehearsal.gates:
        if gate.why:
            yield f"**{gate.gate}** could not be run here: {gate.why}\n"
        for fault in gate.faults:
            yield f"**{gate.gate}** ({fault.code}): wanted {fault.wanted}\n\n`````text\n{fault.found}\n`````\n"
            if fault.cause:
                yield f"Cause: {fault.cause}\n"
            yield f"What to do: {fault.remedy}\n"

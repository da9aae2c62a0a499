# For a person who asks "what is in this image, and will it take my model?": the answer to the model first in
# mind, so it stands last, where a terminal leaves the eye.
"""An inspection as text, JSON or Markdown."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import assert_never, cast

from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.values.digest import Digest
from vllm_graft.values.inspection import (
    ArchitectureAnswer,
    ClassAnswer,
    GraftAnswer,
    Inspection,
    ModelAnswer,
    MultiNode,
    Pin,
)

INSPECTION_SCHEMA = "vllm-graft/inspection/1"
_SHOWN = 8

Rows = list[tuple[str, str]]


def render_inspection(inspection: Inspection, form: Form, ink: Ink) -> str:
    """Give an inspection in the form asked for."""
    match form:
        case "json":
            value = {"schema": INSPECTION_SCHEMA, **_fields(inspection)}
            return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        case "text":
            return _text(inspection, ink)
        case "markdown":
            return _markdown(inspection)
        case _:
            assert_never(form)


def _fields(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: object) -> object:
    match value:
        case Digest():
            return str(value)
        case ModelAnswer():
            return {**_fields(value), "missing": list(value.missing)}
        case tuple():
            return [_plain(each) for each in cast("tuple[object, ...]", value)]
        case _ if is_dataclass(value):
            return _fields(value)
        case _:
            return value


def _text(inspection: Inspection, ink: Ink) -> str:
    lines = [ink.mark("bold", f"vLLM {inspection.version}") + f"  {inspection.source}"]
    for title, rows in _sections(inspection, ink):
        width = max((len(name) for name, _ in rows), default=0)
        lines += ["", ink.mark("bold", title)] if title else []
        lines += [f"  {name:{width}}  {text}".rstrip() for name, text in rows]
    if inspection.model is not None:
        lines += ["", _summary(inspection.model, ink)]
    return "\n".join(lines) + "\n"


def _markdown(inspection: Inspection) -> str:
    ink = Ink()
    lines = [f"# vLLM {inspection.version}", "", f"`{inspection.source}`"]
    for title, rows in _sections(inspection, ink):
        lines += ["", f"## {title or 'Install'}", "", "| | |", "| --- | --- |"]
        lines += [f"| {name} | {_cell(text)} |" for name, text in rows]
    if inspection.model is not None:
        lines += ["", _summary(inspection.model, ink)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sections(inspection: Inspection, ink: Ink) -> Iterator[tuple[str, Rows]]:
    yield "", _facts(inspection)
    for title, rows in (
        ("What vLLM wants of others", [_pin_row(pin, ink) for pin in inspection.own_pins]),
        ("Pins that are violated", _violated(inspection, ink)),
        ("Layout that is not recognised", [(f.code, f.found) for f in inspection.findings]),
        ("Patched after install", _patches(inspection)),
        ("Grafted", _graft(inspection.graft, ink)),
    ):
        if rows:
            yield title, rows
    if inspection.model is not None:
        yield f"Does it know {inspection.model.asked}?", list(_answers(inspection.model, ink))


def _facts(inspection: Inspection) -> Rows:
    layout = f"that of {inspection.layout}" if inspection.layout != "unknown" else "unknown"
    if inspection.development and inspection.layout != "unknown":
        layout += f" (the version {inspection.version} does not place it; its layout does)"
    rows = [
        ("read from", inspection.location),
        ("layout", layout),
        ("interpreter", inspection.interpreter or "not told"),
        ("architectures", f"{inspection.architectures} (--format json names them)"),
        ("python files", str(inspection.files)),
        ("native code", _native(inspection)),
        ("several nodes", _multi_node(inspection.multi_node)),
        ("distributions", _distributions(inspection)),
        ("integrity", _integrity(inspection)),
        ("digest", str(inspection.digest)),
    ]
    return rows + [("note", note) for note in inspection.notes]


def _native(inspection: Inspection) -> str:
    if not inspection.extensions:
        return "none"
    shown = ", ".join(inspection.extensions)
    return f"{inspection.operators} operators declared; {shown}"


def _multi_node(modes: MultiNode) -> str:
    words = {"met": f"Ray {modes.ray_version}", "missing": "no Ray", "violated": "no Ray"}
    ray = words.get(modes.ray, "Ray not told, for want of an environment")
    if modes.ray != "met":
        ray += ", vLLM requires it" if modes.ray_required else ", vLLM does not require it"
    native = "native (--nnodes, --node-rank)" if modes.native else "no native mode"
    if modes.native:
        native += " with --headless" if modes.headless else " without --headless"
    return f"{native}; {ray}"


def _distributions(inspection: Inspection) -> str:
    if not inspection.pins_checked:
        return f"{inspection.distributions}, no environment to check pins in"
    wrong = len(inspection.violated_pins)
    return (
        f"{inspection.distributions}, {inspection.pins_checked} pins checked, {wrong} not satisfied"
    )


def _integrity(inspection: Inspection) -> str:
    patches = inspection.patches
    if not patches.recorded:
        return "not told: no RECORD lists vLLM's files"
    if not patches.any:
        return "every file is as it was installed"
    return f"{len(patches.changed)} changed, {len(patches.added)} added, {len(patches.missing)} missing"


def _pin_row(pin: Pin, ink: Ink) -> tuple[str, str]:
    wanted = pin.specifier or "any version"
    match pin.state:
        case "met":
            return pin.name, f"{wanted}; has {pin.found}"
        case "violated":
            return pin.name, f"{wanted}; {ink.mark('red', f'has {pin.found}')}"
        case "missing":
            return pin.name, f"{wanted}; {ink.mark('yellow', 'not installed')}"
        case "not told":
            return pin.name, wanted
        case _:
            assert_never(pin.state)


def _violated(inspection: Inspection, ink: Ink) -> Rows:
    rows = [
        (f"{pin.of} wants", f"{pin.name}{pin.specifier}; " + _has(pin, ink))
        for pin in inspection.violated_pins
    ]
    return _cut(rows)


def _has(pin: Pin, ink: Ink) -> str:
    return ink.mark("red", f"has {pin.found}") if pin.found else ink.mark("yellow", "not installed")


def _patches(inspection: Inspection) -> Rows:
    patches = inspection.patches
    return [
        *_cut([("changed", path) for path in patches.changed]),
        *_cut([("added", path) for path in patches.added]),
        *_cut([("missing", path) for path in patches.missing]),
    ]


def _graft(answer: GraftAnswer | None, ink: Ink) -> Rows:
    if answer is None:
        return []
    told = answer.provenance
    return [
        ("route", told.route),
        ("architectures", ", ".join(told.architectures)),
        *([("features", ", ".join(told.features))] if told.features else []),
        ("base", f"{told.base_source} (vLLM {told.base_version})"),
        ("donor", f"{told.donor_source} (vLLM {told.donor_version})"),
        ("plan", told.plan),
        ("layer", told.layer or "none was added"),
        (
            "config",
            told.config if answer.intact else ink.mark("red", "not the one that was built"),
        ),
        *_base_today(answer, ink),
    ]


def _base_today(answer: GraftAnswer, ink: Ink) -> Rows:
    told = answer.provenance
    below = "donor" if told.donor_config else "base"
    own = answer.base_now_source == told.stands_on[0]
    label, where = (f"{below} today", "") if own else ("against", f"{answer.base_now_source}: ")
    match answer.base_now:
        case "unchanged":
            needed = ": the graft is needed" if told.route == "graft" else ""
            return [(label, f"{where}unchanged{needed}")]
        case "not found":
            return [(label, f"{where}not found")]
        case "changed":
            shown = f"{where}vLLM {answer.base_now_version}"
            shown = f"changed: {shown}" if own else shown
    if answer.base_now_lacks:
        lacking = ", ".join(answer.base_now_lacks)
        return [(label, f"{shown}, without {lacking}: plan again to follow it")]
    unneeded = ": no graft is needed on it" if told.route == "graft" else ""
    return [(label, ink.mark("green", f"{shown} has all of it by itself{unneeded}"))]


def _cut(rows: Sequence[tuple[str, str]]) -> Rows:
    if len(rows) <= _SHOWN:
        return list(rows)
    return [*rows[:_SHOWN], ("…", f"{len(rows) - _SHOWN} more (--format json has all)")]


def _answers(model: ModelAnswer, ink: Ink) -> Iterator[tuple[str, str]]:
    if model.location:
        yield "read from", f"{model.location} (its code is not run)"
    for each in model.architectures:
        yield "architecture", _architecture(each, ink)
    for each in model.classes:
        yield each.role, _class(each, ink)
    if model.mtp is not None:
        yield "MTP", _mtp(model, ink)
    yield "reasoning parsers", _parsers(model.reasoning_parsers)
    yield "tool parsers", _parsers(model.tool_parsers)
    if model.quantization is not None:
        told = model.quantization
        if not told.method:
            yield "quantisation", "none"
        else:
            known = "known" if told.known else ink.mark("red", "not known")
            yield "quantisation", f"{told.method}: {known} ({told.source})"
    for line in model.remote_code:
        yield "remote code", line


def _architecture(answer: ArchitectureAnswer, ink: Ink) -> str:
    if not answer.registered:
        remark = f" ({answer.remark})" if answer.remark else ""
        return f"{answer.architecture}: {ink.mark('red', 'not registered')}{remark}"
    shown = f"{answer.architecture}: {answer.module}.{answer.class_name} ({answer.table})"
    return shown if answer.has_module else f"{shown}, {ink.mark('red', 'but that file is missing')}"


def _class(answer: ClassAnswer, ink: Ink) -> str:
    match answer.known:
        case "vllm" | "transformers":
            return f"{answer.asked}: {answer.where}"
        case "remote code":
            return f"{answer.asked}: by the model's own code {answer.where}".rstrip()
        case "missing":
            return f"{answer.asked}: {ink.mark('red', 'nobody here has it')}"
        case "not told":
            return f"{answer.asked}: not vLLM's own; the source has no transformers to ask"
        case _:
            assert_never(answer.known)


def _mtp(model: ModelAnswer, ink: Ink) -> str:
    assert model.mtp is not None
    said = model.mtp
    layers = "" if said.layers is None else f" (config: {said.layers_field} = {said.layers})"
    if said.drafts:
        return f"drafts with {', '.join(said.drafts)}{layers}"
    if said.layers:
        return ink.mark("yellow", "no draft model for it") + layers
    if not model.config_read:
        return "not told without the model's config.json"
    return f"no draft model for it{layers}"


def _parsers(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none named like this model"


def _summary(model: ModelAnswer, ink: Ink) -> str:
    if model.missing:
        return f"{ink.mark('red', 'Missing')}: {', '.join(model.missing)}."
    unsure = [each.role for each in model.classes if each.known == "not told"]
    if unsure:
        return (
            f"{ink.mark('green', 'Nothing is missing in vLLM')}; what transformers must have"
            f" ({', '.join(unsure)}) is not told by this source."
        )
    return ink.mark("green", "Nothing that was looked for is missing.")

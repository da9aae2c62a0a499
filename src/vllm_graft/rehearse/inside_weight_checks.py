# Runs inside an install (see inside_gates.py): the gates of P5. The first of them makes the model on the first and the last rank
# and loads it; what came of that is kept in a file, and the gates after it read that.
"""The checks of rung P5."""

import json
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

from vllm_graft.rehearse.inside_checks import Asked, found
from vllm_graft.rehearse.inside_loading import (
    Tensors,
    UnableError,
    as_rank,
    asks_for_a_gpu,
    construct,
    engine_config,
    forget,
    is_narrow,
    load,
)

MOST_FAULTS = 12
_SHARED = re.compile(r"(^|\.)(embed_tokens|lm_head|shared_head\.head)\.")
"""What a draft takes over from its target. Source: vllm 0.14.1 to 0.31.0, v1/spec_decode/eagle.py, ``load_model``."""
WIDTHS = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}


def tensors_of(asked: Asked, *, control: bool) -> Tensors:
    file = asked.home / ("control.json" if control else "tensors.json")
    return json.loads(file.read_text())


def checkpoint(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that the files of the checkpoint are whole, by their own headers."""
    listed = tensors_of(asked, control=control)
    if control:
        return found([] if listed else [("tensors", "none")])
    if not listed and not asked.request["problems"]:
        return {"unable": asked.request["no_tensors"]}
    faults = [("a checkpoint that is whole", each) for each in asked.request["problems"]]
    return found(faults, tensors=len(listed), bytes=bytes_of(listed))


def bytes_of(listed: Tensors) -> int:
    total = 0
    for shape, dtype in listed.values():
        count = WIDTHS.get(dtype, 1)
        for one in shape:
            count *= one
        total += count
    return total


def model(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Make the class on the first and the last rank, and have its loader take the checkpoint's names and shapes."""
    listed = tensors_of(asked, control=control)
    if not listed:
        return {"unable": asked.request["no_tensors"]}
    width = asked.request["width"]
    reports: list[dict[str, Any]] = []
    facts: dict[str, Any] = {"ranks": f"{width}", "experts and pipeline": "on every rank"}
    try:
        for rank in dict.fromkeys((0, width - 1)):
            config = engine_config(asked, control=control)
            parts = [("model", config.model_config)]
            if (draft := draft_of(config)) is not None:
                parts.append(("draft", draft))
            elif config.speculative_config is not None:
                facts["draft"] = "it is no part of this checkpoint, and was not made"
            for part, model_config in parts:
                with as_rank(config, rank):
                    made = construct(config, model_config, bytes_of(listed))
                    told = load(made, config, model_config, listed, asked.request["seconds"])
                facts[f"{part} class"] = f"{type(made).__module__}.{type(made).__qualname__}"
                facts[f"{part} device"] = str(next(made.parameters()).device)
                facts[f"{part} parameters"] = told["parameters"]
                layers = getattr(model_config.hf_text_config, "num_hidden_layers", 0)
                reports.append({"part": part, "rank": rank, "layers": layers, **told})
                del made
                forget(config)
    except UnableError as error:
        return {"unable": str(error)}
    except Exception as error:
        if not asks_for_a_gpu(error):
            raise
        traceback.print_exc()
        return {"unable": f"on this machine, without a GPU: {type(error).__name__}: {error}"}
    kept(asked, control=control).write_text(json.dumps(reports))
    return found([], **facts)


def kept(asked: Asked, *, control: bool) -> Any:
    return asked.home / f"loaded-{'control' if control else 'real'}.json"


def draft_of(config: Any) -> Any:
    """Give the configuration of a draft that is in the same checkpoint."""
    speculative = config.speculative_config
    draft = getattr(speculative, "draft_model_config", None)
    return draft if draft is not None and draft.model == config.model_config.model else None


def reports_of(asked: Asked, *, control: bool) -> list[dict[str, Any]]:
    file = kept(asked, control=control)
    if not file.exists():
        message = "the model was not made and loaded (gate model)"
        raise UnableError(message)
    return json.loads(file.read_text())


def of_a_draft(name: str, layers: int) -> bool:
    """Tell whether a tensor is of multi-token heads: ``mtp.``, or a layer after the last.

    Source: vllm 0.14.1 to 0.31.0, models/qwen3_next_mtp.py and deepseek_v2.py, ``get_spec_layer_idx_from_weight_name``.
    """
    if re.search(r"(^|\.)(mtp|nextn)\.", name):
        return True
    layer = re.match(r"(?:model\.)?(?:language_model\.)?layers\.(\d+)\.", name)
    return layer is not None and bool(layers) and int(layer[1]) >= layers


def at(report: Mapping[str, Any]) -> str:
    return f"{'' if report['part'] == 'model' else 'draft, '}rank {report['rank']}"


def is_of_shards(each: Mapping[str, str]) -> bool:
    """Tell whether a loader refused the kind of shard, and not the tensor."""
    return bool(each["shard"]) and (
        each["shard"].startswith(("(", "["))
        or ("shard_id" in each["line"] and "shape" not in each["line"])
    )


def tensors(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that every tensor lands, whole and in its own shape."""
    listed = tensors_of(asked, control=control)
    try:
        reports = reports_of(asked, control=control)
    except UnableError as error:
        return {"unable": str(error)}
    faults: list[tuple[str, str]] = []
    facts: dict[str, Any] = {}
    anywhere = {name for report in reports for name in report["landed"]}
    drafted = any(report["part"] == "draft" for report in reports)
    for report in reports:
        faults += refused(listed, report)
        if not report["ended"]:
            continue
        silent = report["lost"]["silently"]
        spoken = report["lost"]["by its own word"]
        if report["part"] == "draft":
            missed = [n for n in (*silent, *spoken) if of_a_draft(n, report["layers"])]
            how = "neither the model nor its draft takes it"
        else:
            spare = [name for name in silent if of_a_draft(name, report["layers"])]
            if spare and not drafted:
                facts["of a draft that is not planned"] = len(spare)
            facts["left out by its own word"] = len(set(spoken) - anywhere)
            missed = [name for name in silent if name not in spare]
            how = "the loader passes over it without a word"
        missed = [name for name in missed if name not in anywhere]
        faults += grouped(missed, f"to land ({at(report)})", how)
        for name, shapes in report["spread"].items():
            what = f"{name} in the shape of its place ({at(report)})"
            faults.append((what, f"it was repeated: {shapes}"))
    if all(report["ended"] for report in reports):
        faults += cut_short(listed, reports, anywhere)
    return found(fewer(faults), given=len(listed), landed=len(anywhere), **facts)


def refused(listed: Tensors, report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Tell the tensors that a loader refused."""
    faults = []
    for each in report["errors"]:
        if is_of_shards(each):
            continue
        shape, dtype = listed.get(each["tensor"], ("", ""))
        what = f"{each['tensor'] or 'tensors'} {shape} {dtype} to be loaded ({at(report)})"
        place = f" for {each['parameter']}" if each["parameter"] else ""
        faults.append((what, f"{each['error'] or 'refused'}{place}, in {each['where']}"))
    return faults


def cut_short(
    listed: Tensors, reports: Iterable[Mapping[str, Any]], anywhere: set[str]
) -> list[tuple[str, str]]:
    """Tell the tensors of which the ends are read by no rank: they are larger than their places."""
    ends: dict[str, tuple[int, int]] = {}
    for report in reports:
        for name, (first, last) in report["read"].items():
            before = ends.get(name, (first, last))
            ends[name] = (min(before[0], first), max(before[1], last))
    faults = []
    for name in sorted(anywhere):
        count = 1
        for one in listed[name][0]:
            count *= one
        first, last = ends.get(name, (0, 0))
        if (first, last) != (0, count):
            what = f"all of {name} {listed[name][0]} to be loaded by some rank"
            faults.append((what, f"elements {first} to {last} of {count} are, the rest by none"))
    return faults


def parameters(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that every parameter is filled."""
    try:
        reports = reports_of(asked, control=control)
    except UnableError as error:
        return {"unable": str(error)}
    faults: list[tuple[str, str]] = []
    facts: dict[str, Any] = {}
    for report in reports:
        if not report["ended"]:
            told = report["errors"][-1]["error"] if report["errors"] else ""
            return {"unable": f"the loader did not come to its end ({at(report)}): {told}"}
        holes = report["holes"]
        if report["part"] == "draft":
            shared = [name for name in holes if _SHARED.search(name)]
            facts["taken over from the target"] = ", ".join(shared)
            holes = {name: hole for name, hole in holes.items() if name not in shared}
        byhow: dict[str, list[str]] = {}
        for name, (missing, total) in holes.items():
            how = (
                "no tensor is loaded into it"
                if missing == total
                else f"{missing:,} of {total:,} elements are not"
            )
            byhow.setdefault(how, []).append(name)
        for how, names in byhow.items():
            faults += grouped(names, f"to be filled ({at(report)})", how)
        faults += grouped(
            report["unmeasured"],
            f"to be filled ({at(report)})",
            "it is written in pieces that could not be measured",
        )
        facts[f"parameters, {at(report)}"] = report["parameters"]
    return found(fewer(faults), **facts)


def quantisation(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that what the checkpoint has quantised is what the model has quantised."""
    try:
        reports = reports_of(asked, control=control)
    except UnableError as error:
        return {"unable": str(error)}
    ignored = [] if control else asked.request["ignored"]
    faults: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        if not report["ended"]:
            return {"unable": f"the loader did not come to its end ({at(report)})"}
        for tensor, dtype, place, kind in report["kinds"]:
            if is_narrow(kind):
                how = f"the model has {place} quantised ({kind}): no entry of the ignore list covers it"
            else:
                how = f"the model has {place} not quantised ({kind}): an entry of the ignore list covers it, or its method is another"
            what = f"as the checkpoint has it ({dtype}, {at(report)})"
            faults.setdefault((what, layer_like(how)), []).append(tensor)
    told = [one for (what, how), names in faults.items() for one in grouped(names, what, how)]
    return found(fewer(told), ignored=len(ignored))


def shards(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that the loaders of the base's layers take the kinds of shard that the model names."""
    try:
        reports = reports_of(asked, control=control)
    except UnableError as error:
        return {"unable": str(error)}
    faults = [
        (
            f"a loader that takes the shard {each['shard']} of {each['parameter'] or each['tensor']} ({at(report)})",
            f"{each['error']} in {each['where']}",
        )
        for report in reports
        for each in report["errors"]
        if is_of_shards(each)
    ]
    if not faults and not all(report["ended"] for report in reports):
        return {"unable": "the loader did not come to its end, so not every shard was asked for"}
    return found(fewer(faults))


def grouped(names: Iterable[str], wanted: str, how: str) -> list[tuple[str, str]]:
    """Tell many layers' same fault once."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(layer_like(name), []).append(name)
    return [
        (f"{listed[0]}{f' and {len(listed) - 1} like it' if listed[1:] else ''} {wanted}", how)
        for listed in kinds.values()
    ]


def layer_like(text: str) -> str:
    """Take the numbers of layers and experts away."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", text)


def fewer(faults: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tell the same of several ranks once, and not more than can be read."""
    merged: dict[tuple[str, str], tuple[str, str]] = {}
    for wanted, how in faults:
        key = (re.sub(r"rank \d+", "rank", wanted), re.sub(r"\d+", "N", how))
        if key not in merged:
            merged[key] = (wanted, how)
        else:
            first, why = merged[key]
            other = re.search(r"rank \d+", wanted)
            merged[key] = (
                re.sub(r"(rank \d+).*(?=\))", rf"\1, {other[0]}" if other else r"\1", first),
                why,
            )
    told = list(merged.values())
    if len(told) <= MOST_FAULTS:
        return told
    return [
        *told[:MOST_FAULTS],
        ("no more", f"{len(told) - MOST_FAULTS} more faults of such kinds"),
    ]


CHECKS = {
    "checkpoint": checkpoint,
    "model": model,
    "shards": shards,
    "tensors": tensors,
    "parameters": parameters,
    "quantisation": quantisation,
}

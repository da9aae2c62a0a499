# Whether an install knows a model: each part that a model needs outside its own file is looked up in the table
# that vLLM would look it up in. What only transformers can tell is asked of the transformers of that environment.
"""What an install says to one model."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from vllm_graft.errors import RequestError
from vllm_graft.install.transformers_names import TransformersNames
from vllm_graft.link.roots import find_roots
from vllm_graft.link.tables import SourceTrees, path_of
from vllm_graft.link.vllm import Layout, Role
from vllm_graft.values.inspection import (
    ArchitectureAnswer,
    ClassAnswer,
    Known,
    ModelAnswer,
    MtpAnswer,
    QuantizationAnswer,
)
from vllm_graft.values.model import ModelDescription

_NEAR = 3
# Source: published config.json files of Qwen3.5, DeepSeek V3, GLM 4.5, Nemotron 3, Step 3.5, MiniMax M2, Ernie 4.5.
_MTP_FIELDS = (
    "mtp_num_hidden_layers",
    "num_nextn_predict_layers",
    "num_mtp_modules",
    "mtp_num_layers",
    "num_mtp_layers",
)
_PROCESSOR_FIELDS = {
    "processor_class": "processor",
    "image_processor_type": "image processor",
    "video_processor_type": "video processor",
    "feature_extractor_type": "feature extractor",
}


def answer_model(
    layout: Layout,
    trees: SourceTrees,
    *,
    architectures: Sequence[str],
    model: ModelDescription | None,
    transformers: TransformersNames | None,
) -> ModelAnswer:
    """Look up everything that these architectures, or this model, need."""
    asked = tuple(dict.fromkeys((*architectures, *(model.architectures if model else ()))))
    answers = tuple(_architecture(layout, trees, name) for name in asked)
    registered = [each.architecture for each in answers if each.registered]
    named = _names(model, answers)
    return ModelAnswer(
        asked=model.name if model else ", ".join(architectures),
        location=model.location if model else "",
        architectures=answers,
        classes=tuple(_classes(layout, model, transformers)) if model else (),
        mtp=_mtp(layout, trees, registered, model),
        reasoning_parsers=_parsers(layout, "reasoning-parser", named),
        tool_parsers=_parsers(layout, "tool-parser", named),
        quantization=_quantization(layout, model) if model else None,
        remote_code=model.remote_code if model else (),
        config_read=model is not None,
    )


def _architecture(layout: Layout, trees: SourceTrees, name: str) -> ArchitectureAnswer:
    entry = layout.by_architecture.get(name)
    if entry is not None:
        return ArchitectureAnswer(
            architecture=name,
            registered=True,
            table=entry.table,
            module=entry.module,
            class_name=entry.class_name,
            has_module=path_of(entry.module, trees.files) is not None,
        )
    if name in layout.retired:
        remark = f"vLLM {layout.retired[name]} was the last release with it"
    elif name in layout.elsewhere:
        remark = f"a plugin has it: {layout.elsewhere[name]}"
    else:
        near = difflib.get_close_matches(name, layout.by_architecture, n=_NEAR)
        remark = f"near to it: {', '.join(near)}" if near else ""
    return ArchitectureAnswer(architecture=name, registered=False, remark=remark)


def _classes(
    layout: Layout, model: ModelDescription, transformers: TransformersNames | None
) -> Iterator[ClassAnswer]:
    remote = {line.split(":", 1)[0] for line in model.remote_code}
    if model.model_type:
        yield _config_class(layout, model, transformers, remote="AutoConfig" in remote)
    tokenizer = model.tokenizer.get("tokenizer_class")
    if isinstance(tokenizer, str):
        yield _named_class(
            layout, "tokenizer", tokenizer, transformers, remote="AutoTokenizer" in remote
        )
    seen: set[str] = set()
    for described in (model.tokenizer, *model.processors.values()):
        for field, role in _PROCESSOR_FIELDS.items():
            name = described.get(field)
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                known = {"AutoProcessor", "AutoImageProcessor"} & remote
                yield _named_class(layout, role, name, transformers, remote=bool(known))


def _config_class(
    layout: Layout,
    model: ModelDescription,
    transformers: TransformersNames | None,
    *,
    remote: bool,
) -> ClassAnswer:
    # The order is that of vLLM's own look-up: its registry, then AutoConfig, which prefers its own class to
    # remote code only if the latter is not trusted.
    name = model.model_type
    own = layout.lookup("config-registry", name)
    known: Known = "not told"
    where = ""
    if own is not None:
        export = layout.lookup("config-exports", own.symbol)
        module = own.module or (export.module if export else "")
        known, where = "vllm", f"{module}.{own.symbol}" if module else own.symbol
    elif remote:
        known, where = "remote code", _remote_target(model, "AutoConfig")
    elif transformers is not None:
        found = transformers.configs.get(name)
        known = "transformers" if found else "missing"
        where = f"{found} of transformers {transformers.version}" if found else ""
    return ClassAnswer(asked=name, role="config", known=known, where=where)


def _remote_target(model: ModelDescription, kind: str) -> str:
    return next(
        (line.split(": ", 1)[1] for line in model.remote_code if line.startswith(f"{kind}:")), ""
    )


def _named_class(
    layout: Layout,
    role: str,
    name: str,
    transformers: TransformersNames | None,
    *,
    remote: bool,
) -> ClassAnswer:
    table: Role = "tokenizer" if role == "tokenizer" else "processor"
    own = next(
        (
            entry
            for found in layout.of_role(table)
            for entry in found.entries
            if name in {entry.symbol, entry.name}
        ),
        None,
    )
    known: Known = "not told"
    where = ""
    if own is not None:
        known, where = "vllm", f"{own.module}.{own.symbol or own.name}"
    elif transformers is not None and transformers.knows_class(name):
        known, where = "transformers", f"transformers {transformers.version}"
    elif remote:
        known = "remote code"
    elif transformers is not None:
        known = "missing"
    return ClassAnswer(asked=name, role=role, known=known, where=where)


def _mtp(
    layout: Layout, trees: SourceTrees, registered: Sequence[str], model: ModelDescription | None
) -> MtpAnswer | None:
    layers, field = _mtp_layers(model)
    if not registered:
        return (
            None
            if model is None
            else MtpAnswer(layers=layers, layers_field=field, drafts=(), draft_types=())
        )
    try:
        roots = find_roots(
            layout,
            trees,
            architectures=registered,
            config=model.config if model else None,
            features=("mtp",),
        )
    except RequestError:  # how find_roots says that there is no draft for these
        return MtpAnswer(layers=layers, layers_field=field, drafts=(), draft_types=())
    return MtpAnswer(
        layers=layers,
        layers_field=field,
        drafts=tuple(name for name in roots.architectures if name not in registered),
        draft_types=roots.draft_types,
    )


def _mtp_layers(model: ModelDescription | None) -> tuple[int | None, str]:
    for part in model.parts() if model else ():
        for field in _MTP_FIELDS:
            count = part.get(field)
            if isinstance(count, int):
                return count, field
    return None, ""


def _names(
    model: ModelDescription | None, answers: Sequence[ArchitectureAnswer]
) -> tuple[str, ...]:
    """Give everything that names the model, in lower case: its type, its module, its architecture."""
    named = [model.model_type] if model and model.model_type else []
    named += [each.module.rpartition(".")[2] for each in answers if each.module]
    # GptOssForCausalLM → gpt_oss
    named += [
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", each.architecture.partition("For")[0])
        for each in answers
    ]
    return tuple(dict.fromkeys(name.lower() for name in named))


def _parsers(layout: Layout, role: Role, named: Sequence[str]) -> tuple[str, ...]:
    """Give the parsers of the same family: the same leading letters, or the model's name inside."""
    families = {match.group() for name in named if (match := re.match(r"[a-z]+", name))}
    whole = {squeezed for name in named if (squeezed := _squeezed(name))}
    return tuple(
        sorted(
            {
                entry.name
                for table in layout.of_role(role)
                for entry in table.entries
                if _leading(entry.name) in families
                or any(name in _squeezed(entry.name) for name in whole)
            }
        )
    )


def _leading(name: str) -> str:
    match = re.match(r"[a-z]+", name.lower())
    return match.group() if match else ""


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _quantization(layout: Layout, model: ModelDescription) -> QuantizationAnswer:
    """Find the method where vLLM looks for it.

    Source: vLLM 0.31 ``config/model.py`` (``quantization_config``, ``compression_config``, of the text config
    as well) and ``transformers_utils/config.py`` (``hf_quant_config.json`` of modelopt).
    """
    for part in model.parts():
        for field in ("quantization_config", "compression_config"):
            told = part.get(field)
            if isinstance(told, Mapping):
                method = cast("Mapping[str, object]", told).get("quant_method")
                return _method(layout, str(method or ""), f"config.json {field}")
    producer = model.quantization.get("producer")
    if isinstance(producer, Mapping):
        name = cast("Mapping[str, object]", producer).get("name")
        return _method(layout, str(name or ""), "hf_quant_config.json producer")
    return QuantizationAnswer(method="", known=True, source="")


def _method(layout: Layout, method: str, source: str) -> QuantizationAnswer:
    # A checkpoint writes compressed_tensors or compressed-tensors; vLLM 0.31 `_parse_quant_hf_config` and
    # `_verify_quantization` take both.
    known = any(
        layout.lookup("quantization", name) is not None
        for name in {method, method.lower(), method.lower().replace("_", "-")}
    )
    return QuantizationAnswer(method=method, known=known, source=source)

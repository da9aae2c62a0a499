# Runs inside an install (see inside.py): multi-token heads. Their class is served with a target model, whose
# configuration says that it has such heads; vLLM's own code decides which class that makes.
"""Which target model a multi-token head belongs to."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm_graft.rehearse import inside_config
from vllm_graft.rehearse.inside_supply import PLAIN
from vllm_graft.rehearse.sections import MTP, count

ONE_HEAD = {"num_nextn_predict_layers": 1, "mtp_num_hidden_layers": 1, "num_mtp_modules": 1}


def is_draft(architecture: str) -> bool:
    """Tell whether vLLM has this architecture in its table for speculative decoding."""
    from vllm.model_executor.models import registry

    return architecture in getattr(registry, "_SPECULATIVE_DECODING_MODELS", {})


def target_of(architecture: str) -> tuple[str, str] | None:
    """Give architecture and model type of a target with this head; None: it has none in its own checkpoint.

    vLLM turns a target's configuration into the head's (``SpeculativeConfig.hf_config_override``); it is asked with
    a configuration of every model type that it knows.
    """
    from vllm.config.speculative import SpeculativeConfig

    for target, model_type in targets():
        for make in (stub, defaults):
            with contextlib.suppress(Exception):
                asked = make(target, model_type)
                made = SpeculativeConfig.hf_config_override(asked)
                if list(made.architectures) == [architecture]:
                    return target, model_type
    return None


def targets() -> Iterator[tuple[str, str]]:
    """Give every architecture that is no draft, with the model types that it may have."""
    from vllm.model_executor.models import ModelRegistry

    for name in ModelRegistry.models:
        if not is_draft(name):
            known = [*inside_config.types_of(name), *inside_config.alike(name)]
            for model_type in known or ["unknown"]:
                yield name, model_type


def stub(architecture: str, model_type: str) -> Any:
    """Make a configuration that says little more than its type."""
    kept = inside_config.keeper(model_type)
    said = {"architectures": [architecture], "num_hidden_layers": 2, **ONE_HEAD}
    found = kept(**said)
    found.text_config = kept(**said)
    return found


def defaults(architecture: str, model_type: str) -> Any:
    """Make a configuration of the class that serves a type, with a head."""
    values = with_head(inside_config.as_mapping(inside_config.class_for(model_type)()))
    values.pop("model_type", None)
    found = inside_config.class_for(model_type)(**values)
    found.architectures = [architecture]
    return found


def with_head(values: dict[str, Any]) -> dict[str, Any]:
    """Give a configuration one multi-token head, if it says nothing of any."""
    if any(MTP.search(key) and count(value) for key, value in values.items()):
        return values
    inner = values.get("text_config")
    if isinstance(inner, dict):
        return {**values, "text_config": with_head(inner)}
    return {**values, **ONE_HEAD}


METHODS = (
    ("eagle3", "eagle3"),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("medusa", "medusa"),
    ("eagle", "eagle"),
)
"""Part of an architecture's name → vLLM's name of the method."""


def own_checkpoint(architecture: str, folder: Path) -> dict[str, Any]:
    """Give the speculative configuration for a draft model that has a checkpoint of its own."""
    name = architecture.lower()
    method = next((method for part, method in METHODS if part in name), "draft_model")
    return {"model": str(folder), "method": method, "num_speculative_tokens": 2}


def plain_target(folder: Path, draft: dict[str, Any]) -> Path:
    """Write a target for a draft model: a plain decoder of the draft's width and vocabulary."""
    inner = draft.get("text_config")
    text = inner if isinstance(inner, dict) else draft
    values = {**PLAIN, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    for key in ("hidden_size", "vocab_size"):
        values[key] = text.get(key) or values[key]
    values["num_hidden_layers"] = 4
    place = folder.with_name(f"{folder.name}-target")
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(values))
    inside_config.write_tokenizer(place)
    return place

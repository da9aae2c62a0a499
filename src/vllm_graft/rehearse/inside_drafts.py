# Runs inside an install (see inside.py): multi-token heads. Their class is served with a target model, whose
# configuration says that it has such heads; vLLM's own code decides which class that makes.
"""Which target model a multi-token head belongs to."""

import contextlib
from collections.abc import Iterator
from typing import Any

from vllm_graft.rehearse import inside_config
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
        asked = stub(target, model_type)
        asked.text_config = stub(target, model_type)
        with contextlib.suppress(Exception):
            made = SpeculativeConfig.hf_config_override(asked)
            if list(made.architectures) == [architecture]:
                return target, model_type
    return None


def targets() -> Iterator[tuple[str, str]]:
    """Give every architecture that is no draft, with the model types that it may have."""
    from vllm.model_executor.models import ModelRegistry

    for name in ModelRegistry.models:
        if not is_draft(name):
            for model_type in (*inside_config.types_of(name), *inside_config.alike(name)):
                yield name, model_type


def stub(architecture: str, model_type: str) -> Any:
    """Make a configuration that says little more than its type."""
    kept = inside_config.keeper(model_type)
    return kept(architectures=[architecture], num_hidden_layers=2, **ONE_HEAD)


def with_head(values: dict[str, Any]) -> dict[str, Any]:
    """Give a configuration one multi-token head, if it says nothing of any."""
    if any(MTP.search(key) and count(value) for key, value in values.items()):
        return values
    inner = values.get("text_config")
    if isinstance(inner, dict):
        return {**values, "text_config": with_head(inner)}
    return {**values, **ONE_HEAD}

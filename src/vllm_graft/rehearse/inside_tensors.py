# Runs inside an install (see inside.py): which tensors a checkpoint of this model has.
"""The names and shapes of a checkpoint, from the best source that there is."""

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

from vllm_graft.rehearse import inside_asking, inside_weights


def tensors(
    asked: dict[str, Any], model: Any, config: Any, found: dict[str, Any]
) -> inside_weights.Tensors:
    """Give the tensors of a checkpoint for this model, and say in ``found`` where the names are from.

    In this order: those that were given, those of safetensors files, those that transformers writes for the same
    configuration, those that the model's own loader takes when it is asked name by name. A list that the loader
    refuses, or that leaves parameters unfilled, is kept in ``found`` and the next one is tried.
    """
    if asked.get("tensors") is not None:
        found["tensors_from"] = "given"
        return asked["tensors"]
    if asked.get("safetensors"):
        found["tensors_from"] = "headers of safetensors files"
        return headers(asked["safetensors"])
    tried: list[dict[str, Any]] = []
    found["tensors_tried"] = tried
    for origin, make in (("transformers", written_by_transformers), ("asked of the loader", None)):
        try:
            made = (
                make(found["configuration"], asked["architecture"])
                if make is not None
                else inside_asking.names(model, config, asked.get("ask_seconds", 60))
            )
            report = inside_weights.load(asked, model, config, made)
        except Exception as error:
            tried.append({"from": origin, "error": f"{type(error).__name__}: {error}"[:600]})
            continue
        tried.append({"from": origin, "not_filled": report["not_filled"][:40]})
        found["tensors_from"], found["tensors"] = origin, made
        if not report["not_filled"]:
            return made
    best = min(
        (t for t in tried if "not_filled" in t), key=lambda t: len(t["not_filled"]), default=None
    )
    if best is None:
        message = "; ".join(f"{t['from']}: {t['error']}" for t in tried)
        raise LookupError(message)
    return found["tensors"]


def headers(files: list[str]) -> inside_weights.Tensors:
    """Read names, shapes and types from safetensors files, or from files that hold no more than their headers."""
    found: inside_weights.Tensors = {}
    for file in files:
        with Path(file).open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            listing = json.loads(stream.read(size))
        for name, entry in listing.items():
            if name != "__metadata__":
                found[name] = [entry["shape"], entry["dtype"]]
    return found


def written_by_transformers(
    configuration: dict[str, Any], architecture: str
) -> inside_weights.Tensors:
    """Give what transformers' own model of the same configuration writes into a checkpoint."""
    import torch
    import transformers

    found = transformers_class(configuration, architecture)
    # Its own class: vLLM puts others under the same model type, which lack what transformers' code reads.
    with tempfile.TemporaryDirectory() as folder:
        # Through a file, which is read otherwise than a mapping: numbers that are infinite, lists for tuples.
        (Path(folder) / "config.json").write_text(json.dumps(configuration))
        config = found.config_class.from_pretrained(folder)
    transformers.logging.set_verbosity_error()
    with torch.random.fork_rng(devices=[]):
        model = found(config).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return headers([str(file) for file in sorted(Path(folder).glob("*.safetensors"))])


def transformers_class(configuration: dict[str, Any], architecture: str) -> Any:
    """Give transformers' model class: of the same name, or the one for this model type.

    Raises:
        LookupError: it has none.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    found = getattr(transformers, architecture, None)
    if found is not None:
        return found
    model_type = configuration.get("model_type")
    for mapping in (
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
        "MODEL_MAPPING_NAMES",
    ):
        name = getattr(modeling_auto, mapping, {}).get(model_type)
        for one in name if isinstance(name, tuple | list) else (name,):
            if one and hasattr(transformers, one):
                return getattr(transformers, one)
    message = f"transformers has no model for {model_type}"
    raise LookupError(message)

# Only JSON of a model's folder is read. Where the model brings code of its own (`auto_map`), that code is named and
# never run.
"""Open a model: a folder, or an id in the local Hugging Face cache."""

import json
import re
from collections.abc import Mapping
from typing import cast

from vllm_graft.errors import RequestError
from vllm_graft.run.directory import exists, names, read_file, real_path
from vllm_graft.values.environment import Environment
from vllm_graft.values.model import ModelDescription

_ID = re.compile(r"[\w.-]+/[\w.-]+")
_PROCESSOR_FILES = (
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
)


def open_model(text: str, *, environment: Environment) -> ModelDescription:
    """Read what a model says of itself.

    Raises:
        RequestError: E202 there is no such folder or cached id, or its config.json is missing or no JSON object.
    """
    folder = _folder(text, environment)
    if not exists(f"{folder}/config.json"):
        other = " It has params.json: Mistral's own format, which is not read." * exists(
            f"{folder}/params.json"
        )
        raise RequestError(
            f"no config.json in {folder}",
            remedy=f"Give the folder that holds the model's config.json.{other}",
            code="E202",
        )
    return ModelDescription(
        name=text,
        location=folder,
        config=_object(f"{folder}/config.json"),
        tokenizer=_optional(f"{folder}/tokenizer_config.json"),
        processors={
            name: _object(f"{folder}/{name}")
            for name in _PROCESSOR_FILES
            if exists(f"{folder}/{name}")
        },
        quantization=_optional(f"{folder}/hf_quant_config.json"),
    )


def _folder(text: str, environment: Environment) -> str:
    place = text if not text.startswith("~/") else f"{environment.home}/{text[2:]}"
    if exists(place):
        if place.endswith("/config.json"):
            place = place.removesuffix("/config.json")
        return real_path(place)
    if _ID.fullmatch(text) and not text.startswith("."):
        return _snapshot(text, environment)
    raise RequestError(
        f"no such folder: {text}",
        remedy="Give a folder with the model's config.json, or a Hugging Face id such as"
        " Qwen/Qwen3.5-122B-A10B.",
        code="E202",
    )


def _snapshot(model: str, environment: Environment) -> str:
    """Find an id in the Hugging Face cache.

    Source: huggingface_hub 1.x, "Understand caching": ``models--ORG--NAME/refs/main`` holds the name of the
    folder below ``snapshots``; locations ``HF_HUB_CACHE``, ``HF_HOME/hub``, ``~/.cache/huggingface/hub``.
    """
    variables = environment.variables
    home = variables.get("HF_HOME") or (
        f"{variables.get('XDG_CACHE_HOME') or f'{environment.home}/.cache'}/huggingface"
    )
    hub = variables.get("HF_HUB_CACHE") or f"{home}/hub"
    place = f"{hub}/models--{model.replace('/', '--')}"
    reference = f"{place}/refs/main"
    commits = names(f"{place}/snapshots")
    if exists(reference):
        commits = [read_file(reference).decode("utf-8", "replace").strip(), *commits]
    for commit in commits:
        if exists(f"{place}/snapshots/{commit}/config.json"):
            return f"{place}/snapshots/{commit}"
    raise RequestError(
        f"{model} is neither a folder nor in the Hugging Face cache ({hub})",
        remedy=f"Fetch its description, not its weights: hf download {model} --include '*.json'"
        f" --local-dir {model.rpartition('/')[2]}, then --model {model.rpartition('/')[2]}.",
        code="E202",
    )


def _optional(path: str) -> Mapping[str, object]:
    return _object(path) if exists(path) else {}


def _object(path: str) -> Mapping[str, object]:
    # Nemotron-H writes a bare Infinity, which Python's json takes.
    try:
        value: object = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{path} is no JSON: {error}", remedy="Fetch the file again.", code="E202"
        ) from error
    if not isinstance(value, dict):
        raise RequestError(
            f"{path} holds no JSON object", remedy="Fetch the file again.", code="E202"
        )
    return cast("dict[str, object]", value)

# The config.json of a model, from a folder, a file or the Hugging Face cache of this machine. Nothing is fetched, and
# code that a checkpoint brings (auto_map) is never run.
"""Read a model's config.json."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from vllm_graft.errors import RequestError
from vllm_graft.run.files import read_bytes
from vllm_graft.values.environment import Environment

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What a checkpoint says about itself."""

    location: str
    """The file that was read."""
    values: Mapping[str, object]
    """The decoded config.json."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """Give the architectures that it names; they may be none."""
        named = self.values.get("architectures")
        if not isinstance(named, list):
            return ()
        return tuple(name for name in cast("list[object]", named) if isinstance(name, str))


def read_model(model: str, environment: Environment) -> ModelConfig:
    """Read the config of a folder, a config.json, or a Hugging Face id that this machine has cached.

    Raises:
        RequestError: E202, there is none, or it is no JSON object.
    """
    tried: list[str] = []
    for place in _places(model, environment):
        try:
            content = read_bytes(place)
        except OSError:
            tried.append(place)
            continue
        return ModelConfig(location=place, values=_decode(content, place))
    raise RequestError(
        f"no config.json for {model!r} (looked at {', '.join(tried)})",
        remedy=f"fetch it with `hf download {model} config.json`, or give the folder of the checkpoint"
        if _HUB_ID.fullmatch(model)
        else "give the folder of the checkpoint, or name the architecture with --arch",
        code="E202",
    )


def _places(model: str, environment: Environment) -> list[str]:
    """Order: as a path, then as an id in the cache.

    Source: huggingface_hub 0.36 to 1.x: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub;
    models--ORG--NAME/refs/main holds the revision, snapshots/REVISION the files.
    """
    if model.startswith("~/"):
        model = str(PurePosixPath(environment.home) / model[2:])
    places = [model if model.endswith(".json") else f"{model.rstrip('/')}/config.json"]
    if _HUB_ID.fullmatch(model) and (hub := _hub(environment)):
        folder = f"{hub}/models--{model.replace('/', '--')}"
        try:
            revision = read_bytes(f"{folder}/refs/main").decode().strip()
        except (OSError, ValueError):
            revision = "main"
        places.append(f"{folder}/snapshots/{revision}/config.json")
    return places


def _hub(environment: Environment) -> str:
    variables = environment.variables
    if chosen := variables.get("HF_HUB_CACHE"):
        return chosen
    if home := variables.get("HF_HOME"):
        return f"{home}/hub"
    return f"{environment.home}/.cache/huggingface/hub" if environment.home else ""


def _decode(content: bytes, place: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError) as failure:
        raise RequestError(
            f"{place} is no JSON: {failure}",
            remedy="fetch the model's config.json again",
            code="E202",
        ) from failure
    if not isinstance(value, dict):
        raise RequestError(
            f"{place} holds no JSON object",
            remedy="fetch the model's config.json again",
            code="E202",
        )
    return cast("dict[str, object]", value)

"""A model as its publisher describes it: what is in its folder beside the weights."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The JSON files of a model's folder; none of its code is ever run."""

    name: str
    """As the user wrote it: a Hugging Face id or a folder."""
    location: str
    """The folder that was read."""
    config: Mapping[str, object]
    """config.json."""
    tokenizer: Mapping[str, object] = field(default_factory=dict[str, object])
    """tokenizer_config.json; empty where there is none."""
    processors: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
    """Those of processor_config.json, preprocessor_config.json and video_preprocessor_config.json that exist."""
    quantization: Mapping[str, object] = field(default_factory=dict[str, object])
    """hf_quant_config.json, which modelopt writes; empty where there is none."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """Give what config.json names as architectures."""
        named = self.config.get("architectures")
        items = cast("list[object]", named) if isinstance(named, list) else []
        return tuple(item for item in items if isinstance(item, str))

    @property
    def model_type(self) -> str:
        """Give the model type at the top; empty where there is none."""
        found = self.config.get("model_type")
        return found if isinstance(found, str) else ""

    def parts(self) -> Iterator[Mapping[str, object]]:
        """Give the config itself, then each nested one, such as ``text_config``."""
        yield self.config
        for key, value in self.config.items():
            if key.endswith("_config") and isinstance(value, Mapping):
                yield cast("Mapping[str, object]", value)

    @property
    def remote_code(self) -> tuple[str, ...]:
        """Give every ``auto_map`` entry of any of the files: ``AutoConfig: configuration_x.XConfig``.

        Source: transformers, ``dynamic_module_utils``: each names a class in a Python file of the folder.
        """
        found: dict[str, None] = {}
        for described in (*self.parts(), self.tokenizer, *self.processors.values()):
            named = described.get("auto_map")
            if isinstance(named, Mapping):
                for kind, target in cast("Mapping[str, object]", named).items():
                    items = cast("list[object]", target) if isinstance(target, list) else [target]
                    shown = ", ".join(str(item) for item in items if item)
                    found[f"{kind}: {shown}"] = None
        return tuple(found)

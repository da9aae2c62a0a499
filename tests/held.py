"""Text files that are held in memory, for the linker's corner cases; and a small vLLM to hold."""

from collections.abc import Mapping, Sequence

from vllm_graft.values.install import Files

MODELS = "vllm/model_executor/models"
REGISTRY = f"{MODELS}/registry.py"
MODEL_CONFIGS = f"{MODELS}/config.py"
SPECULATIVE = "vllm/config/speculative.py"
CONFIG_REGISTRY = "vllm/transformers_utils/config.py"
EXPORTS = "vllm/transformers_utils/configs/__init__.py"
ENGINE = "vllm/v1/engine_part.py"


class HeldFiles:
    """A mapping as ``Files``."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self._files = {
            path: text.encode() if isinstance(text, str) else text for path, text in files.items()
        }

    def paths(self) -> Sequence[str]:
        return sorted(self._files)

    def __contains__(self, path: object) -> bool:
        return path in self._files

    def read(self, path: str) -> bytes:
        return self._files[path]

    def containing(self, needle: bytes) -> Sequence[str]:
        return sorted(
            path for path, text in self._files.items() if path.endswith(".py") and needle in text
        )

    def mention(self, needle: bytes) -> bool:
        return bool(self.containing(needle))


def changed(files: Files, texts: Mapping[str, bytes]) -> HeldFiles:
    """Give the same files with some written over or added."""
    return HeldFiles({**{path: files.read(path) for path in files.paths()}, **texts})


def small_vllm(**texts: str) -> dict[str, str]:
    """Give an install as small as the linker takes without a finding, laid out as 0.17 is.

    Keywords replace files by the names of the constants above, in lower case.
    """
    files = {
        "vllm/__init__.py": "",
        REGISTRY: (
            "_TEXT_GENERATION_MODELS = {\n"
            '    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),\n'
            '    "ZebraForCausalLM": ("zebra", "ZebraForCausalLM"),\n'
            "}\n\n"
            "_SPECULATIVE_DECODING_MODELS = {\n"
            '    "LlamaMTP": ("llama_mtp", "LlamaMTP"),\n'
            "}\n\n"
            "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_SPECULATIVE_DECODING_MODELS}\n"
        ),
        f"{MODELS}/llama.py": "class LlamaForCausalLM:\n    pass\n",
        MODEL_CONFIGS: (
            "class VerifyAndUpdateConfig:\n    pass\n\n\n"
            "class LlamaConfig(VerifyAndUpdateConfig):\n    pass\n\n\n"
            "MODELS_CONFIG_MAP = {\n"
            '    "LlamaForCausalLM": LlamaConfig,\n'
            "}\n"
        ),
        SPECULATIVE: (
            "from typing import Literal\n\n"
            'MTPModelTypes = Literal["llama_mtp", "mtp"]\n\n\n'
            "class SpeculativeConfig:\n"
            "    @staticmethod\n"
            "    def hf_config_override(hf_config):\n"
            '        if hf_config.model_type == "llama":\n'
            '            hf_config.model_type = "llama_mtp"\n'
            '            hf_config.update({"architectures": ["LlamaMTP"]})\n'
            "        return hf_config\n"
        ),
        CONFIG_REGISTRY: '_CONFIG_REGISTRY = LazyConfigDict(\n    zebra="ZebraConfig",\n)\n',
        EXPORTS: (
            "_CLASS_TO_MODULE = {\n"
            '    "ZebraConfig": "vllm.transformers_utils.configs.zebra",\n'
            "}\n\n"
            '__all__ = [\n    "ZebraConfig",\n]\n'
        ),
        "vllm/reasoning/__init__.py": (
            "_REASONING_PARSERS_TO_REGISTER = {\n"
            '    "llama": ("llama_reasoning_parser", "LlamaReasoningParser"),\n'
            "}\n"
        ),
        "vllm/reasoning/llama_reasoning_parser.py": "class LlamaReasoningParser:\n    old = True\n",
        "vllm/tool_parsers/__init__.py": (
            "_TOOL_PARSERS_TO_REGISTER = {\n"
            '    "llama": ("llama_tool_parser", "LlamaToolParser"),\n'
            "}\n"
        ),
        "vllm/transformers_utils/processors/__init__.py": (
            '_CLASS_TO_MODULE = {"P": "vllm.transformers_utils.processors.p"}\n'
        ),
        "vllm/config/compilation.py": (
            "class CompilationConfig:\n"
            '    _attention_ops = [\n        "vllm::attention",\n        "vllm::sparse",\n    ]\n'
        ),
        "vllm/model_executor/layers/quantization/__init__.py": (
            'from typing import Literal\n\nQuantizationMethods = Literal["fp8"]\n'
        ),
        ENGINE: "def run(model_type):\n    return model_type\n",
    }
    names = {
        "registry": REGISTRY,
        "model_configs": MODEL_CONFIGS,
        "speculative": SPECULATIVE,
        "config_registry": CONFIG_REGISTRY,
        "exports": EXPORTS,
        "engine": ENGINE,
    }
    return {**files, **{names[key]: text for key, text in texts.items()}}


def with_okapi(files: Mapping[str, str], **texts: str) -> dict[str, str]:
    """Add the Okapi family, as a later release would have it; keywords as in ``small_vllm``."""
    donor = dict(files)
    donor[REGISTRY] = (
        donor[REGISTRY]
        .replace(
            '    "ZebraForCausalLM"',
            '    "OkapiForCausalLM": ("okapi", "OkapiForCausalLM"),\n    "ZebraForCausalLM"',
        )
        .replace('"LlamaMTP"),\n}', '"LlamaMTP"),\n    "OkapiMTP": ("okapi_mtp", "OkapiMTP"),\n}')
    )
    donor[f"{MODELS}/okapi.py"] = (
        "from vllm.transformers_utils.configs.okapi import OkapiConfig\n\n\n"
        "class OkapiForCausalLM:\n    config_class = OkapiConfig\n"
    )
    donor[f"{MODELS}/okapi_mtp.py"] = "class OkapiMTP:\n    pass\n"
    donor["vllm/transformers_utils/configs/okapi.py"] = (
        'class OkapiConfig:\n    model_type = "okapi"\n'
    )
    donor[CONFIG_REGISTRY] = donor[CONFIG_REGISTRY].replace(
        "    zebra", '    okapi="OkapiConfig",\n    zebra'
    )
    donor[EXPORTS] = (
        donor[EXPORTS]
        .replace(
            '    "ZebraConfig": ',
            '    "OkapiConfig": "vllm.transformers_utils.configs.okapi",\n    "ZebraConfig": ',
        )
        .replace('    "ZebraConfig",', '    "OkapiConfig",\n    "ZebraConfig",')
    )
    names = small_vllm(**texts)
    donor.update({path: names[path] for path in names if names[path] != small_vllm()[path]})
    return donor

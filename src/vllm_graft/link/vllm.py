# All knowledge of where vLLM keeps what: which file holds which table, under which variable, since
# when; which modules are model room and which are engine. Other files of this room ask here and name
# no path of vLLM themselves. Facts were read from the wheels of vLLM 0.11.2 to 0.32.0.
"""vLLM's own layout: registries, tables and rooms, decided by what is there, never by version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.values.finding import Finding
from vllm_graft.values.plan import EditSiteKind

Room = Literal["model", "config", "processor", "parser", "tokenizer", "engine"]

Role = Literal[
    "config-registry",
    "config-exports",
    "models-config-map",
    "convertor",
    "mtp-types",
    "reasoning-parser",
    "tool-parser",
    "parser",
    "tokenizer",
    "renderer",
    "processor",
    "splitting-ops",
    "quantization",
    "attention-backend",
    "kv-spec",
    "model-type-list",
]
"""What a table is for."""

MODELS = "vllm.model_executor.models"
REGISTRY_PATH = "vllm/model_executor/models/registry.py"
DRAFTS_TABLE = "_SPECULATIVE_DECODING_MODELS"
"""The table of REGISTRY_PATH that lists drafts; vLLM 0.8 to 0.31."""
SPECULATIVE_PATH = "vllm/config/speculative.py"
CONFIGS = "vllm.transformers_utils.configs"
DRAFT_NAMES_PATH = "vllm/transformers_utils/configs/eagle.py"
"""Where the engine puts a word before the name of a draft's architecture; vLLM 0.11 to 0.31."""
ENVIRONMENT = "vllm.envs"
ENVIRONMENT_READERS = "environment_variables"
"""The dict of ENVIRONMENT that maps a variable to the function that reads it, called at each access."""
OVERRIDE = "hf_config_override"
"""The function of SPECULATIVE_PATH that turns a target's config into its draft's."""

WEIGHTS_ROOM = "vllm.model_executor.models.utils"
STACKING_MAP = "WeightsMapper"
STACKED_FIELD = "orig_to_new_stacked"
STACKED_MARK = "shard_id"
"""What the map's ``apply`` sets on a tensor. Source: 0.25.1 and 0.31.0, models/utils.py; read by layers/linear.py."""
LOADER = "AutoWeightsLoader"
LOADER_STEP = "_load_param"
REGISTERED_MODEL = "init_vllm_registered_model"

OPTIONAL_INTERFACES = frozenset({"SupportsEncoderCudaGraph"})
"""Interfaces that a model may have or not, and that change no result. Source: vLLM 0.20.2 to 0.31.0,
v1/worker/gpu_model_runner.py: asked with ``supports_encoder_cudagraph`` (``isinstance``), and off by default."""

ADAPTERS = "vllm/lora/"
ADAPTER_INTERFACE = "SupportsLoRA"
"""A model that is no such thing is refused with adapters. Source: vLLM 0.14.1 to 0.31.0, interfaces.py
``supports_lora`` and v1/worker/lora_model_runner_mixin.py ``load_lora_model`` ("does not support LoRA yet")."""

SECOND_TREE = "vllm.models"
REGISTRY_UNION = "_VLLM_MODELS"
REGISTRY_RETIRED = "_PREVIOUSLY_SUPPORTED_MODELS"
REGISTRY_ELSEWHERE = "_OOT_SUPPORTED_MODELS"
REGISTRY_OTHERS = {REGISTRY_UNION, REGISTRY_RETIRED, REGISTRY_ELSEWHERE}

# Inside model_executor/models, but the engine's: base classes and helpers that process groups, the
# registry or isinstance checks of the engine depend on. Source: imports of these from v1/, config/,
# lora/, model_executor/model_loader/ in 0.14.1 and 0.31.0.
_ENGINE_MODELS = frozenset(
    {
        "interfaces",
        "interfaces_base",
        "registry",
        "utils",
        "adapters",
        "config",
        "vision",
        "module_mapping",
        "transformers",
    }
)
# Shared by parsers and engine: the manager, the abstract class, helpers that the server calls.
_ENGINE_PARSERS = frozenset(
    {
        "abs_reasoning_parsers",
        "abstract_tool_parser",
        "abstract_parser",
        "parser_manager",
        "structural_tag_registry",
        "metrics",
        "utils",
        "streaming",
    }
)
_ENGINE_TOKENIZERS = frozenset(
    {"registry", "protocol", "detokenizer_utils", "hf", "mistral", "fastokens"}
)
_ENGINE_RENDERERS = frozenset(
    {
        "base",
        "embed_utils",
        "hf",
        "inputs",
        "mistral",
        "online_derenderer",
        "online_renderer",
        "params",
        "protocol",
        "registry",
        "terratorch",
    }
)
_PARSER_PACKAGES = (
    "vllm.reasoning",
    "vllm.tool_parsers",
    "vllm.entrypoints.openai.tool_parsers",
    "vllm.parser",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One line of the model registry."""

    architecture: str
    module: str
    """Full dotted name, whichever way the registry writes it."""
    class_name: str
    table: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One entry of another table."""

    name: str
    """The key; the member itself in a plain list."""
    line: int
    module: str = ""
    """Dotted module that the entry names or that defines its value; empty where it names none."""
    symbol: str = ""
    """Class or other name that the value is; empty in a plain list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: a variable of one file."""

    role: Role
    path: str
    variable: str
    """With its class, such as ``CompilationConfig._attention_ops``; empty for eager imports."""
    entries: tuple[TableEntry, ...]

    def get(self, name: str) -> TableEntry | None:
        """Give the entry of this name, the last one as Python would."""
        found = None
        for entry in self.entries:
            if entry.name == name:
                found = entry
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where one install keeps what."""

    generation: str
    """Range of releases that look like this, such as ``0.14``; ``unknown`` where none does."""
    traits: frozenset[str]
    models: tuple[ModelEntry, ...]
    retired: Mapping[str, str]
    """Architecture → last release that had it."""
    elsewhere: Mapping[str, str]
    """Architecture → address of the plugin that has it."""
    tables: tuple[Table, ...]
    findings: tuple[Finding, ...]
    """One for each part of the layout that was not recognised."""
    by_architecture: Mapping[str, ModelEntry] = field(default_factory=dict[str, ModelEntry])

    def of_role(self, role: Role) -> tuple[Table, ...]:
        """Give the tables for one purpose; more than one where vLLM keeps several."""
        return tuple(table for table in self.tables if table.role == role)

    def lookup(self, role: Role, name: str) -> TableEntry | None:
        """Give the entry of this name in any table for this purpose."""
        for table in self.of_role(role):
            if (entry := table.get(name)) is not None:
                return entry
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlaces:
    """Where a table has stood, newest place first."""

    role: Role
    places: tuple[tuple[str, str], ...]
    required: bool = False
    """Every release from 0.11 on has it."""


# Source: 0.11.2, 0.14.1, 0.15.1, 0.16.0, 0.17.1, 0.20.2, 0.25.1 and 0.27.1 to 0.32.0.
TABLES = (
    TablePlaces(
        role="config-registry",
        places=(("vllm/transformers_utils/config.py", "_CONFIG_REGISTRY"),),
        required=True,
    ),
    TablePlaces(
        role="config-exports",
        # From 0.14 a lazy map; before, plain imports (variable "").
        places=(
            ("vllm/transformers_utils/configs/__init__.py", "_CLASS_TO_MODULE"),
            ("vllm/transformers_utils/configs/__init__.py", ""),
        ),
        required=True,
    ),
    TablePlaces(
        role="models-config-map",
        places=(("vllm/model_executor/models/config.py", "MODELS_CONFIG_MAP"),),
        required=True,
    ),
    TablePlaces(
        role="convertor",
        places=(
            (
                "vllm/transformers_utils/model_arch_config_convertor.py",
                "MODEL_ARCH_CONFIG_CONVERTORS",
            ),
        ),
    ),
    TablePlaces(role="mtp-types", places=((SPECULATIVE_PATH, "MTPModelTypes"),), required=True),
    TablePlaces(
        role="reasoning-parser",
        places=(("vllm/reasoning/__init__.py", "_REASONING_PARSERS_TO_REGISTER"),),
        required=True,
    ),
    TablePlaces(
        role="tool-parser",
        # Under entrypoints/openai up to 0.13.
        places=(
            ("vllm/tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"),
            ("vllm/entrypoints/openai/tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"),
        ),
        required=True,
    ),
    # 0.16 to about 0.21 only; later releases compose the two parsers.
    TablePlaces(role="parser", places=(("vllm/parser/__init__.py", "_PARSERS_TO_REGISTER"),)),
    TablePlaces(role="tokenizer", places=(("vllm/tokenizers/registry.py", "_VLLM_TOKENIZERS"),)),
    TablePlaces(role="renderer", places=(("vllm/renderers/registry.py", "_VLLM_RENDERERS"),)),
    TablePlaces(
        role="processor",
        places=(
            ("vllm/transformers_utils/processors/__init__.py", "_CLASS_TO_MODULE"),
            ("vllm/transformers_utils/processors/__init__.py", ""),
        ),
        required=True,
    ),
    TablePlaces(
        role="splitting-ops",
        places=(("vllm/config/compilation.py", "CompilationConfig._attention_ops"),),
        required=True,
    ),
    TablePlaces(
        role="quantization",
        places=(("vllm/model_executor/layers/quantization/__init__.py", "QuantizationMethods"),),
        required=True,
    ),
    TablePlaces(
        role="model-type-list",
        # From 0.18.
        places=(("vllm/utils/deep_gemm.py", "_DEEPGEMM_BLACKWELL_EXCLUDED_MODEL_TYPES"),),
    ),
)
BACKENDS_PATHS = ("vllm/v1/attention/backends/registry.py", "vllm/attention/backends/registry.py")
KV_SPEC_PATH = "vllm/v1/kv_cache_interface.py"
PARSER_MANAGERS: Mapping[Role, bytes] = {
    "reasoning-parser": b"@ReasoningParserManager.register_module",
    "tool-parser": b"@ToolParserManager.register_module",
}
# Values of these tables are ("file", "Class") in the package that holds the table.
PAIRS_IN_PACKAGE = frozenset({"reasoning-parser", "tool-parser", "parser", "tokenizer", "renderer"})

PARSER_MANAGER_OF: Mapping[Role, str] = {
    "reasoning-parser": "ReasoningParserManager",
    "tool-parser": "ToolParserManager",
}
"""Has ``register_lazy_module(name, module_path, class_name)`` from 0.11.1 on."""

KIND_OF_ROLE: Mapping[Role, EditSiteKind] = {
    "config-registry": "config-registry",
    "config-exports": "config-exports",
    "models-config-map": "models-config-map",
    "convertor": "convertor",
    "mtp-types": "speculative",
    "reasoning-parser": "parser-registry",
    "tool-parser": "parser-registry",
    "parser": "parser-registry",
    "tokenizer": "tokenizer-registry",
    "renderer": "tokenizer-registry",
    "processor": "processor-registry",
    "splitting-ops": "splitting-ops",
    "quantization": "other",
    "attention-backend": "other",
    "kv-spec": "other",
    "model-type-list": "model-type-list",
}


_ROOMS: tuple[tuple[str, Room, frozenset[str]], ...] = (
    (f"{MODELS}.", "model", _ENGINE_MODELS),
    (f"{SECOND_TREE}.", "model", frozenset({"common"})),
    (f"{CONFIGS}.", "config", frozenset()),
    ("vllm.transformers_utils.processors.", "processor", frozenset()),
    *((f"{package}.", "parser", _ENGINE_PARSERS) for package in _PARSER_PACKAGES),
    ("vllm.tokenizers.", "tokenizer", _ENGINE_TOKENIZERS),
    ("vllm.renderers.", "tokenizer", _ENGINE_RENDERERS),
)


def room_of(module: str) -> Room:
    """Tell which room a module of vLLM belongs to.

    Everything but ``engine`` may be taken from the donor whole.

    Source: who imports what in 0.11.2 to 0.32.0. ``vllm/models/<family>`` (from 0.22) is model
    room; ``vllm/models/common`` holds kernels that ``layers/mla.py`` imports too.
    """
    for package, room, engine in _ROOMS:
        if module.startswith(package):
            first = module.removeprefix(package).partition(".")[0]
            return "engine" if first in engine else room
    return "engine"


def full_module(written: str) -> str:
    """Give the dotted module that a registry value names.

    Source: ``registry.py``: values that start with ``vllm.`` are full paths (from 0.22), others
    are relative to ``vllm.model_executor.models``.
    """
    return written if written.startswith("vllm.") else f"{MODELS}.{written}"


def written_module(module: str) -> str | None:
    """Give the shortest way to write a module in the registry; None where it cannot be written."""
    if module.startswith(f"{MODELS}."):
        return module.removeprefix(f"{MODELS}.")
    return module if module.startswith("vllm.") else None


def registry_takes_full_paths(registry: bytes) -> bool:
    """Tell whether a registry can name modules outside ``model_executor/models``.

    Source: ``_resolve_module_name`` in registry.py of 0.25.1; absent in 0.20.2.
    """
    return b'startswith("vllm.")' in registry


def is_draft_table(name: str) -> bool:
    """Tell whether a table of the model registry lists speculative drafts."""
    return "SPECULATIVE" in name


def parser_package_of(path: str) -> str | None:
    """Give the package of parsers that a file belongs to."""
    module = path.removesuffix(".py").replace("/", ".")
    return next((name for name in _PARSER_PACKAGES if module.startswith(f"{name}.")), None)


def kind_of_place(path: str, variable: str, layout: Layout) -> EditSiteKind:
    """Say what kind of edit site a variable or function of a file is."""
    for table in layout.tables:
        if table.path == path and table.variable == variable:
            return KIND_OF_ROLE[table.role]
    if path == REGISTRY_PATH:
        return "registry"
    if path == SPECULATIVE_PATH:
        return "speculative"
    for table in layout.tables:
        if table.path == path and table.role in {
            "convertor",
            "models-config-map",
            "config-exports",
        }:
            return KIND_OF_ROLE[table.role]
    if path.startswith(("vllm/v1/spec_decode/", "vllm/v1/worker/gpu/spec_decode/")):
        return "proposer"
    if variable.upper().endswith("MODEL_TYPES"):
        return "model-type-list"
    return "other"

# The part of vllm.py that is about plugins: what code outside vLLM may register without touching a file of it, and how it
# is seen that a release has it. Read from the wheels of vLLM 0.11.2 to 0.32.0.
"""vLLM's extension points, as far as a graft can use them."""

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_graft.link.tables import package_of
from vllm_graft.link.vllm import PARSER_MANAGER_OF, REGISTRY_PATH, Role, Table
from vllm_graft.values.install import Files

PLUGIN_GROUP = "vllm.general_plugins"
"""Entry points of this group are called in every process before it starts work, also in the one that
inspects a model's class. Source: ``load_general_plugins`` in vllm/plugins/__init__.py, called in arg_utils.py,
v1/engine/core.py, v1/worker/worker_base.py and models/registry.py of 0.11.2 to 0.32.0."""

_PLUGINS_PATH = "vllm/plugins/__init__.py"
_CONFIG_PATH = "vllm/transformers_utils/config.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPoint:
    """How one kind of thing is registered from outside."""

    line: str
    """Python, with ``{name}``, ``{module}`` and ``{symbol}`` as literals; ``{package}`` is the table's."""
    path: str
    """The file that shows that a release has it; with ``{folder}``, that of the table."""
    sign: bytes
    """What stands there."""


MODEL_POINT = ExtensionPoint(
    line="from vllm import ModelRegistry\nModelRegistry.register_model({name}, {target})",
    path=REGISTRY_PATH,
    sign=b"`<module>:<class>`",
)
"""As a string, so that nothing is imported (and no GPU touched) before the class is needed."""

_LAZY = (
    "from {package} import {manager}\n{manager}.register_lazy_module({name}, {module}, {symbol})"
)

_POINTS: Mapping[Role, ExtensionPoint] = {
    # Not a function but the table itself: vLLM has none for this, and transformers' own AutoConfig.register would
    # lose against the code of a checkpoint where transformers is older than 5. vLLM takes classes in it.
    "config-registry": ExtensionPoint(
        line="from vllm.transformers_utils.config import _CONFIG_REGISTRY\n_CONFIG_REGISTRY[{name}] = {class}",
        path=_CONFIG_PATH,
        sign=b"isinstance(value := super().__getitem__(key), type)",
    ),
    "reasoning-parser": ExtensionPoint(
        line=_LAZY, path="{folder}/abs_reasoning_parsers.py", sign=b"def register_lazy_module("
    ),
    "tool-parser": ExtensionPoint(
        line=_LAZY, path="{folder}/abstract_tool_parser.py", sign=b"def register_lazy_module("
    ),
    "tokenizer": ExtensionPoint(
        line="from vllm.tokenizers.registry import TokenizerRegistry\nTokenizerRegistry.register({name}, {module}, {symbol})",
        path="{folder}/registry.py",
        sign=b"def register(self, tokenizer_mode: str, module: str, class_name: str)",
    ),
    "renderer": ExtensionPoint(
        line="from vllm.renderers.registry import RENDERER_REGISTRY\nRENDERER_REGISTRY.register({name}, {module}, {symbol})",
        path="{folder}/registry.py",
        sign=b"def register(self, renderer_mode: str, module: str, class_name: str)",
    ),
}
EXPORTS: frozenset[Role] = frozenset({"config-exports", "processor"})
"""Tables by which a package gives its modules' classes: a plugin imports from its own modules instead."""


def point_of(table: Table, files: Files) -> ExtensionPoint | None:
    """Give the extension point that stands for entries of a table; None where this release has none."""
    point = _POINTS.get(table.role)
    folder = table.path.rpartition("/")[0]
    if point is None or not has_point(point, files, folder):
        return None
    manager = PARSER_MANAGER_OF.get(table.role, "")
    line = point.line.replace("{package}", package_of(table.path)).replace("{manager}", manager)
    return ExtensionPoint(line=line, path=point.path, sign=point.sign)


def has_point(point: ExtensionPoint, files: Files, folder: str = "") -> bool:
    """Tell whether a release has an extension point."""
    path = point.path.replace("{folder}", folder)
    return path in files and point.sign in files.read(path)


def has_plugins(files: Files) -> bool:
    """Tell whether a release calls plugins of the general group."""
    return _PLUGINS_PATH in files and PLUGIN_GROUP.encode() in files.read(_PLUGINS_PATH)

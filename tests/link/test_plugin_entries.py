# What a plugin may stand for is read off the edited files themselves.
import io
import zipfile
from dataclasses import replace

import pytest

from plans import CONFIG, MODEL, PlanParts, edit, module
from vllm_graft.image.plugin import encode_plugin, make_plugin, plugin_package
from vllm_graft.install.tree import PackedFiles
from vllm_graft.link.plugin_entries import PluginParts, plugin_parts
from vllm_graft.link.relocate import Relocation
from vllm_graft.values.plan import DependencyDecision, GraftPlan

REGISTRY = "vllm/model_executor/models/registry.py"
CONFIGURATION = "vllm/transformers_utils/config.py"
EXPORTS = "vllm/transformers_utils/configs/__init__.py"
REASONING = "vllm/reasoning/__init__.py"

BASE = {
    "vllm/__init__.py": b"",
    "vllm/plugins/__init__.py": b'DEFAULT_PLUGINS_GROUP = "vllm.general_plugins"\n',
    REGISTRY: b"""\
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}
# A string in the format `<module>:<class>`
""",
    CONFIGURATION: b"""\
class LazyConfigDict(dict):
    def __getitem__(self, key):
        if isinstance(value := super().__getitem__(key), type):
            return value
_CONFIG_REGISTRY = LazyConfigDict(
    llama="LlamaConfig",
)
""",
    EXPORTS: b"""\
_CLASS_TO_MODULE = {
    "LlamaConfig": "vllm.transformers_utils.configs.llama",
}
__all__ = ["LlamaConfig"]
""",
    REASONING: b"""\
from vllm.reasoning.abs_reasoning_parsers import ReasoningParserManager
_REASONING_PARSERS_TO_REGISTER = {
    "llama": ("llama_parser", "LlamaParser"),
}
""",
    "vllm/reasoning/abs_reasoning_parsers.py": b"class M:\n    def register_lazy_module(cls): ...\n",
    "vllm/v1/engine.py": b"KNOWN = ['llama']\n",
}


def planned(changes: dict[str, tuple[bytes, bytes]]) -> GraftPlan:
    edits = tuple(
        edit(path, BASE[path], BASE[path].replace(old, new)) for path, (old, new) in changes.items()
    )
    return PlanParts(edits=edits).plan()


def parts(plan: GraftPlan, **without: bytes) -> PluginParts:
    files = {path: content for path, content in BASE.items() if path not in without}
    return plugin_parts(plan, PackedFiles.of(files.items()))


ALLOWED = {
    REGISTRY: (
        b'"LlamaForCausalLM"),\n}',
        b'"LlamaForCausalLM"),\n    "NewForCausalLM": ("new", "NewForCausalLM"),\n}',
    ),
    CONFIGURATION: (
        b'llama="LlamaConfig",\n',
        b'llama="LlamaConfig",\n    new="NewConfig",\n    **{"new-one": "NewConfig"},\n',
    ),
    EXPORTS: (
        b'configs.llama",\n}\n__all__ = [',
        b'configs.llama",\n    "NewConfig": "vllm.transformers_utils.configs.new",\n}\n__all__ = ["NewConfig", ',
    ),
    REASONING: (
        b'"LlamaParser"),\n}\n',
        b"""\
"LlamaParser"),
    "new": ("new_parser", "NewParser"),
}
ReasoningParserManager.register_lazy_module("other", "vllm.parser.other", "Other")
""",
    ),
}


def test_new_entries_of_tables_that_can_be_extended_are_no_obstacle() -> None:
    found = parts(planned(ALLOWED))
    assert found.obstacles == []
    assert {(each.name, each.module, each.symbol) for each in found.entries} == {
        ("NewForCausalLM", "vllm.model_executor.models.new", "NewForCausalLM"),
        ("new", "vllm.transformers_utils.configs.new", "NewConfig"),
        ("new-one", "vllm.transformers_utils.configs.new", "NewConfig"),
        ("new", "vllm.reasoning.new_parser", "NewParser"),
        ("other", "vllm.parser.other", "Other"),
    }


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("vllm/v1/engine.py", b"['llama']", b"['llama', 'new']"),
        # More than entries, in a file that may have them.
        (REGISTRY, b"# A", b'if True:\n    _TEXT_GENERATION_MODELS["x"] = ("a", "b")\n# A'),
        (REGISTRY, b'"LlamaForCausalLM": ("llama", "LlamaForCausalLM"),\n', b""),
        (REASONING, b"_TO_REGISTER = {", b"_TO_REGISTER: dict = {"),
        (EXPORTS, b'"LlamaConfig"]', b"]"),
        (CONFIGURATION, b"return value", b"return new"),
    ],
)
def test_anything_more_is_an_obstacle(path: str, old: bytes, new: bytes) -> None:
    found = parts(planned({path: (old, new)}))
    assert [each.path for each in found.obstacles] == [path]
    assert found.entries == []


@pytest.mark.parametrize(
    "missing", ["vllm/plugins/__init__.py", "vllm/reasoning/abs_reasoning_parsers.py"]
)
def test_a_vllm_without_the_extension_point_is_an_obstacle(missing: str) -> None:
    assert parts(planned(ALLOWED), **{missing: b""}).obstacles


def test_a_library_beside_the_bases_is_an_obstacle() -> None:
    beside = DependencyDecision(
        name="transformers",
        decision="side by side",
        found="4.57.6",
        wanted=">=5",
        reason="pins",
        proposed="transformers==5.4.0",
    )
    plan = replace(planned({}), dependencies=(beside,))
    assert "transformers" in parts(plan).obstacles[0].what


TEXT = '''\
"""As in vllm.model_executor.models.new."""
import vllm.envs as envs
import vllm.model_executor.models.new as own
from vllm.transformers_utils.configs import LlamaConfig, NewConfig as Config
from vllm.model_executor.models import llama, new
from .llama import (
    LlamaForCausalLM,
)
from . import llama as other
from ..layers.linear import Linear


def load():
    from .new import NewForCausalLM as again
    return "vllm.model_executor.models.new:NewForCausalLM", "vllm.model_executor.models.newer"
'''

MOVED = '''\
"""As in vllm.model_executor.models.new."""
import vllm.envs as envs
import plug.model_executor.models.new as own
from vllm.transformers_utils.configs import LlamaConfig
from plug.transformers_utils.configs.new import NewConfig as Config
from vllm.model_executor.models import llama
from plug.model_executor.models import new
from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.model_executor.models import llama as other
from vllm.model_executor.layers.linear import Linear


def load():
    from plug.model_executor.models.new import NewForCausalLM as again
    return "plug.model_executor.models.new:NewForCausalLM", "vllm.model_executor.models.newer"
'''


def test_modules_name_one_another_in_their_new_place() -> None:
    modules = (module(MODEL, TEXT), module(CONFIG, "class NewConfig: ...\n"))
    exports = {"vllm.transformers_utils.configs.NewConfig": "vllm.transformers_utils.configs.new"}
    moved = Relocation(modules, exports, "plug")(modules[0])
    assert (moved.name, moved.path) == (
        "plug.model_executor.models.new",
        "plug/model_executor/models/new.py",
    )
    assert moved.text == MOVED
    assert moved.unclear == ()


@pytest.mark.parametrize(
    "text",
    [
        "import vllm.model_executor.models.new\n",
        "import vllm\nx = vllm.model_executor.models.new.f()\n",
        'x = "vllm.model_executor.models\\x2enew"\n',
        "here = __file__\n",
    ],
)
def test_what_cannot_be_followed_is_told(text: str) -> None:
    modules = (module(MODEL, text),)
    assert Relocation(modules, {}, "plug")(modules[0]).unclear


def test_the_wheel_is_the_same_to_the_byte_and_its_record_is_whole() -> None:
    plan = planned(ALLOWED)
    found = parts(plan)
    package = plugin_package(plan)
    relocation = Relocation(plan.modules, found.exports, package)
    modules = [relocation(each) for each in plan.modules]
    wheels = [encode_plugin(make_plugin(plan, modules, found.entries, package)) for _ in range(2)]
    assert wheels[0] == wheels[1]
    with zipfile.ZipFile(io.BytesIO(wheels[0])) as archive:
        names = archive.namelist()
        record = archive.read(next(each for each in names if each.endswith("/RECORD"))).decode()
        entry = archive.read(f"{package}/__init__.py").decode()
    assert {line.split(",")[0] for line in record.splitlines()} == set(names)
    compile(entry, "entry", "exec")
    assert 'ModelRegistry.register_model("NewForCausalLM", ' in entry
    assert '_CONFIG_REGISTRY["new"] = NewConfig' in entry

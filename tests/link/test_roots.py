"""What a graft starts from must be there: a graft of nothing would pass every check."""

import pytest

from held import CONFIG_REGISTRY, EXPORTS, SPECULATIVE, small_vllm, with_okapi
from linking import MODEL, Linking, install_of, linked, packages
from vllm_graft.errors import SourceError
from vllm_graft.link.plan import LinkRequest, link

LATER = "vllm/model_executor/models/okapi_next.py"
CLASS = "class OkapiForCausalLM:\n    pass\n"


@pytest.mark.parametrize("text", ["", "class OkapiModel:\n    pass\n", "def f():\n" + " x = 1\n"])
def test_a_donor_that_registers_a_class_which_its_module_has_not_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="has no OkapiForCausalLM") as caught:
        linked(donor={MODEL: text})
    assert caught.value.code == "E306"


def test_a_donor_that_registers_a_module_which_it_has_not_is_refused() -> None:
    draft = "vllm/model_executor/models/okapi_mtp.py"
    registry = (
        '_TEXT_GENERATION_MODELS = {\n    "OkapiForCausalLM": ("gone", "OkapiForCausalLM"),\n}\n\n'
        "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n"
    )
    with pytest.raises(SourceError, match=r"no module vllm\.model_executor\.models\.gone"):
        linked(donor={"vllm/model_executor/models/registry.py": registry, draft: ""})


@pytest.mark.parametrize(
    "text",
    [
        "from vllm.model_executor.models.okapi_next import OkapiForCausalLM\n",
        "from vllm.model_executor.models.okapi_next import *\n",
        "try:\n    import torch\nexcept ImportError:\n    from .okapi_next import OkapiForCausalLM\n",
        "if True:\n    from .okapi_next import OkapiForCausalLM\n",
        "from .okapi_next import OkapiForCausalLM as _Other\nOkapiForCausalLM = _Other\n",
    ],
)
def test_a_class_may_come_from_another_module(text: str) -> None:
    linked(donor={MODEL: text, LATER: CLASS})


def test_a_file_that_nests_deeper_than_python_takes_in_is_named() -> None:
    deep = "x = " + "+".join(["1"] * 50_000) + "\n" + CLASS
    with pytest.raises(SourceError, match=r"okapi\.py is not valid Python") as caught:
        linked(donor={MODEL: deep})
    assert caught.value.code == "E305"


WRAPPER = "vllm/model_executor/models/transformers/__init__.py"


def wrapped(donor: str, base: str) -> Linking:
    """Okapi has no code of its own: the registry names the engine's class for such models."""
    registry = with_okapi(small_vllm())["vllm/model_executor/models/registry.py"].replace(
        '("okapi", "OkapiForCausalLM")', '("transformers", "Wrapped")'
    )
    exports = with_okapi(small_vllm())[EXPORTS].replace(
        '"vllm.transformers_utils.configs.okapi"', '"transformers"'
    )
    files = {"vllm/model_executor/models/registry.py": registry, EXPORTS: exports}
    return linked(donor={WRAPPER: donor, **files}, base={WRAPPER: base})


def test_a_class_of_the_engines_serves_where_it_is_the_same() -> None:
    text = "class Wrapped:\n    scale = 1\n"
    assert wrapped(text, text).plan.verdict == "ok"


@pytest.mark.parametrize(
    ("donor", "base"),
    [
        ("class Wrapped:\n    scale = 2\n", "class Wrapped:\n    scale = 1\n"),
        (
            "class Mixed:\n    scale = 2\n\n\nclass Wrapped(Mixed):\n    pass\n",
            "class Mixed:\n    scale = 1\n\n\nclass Wrapped(Mixed):\n    pass\n",
        ),
        (
            "class Kept:\n    scale = 2\n\n\nWrapped = Kept\n",
            "class Kept:\n    scale = 1\n\n\nWrapped = Kept\n",
        ),
    ],
    ids=["itself", "an ancestor", "under another name"],
)
def test_a_class_of_the_engines_is_doubtful_where_the_donors_is_another(
    donor: str, base: str
) -> None:
    linking = wrapped(donor, base)
    assert linking.finding("G217").severity == "review"
    assert not linking.plan.modules


def test_what_a_class_of_the_engines_imports_says_nothing_of_the_model() -> None:
    text = "from vllm.transformers_utils.configs import OkapiConfig\n\n\nclass Wrapped:\n    pass\n"
    linking = wrapped(text, "class Wrapped:\n    pass\n")
    assert not linking.plan.modules
    assert not [site for site in linking.plan.sites if site.identifier == "OkapiConfig"]


LLAMA = "vllm/model_executor/models/llama.py"
RUNNING = '\n\nRunningTypes = Literal["{0}"]\n'


@pytest.mark.parametrize(
    ("donor", "base", "verdict"),
    [
        ("dash", "", "blocked"),
        ("dash-draft", "trot", "blocked"),
        ("herd_draft", "", "blocked"),
        ("dash", "dash", "ok"),
        ("trot", "", "ok"),
    ],
)
def test_a_draft_is_of_no_use_without_its_way_of_speculating(
    donor: str, base: str, verdict: str
) -> None:
    before = {**packages(), **small_vllm()}
    after = with_okapi(before)
    after["vllm/model_executor/models/registry.py"] = after[
        "vllm/model_executor/models/registry.py"
    ].replace('"OkapiMTP": ("okapi_mtp", "OkapiMTP")', '"DashDraftModel": ("herd_draft", "Herd")')
    after["vllm/model_executor/models/herd_draft.py"] = "class Herd:\n    pass\n"
    for files, word in ((after, donor), (before, base)):
        files[SPECULATIVE] += RUNNING.format(word) if word else ""
    plan = link(
        install_of(before, "0.14.1"),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=("DashDraftModel",)),
    )
    assert plan.verdict == verdict
    assert [f.code for f in plan.findings if f.severity == "blocked"] == (
        ["G301"] if verdict == "blocked" else []
    )


@pytest.mark.parametrize(
    ("given", "known", "lacking"),
    [
        ("SupportsEagle, SupportsEagle3", "(SupportsEagle3)", []),
        ("SupportsEagle, SupportsEagle3", "", ["SupportsEagle", "SupportsEagle3"]),
        ("SupportsEagle, SupportsEagle3", "(SupportsEagle)", ["SupportsEagle3"]),
        ("SupportsEagle", "", ["SupportsEagle"]),
    ],
)
def test_a_target_that_gives_for_one_kind_of_draft_gives_for_the_plain_kind(
    given: str, known: str, lacking: list[str]
) -> None:
    # MiniCPM and its EAGLE draft, vLLM 0.17.1 and 0.20.2: the engine asks whether it supports any kind.
    interfaces = "class SupportsEagle:\n    pass\n\n\nclass SupportsEagle3:\n    pass\n\n\n"
    before = {**packages(), **small_vllm()}
    before[LLAMA] = f"{interfaces}class LlamaForCausalLM{known}:\n    pass\n"
    after = with_okapi(before)
    after[LLAMA] = f"{interfaces}class LlamaForCausalLM({given}):\n    pass\n"
    after["vllm/model_executor/models/registry.py"] = after[
        "vllm/model_executor/models/registry.py"
    ].replace('"OkapiMTP": ("okapi_mtp", "OkapiMTP")', '"EagleLlamaForCausalLM": ("herd", "Herd")')
    after["vllm/model_executor/models/herd.py"] = "class Herd:\n    pass\n"
    plan = link(
        install_of(before, "0.14.1"),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=("EagleLlamaForCausalLM",)),
    )
    assert [f.wanted.rpartition(" ")[2] for f in plan.findings if f.code == "G301"] == lacking


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('f"DFlash{arch}"', ["DFlashHerdModel", "HerdModel"]),
        ('f"Eagle{arch}"', ["HerdModel"]),
    ],
)
def test_a_draft_comes_under_the_name_that_the_engine_makes_of_its_own(
    text: str, names: list[str]
) -> None:
    # MuseGlimmerAssistantModel of vLLM 0.30.0 and 0.31.0: registered alone, its engine asked for another name.
    registry = "vllm/model_executor/models/registry.py"
    before = {**packages(), **small_vllm()}
    after = with_okapi(before)
    after["vllm/transformers_utils/configs/eagle.py"] = f"def named(arch):\n    return {text}\n"
    after[registry] = after[registry].replace(
        '"OkapiMTP": ("okapi_mtp", "OkapiMTP")',
        ", ".join(f'"{name}": ("herd", "Herd")' for name in ("DFlashHerdModel", "HerdModel")),
    )
    after["vllm/model_executor/models/herd.py"] = "class Herd:\n    pass\n"
    plan = link(
        install_of(before, "0.14.1"),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=("HerdModel",)),
    )
    (edit,) = [edit for edit in plan.edits if edit.path == registry]
    added = [line for line in edit.diff.splitlines() if line.startswith("+ ")]
    assert sorted(line.split('"')[1] for line in added if "herd" in line) == names


@pytest.mark.parametrize(
    ("architecture", "types"), [("GnuAssistantModel", ["gnu_assistant"]), ("GnuModel", [])]
)
def test_a_configuration_of_the_models_name_comes_with_it_whatever_file_serves_the_model(
    architecture: str, types: list[str]
) -> None:
    # MuseGlimmerAssistantModel of vLLM 0.31.0 is served by qwen3_dflash.py, which names no configuration.
    registry = "vllm/model_executor/models/registry.py"
    before = {**packages(), **small_vllm()}
    after = with_okapi(before)
    after[registry] = after[registry].replace(
        '"OkapiMTP": ("okapi_mtp", "OkapiMTP")', f'"{architecture}": ("herd", "Herd")'
    )
    after["vllm/model_executor/models/herd.py"] = "class Herd:\n    pass\n"
    after["vllm/transformers_utils/configs/gnu.py"] = (
        'class GnuAssistantConfig:\n    model_type = "gnu_assistant"\n'
    )
    for path, old, new in (
        (CONFIG_REGISTRY, "    zebra", '    gnu_assistant="GnuAssistantConfig",\n    zebra'),
        (
            EXPORTS,
            '    "ZebraConfig": ',
            '    "GnuAssistantConfig": "vllm.transformers_utils.configs.gnu",\n    "ZebraConfig": ',
        ),
    ):
        after[path] = after[path].replace(old, new)
    plan = link(
        install_of(before, "0.14.1"),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=(architecture,)),
    )
    moved = {module.path for module in plan.modules}
    added = [
        line for edit in plan.edits if edit.path == CONFIG_REGISTRY for line in edit.diff.split()
    ]
    assert [word.partition("=")[0] for word in added if "GnuAssistantConfig" in word] == types
    assert ("vllm/transformers_utils/configs/gnu.py" in moved) == bool(types)


@pytest.mark.parametrize(
    ("name", "known", "verdict"),
    [
        ("Eagle3LlamaForCausalLM", "", "review"),
        ("PeagleLlamaForCausalLM", "", "review"),
        ("Eagle3LlamaForCausalLM", "(SupportsEagle3)", "ok"),
        ("Eagle3ZebraForCausalLM", "", "ok"),
        ("HerdDraftModel", "", "ok"),
    ],
)
def test_a_draft_is_of_no_use_to_a_target_that_gives_it_nothing(
    name: str, known: str, verdict: str
) -> None:
    interface = "class SupportsEagle3:\n    pass\n\n\n"
    before = {**packages(), **small_vllm()}
    before[LLAMA] = f"{interface}class LlamaForCausalLM{known}:\n    pass\n"
    after = with_okapi(before)
    after[LLAMA] = f"{interface}class LlamaForCausalLM(SupportsEagle3):\n    pass\n"
    after["vllm/model_executor/models/registry.py"] = after[
        "vllm/model_executor/models/registry.py"
    ].replace('"OkapiMTP": ("okapi_mtp", "OkapiMTP")', f'"{name}": ("herd_draft", "Herd")')
    after["vllm/model_executor/models/herd_draft.py"] = "class Herd:\n    pass\n"
    plan = link(
        install_of(before, "0.14.1"),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=(name,)),
    )
    assert plan.verdict == verdict
    wanted = f"LlamaForCausalLM, the target of {name}, is a SupportsEagle3"
    assert [(f.code, f.wanted) for f in plan.findings if f.severity == "review"] == (
        [("G301", wanted)] if verdict == "review" else []
    )

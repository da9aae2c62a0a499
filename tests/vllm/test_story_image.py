# The story, image to image: the owner's image that is too old, the community's that knows the model, and what comes out.
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import graft_trees
import pytest
import rehearsals
import story
import story_images

from engines import Docker, docker_or_skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The three images of the story, and what was said."""

    docker: Docker
    base: str
    grafted: str
    plan: Mapping[str, Any]
    receipt: Mapping[str, Any]
    parser: str


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    engine = docker_or_skip()
    yield engine
    engine.clean()
    assert not engine.containers()


@pytest.fixture(scope="module")
def made(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("story")
    base = docker.load(story_images.node_image_or_skip())
    donor = docker.load(story_images.community_image())
    grafted = docker.name()
    plan = folder / "plan.json"
    story_images.graft(
        *("plan", "--base", f"docker:{base}", "--donor", f"docker:{donor}", "-o", str(plan)),
        *("--feature", "mtp", "--feature", "reasoning-parser=qwen3"),
        *(word for name in story.MAIN_CLASSES for word in ("--arch", name)),
    )
    receipt = json.loads(story_images.graft("--format", "json", "build", str(plan), "-t", grafted))
    told = json.loads(plan.read_text())
    planned = graft_trees.Planned(status=0, said="", file=plan, content=told)
    parser = graft_trees.parser_name(planned, "qwen3")
    return Made(
        docker=docker, base=base, grafted=grafted, plan=told, receipt=receipt, parser=parser
    )


def inspected(docker: Docker, tag: str) -> Mapping[str, Any]:
    (found,) = json.loads(docker.run("image", "inspect", tag))
    return found


def test_the_plan_is_made_from_images_alone(made: Made) -> None:
    assert made.plan["verdict"] in {"ok", "review"}
    assert made.plan["base"]["version"] == "0.14.1+cpu"
    assert made.plan["donor"]["version"] == "0.17.1+cpu"


def test_the_report_says_what_the_community_image_would_cost(made: Made) -> None:
    route = made.plan["route"]
    assert route["chosen"] == "graft"
    assert [(each["nodes"], each["route"]) for each in route["recommended"]] == [
        ("one node", "graft"),
        ("several nodes", "graft"),
    ]
    candidates = {each["route"]: each for each in route["candidates"]}
    donor = candidates["donor-as-is"]
    assert donor["serves"] == "several nodes"
    cost = donor["cost"]
    assert cost["launchers"] == ["/workspace/run-cluster-node.sh"]
    settings = {each["name"]: (each["base"], each["instead"]) for each in cost["settings"]}
    assert settings["WorkingDir"] == ("/workspace", "")
    assert settings["Env NODE"] == ("1", "")
    assert settings["/root/.bashrc NCCL_IB_HCA"] == ("rocep1s0f1", "")
    installed = {each["name"]: (each["base"], each["instead"]) for each in cost["distributions"]}
    assert cost["distributions"][0]["name"] == "ray"
    assert installed["ray"] == ("2.60.0", "")
    assert installed["vllm"] == ("0.14.1+cpu", "0.17.1+cpu")
    assert any("GPU" in each for each in cost["not_told"])
    assert candidates["donor+ray"]["serves"] == "several nodes"


def test_the_layer_is_small_and_hides_no_edit_behind_bytecode(made: Made) -> None:
    assert made.receipt["layer_size"] < 2_000_000
    assert any("registry.cpython-311.pyc" in path for path in made.receipt["removed"])


def test_the_image_is_started_as_the_base_is(made: Made) -> None:
    before, after = inspected(made.docker, made.base), inspected(made.docker, made.grafted)
    for name in ("Entrypoint", "Cmd", "WorkingDir", "Env", "User", "Shell", "Healthcheck"):
        assert after["Config"].get(name) == before["Config"].get(name), name
    assert after["RootFS"]["Layers"][:-1] == before["RootFS"]["Layers"]


def test_the_owners_node_script_runs_in_it(made: Made) -> None:
    said = story_images.run_inside(made.docker, made.grafted, "./run-cluster-node.sh")
    assert said == "node 2.60.0 0.14.1+cpu 5.0.0rc3\n"


def test_the_graft_is_installed_as_a_distribution(made: Made) -> None:
    ask = "import importlib.metadata as m; d = m.distribution('vllm-graft-overlay'); print(d.version, len(d.files))"
    version, files = story_images.run_inside(
        made.docker, made.grafted, "python3", "-c", ask
    ).split()
    assert version.startswith("0.14.1+from.0.17.1")
    assert int(files) == len(made.receipt["added"]) + 4


def inside(made: Made, tag: str, request: Mapping[str, Any]) -> Any:
    return story_images.ask_image(made.docker, tag, "inside_load.py", request)


def question(cases: Sequence[str], parsers: Sequence[str] = ()) -> Mapping[str, Any]:
    return {
        "cases": {name: story.story_cases()[name] for name in cases},
        "registry": [*story.MAIN_CLASSES, *story.MTP_CLASSES],
        "parsers": {name: story.parser_question(name) for name in parsers},
    }


def test_the_base_does_not_know_the_model(made: Made) -> None:
    answer = inside(made, made.base, question(["dense"]))
    assert story.faults(answer["cases"]["dense"]) != []
    assert all("error" in info for info in answer["registry"].values())


def test_the_grafted_image_passes_its_rehearsal(made: Made) -> None:
    serve = ("--tensor-parallel-size", "2", "--nnodes", "2", "--max-model-len", "1024")
    words = ("--reasoning-parser", made.parser, "--port", "1024")
    done = rehearsals.of_image(made.grafted, "--until", "P5", serve=(*serve, *words))
    assert set(done.outcomes().values()) == {"passed"}, done.told
    assert done.status == 0
    assert list(done.outcomes()) == [
        *("files", "flags", "import", "registry", "caches"),
        *("config", "tokenizer", "parsers", "speculative", "nodes"),
        *("checkpoint", "model", "shards", "tensors", "parameters", "quantisation"),
    ]
    facts = {gate["gate"]: gate["facts"] for gate in done.told["gates"]}
    assert (
        facts["config"]["config"] == "vllm.transformers_utils.configs.qwen3_5_moe.Qwen3_5MoeConfig"
    )
    assert facts["speculative"] == {"method": "mtp", "draft": "Qwen3_5MoeMTP"}
    assert facts["nodes"] == {"ray": "2.60.0", "native": "true"}
    assert facts["tensors"]["given"] == facts["tensors"]["landed"]
    assert {"parameters, rank 0", "parameters, draft, rank 1"} <= set(facts["parameters"])
    assert done.told["grafted"]
    assert made.docker.containers() == []


def test_the_image_made_by_the_hand_recipe_fails_and_says_why(made: Made, tmp_path: Path) -> None:
    by_hand = made.docker.name()
    story_images.hand_image(made.docker, made.base, by_hand, tmp_path)
    done = rehearsals.of_image(by_hand, serve=("--max-model-len", "1024"), served=False)
    assert done.status == 6
    outcomes = done.outcomes()
    assert (outcomes["import"], outcomes["registry"]) == ("failed", "failed")
    for gate in ("import", "registry"):
        assert "it imports MambaStateCopyFunc from" in done.found(gate), done.told
    assert not done.told["grafted"]
    # The server's own imports are not there: what the base knows does not pass either, and nothing is said of the flag.
    assert outcomes["flags"] == "not runnable here"
    assert any("diskcache" in gate["why"] for gate in done.told["gates"])


def test_the_grafted_image_loads_the_model_and_its_mtp_head(made: Made) -> None:
    answer = inside(made, made.grafted, question(["dense", "fused, MTP"], [made.parser]))
    assert {name: story.faults(case) for name, case in answer["cases"].items()} == {
        "dense": [],
        "fused, MTP": [],
    }
    assert answer["cases"]["fused, MTP"]["draft"]["parameters"] == 18
    assert {name: info.get("error") for name, info in answer["registry"].items()} == dict.fromkeys(
        (*story.MAIN_CLASSES, *story.MTP_CLASSES)
    )
    control = story.ask(environments.tree("0.17.1"), {}, parsers=["qwen3"])
    mine, theirs = answer["parsers"][made.parser], control["parsers"]["qwen3"]
    assert (mine["whole"], mine["streamed"]) == (theirs["whole"], theirs["streamed"])

# The story, image to image: the owner's image that is too old, the community's that knows the model, and what comes out.
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import environments
import graft_trees
import pytest
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

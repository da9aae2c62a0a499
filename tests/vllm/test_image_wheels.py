# What a plan decides about transformers for images like the story's, and what is in the image when it is accepted: seen by the
# image's own Python, in a real engine.
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import story
import story_images

from engines import Docker, docker_or_skip

OLDER = ("transformers==4.57.6", story_images.TOKENIZERS, "click==8.1.7")
LISTING = """
import importlib.metadata as m, json
print(json.dumps(sorted((d.metadata["Name"].lower(), d.version) for d in m.distributions())))
"""
IMPORTED = (
    "import click, markupsafe._speedups as s, os; print(click.__file__, os.path.exists(s.__file__))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    docker: Docker
    donor: str
    folder: Path

    def plan(self, base: str, *words: str, name: str) -> Mapping[str, Any]:
        place = self.folder / f"{name}.json"
        story_images.graft(
            *("plan", "--base", f"docker:{base}", "--donor", f"docker:{self.donor}"),
            *("-o", str(place), *words),
        )
        return json.loads(place.read_text())

    def build(self, name: str, *words: str) -> tuple[str, Mapping[str, Any]]:
        tag = self.docker.name()
        plan = str(self.folder / f"{name}.json")
        told = story_images.graft("--format", "json", "build", plan, "-t", tag, *words)
        return tag, json.loads(told)

    def listed(self, tag: str, *words: str) -> list[list[str]]:
        argv = ("run", "--rm", "--network", "none", *words, tag, "python3", "-c", LISTING)
        return json.loads(self.docker.run(*argv))

    def pip(self, tag: str, *words: str) -> str:
        """Ask a pip that is mounted; the image has none."""
        place = story_images.wheel("pip==25.3")
        mounted = ("--volume", f"{place}:/pip.whl:ro", "--env", "PYTHONPATH=/pip.whl")
        argv = ("run", "--rm", "--network", "none", *mounted, tag, "python3", "-m", "pip", *words)
        return self.docker.run(*argv, "--disable-pip-version-check", check=False)


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    engine = docker_or_skip()
    yield engine
    engine.clean()
    assert not engine.containers()


@pytest.fixture(scope="module")
def bench(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    donor = docker.load(story_images.community_image())
    return Bench(docker=docker, donor=donor, folder=tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def base(docker: Docker) -> str:
    return docker.load(story_images.node_image_or_skip(distributions=OLDER))


def decided(plan: Mapping[str, Any], name: str = "transformers") -> Mapping[str, Any]:
    (found,) = [each for each in plan["dependencies"] if each["name"] == name]
    return found


def checkpoint(folder: Path) -> Path:
    """The story's model, with the tokenizer class that transformers 5 writes."""
    place = folder / "checkpoint"
    place.mkdir(exist_ok=True)
    config = story.story_models()["dense"] / "config.json"
    (place / "config.json").write_text(config.read_text())
    (place / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "TokenizersBackend"})
    )
    return place


def test_the_storys_base_needs_no_other_transformers_and_its_broken_pin_is_no_news(
    docker: Docker, bench: Bench
) -> None:
    base = docker.load(
        story_images.node_image_or_skip(
            distributions=(story_images.TRANSFORMERS, story_images.TOKENIZERS)
        )
    )
    names = [word for name in story.MAIN_CLASSES for word in ("--arch", name)]
    plan = bench.plan(base, *names, name="story")
    found = decided(plan)
    assert (found["decision"], found["found"], found["proposed"]) == ("keep", "5.0.0rc3", "")
    control = [each for each in plan["findings"] if each["code"] == "G401"]
    assert [each["severity"] for each in control] == ["note"] * len(control)
    assert "vllm 0.14.1+cpu requires transformers<5,>=4.56.0" in {
        each["wanted"] for each in control
    }
    assert plan["wheels"] == []
    (pins,) = [each for each in plan["rungs"] if each["name"] == "P3 pins"]
    assert pins["on"].endswith("read, not run")


def test_an_accepted_distribution_takes_the_place_of_the_images_own(
    bench: Bench, base: str
) -> None:
    names = [word for name in story.MAIN_CLASSES for word in ("--arch", name)]
    accepted = ("--accept", "click==8.1.8", "--accept", "markupsafe==3.0.2")
    plan = bench.plan(base, *names, *accepted, name="in-place")
    assert decided(plan, "click")["decision"] == "upgrade"
    assert decided(plan, "markupsafe")["decision"] == "add"
    assert [(each["name"], each["place"]) for each in plan["wheels"]] == [
        ("click", "in place"),
        ("markupsafe", "in place"),
    ]
    lock = bench.folder / "graft.lock"
    tag, receipt = bench.build("in-place", "--lock", str(lock))
    names_now = [name for name, _ in bench.listed(tag)]
    assert names_now.count("click") == names_now.count("markupsafe") == 1
    listed = dict(bench.listed(tag))
    assert (listed["click"], listed["markupsafe"]) == ("8.1.8", "3.0.2")
    place = f"/{story_images.SITE}/click/__init__.py True\n"
    assert bench.docker.run("run", "--rm", tag, "python3", "-c", IMPORTED) == place
    shown = bench.pip(tag, "list", "--format", "freeze").splitlines()
    assert [line for line in shown if line.startswith("click")] == ["click==8.1.8"]
    gone = bench.docker.run(
        *(
            "run",
            "--rm",
            tag,
            "sh",
            "-c",
            f"ls -d /{story_images.SITE}/click*; find / -name '.wh.*'",
        )
    )
    assert gone.split() == [
        f"/{story_images.SITE}/click",
        f"/{story_images.SITE}/click-8.1.8.dist-info",
    ]
    before, after = bench.pip(base, "check"), bench.pip(tag, "check")
    assert set(after.splitlines()) <= set(before.splitlines())
    again, second = bench.build("in-place", "--locked", str(lock))
    assert second["layer"] == receipt["layer"]
    assert bench.listed(again) == bench.listed(tag)


def test_a_tokenizer_that_needs_a_later_transformers_gets_one_beside(
    bench: Bench, base: str
) -> None:
    model = str(checkpoint(bench.folder))
    proposed = decided(bench.plan(base, "--model", model, name="proposed"))
    assert proposed["decision"] == "side by side"
    assert proposed["proposed"].startswith("transformers==5.")
    assert "vllm 0.14.1+cpu requires transformers<5,>=4.56.0" in proposed["reason"]
    plan = bench.plan(base, "--model", model, "--accept", "transformers", name="beside")
    assert decided(plan)["decision"] == "side by side"
    assert {each["place"] for each in plan["wheels"]} == {"side by side"}
    news = [each for each in plan["findings"] if each["code"] == "G407"]
    assert "vllm 0.14.1+cpu requires transformers<5,>=4.56.0" in {each["wanted"] for each in news}
    assert not [each for each in plan["findings"] if each["code"] == "G406"]
    tag, receipt = bench.build("beside")
    assert receipt["python_path"] == "/opt/vllm-graft/site"
    asked = ("--env", f"PYTHONPATH={receipt['python_path']}")
    version = proposed["proposed"].partition("==")[2]
    assert ["transformers", version] in bench.listed(tag, *asked)
    print_version = "import transformers; print(transformers.__version__)"
    ask = ("run", "--rm", *asked, tag, "python3", "-c", print_version)
    assert bench.docker.run(*ask).strip() == version
    without = dict(bench.listed(tag))
    assert without["transformers"] == "4.57.6"
    assert {k: v for k, v in without.items() if k != "vllm-graft-overlay"} == dict(
        bench.listed(base)
    )


def test_the_same_for_another_machine(docker: Docker, bench: Bench) -> None:
    image = story_images.node_image_or_skip(distributions=OLDER)
    image.architecture = "arm64"
    base = docker.load(image)
    plan = bench.plan(
        base, "--arch", story.MAIN_CLASSES[0], "--accept", "markupsafe==3.0.2", name="arm"
    )
    (wheel,) = plan["wheels"]
    assert "aarch64" in wheel["file"]
    tag, _ = bench.build("arm")
    container = docker.run("create", "--platform", "linux/arm64", tag, "/never").strip()
    try:
        copied = subprocess.run(
            [
                "docker",
                "cp",
                f"{container}:/{story_images.SITE}/markupsafe/.",
                str(bench.folder / "copied"),
            ],
            capture_output=True,
            check=False,
            env=os.environ,
        )
        assert copied.returncode == 0, copied.stderr
    finally:
        docker.run("rm", container)
    (native,) = (bench.folder / "copied").glob("_speedups.*.so")
    machine = native.read_bytes()[18:20]
    assert int.from_bytes(machine, "little") == 183  # EM_AARCH64

# What was read of the transformers in an image is put to the image's own Python, in a real engine: its entrypoint, which
# would say so, never runs, and nothing is left behind.
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import pytest
import story
import story_images

from engines import Docker, docker_or_skip
from imaging import Image, Item, files, layer

RELEASE = "transformers==5.5.0"
NEEDED = (
    *("huggingface_hub", "numpy", "packaging", "yaml", "_yaml", "regex", "typer", "safetensors"),
    *("tqdm", "httpx", "httpcore", "h11", "anyio", "sniffio", "idna", "certifi", "click"),
    *("filelock", "fsspec", "hf_xet", "typing_extensions", "rich", "shellingham"),
    *("annotated_doc", "markdown_it", "mdurl", "pygments", "requests", "urllib3"),
    *("charset_normalizer", "pyyaml", "markdown_it_py"),
)
"""What that transformers imports without torch, from the recorded environment."""
SITE = story_images.SITE
LOUD = b"#!/bin/sh\necho the entrypoint ran; echo ran > /marker; exit 9\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    docker: Docker
    donor: str
    image: Image
    folder: Path

    def base(self, *more: Item) -> str:
        """Load the base with one layer more, which has the entrypoint."""
        items = [Item(path="entrypoint.sh", content=LOUD, mode=0o755), *more]
        image = Image(layers=[*self.image.layers, layer(items)], settings=self.image.settings)
        return self.docker.load(image)

    def plan(self, base: str, *words: str) -> Mapping[str, Any]:
        place = self.folder / "plan.json"
        story_images.graft(
            *("plan", "--base", f"docker:{base}", "--donor", f"docker:{self.donor}"),
            *("-o", str(place), *words),
        )
        return json.loads(place.read_text())

    def events(self, since: float, base: str) -> set[str]:
        """Give what happened to containers of an image since then."""
        words = ("--since", f"{since:.9f}", "--until", f"{time.time():.9f}")
        chosen = ("--filter", "type=container", "--filter", f"image={base}")
        shown = "{{.Action}} {{.Actor.Attributes.name}}"
        return set(self.docker.run("events", *words, *chosen, "--format", shown).splitlines())


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    engine = docker_or_skip()
    yield engine
    engine.clean()
    assert not engine.containers()


@pytest.fixture(scope="module")
def bench(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    image = story_images.node_image_or_skip(distributions=(RELEASE, story_images.TOKENIZERS))
    place = environments.run(
        [
            environments.runtime().python,
            *("-c", "import sysconfig; print(sysconfig.get_path('purelib'))"),
        ]
    ).strip()
    contents = {
        str(file.relative_to(place)): file.read_bytes()
        for name in NEEDED
        for pattern in (name, f"{name}.py", f"{name}.libs", f"{name}-*.dist-info")
        for found in Path(place).glob(pattern)
        for file in ([found] if found.is_file() else found.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    image.layers = [*image.layers, layer(files(SITE, contents, mode=0o755))]
    image.settings = {
        **image.settings,
        "Entrypoint": ["/entrypoint.sh"],
        "Volumes": {"/data": {}},
        "Healthcheck": {"Test": ["CMD", "/entrypoint.sh"]},
    }
    return Bench(
        docker=docker,
        donor=docker.load(story_images.community_image()),
        image=image,
        folder=tmp_path_factory.mktemp("asked"),
    )


@pytest.fixture(scope="module")
def base(bench: Bench) -> str:
    return bench.base()


def decided(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    (found,) = [each for each in plan["dependencies"] if each["name"] == "transformers"]
    return found


def rung(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    (found,) = [each for each in plan["rungs"] if each["name"] == name]
    return found


def findings(plan: Mapping[str, Any], code: str) -> list[Mapping[str, Any]]:
    return [each for each in plan["findings"] if each["code"] == code]


def checkpoint(folder: Path, **config: Any) -> str:
    """A model whose config class is transformers' own."""
    told = {"architectures": ["GlmOcrForConditionalGeneration"], "model_type": "glm_ocr", **config}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(told))
    return str(folder)


QWEN3_5 = [word for name in story.MAIN_CLASSES for word in ("--arch", name)]


def test_the_images_own_python_is_asked_and_its_entrypoint_is_not_run(
    bench: Bench, base: str
) -> None:
    volumes = bench.docker.volumes()
    unasked = bench.plan(base, *QWEN3_5)
    assert rung(unasked, "P3 pins")["on"].endswith("; read, not run")
    assert findings(unasked, "G408") == []
    began = time.time()
    plan = bench.plan(base, *QWEN3_5, "--ask-base")
    seen = [each.split() for each in bench.events(began, base)]
    # One container was started, by the name under which our program is known; had the entrypoint run in it, or the
    # health check, the answer would not have come.
    assert [name[:15] for action, name in seen if action == "start"] == ["vllm-graft-ask-"]
    assert "destroy" in {action for action, name in seen if name.startswith("vllm-graft-ask-")}
    assert not [action for action, _ in seen if action.startswith(("exec", "health"))]
    assert bench.docker.left(volumes) == frozenset()
    assert not bench.docker.containers()
    # The image has no torch, which reading transformers alone cannot see.
    said = f"asked of /usr/bin/python3.11 in {base}: transformers 5.5.0, 6 of 7 things are there"
    assert said in decided(plan)["reason"]
    assert said in rung(plan, "P3 pins")["on"]
    assert "read, not run" not in rung(plan, "P3 pins")["on"]
    (against,) = findings(plan, "G408")
    assert against["wanted"] == "transformers with transformers.activations.ACT2FN"
    assert against["found"].endswith("says: ModuleNotFoundError: No module named 'torch'")
    assert rung(plan, "P3 pins")["outcome"] == plan["verdict"] == "review"
    assert rung(plan, "P3 config")["outcome"] == "not run"  # the class is the donor's own


def test_the_models_config_is_loaded_by_the_images_own_class(
    bench: Bench, base: str, tmp_path: Path
) -> None:
    good = bench.plan(base, "--model", checkpoint(tmp_path / "good"), "--ask-base")
    assert rung(good, "P3 config")["outcome"] == "passed"
    assert "loaded by GlmOcrConfig of transformers 5.5.0" in rung(good, "P3 config")["on"]
    folder = checkpoint(tmp_path / "bad", text_config={"rope_parameters": 5})
    bad = bench.plan(base, "--model", folder, "--ask-base")
    assert rung(bad, "P3 config")["outcome"] == "failed"
    (against,) = [f for f in findings(bad, "G408") if "config.json" in f["wanted"]]
    assert "Error: " in against["found"]
    assert bad["verdict"] == "review"


def test_an_image_whose_transformers_was_changed_is_believed_and_not_its_metadata(
    bench: Bench, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "model")
    with zipfile.ZipFile(story_images.wheel(RELEASE)) as archive:
        changed = [
            Item(path=f"{SITE}/{name}", content=text.replace(b'"glm_ocr"', b'"glm_other"'))
            for name in archive.namelist()
            if name.startswith("transformers/models/auto/") and name.endswith(".py")
            for text in [archive.read(name)]
            if b'"glm_ocr"' in text
        ]
    assert changed
    base = bench.base(*changed)
    assert decided(bench.plan(base, "--model", folder))["decision"] == "keep"
    plan = bench.plan(base, "--model", folder, "--ask-base")
    assert decided(plan)["decision"] in {"upgrade", "side by side"}
    wanted = "transformers with the model type glm_ocr"
    (lacking,) = findings(plan, "G406")
    assert lacking["wanted"] == wanted
    (against,) = [each for each in findings(plan, "G408") if each["wanted"] == wanted]
    assert against["found"].endswith("says: AutoConfig does not know glm_ocr")


def test_ctrl_c_leaves_nothing_behind(bench: Bench) -> None:
    slow = Item(path=f"{SITE}/slow.pth", content=b"import time; time.sleep(600)\n")
    base = bench.base(slow)
    words = ("plan", "--base", f"docker:{base}", "--donor", f"docker:{bench.donor}")
    child = subprocess.Popen(
        [sys.executable, "-m", "vllm_graft", *words, *QWEN3_5, "--ask-base"],
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    running = ("ps", "--filter", "label=vllm-graft.role=ask", "--format", "{{.Image}}")
    try:
        for _ in range(600):
            if base in bench.docker.run(*running).split():
                break
            assert child.poll() is None, child.communicate()
            time.sleep(0.1)
        else:
            pytest.fail("it never asked")
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=300)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, said
    assert not bench.docker.containers()

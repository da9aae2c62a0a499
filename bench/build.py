# Building the story's image against what people do by hand, and against Docker building our own Dockerfile: design, chapter 10.
#
# The base is the story's: Debian, Python, the real vLLM 0.14.1, Ray and transformers (tests/vllm/story_images.py). All
# three are done alternately in one run, each to the named image in the engine; what counts is the ratio.
#   by hand    a Dockerfile as in docs/hand-recipe.md: COPY --from the donor, a script that patches, pip install of another
#              transformers (from a wheel that is at hand: no network), docker build --no-cache
#   ours       vllm-graft build: the whole process, the base read anew (cold) or known from the plan (warm)
#   Dockerfile vllm-graft build --to dockerfile:DIR, then docker build --no-cache of that
"""Measure building; print a table, with --write also into docs/performance.md."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/vllm")]

import environments
import story_images
from figures import load_average, replace_figures, told

from engines import Docker

PATCH = """\
import pathlib
place = pathlib.Path("/{site}/vllm/model_executor/models/registry.py")
text = place.read_text()
anchor = "_MULTIMODAL_MODELS = {{"
line = '    "Qwen3_5ForConditionalGeneration": ("qwen3_5", "Qwen3_5ForConditionalGeneration"),'
place.write_text(text.replace(anchor, anchor + chr(10) + line))
"""
RECIPE = """\
FROM {base}
COPY --from={donor} /{donor_site}/vllm/model_executor/models/qwen3_5.py /{site}/vllm/model_executor/models/
COPY --from={donor} /{donor_site}/vllm/model_executor/models/qwen3_5_mtp.py /{site}/vllm/model_executor/models/
COPY --from={donor} /{donor_site}/vllm/transformers_utils/configs/qwen3_5.py /{site}/vllm/transformers_utils/configs/
COPY --from={donor} /{donor_site}/vllm/transformers_utils/configs/qwen3_5_moe.py /{site}/vllm/transformers_utils/configs/
COPY patch.py /tmp/patch.py
RUN python3 /tmp/patch.py
COPY wheels /tmp/wheels
RUN python3 -m pip install --break-system-packages --no-index --no-deps --upgrade /tmp/wheels/transformers-*.whl
"""
DONOR_SITE = "opt/venv/lib/python3.12/site-packages"
PIP, UPGRADE = "pip==25.3", "transformers==5.5.0"
GOAL_BY_HAND, GOAL_DOCKERFILE = 5, 1
STORY = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    ours: float
    other: float
    goal: int

    @property
    def line(self) -> str:
        ratio = self.other / self.ours
        verdict = "met" if ratio >= self.goal else "missed"
        return f"| {self.what} | {self.ours:.1f} s | {self.other:.1f} s | {ratio:.1f} x | ≥ {self.goal} x | {verdict} |"


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@dataclass(kw_only=True)
class Bench:
    docker: Docker
    folder: Path
    base: str
    donor: str

    def graft(self, *words: str, cache: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "vllm_graft", "--quiet", *words],
            env={**os.environ, "VLLM_GRAFT_CACHE": str(self.folder / cache)},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def plan(self) -> None:
        words = [word for name in STORY for word in ("--arch", name)]
        sources = ("--base", f"docker:{self.base}", "--donor", f"docker:{self.donor}")
        self.graft("plan", *sources, *words, "--feature", "mtp", "-o", self.plan_file, cache="warm")

    @property
    def plan_file(self) -> str:
        return str(self.folder / "plan.json")

    def ours(self, cache: str) -> float:
        tag = self.docker.name()
        took = timed(lambda: self.graft("build", self.plan_file, "-t", tag, cache=cache))
        self.docker.run("image", "rm", tag)
        return took

    def dockerfile(self) -> float:
        context, tag = str(self.folder / "context"), self.docker.name()

        def act() -> None:
            self.graft(
                "build", self.plan_file, "-t", tag, "--to", f"dockerfile:{context}", cache="warm"
            )
            self.docker.run("build", "--no-cache", "--network", "none", "--tag", tag, context)

        took = timed(act)
        self.docker.run("image", "rm", tag)
        return took

    def by_hand(self) -> float:
        context, tag = str(self.folder / "recipe"), self.docker.name()
        took = timed(
            lambda: self.docker.run(
                "build", "--no-cache", "--network", "none", "--tag", tag, context
            )
        )
        self.docker.run("image", "rm", tag)
        return took

    def write_recipe(self) -> None:
        context = self.folder / "recipe"
        (context / "wheels").mkdir(parents=True)
        wheel = story_images.wheel(UPGRADE)
        (context / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
        (context / "patch.py").write_text(PATCH.format(site=story_images.SITE))
        told = {"base": self.base, "donor": self.donor, "site": story_images.SITE}
        (context / "Dockerfile").write_text(RECIPE.format(donor_site=DONOR_SITE, **told))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(argv)
    docker = Docker()
    before = load_average()
    with tempfile.TemporaryDirectory(prefix="vllm-graft-bench-") as folder:
        try:
            wanted = (story_images.TRANSFORMERS, story_images.TOKENIZERS, story_images.RAY, PIP)
            base = docker.load(story_images.node_image(distributions=wanted))
            donor = docker.load(story_images.community_image())
            bench = Bench(docker=docker, folder=Path(folder), base=base, donor=donor)
            bench.plan()
            bench.write_recipe()
            warm, cold, recipe, own = [], [], [], []
            for number in range(asked.rounds):
                recipe.append(bench.by_hand())
                warm.append(bench.ours("warm"))
                own.append(bench.dockerfile())
                cold.append(bench.ours(f"cold-{number}"))
        finally:
            docker.clean()
    rows = [
        Row(
            what="the recipe by hand (docker build); the base known from the plan",
            ours=median(warm),
            other=median(recipe),
            goal=GOAL_BY_HAND,
        ),
        Row(
            what="the recipe by hand (docker build); the base read anew",
            ours=median(cold),
            other=median(recipe),
            goal=GOAL_BY_HAND,
        ),
        Row(
            what="our own Dockerfile (docker build); the base known from the plan",
            ours=median(warm),
            other=median(own),
            goal=GOAL_DOCKERFILE,
        ),
    ]
    text = "\n".join(
        (
            "| build and load, against | ours | that | ratio | goal | |",
            "| --- | --: | --: | --: | --: | --- |",
            *(row.line for row in rows),
            "",
            told(docker, asked.rounds, before),
        )
    )
    print(text)
    if asked.write:
        replace_figures("bench/build.py --write", text)
    return 0


if __name__ == "__main__":
    assert environments.machine_reason() is None, environments.machine_reason()
    sys.exit(main())

# Reading an install out of an image of about 3 GB against `docker save` of it: what the engine gives, and what must be read.
#
# The image is the story's base with what vLLM requires (torch and all) in its site directory. Ours is the whole process,
# `vllm-graft inspect docker:IMAGE`, with an empty cache; `docker save` goes to nowhere, so that it is read and not even written.
"""Measure reading; print a table, with --write also into docs/performance.md."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/vllm")]

import environments
import story_images
from figures import load_average, replace_figures, told

from engines import Docker


def read(tag: str, cache: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "vllm_graft", "--quiet", "inspect", f"docker:{tag}"],
        env={**os.environ, "VLLM_GRAFT_CACHE": cache},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def save(tag: str) -> float:
    began = time.perf_counter()
    subprocess.run(["docker", "save", tag], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(argv)
    docker = Docker()
    before = load_average()
    with tempfile.TemporaryDirectory(dir=environments.cache_folder()) as folder:
        try:
            tag = docker.name()
            story_images.load_large(docker, tag, Path(folder))
            size = int(docker.run("image", "inspect", "--format", "{{.Size}}", tag))
            reading, saving, again = [], [], []
            for number in range(asked.rounds):
                cache = f"{folder}/cache-{number}"
                reading.append(read(tag, cache))
                again.append(read(tag, cache))
                saving.append(save(tag))
        finally:
            docker.clean()
    ours, other = median(reading), median(saving)
    known = median(again)
    text = "\n".join(
        (
            f"| reading an install out of an image of {size / 1e9:.1f} GB | ours | docker save | ratio |",
            "| --- | --: | --: | --: |",
            f"| nothing known of it | {ours:.1f} s | {other:.1f} s | {other / ours:.1f} x |",
            f"| read before | {known:.1f} s | {other:.1f} s | {other / known:.1f} x |",
            "",
            told(docker, asked.rounds, before),
        )
    )
    print(text)
    if asked.write:
        replace_figures("bench/read.py --write", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

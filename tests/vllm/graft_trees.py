# Grafts by the product's own command line, as a user would: plan into a file, apply into a copy of the base.
"""Make grafted trees with vllm-graft."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import copy_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What ``vllm-graft plan`` said."""

    status: int
    said: str
    file: Path
    content: Mapping[str, Any]
    """The decoded plan.json; empty where there is none."""

    @property
    def verdict(self) -> str:
        """Give the plan's verdict, or "none"."""
        return self.content.get("verdict", "none")


def vllm_graft(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the product."""
    argv = [sys.executable, "-m", "vllm_graft", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)


def plan(
    base: Path,
    donor: Path,
    architectures: Sequence[str],
    file: Path,
    *,
    features: Sequence[str] = (),
) -> Planned:
    """Plan a graft between two trees."""
    words: list[str | Path] = ["plan", "--base", f"path:{base}", "--donor", f"path:{donor}"]
    for architecture in architectures:
        words += ["--arch", architecture]
    for feature in features:
        words += ["--feature", feature]
    done = vllm_graft(*words, "-o", file)
    return Planned(
        status=done.returncode,
        said=done.stdout + done.stderr,
        file=file,
        content=json.loads(file.read_text()) if file.exists() else {},
    )


def apply(planned: Planned, base: Path, out: Path) -> Path:
    """Apply a plan to a copy of the base."""
    tree = copy_of(base, out)
    done = vllm_graft("apply", planned.file, tree)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


def parser_name(planned: Planned, wanted: str) -> str:
    """Give the name under which the plan registers a reasoning parser, which may be another than asked."""
    for finding in planned.content["findings"]:
        named = re.search(r"--reasoning-parser (\w+)", f"{finding['found']} {finding['remedy']}")
        if named and wanted in finding["wanted"]:
            return named.group(1)
    return wanted

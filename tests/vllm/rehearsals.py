# Rehearsals by the product's own command line, of images and of grafted trees. torch and what else vLLM requires lies beside the
# install, as in every test here: mounted, or on the interpreter's path.
"""Run `vllm-graft rehearse`."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import story
import story_images

SERVER_NEEDS = ("diskcache==5.6.3", "msgpack==1.2.4")
"""What the API server of vLLM 0.14 and Ray import, and the recorded environment does not have."""
KEPT = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What `rehearse` said."""

    status: int
    told: Mapping[str, Any]
    story: str

    def outcomes(self) -> dict[str, str]:
        return {gate["gate"]: gate["outcome"] for gate in self.told["gates"]}

    def faults(self, gate: str) -> list[Mapping[str, str]]:
        (found,) = [each for each in self.told["gates"] if each["gate"] == gate]
        return found["faults"]

    def found(self, gate: str) -> str:
        """Give all that a gate found, its cause and what is to be done."""
        return "\n".join(
            " ".join(fault[key] for key in ("wanted", "found", "cause", "remedy"))
            for fault in self.faults(gate)
        )


def rehearse(
    install: str, *words: str | Path, serve: Sequence[str] = (), model: Path | None = None
) -> Rehearsed:
    """Run it."""
    folder = model or story.story_models()["fused"]
    argv = [sys.executable, "-m", "vllm_graft", "--format", "json", "rehearse", install]
    argv += ["--model", str(folder), *map(str, words)]
    argv += ["--serve-args", *serve] if serve else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return Rehearsed(status=done.returncode, told=json.loads(done.stdout), story=done.stderr)


def of_image(tag: str, *words: str, serve: Sequence[str] = (), served: bool = True) -> Rehearsed:
    """Rehearse an image of the story; ``served``: with what the API server imports beside it."""
    site = environments.run(
        [
            environments.runtime().python,
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ]
    ).strip()
    mounts = {site: "/runtime"}
    if served:
        mounts[str(environments.distributions(*SERVER_NEEDS))] = "/server"
    path = ":".join((f"/{story_images.SITE}", *mounts.values()))
    argv = [word for here, there in mounts.items() for word in ("--volume", f"{here}:{there}")]
    return rehearse(f"docker:{tag}", *argv, "--env", f"PYTHONPATH={path}", *words, serve=serve)


def of_tree(
    tree: Path, *words: str | Path, serve: Sequence[str] = (), model: Path | None = None
) -> Rehearsed:
    """Rehearse a tree of 0.14.1, grafted or not."""
    around = environments.tree_environment(environments.tree("0.14.1"), Path("unused"))
    own = around["PYTHONPATH"].split(os.pathsep)[1:]
    path = os.pathsep.join((*own, str(environments.distributions(*SERVER_NEEDS))))
    argv = ["--python", environments.runtime().python, "--env", f"PYTHONPATH={path}"]
    return rehearse(f"path:{tree}", *argv, *words, serve=serve, model=model)

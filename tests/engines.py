"""A real container engine for tests: the one that `docker` leads to, or none, with the reason."""

import os
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from imaging import Image, docker_files, files, layer


@dataclass(kw_only=True)
class Docker:
    """The engine, and what was put into it."""

    tags: list[str] = field(default_factory=list)

    def run(self, *words: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(["docker", *words], input=stdin, capture_output=True, check=False)
        if check and done.returncode != 0:
            message = f"docker {' '.join(words)}: {done.stderr.decode()}"
            raise RuntimeError(message)
        return done.stdout.decode("utf-8", "replace") + (
            "" if check else done.stderr.decode("utf-8", "replace")
        )

    @property
    def is_classic(self) -> bool:
        """Whether its images lie in Docker's own store, not in containerd's."""
        return "containerd.snapshotter" not in self.run("info", "--format", "{{.DriverStatus}}")

    def name(self, tag: str = "latest") -> str:
        """Give a name that nobody has, and see to it that it is gone at the end."""
        made = f"vllm-graft-test-{uuid.uuid4().hex[:10]}:{tag}"
        self.tags.append(made)
        return made

    def load(self, image: Image) -> str:
        image.name = self.name()
        self.run("load", stdin=layer(files(".", docker_files(image))))
        return image.name

    def containers(self) -> Sequence[str]:
        found = self.run("ps", "--all", "--quiet", "--filter", "label=vllm-graft.role")
        return found.split()

    def clean(self) -> None:
        for tag in self.tags:
            repository = tag.partition(":")[0]
            found = self.run("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository)
            for each in found.split():
                self.run("image", "rm", "--force", each, check=False)


def docker_or_skip() -> Docker:
    """Give the engine; a machine without one skips, unless all is required."""
    reason = ""
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            reason = done.stderr.decode().strip()
    except OSError as error:
        reason = f"docker: {error.strerror}"
    if reason and os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        pytest.fail(f"a container engine is required: {reason}")
    if reason:
        pytest.skip(f"no container engine on this machine: {reason}")
    return Docker()

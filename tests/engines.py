"""A real container engine for tests: the one that `docker` leads to, or none, with the reason."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from imaging import Image, docker_files, files, layer


@dataclass(kw_only=True)
class Docker:
    """The engine, and what was put into it."""

    tags: list[str] = field(default_factory=list)
    host: str = ""
    """As in DOCKER_HOST; empty: where `docker` leads to by itself."""

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.host} if self.host else {**os.environ}

    def run(self, *words: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *words], input=stdin, capture_output=True, check=False, env=self.variables
        )
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
        """Give the containers of this test's images that the program made; others may be at work beside."""
        label = ("--filter", "label=vllm-graft.role", "--format", "{{.Image}} {{.ID}}")
        found = [line.split() for line in self.run("ps", "--all", *label).splitlines()]
        return [container for image, container in found if image in self.tags]

    def volumes(self) -> frozenset[str]:
        return frozenset(self.run("volume", "ls", "--quiet").split())

    def left(self, before: frozenset[str]) -> frozenset[str]:
        """Give the volumes that came since then and stay; those of tests that are at work beside go again."""
        deadline = time.monotonic() + 60
        while (found := self.volumes() - before) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

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


@dataclass(kw_only=True)
class OwnDocker(Docker):
    """An engine of the test's own, which may be killed."""

    child: "subprocess.Popen[bytes]"
    log: Path

    def answers(self) -> bool:
        argv = ["docker", "version", "--format", "{{.Server.Version}}"]
        return (
            subprocess.run(argv, env=self.variables, capture_output=True, check=False).returncode
            == 0
        )

    def kill(self) -> None:
        """End the daemon and all that it started, as a power cut does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


NAMESPACED = """
set -e
ip link set lo up 2>/dev/null || true
mount -t tmpfs none /run
[ -z "$SIZE" ] || mount -t tmpfs -o size=$SIZE none "$DATA"
exec dockerd --data-root "$DATA" --exec-root /run/exec --pidfile /run/pid --host "unix://$SOCKET" \\
    --bridge none --iptables=false --ip-masq=false 2>&1
"""


@contextlib.contextmanager
def own_docker(folder: Path, *, size: str = "") -> Generator[OwnDocker]:
    """Start a daemon in namespaces of its own; a machine that cannot skips, unless all is required.

    ``size``: of the disk that it gets, such as ``40m``; empty: that of ``folder``.
    """
    reason = "" if os.getuid() == 0 else "only root may start one"
    for program in ("dockerd", "unshare", "docker"):
        reason = reason or ("" if shutil.which(program) else f"no {program} on this machine")
    if reason and os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        pytest.fail(f"a container engine is required: {reason}")
    if reason:
        pytest.skip(f"no container engine of one's own: {reason}")
    (folder / "data").mkdir(parents=True)
    socket, log = folder / "docker.sock", folder / "log"
    variables = {**os.environ, "SIZE": size, "DATA": str(folder / "data"), "SOCKET": str(socket)}
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                NAMESPACED,
            ],
            env=variables,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    engine = OwnDocker(host=f"unix://{socket}", child=child, log=log)
    try:
        for _ in range(300):
            if engine.answers():
                break
            assert child.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        else:
            pytest.fail(log.read_text()[-3000:])
        yield engine
    finally:
        engine.kill()

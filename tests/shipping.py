"""Shipping between machines in tests: images whose layers cannot be compressed, and what was told on the way."""

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imaging import Image, Item, layer
from machines import Machine, Machines, shell_items
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import parse_machine
from vllm_graft.values.ship import ShippedNode, ShipReceipt
from vllm_graft.workflows.ship import ShipRequest, run_ship

SETTINGS = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin", "HELLO=there"], "WorkingDir": "/data"}
MB = 1_000_000


def chance(name: str, size: int = 50_000) -> bytes:
    """A layer that nothing has, and that does not become smaller."""
    return layer([Item(path=f"data/{name}", content=os.urandom(size))])


SHELL = layer(shell_items())


@dataclass(kw_only=True)
class Made:
    """An image and what lies below it, of which engines may have any part."""

    layers: Sequence[bytes]
    architecture: str = "amd64"

    def image(self, count: int | None = None, *above: bytes) -> Image:
        """The lowest layers, and others on top of them."""
        return Image(
            layers=[*self.layers[:count], *above],
            settings=SETTINGS,
            architecture=self.architecture,
        )


def base_and_top(size: int = 300_000, top: int = 200_000) -> Made:
    return Made(layers=[SHELL, chance("low", size), chance("middle", size), chance("top", top)])


def put(machine: Machine, image: Image, name: str) -> str:
    """Load an image under a name; what had that name loses it."""
    loaded = machine.docker.load(image)
    machine.docker.run("tag", loaded, name)
    machine.docker.run("image", "rm", loaded)
    return name


class Hearing(io.StringIO):
    """What is told on stderr; does something as soon as a word is."""

    def __init__(self, word: str = "", act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.word, self.act = word, act

    def write(self, text: str) -> int:
        if self.word and self.word in text:
            self.word = ""
            self.act()
        return super().write(text)


def once_loading(machine: Machine, act: Callable[[], object]) -> Callable[[], object]:
    """Give what starts an act that comes as soon as the engine of a machine takes something in."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if machine.inside(
                "find", "/var/lib/docker/tmp", "-name", "*.tar*", "-o", "-path", "*/blobs/*"
            ):
                act()
                return
            time.sleep(0.05)

    return threading.Thread(target=wait).start


@dataclass(kw_only=True)
class Dock:
    """The place to ship from: this machine, with a cache of its own."""

    machines: Machines
    folder: Path
    engine: str = ""
    """Of this machine, as in DOCKER_HOST."""
    stream: Hearing = field(default_factory=Hearing)

    @property
    def variables(self) -> Mapping[str, str]:
        engine = {"DOCKER_HOST": self.engine or "unix:///nowhere.sock"}
        return {**self.machines.variables, "VLLM_GRAFT_CACHE": str(self.folder / "cache"), **engine}

    @property
    def environment(self) -> Environment:
        return Environment(variables=self.variables, home=str(self.folder), python=sys.executable)

    def ship(self, image: str, *names: str, **more: Any) -> ShipReceipt:
        nodes = tuple(parse_machine(each, each) for each in names)
        request = ShipRequest(image=image, nodes=nodes, **more)
        return run_ship(request, environment=self.environment, console=Console(stream=self.stream))


def of(receipt: ShipReceipt, name: str) -> ShippedNode:
    return next(each for each in receipt.nodes if each.node == name)


def content(machine: Machine, name: str) -> str:
    """Give what an engine says of an image's content, and what a container of it says: it runs."""
    told = machine.docker.run("image", "inspect", "--format", "{{json .RootFS.Layers}}", name)
    command = "cat /data/top | { read -r line; echo ${#line}; }; echo $HELLO"
    run = ("run", "--rm", "--network", "none", name, "/bin/sh", "-c", command)
    return told + machine.docker.run(*run)


def garbage(machine: Machine) -> list[str]:
    """Give what should not be there: containers, and what an engine or a command left half done."""
    left = machine.docker.run("ps", "--all", "--quiet").split()
    left += machine.inside("find", "/var/lib/docker/tmp", "-mindepth", "1", check=False).split()
    left += machine.inside("find", "/tmp", "-mindepth", "1").split()  # noqa: S108 (of that machine)
    return left + machine.processes()

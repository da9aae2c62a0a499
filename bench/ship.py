# Shipping against `docker save | ssh docker load`: design, chapter 10. Real machines as in tests/machines.py: namespaces, own
# addresses, sshd and engine; this machine's engine is that of the first.
#
# The base is synthetic: seven layers, half of their bytes incompressible. The overlay is one layer of 70 MB more, kept in the
# cache as `vllm-graft build` does. Each pair is done in turn in one run; bytes are those that the node's interface counted.
#   empty      the node has nothing of the image
#   base       it has the base, under another name
#   fan-out    an image of 100 MB to 2, 4 and 8 nodes whose links all have one rate
"""Measure shipping; print tables, with --write also into docs/performance.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from figures import load_average, replace_figures, told

from imaging import Item, layer
from machines import Kind, Machine, Machines, machines
from vllm_graft.image.archive import names_of, parse_tag
from vllm_graft.image.configuration import canonical_json
from vllm_graft.image.inside_archive import (
    END,
    LAYER,
    blob,
    described,
    file_pieces,
    naming_documents,
)
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.workflows.kept_image import keep_built

MB = 1_000_000
SHARES = (3, 30, 4, 40, 3, 15, 5)
"""Of a hundred: how large the layers of the base are."""
NAME, BASE = "vllm-node:grafted", "some-base:1"
GOAL_TIME, GOAL_BYTES = 20, 40
RATE = "200mbit"


def half(size: int) -> bytes:
    """Bytes of which every other megabyte cannot be compressed."""
    pieces = [
        os.urandom(MB) if number % 2 else b"python " * (MB // 7) for number in range(size // MB)
    ]
    return b"".join(pieces)


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """An image of which the layers lie in files."""

    layers: Sequence[Path]

    @property
    def facts(self) -> ImageFacts:
        return ImageFacts(
            reference=NAME,
            architecture="amd64",
            system="linux",
            variant="",
            settings={"Cmd": ["/bin/sh"]},
            layers=tuple(Digest(each.name) for each in self.layers),
        )

    def load(self, machine: Machine, name: str, count: int | None = None) -> None:
        layers = self.layers[:count]
        config = canonical_json(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": ["/bin/sh"]},
                "rootfs": {
                    "type": "layers",
                    "diff_ids": [f"sha256:{each.name}" for each in layers],
                },
                "history": [{"created_by": "bench"} for _ in layers],
            }
        )
        child = subprocess.Popen(
            ["docker", "load"],
            env=machine.docker.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        assert child.stdin is not None
        with child.stdin as stream:
            for piece in self.pieces(config, layers, name):
                stream.write(piece)
        assert child.wait() == 0

    def pieces(self, config: bytes, layers: Sequence[Path], name: str) -> Iterator[bytes]:
        pointers = []
        for each in layers:
            content = each.read_bytes()
            pointers.append(described(content, LAYER))
            yield from file_pieces(blob(f"sha256:{each.name}"), content)
        documents = naming_documents(config, pointers, names_of(parse_tag(name)))
        for path, content in documents.items():
            yield from file_pieces(path, content)
        yield END


def synthetic(folder: Path, base: int, overlay: int) -> Synthetic:
    """Make the layers; ``base`` and ``overlay``: megabytes."""
    made: list[Path] = []
    for size in (*(max(base * share // 100, 1) for share in SHARES), overlay):
        content = layer([Item(path=f"data/{len(made)}", content=half(size * MB))])
        place = folder / Digest.of(content).hex
        place.write_bytes(content)
        made.append(place)
    return Synthetic(layers=made)


@dataclass(frozen=True, kw_only=True)
class Cost:
    seconds: float
    received: int
    """Bytes, as the interfaces of all receivers counted them."""


def cost(act: Callable[[], object], receivers: Sequence[Machine]) -> Cost:
    before, began = sum(map(received, receivers)), time.perf_counter()
    act()
    took = time.perf_counter() - began
    return Cost(seconds=took, received=sum(map(received, receivers)) - before)


def received(machine: Machine) -> int:
    (link,) = json.loads(machine.inside("ip", "-s", "-j", "link", "show", "eth0"))
    return link["stats64"]["rx"]["bytes"]


def empty(machine: Machine) -> None:
    images = machine.docker.run("image", "ls", "--all", "--quiet").split()
    if images:
        machine.docker.run("image", "rm", "--force", *dict.fromkeys(images))


@dataclass(kw_only=True)
class Bench:
    made: Machines
    folder: Path
    image: Synthetic

    @property
    def variables(self) -> dict[str, str]:
        return {
            **self.made.variables,
            "VLLM_GRAFT_CACHE": str(self.folder / "cache"),
            "DOCKER_HOST": self.made["head"].docker.host,
        }

    def ours(self, image: str, *nodes: str) -> None:
        words = [sys.executable, "-m", "vllm_graft", "--quiet", "ship", image, *nodes]
        subprocess.run(words, env=self.variables, stdout=subprocess.DEVNULL, check=True)

    def by_hand(self, node: str) -> None:
        line = f"set -o pipefail; docker save {NAME} | ssh {node} docker load"
        subprocess.run(
            ["bash", "-c", line], env=self.variables, stdout=subprocess.DEVNULL, check=True
        )

    def by_hand_from_head(self, nodes: Sequence[str]) -> None:
        """As from the machine that has it: one after the other."""
        for node in nodes:
            machine = self.made[node]
            there = f"ssh -p {machine.port} {machine.user}@{machine.name} docker load"
            line = f"docker save {NAME} | {there}"
            subprocess.run(
                ["ssh", "head", line], env=self.variables, stdout=subprocess.DEVNULL, check=True
            )

    def keep(self) -> None:
        content = self.image.layers[-1].read_bytes()
        keep_built(
            self.image.facts, content, Cache.at(str(self.folder / "cache"), Console(quiet=True))
        )

    def forget(self) -> None:
        subprocess.run(["rm", "-rf", str(self.folder / "cache")], check=True)


def pair_line(what: str, ours: Cost, other: Cost, *, goals: bool) -> str:
    time_ratio, byte_ratio = other.seconds / ours.seconds, other.received / ours.received
    verdict = ""
    if goals:
        verdict = "met" if time_ratio >= GOAL_TIME and byte_ratio >= GOAL_BYTES else "missed"
    return (
        f"| {what} | {ours.seconds:.1f} s | {other.seconds:.1f} s | {time_ratio:.1f} x |"
        f" {ours.received / MB:,.1f} MB | {other.received / MB:,.1f} MB | {byte_ratio:.1f} x | {verdict} |"
    )


def one_node(folder: Path, base: int, overlay: int, rounds: int) -> Iterator[str]:
    with machines(head=Kind(fabric="none"), node=Kind(login="zsh", fabric="none")) as made:
        image = synthetic(folder, base, overlay)
        bench = Bench(made=made, folder=folder, image=image)
        node = made["node"]
        image.load(made["head"], NAME)
        bench.keep()
        ways: dict[str, Callable[[], None]] = {
            "by hand": lambda: bench.by_hand("node"),
            "ours": lambda: bench.ours(NAME, "node"),
            "ours, not kept": lambda: bench.ours(NAME, "node"),
        }
        for state in ("the base", "nothing"):
            costs: dict[str, list[Cost]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, act in ways.items():
                    if state == "nothing" and way == "ours, not kept":
                        continue
                    empty(node)
                    if state == "the base":
                        image.load(node, BASE, len(SHARES))
                    if way == "ours, not kept":
                        bench.forget()
                    else:
                        bench.keep()
                    costs[way].append(cost(act, [node]))
            other = middle(costs["by hand"])
            what = f"base of {base / 1000:g} GB, the node has {state}"
            yield pair_line(what, middle(costs["ours"]), other, goals=state == "the base")
            if costs["ours, not kept"]:
                yield pair_line(
                    f"{what}; built elsewhere, read out of the engine",
                    middle(costs["ours, not kept"]),
                    other,
                    goals=False,
                )
        for each in image.layers:
            each.unlink()


def middle(costs: Sequence[Cost]) -> Cost:
    return Cost(
        seconds=median(each.seconds for each in costs),
        received=round(median(each.received for each in costs)),
    )


def fan_out(folder: Path, counts: Sequence[int], size: int, rounds: int) -> Iterator[str]:
    kinds = {
        f"node{number}": Kind(rate=RATE, fabric="none") for number in range(1, max(counts) + 1)
    }
    with machines(head=Kind(rate=RATE, fabric="none"), **kinds) as made:
        image = synthetic(folder, size, 1)
        bench = Bench(made=made, folder=folder, image=image)
        image.load(made["head"], NAME)
        for count in counts:
            nodes = list(kinds)[:count]
            costs: dict[str, list[Cost]] = {"ours": [], "by hand": []}
            for _ in range(rounds):
                for way, measured in costs.items():
                    for node in nodes:
                        empty(made[node])
                    act = partial(bench.by_hand_from_head, nodes)
                    if way == "ours":
                        act = partial(bench.ours, f"{NAME}@head", *nodes)
                    measured.append(cost(act, [made[node] for node in nodes]))
            yield pair_line(
                f"{size} MB to {count} nodes",
                middle(costs["ours"]),
                middle(costs["by hand"]),
                goals=False,
            )
        for each in image.layers:
            each.unlink()


HEAD = "| {what} | ours | by hand | ratio | ours | by hand | ratio | |\n| --- | --: | --: | --: | --: | --: | --: | --- |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bases", default="1000,3000", help="MB, comma-separated; empty: none")
    parser.add_argument("--overlay", type=int, default=70, help="MB")
    parser.add_argument("--nodes", default="2,4,8", help="comma-separated; empty: none")
    parser.add_argument("--size", type=int, default=100, help="MB of the image that is fanned out")
    parser.add_argument("--rounds", type=int, default=1)
    words = parser.parse_args()
    before = load_average()
    lines = [HEAD.format(what="one node")]
    with tempfile.TemporaryDirectory(prefix="vllm-graft-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        for base in filter(None, words.bases.split(",")):
            for line in one_node(folder, int(base), words.overlay, words.rounds):
                print(line, flush=True)
                lines.append(line)
        counts = [int(each) for each in filter(None, words.nodes.split(","))]
        if counts:
            lines += ["", HEAD.format(what=f"several nodes, all links {RATE}")]
            for line in fan_out(folder, counts, words.size, words.rounds):
                print(line, flush=True)
                lines.append(line)
    with machines(head=Kind()) as made:
        how = told(made["head"].docker, words.rounds, before)
    text = "\n".join([*lines, "", how])
    print(text)
    if words.write:
        replace_figures("bench/ship.py --write", text)


if __name__ == "__main__":
    main()

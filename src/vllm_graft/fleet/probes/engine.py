# What an engine says of itself. Docker's words are those of its API (`docker info`, 20.10 to 29); podman has its own (4 and 5).
"""The engine: its version, its store, what runs in it."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from vllm_graft.fleet.probes.system import ARCHITECTURES
from vllm_graft.image.engine import DEPLOYMENT_LABEL, ROLE_LABEL, Engine
from vllm_graft.values.node_facts import ContainerFacts, EngineFacts, KernelFacts, SpaceFacts
from vllm_graft.values.probe import Probe

_Told = Mapping[str, object]

_JSON = ("--format", "{{json .}}")


def engine_probe(engine: Engine) -> Probe[EngineFacts]:
    """Ask an engine what it is."""
    read = _podman if engine.name == "podman" else _docker
    return Probe(
        asks="what engine it is",
        argv=(*engine.before, engine.program, "info", *_JSON),
        read=lambda text: read(_object(text), engine),
    )


def _docker(told: _Told, engine: Engine) -> EngineFacts:
    if errors := cast("Sequence[str] | None", told.get("ServerErrors")):
        raise ValueError("; ".join(errors))  # `docker info` 23 and later ends with 0 all the same
    status = {
        str(pair[0]): str(pair[1])
        for pair in cast("Sequence[Sequence[object]]", told.get("DriverStatus") or ())
    }
    machine = str(told["Architecture"])
    return EngineFacts(
        name="docker",
        program=engine.program,
        through_sudo=bool(engine.before),
        version=str(told["ServerVersion"]),
        store=str(told["Driver"]),
        is_containerd_store=status.get("driver-type", "").startswith("io.containerd.snapshotter"),
        root=str(told["DockerRootDir"]),
        architecture=ARCHITECTURES.get(machine, machine),
        runtimes=tuple(sorted(cast("_Told", told.get("Runtimes") or {}))),
        devices=tuple(
            str(each.get("ID", ""))
            for each in cast("Sequence[_Told]", told.get("DiscoveredDevices") or ())
        ),
        containerd=str(cast("_Told", told.get("Containerd") or {}).get("Address", "")),
        kernel=str(told.get("KernelVersion", "")),
        id=f"{told.get('Name')} {told['ID']}" if told.get("ID") else "",
        rootless="name=rootless" in cast("Sequence[str]", told.get("SecurityOptions") or ()),
    )


def _podman(told: _Told, engine: Engine) -> EngineFacts:
    host, store = cast("_Told", told["host"]), cast("_Told", told["store"])
    runtime = cast("_Told", host["ociRuntime"])
    return EngineFacts(
        name="podman",
        program=engine.program,
        through_sudo=bool(engine.before),
        version=str(cast("_Told", told["version"])["Version"]),
        store=str(store["graphDriverName"]),
        is_containerd_store=False,
        root=str(store["graphRoot"]),
        architecture=str(host["arch"]),
        runtimes=(str(runtime["name"]),),
        kernel=str(host.get("kernel", "")),
        rootless=bool(cast("_Told", host["security"])["rootless"]),
    )


def _object(text: str) -> _Told:
    value: object = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("wanted a JSON object")
    return cast("_Told", value)


_SYSTEM_CONTAINERD = "/var/lib/containerd"
"""Source: containerd 1.7 to 2.1, docs/man/containerd-config.toml.5.md: ``root``."""

CONTAINERD_ROOT = Probe(
    asks="where its containerd keeps what it has",
    argv=("sed", "-n", "s/^root *= *//p", "/etc/containerd/config.toml"),
    read=lambda text: text.strip().strip("\"'") or _SYSTEM_CONTAINERD,
)


def image_folder(engine: EngineFacts, containerd_root: str = _SYSTEM_CONTAINERD) -> str:
    """Give the folder in which an engine keeps images.

    Source: moby 28, daemon/containerd and cmd/dockerd: a dockerd that starts a containerd of its own has it below its root.
    """
    if not engine.is_containerd_store:
        return engine.root
    if "/docker/" in engine.containerd:
        return f"{engine.root}/containerd"
    return containerd_root


def is_elsewhere(engine: EngineFacts, kernel: KernelFacts) -> bool:
    """Tell whether an engine runs on another machine than the one that its client was started on, or in a virtual one."""
    return bool(engine.kernel) and engine.kernel != kernel.release


def space_probe(folder: str) -> Probe[SpaceFacts]:
    """Ask how much room there is where a folder is, or its nearest folder above which this user may look into.

    Source: stat(1) of coreutils 8.32 to 9.5 and of busybox: ``%a`` blocks for others than root, as ``df`` shows them; ``%c`` is 0
    where the file system has no table of files.
    """
    script = (
        'place=$1; until said=$(stat -f -c "%S %b %a %c %d" -- "$place" 2>&1); do'
        ' case $place in /|"") echo "$said" >&2; exit 1;; esac; place=${place%/*}; place=${place:-/}; done;'
        ' echo "$place $said"'
    )
    return Probe(
        asks=f"how much room there is in {folder}",
        argv=("sh", "-c", script, "sh", folder),
        read=_space,
    )


def _space(text: str) -> SpaceFacts:
    place, *figures = text.strip().rsplit(" ", 5)
    block, blocks, free, files, free_files = map(int, figures)
    return SpaceFacts(
        place=place,
        free=free * block,
        size=blocks * block,
        free_files=free_files if files else None,
    )


def containers_probe(engine: Engine) -> Probe[tuple[ContainerFacts, ...]]:
    """Ask which containers run."""
    return Probe(
        asks="which containers run",
        argv=(*engine.before, engine.program, "ps", *_JSON),
        read=lambda text: tuple(map(_container, _objects(text))),
    )


def _objects(text: str) -> list[_Told]:
    """Read an object a line, as Docker prints them with this format, or a list of them, as podman does."""
    if text.lstrip().startswith("["):
        return cast("list[_Told]", json.loads(text))
    return [_object(line) for line in text.splitlines() if line.strip()]


def _container(told: _Told) -> ContainerFacts:
    labels, ports, names = told.get("Labels"), told.get("Ports"), told["Names"]
    return ContainerFacts(
        name=names if isinstance(names, str) else ",".join(cast("Sequence[str]", names)),
        image=str(told["Image"]),
        ports=tuple(sorted(set(_ports(ports)))),
        role=_labels(labels).get(ROLE_LABEL, ""),
        deployment=_labels(labels).get(DEPLOYMENT_LABEL, ""),
    )


def _labels(told: object) -> Mapping[str, str]:
    if isinstance(told, dict):  # podman
        return cast("Mapping[str, str]", told)
    pairs = str(told or "").split(",")
    return {name: text for name, _, text in (each.partition("=") for each in pairs)}


def _ports(told: object) -> list[int]:
    """Give the ports of the machine.

    Docker: ``0.0.0.0:8000->8000/tcp, :::9000-9001->9000-9001/tcp, 80/tcp``; podman: a list of objects.
    """
    if isinstance(told, list):
        found: list[int] = []
        for each in cast("Sequence[Mapping[str, int]]", told):
            first = int(each.get("host_port", 0))
            found += range(first, first + int(each.get("range", 1))) if first else ()
        return found
    found = []
    for each in str(told or "").split(", "):
        outside, arrow, _ = each.partition("->")
        if arrow:
            first, _, last = outside.rpartition(":")[2].partition("-")
            found += range(int(first), int(last or first) + 1)
    return found

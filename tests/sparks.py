"""DGX Sparks as values: what one of them answered (tests/fleet/spark), read by the parsers that read a real one."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.fleet.probes import gpus, memory, network, rdma, system
from vllm_graft.values.command import Completed
from vllm_graft.values.digest import Digest
from vllm_graft.values.doctor import Role
from vllm_graft.values.node_facts import (
    Address,
    ClockFacts,
    EngineFacts,
    FirewallFacts,
    ImagePresence,
    Interface,
    NodeFacts,
    PciFacts,
    SpaceFacts,
    ToolkitFacts,
)
from vllm_graft.values.probe import NotKnown, Probe

SPARK = Path(__file__).parent / "fleet/spark"
T = TypeVar("T")
GIB = 1 << 30
GB = 1_000_000_000


def said(name: str) -> str:
    return (SPARK / name).read_text()


def answered(probe: Probe[T], text: str, *, status: int = 0, complaint: str = "") -> T | NotKnown:
    return probe.answer(
        Completed(
            command=probe.command,
            status=status,
            stdout=text.encode(),
            stderr=complaint.encode(),
            took=timedelta(),
        )
    )


def known(probe: Probe[T], text: str) -> T:
    found = answered(probe, text)
    assert not isinstance(found, NotKnown), found
    return found


IDLE = "MemTotal: 127600748 kB\nMemFree: 118000000 kB\nMemAvailable: 118566368 kB\nBuffers: 0 kB\nCached: 2000000 kB\n"


def _rdma(last: int) -> str:
    """Give what the kernel's files say with the cable in cage 1, as that of `ip` is; it was recorded with one in cage 0."""
    text = re.sub(r"s0f([01])(np[01])?", _other_cage, said("sysfs-infiniband.txt"))
    second = f"c0a8:65{last:02x}"
    return text.replace("c0a8:640e", second).replace("c0a8:640a", f"c0a8:64{last:02x}")


def _other_cage(found: re.Match[str]) -> str:
    cage = 1 - int(found[1])
    return f"s0f{cage}np{cage}" if found[2] else f"s0f{cage}"


def interfaces(last: int = 10) -> tuple[Interface, ...]:
    """Give the interfaces of a Spark whose addresses end with this number."""
    text = said("ip-addr.json")
    for network_ in ("192.168.100", "192.168.101"):
        text = text.replace(f"{network_}.10", f"{network_}.{last}")
    text = text.replace("192.168.1.21", f"192.168.1.{last}").replace(
        "192.168.1.121", f"192.168.2.{last}"
    )
    return network.with_devices(
        known(network.LINKS, text), known(network.DEVICES, said("sysfs-net.txt"))
    )


def facts(last: int = 10, **other: Any) -> NodeFacts:
    """Give a Spark that is well; ``other``: fields that it has otherwise."""
    gpu = said("nvidia-smi-query.txt").replace("000000000001", f"{last:012}")
    made = NodeFacts(
        machine=f"boot-{last}",
        host_name=f"spark-{last}",
        host_addresses=(f"192.168.1.{last}",),
        user="nvidia",
        ssh_port=22,
        system=known(system.SYSTEM, said("os-release.txt")),
        kernel=known(system.KERNEL, "Linux 6.17.0-1014-nvidia aarch64\n"),
        processors=known(system.PROCESSORS, said("lscpu.txt")),
        memory=known(memory.MEMORY, IDLE),
        engine=EngineFacts(
            name="docker",
            program="/usr/bin/docker",
            through_sudo=False,
            version="29.2.1",
            store="overlay2",
            is_containerd_store=False,
            root="/var/lib/docker",
            architecture="arm64",
            runtimes=("io.containerd.runc.v2", "runc"),
        ),
        space=SpaceFacts(place="/var/lib/docker", free=3200 * GB, size=3700 * GB, free_files=10**8),
        containers=(),
        gpus=known(gpus.GPUS, gpu),
        cuda=known(gpus.CUDA, said("nvidia-smi.txt")),
        gpu_processes=(),
        pci=PciFacts(nvidia_gpus=1, other_gpus=0, mellanox=4),
        toolkit=ToolkitFacts(
            programs=("/usr/bin/nvidia-container-runtime-hook",), specifications=()
        ),
        listeners=known(network.LISTENERS, said("ss.txt")),
        firewall=FirewallFacts(active=()),
        clock=ClockFacts(ahead=3, error=5),
        interfaces=interfaces(last),
        routes=known(
            network.ROUTES, said("ip-route.json").replace("192.168.1.21", f"192.168.1.{last}")
        ),
        rdma=known(rdma.PORTS, _rdma(last)),
        rdma_files=("rdma_cm", "uverbs0", "uverbs1"),
    )
    return replace(made, **other)


def spark(name: str = "spark-a", last: int = 10, role: Role = "head", **other: Any) -> Seen:
    images = [each for each in other.get("images", {}).values() if isinstance(each, ImagePresence)]
    return Seen(
        name=name,
        role=role,
        facts=facts(last, **other),
        stacks=tuple(each.layers for each in images),
    )


def worker(**other: Any) -> Seen:
    return spark("spark-b", 11, "worker", **other)


def image(reference: str = "vllm-node", **other: Any) -> ImagePresence:
    made = ImagePresence(
        reference=reference,
        config=Digest.of(reference.encode()),
        platform="linux/arm64",
        layers=(Digest.of(b"layer"),),
        size=24 * GB,
        cuda="13.0.2",
        requires="",
        driver="",
    )
    return replace(made, **other)


def with_interface(node: Seen, name: str, **other: Any) -> tuple[Interface, ...]:
    """Give a node's interfaces, one of them otherwise."""
    assert not isinstance(node.facts.interfaces, NotKnown)
    return tuple(
        replace(each, **other) if each.name == name else each for each in node.facts.interfaces
    )


def address(text: str, prefix: int = 24) -> tuple[Address, ...]:
    return (Address(address=text, prefix=prefix),)

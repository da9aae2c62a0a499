# One cable of a DGX Spark is two interfaces and two RDMA devices: twins, which one port of the card (phys_port_name) tells together.
"""What the fast network of a node lacks."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterator

from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.node_facts import Interface, KernelFacts, PciFacts, RdmaPort
from vllm_graft.values.probe import NotKnown

_KNOWN_BAD = ("7.0.0-1019",)
"""Kernels with which RDMA fails for want of memory that is there.
Source: MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks, issue 14 (fine with 6.17.0-1032)."""
_SHARING = ("GB10",)
"""GPUs of machines that have a ConnectX-7 of their own."""


def judge_fabric(node: Seen) -> Iterator[NodeFinding]:
    """Say that no fast link is up (N310), or what one lacks (N309, N311 to N314)."""
    rdma, interfaces = node.facts.rdma, node.facts.interfaces
    if isinstance(rdma, NotKnown) or isinstance(interfaces, NotKnown):
        return
    by_name = {each.name: each for each in interfaces}
    active = [
        (port, by_name[port.interface])
        for port in rdma
        if port.is_active and port.interface in by_name
    ]
    yield from _dark(node, rdma)
    if not active:
        return
    yield from _twins(node, active)
    yield from _addresses(node, active)
    files = node.facts.rdma_files
    if not isinstance(files, NotKnown) and not any(each.startswith("uverbs") for each in files):
        yield node.finding(
            "N312",
            "review",
            ("up",),
            wanted="/dev/infiniband/uverbs*, so that containers can do RDMA",
            found="there are none" if not files else f"there is only {', '.join(files)}",
            remedy="sudo modprobe ib_uverbs; without it NCCL takes TCP, at a fraction of the rate, and says nothing",
        )
    kernel = node.facts.kernel
    if isinstance(kernel, KernelFacts) and kernel.release.startswith(_KNOWN_BAD):
        yield node.finding(
            "N314",
            "review",
            ("up",),
            wanted="a kernel with which RDMA is known to work",
            found=f"{kernel.release}, with which it has been seen to fail (ibv_reg_mr: Cannot allocate memory)",
            remedy="start the kernel before it, such as 6.17.0-1032-nvidia",
        )


def _dark(node: Seen, rdma: tuple[RdmaPort, ...]) -> Iterator[NodeFinding]:
    pci, gpus = node.facts.pci, node.facts.gpus
    if rdma and not any(port.is_active for port in rdma):
        found = f"none of {', '.join(port.device for port in rdma)} is up"
        remedy = "see the cable at both ends (ip link; ibdev2netdev)"
    elif not rdma and isinstance(pci, PciFacts) and pci.mellanox:
        found = f"a card with {pci.mellanox} ports is on the bus, and no RDMA device"
        remedy = "sudo modprobe mlx5_ib; see dmesg | grep mlx5"
    elif (
        not rdma
        and not isinstance(gpus, NotKnown)
        and any(name in gpu.name for gpu in gpus for name in _SHARING)
    ):
        found = "no network card of NVIDIA's is on the bus"
        remedy = "the card sleeps where no cable is in: plug it in, then restart the machine"
    else:
        return
    yield node.finding(
        "N310",
        "review",
        ("up",),
        wanted="a fast link (RDMA) that is up",
        found=found,
        remedy=remedy,
    )


def _twins(node: Seen, active: list[tuple[RdmaPort, Interface]]) -> Iterator[NodeFinding]:
    cages: dict[tuple[str, str], list[Interface]] = defaultdict(list)
    for _, interface in active:
        if interface.port:
            cages[interface.driver, interface.port].append(interface)
    for twins in cages.values():
        without = [each.name for each in twins if not _ipv4(each)]
        having = [each.name for each in twins if _ipv4(each)]
        if having and without:
            yield node.finding(
                "N309",
                "review",
                ("up",),
                wanted="an IPv4 address for both interfaces of a cable, each in a network of its own",
                found=f"{', '.join(having)} has one, {', '.join(without)} has none",
                remedy="give it one: each twin carries half of the cable's rate",
            )
        if len({each.mtu for each in twins}) > 1:
            yield node.finding(
                "N307",
                "review",
                ("up",),
                wanted="one MTU for both interfaces of a cable",
                found=", ".join(f"{each.name}: {each.mtu}" for each in twins),
                remedy="set both to the same (9000 where the other end has it too)",
            )


def _addresses(node: Seen, active: list[tuple[RdmaPort, Interface]]) -> Iterator[NodeFinding]:
    for port, interface in active:
        told = _ipv4(interface)
        if told and all(ipaddress.ip_address(each).is_link_local for each in told):
            yield node.finding(
                "N313",
                "note",
                ("up",),
                wanted="an address that stays",
                found=f"{interface.name} has {', '.join(told)} alone, which is drawn anew",
                remedy="give it a fixed address in a network of its own",
            )
        usable = {gid.address for gid in port.gids if gid.version == "RoCE v2"}
        if port.gids and told and not usable.intersection(told):
            yield node.finding(
                "N311",
                "review",
                ("up",),
                wanted=f"a RoCE v2 entry for {told[0]} in the GID table of {port.device}",
                found=", ".join(sorted(usable)) or "no entry of RoCE v2",
                remedy=f"sudo ip link set {interface.name} down, then up: the table is made anew from the addresses",
            )


def _ipv4(interface: Interface) -> list[str]:
    return [each.address for each in interface.addresses if "." in each.address]

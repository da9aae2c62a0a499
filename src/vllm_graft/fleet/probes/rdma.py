# The kernel's own files come first: they need no program, and only they have the GIDs. Device names are told, never matched on:
# the same card is rocep1s0f0 on one machine and mlx5_0 on the next.
"""RDMA devices and their GIDs."""

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from vllm_graft.fleet.probes.sysfs import read_sysfs, sysfs_argv
from vllm_graft.values.node_facts import Gid, RdmaPort
from vllm_graft.values.probe import Probe

_PLACE = re.compile(
    r"/sys/class/infiniband/(?P<device>[^/]+)/(?:ports/(?P<port>\d+)/)?(?P<rest>.+)"
)
_NO_GID = ipaddress.IPv6Address(0)


def _ports(text: str) -> tuple[RdmaPort, ...]:
    devices: dict[str, dict[str, str]] = {}
    ports: dict[tuple[str, int], dict[str, str]] = {}
    for path, value in read_sysfs(text).items():
        match = _PLACE.fullmatch(path)
        if match is None:
            raise ValueError(f"no file of an RDMA device: {path}")
        if match["port"]:
            ports.setdefault((match["device"], int(match["port"])), {})[match["rest"]] = value
        else:
            devices.setdefault(match["device"], {})[match["rest"]] = value
    return tuple(
        _port(device, port, told, devices.get(device, {}))
        for (device, port), told in sorted(ports.items())
    )


def _port(
    device: str, port: int, told: Mapping[str, str], of_device: Mapping[str, str]
) -> RdmaPort:
    gids = tuple(_gids(told))
    beside = [rest.split("/")[2] for rest in of_device if rest.startswith("device/net/")]
    interface = gids[0].interface if gids else beside[0] if len(beside) == 1 else ""
    return RdmaPort(
        device=device,
        port=port,
        interface=interface,
        is_active=told["state"].startswith("4:"),
        rate=told.get("rate", ""),
        link_layer=told.get("link_layer", ""),
        firmware=of_device.get("fw_ver", ""),
        gids=gids,
    )


def _gids(told: Mapping[str, str]) -> list[Gid]:
    found: list[Gid] = []
    for rest, value in told.items():
        kind, _, index = rest.partition("/")
        version = told.get(f"gid_attrs/types/{index}", "")
        if kind != "gids" or not version:  # an unused entry has no type that can be read
            continue
        address = ipaddress.IPv6Address(value)
        if address == _NO_GID:
            continue
        found.append(
            Gid(
                index=int(index),
                address=str(address.ipv4_mapped or address),
                version=version,
                interface=told.get(f"gid_attrs/ndevs/{index}", ""),
            )
        )
    return sorted(found, key=lambda gid: gid.index)


PORTS = Probe(
    asks="its RDMA devices",
    argv=sysfs_argv(
        *(
            f"/sys/class/infiniband/*/{name}"
            for name in (
                "fw_ver",
                "device/net/*/ifindex",
                *(f"ports/*/{each}" for each in ("state", "rate", "link_layer", "gids/*")),
                "ports/*/gid_attrs/types/*",
                "ports/*/gid_attrs/ndevs/*",
            )
        )
    ),
    read=_ports,
)
"""Source: Documentation/ABI/stable/sysfs-class-infiniband: ``state`` is ``4: ACTIVE``; an IPv4 address stands in a GID as
``::ffff:a.b.c.d``."""

_LINK = re.compile(
    r"link (?P<device>[^/\s]+)/(?P<port>\d+)\s+(?:subnet_prefix \S+\s+)?(?:.*?)state (?P<state>\w+)"
    r"(?:\s+physical_state \S+)?(?:\s+netdev (?P<interface>\S+))?"
)


def _links(text: str) -> tuple[RdmaPort, ...]:
    if text.lstrip().startswith("["):
        told = cast("Sequence[Mapping[str, object]]", json.loads(text))
        return tuple(_json_link(each) for each in told if each)
    found: list[RdmaPort] = []
    for line in filter(str.strip, text.splitlines()):
        match = _LINK.match(line.strip())
        if match is None:
            raise ValueError(f"no RDMA link: {line!r}")
        found.append(
            RdmaPort(
                device=match["device"],
                port=int(match["port"]),
                interface=match["interface"] or "",
                is_active=match["state"] == "ACTIVE",
            )
        )
    return tuple(found)


def _json_link(told: Mapping[str, object]) -> RdmaPort:
    device, _, glued = str(told["ifname"]).partition("/")  # some releases write the port behind it
    return RdmaPort(
        device=device,
        port=int(str(told.get("port", glued or 1))),
        interface=str(told.get("netdev", "")),
        is_active=told["state"] == "ACTIVE",
    )


LINKS = Probe(asks="its RDMA devices", argv=("rdma", "link"), read=_links)
"""Source: iproute2's rdma(8), where /sys does not tell."""

_PAIR = re.compile(r"(?P<device>\S+) port (?P<port>\d+) ==> (?P<interface>\S+) \((?P<state>\w+)\)")


def _pairs(text: str) -> tuple[RdmaPort, ...]:
    found: list[RdmaPort] = []
    for line in filter(str.strip, text.splitlines()):
        match = _PAIR.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"no device and interface: {line!r}")
        found.append(
            RdmaPort(
                device=match["device"],
                port=int(match["port"]),
                interface=match["interface"],
                is_active=match["state"] == "Up",
            )
        )
    return tuple(found)


PAIRS = Probe(asks="its RDMA devices", argv=("ibdev2netdev",), read=_pairs)
"""Source: NVIDIA's ibdev2netdev of OFED and DOCA, where neither of the others tells."""

FILES = Probe(
    asks="what containers need for RDMA",
    argv=("sh", "-c", "test -d /dev || exit 1; ls /dev/infiniband 2>/dev/null; true"),
    read=lambda text: tuple(text.split()),
)

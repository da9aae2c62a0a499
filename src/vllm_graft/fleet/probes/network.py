# Which interfaces there are and what they can do, from iproute2 and /sys; names are never guessed from, since a port is called
# enp1s0f0np0 on one machine and eth2 on the next.
"""Network interfaces, routes, listeners, firewalls."""

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from vllm_graft.fleet.probes.sysfs import read_sysfs, sysfs_argv
from vllm_graft.values.node_facts import Address, FirewallFacts, Interface, Listener, Route
from vllm_graft.values.probe import Probe

_Told = Mapping[str, object]


def _list(text: str) -> Sequence[_Told]:
    value: object = json.loads(text)
    if not isinstance(value, list):
        raise TypeError("wanted a JSON list")
    return cast("Sequence[_Told]", value)


def _links(text: str) -> tuple[Interface, ...]:
    return tuple(_link(each) for each in _list(text) if each)  # older releases print {} for others


def _link(told: _Told) -> Interface:
    flags = cast("Sequence[str]", told["flags"])
    return Interface(
        name=str(told["ifname"]),
        is_up="UP" in flags and "LOWER_UP" in flags,
        mtu=int(str(told["mtu"])),
        addresses=tuple(
            _address(str(each["local"]), int(str(each["prefixlen"])))
            for each in cast("Sequence[_Told]", told.get("addr_info") or ())
            if each["family"] == "inet" or each.get("scope") != "link"
        ),
    )


def _address(text: str, prefix: int) -> Address:
    ipaddress.ip_interface(f"{text}/{prefix}")  # raises ValueError
    return Address(address=text, prefix=prefix)


LINKS = Probe(asks="its network interfaces", argv=("ip", "-j", "addr"), read=_links)
"""Source: iproute2 5.10 to 6.15. What is known of hardware is not in it: see :data:`DEVICES`."""


def _devices(text: str) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path, value in read_sysfs(text).items():
        name, _, rest = path.removeprefix("/sys/class/net/").partition("/")
        if rest.endswith("uevent"):
            pairs = dict(line.split("=", 1) for line in value.splitlines() if "=" in line)
            found.setdefault(name, {}).update(pairs)
        else:
            found.setdefault(name, {})[rest] = value
    if not found:
        raise ValueError("it names no interface")
    return found


DEVICES = Probe(
    asks="what its network interfaces are",
    argv=sysfs_argv(
        *(
            f"/sys/class/net/*/{name}"
            for name in ("speed", "phys_port_name", "uevent", "device/uevent")
        )
    ),
    read=_devices,
)
"""Interface → what the kernel says of it. Source: Documentation/ABI/testing/sysfs-class-net: ``speed`` is in Mbit/s, and -1 or
unreadable without a carrier; ``DEVTYPE=wlan`` for wireless ones."""


def with_devices(
    links: Sequence[Interface], devices: Mapping[str, Mapping[str, str]]
) -> tuple[Interface, ...]:
    """Give the interfaces with what is known of their hardware."""
    return tuple(_with_device(link, devices.get(link.name, {})) for link in links)


def _with_device(link: Interface, told: Mapping[str, str]) -> Interface:
    speed = told.get("speed", "")
    return Interface(
        name=link.name,
        is_up=link.is_up,
        mtu=link.mtu,
        addresses=link.addresses,
        speed=int(speed) if speed.isdecimal() and int(speed) else None,
        port=told.get("phys_port_name", ""),
        driver=told.get("DRIVER", ""),
        slot=told.get("PCI_SLOT_NAME", ""),
        kind=told.get("DEVTYPE", ""),
    )


def _routes(text: str) -> tuple[Route, ...]:
    routes = [
        Route(
            interface=str(each["dev"]),
            gateway=str(each.get("gateway", "")),
            source=str(ipaddress.ip_address(str(each["prefsrc"]))) if "prefsrc" in each else "",
            metric=int(str(each.get("metric", 0))),
        )
        for each in _list(text)
        if each.get("dst") == "default"
    ]
    return tuple(sorted(routes, key=lambda route: route.metric))


ROUTES = Probe(
    asks="its default routes", argv=("ip", "-j", "-4", "route", "show", "default"), read=_routes
)

_PROCESS = re.compile(r'\(\("(?P<name>(?:[^"\\]|\\.)*)",pid=(?P<pid>\d+)')


def _listeners(text: str) -> tuple[Listener, ...]:
    found: list[Listener] = []
    for line in text.splitlines():
        words = line.split(None, 5)
        if not words or words[0] == "State":
            continue
        place = words[3]
        address, _, port = place.rpartition(":")
        process = _PROCESS.search(words[5]) if len(words) > 5 else None  # noqa: PLR2004 (the last column)
        found.append(
            Listener(
                address=address,
                port=int(port),
                process=process["name"] if process else "",
                pid=int(process["pid"]) if process else None,
            )
        )
    return tuple(found)


LISTENERS = Probe(
    asks="which ports are taken", argv=("ss", "-l", "-t", "-n", "-p"), read=_listeners
)
"""Source: iproute2's ss: of processes of other users, only root sees the names."""


def _firewalls(text: str) -> FirewallFacts:
    return FirewallFacts(active=tuple(text.split()))


_ACTIVE = (
    "grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf && echo ufw;"
    ' test "$(systemctl is-active firewalld 2>/dev/null)" = active && echo firewalld; true'
)

FIREWALL = Probe(
    asks="whether a firewall is on",
    argv=("sh", "-c", _ACTIVE),
    read=_firewalls,
)
"""Rules themselves are root's to see. Source: ufw(8): /etc/ufw/ufw.conf; systemctl(1)."""

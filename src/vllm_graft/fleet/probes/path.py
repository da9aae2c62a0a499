# What a machine reaches is asked of itself: an address that this one reaches may be out of reach from there.
"""The way from one machine to another."""

import re
from datetime import timedelta

from vllm_graft.values.probe import Probe

_TRIP = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/[a-z]+)? = (?P<least>[\d.]+)/")
_HEADERS = 28
"""Bytes of an IPv4 header and an ICMP header."""


def _echo(text: str) -> int | None:
    match = _TRIP.search(text)
    if match is not None:
        return round(float(match["least"]) * 1000)
    if " 0 received" in text or " 0 packets received" in text:
        return None
    raise ValueError("it says nothing of what was received")


def echo_probe(address: str) -> Probe[int | None]:
    """Ask how long three echoes take: microseconds of the quickest, None where none came back.

    Source: ping(8) of iputils 20210202 to 20240905 and of busybox: status 1 where none came.
    """
    return Probe(
        asks=f"whether {address} answers",
        argv=("ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "1", address),
        read=_echo,
        any_status=True,
    )


def _whole(text: str) -> bool:
    return _echo(text) is not None


def frame_probe(address: str, mtu: int) -> Probe[bool]:
    """Ask whether packets of this size pass unbroken."""
    size = str(mtu - _HEADERS)
    return Probe(
        asks=f"whether packets of {mtu} bytes pass to {address}",
        argv=(
            "ping",
            "-n",
            "-q",
            "-c",
            "2",
            "-i",
            "0.2",
            "-W",
            "1",
            "-M",
            "do",
            "-s",
            size,
            address,
        ),
        read=_whole,
        any_status=True,
    )


def door_probe(address: str, port: int) -> Probe[bool]:
    """Ask whether something answers at the port of sshd, where echoes may be filtered. Nothing is kept of its keys.

    Source: ssh-keyscan(1): it prints what it was given, and has nothing to do with known_hosts.
    """
    return Probe(
        asks=f"whether {address} answers at port {port}",
        argv=("ssh-keyscan", "-T", "3", "-p", str(port), address),
        read=lambda text: bool(text.strip()),
        timeout=timedelta(seconds=15),
        any_status=True,
    )

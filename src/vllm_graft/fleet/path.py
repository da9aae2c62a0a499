# Which address one machine reaches another at, and which of several is the fastest. Names lead over the network that the user
# works on; between the machines themselves there may be one a hundred times faster, under addresses that no name has.
#
# Rules: an address is looked for on the machine that has it, tried from the machine that would use it, and taken only where
# the very same machine answers, as the same user, with the host key that is known already. Nothing is switched off for it, and
# no key is accepted.
"""The path from one node to another."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from vllm_graft.errors import NodeError
from vllm_graft.fleet.hop import Hop, HopKind
from vllm_graft.fleet.probes.network import LINKS
from vllm_graft.fleet.ssh import OPTIONS
from vllm_graft.values.command import Command, Completed

_QUICK = timedelta(seconds=60)
_REACHED_IN = timedelta(seconds=10)
"""Addresses are of networks that both machines are in: who does not answer in this time is not there."""

_OPTIONS = (
    # Of two settings of one name, ssh takes the first.
    *("-o", f"ConnectTimeout={_REACHED_IN.seconds}"),
    *OPTIONS,
    # A connection that stands already may stand over another address.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    # On machines of others nothing is written down: ssh would add further keys of a known host to known_hosts.
    *("-o", "UpdateHostKeys=no"),
    # Of weights and layers nothing is to be gained, and zeros would measure nothing.
    *("-o", "Compression=no"),
)

_FIRST, _MOST = 1, 64
"""MiB that are sent to measure first, and at most where those pass in no time."""
_NO_TIME = 0.3
"""Seconds."""
_FAST = 64_000_000
"""Bytes a second, at which nothing is compressed; what was measured while a machine is busy may be too little, and not too much."""
_PART = 16
"""To measure, no more is sent than this part of what is to be sent."""
_CLEARLY_FASTER = 1.1

_TAKE_ZEROS = """\
dd bs=64k count=1 of=/dev/null 2>/dev/null
LC_ALL=C exec dd of=/dev/null bs=64k
"""
"""The time until the first bytes come is that of beginning, not of the link: on a busy machine it is the longer one."""

_WHO = """\
cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo
uname -n
id -un
echo "${SSH_CONNECTION-}"
"""
_WHERE = """\
grep -m 1 -o -w aes /proc/cpuinfo 2>/dev/null || echo
PATH=$PATH:/usr/sbin:/sbin
ip -j addr 2>/dev/null || true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of an interface that is up."""

    text: str = ""
    """Empty: the one that a name leads to."""
    prefix: int = 0
    """Leading bits that are the same for all of its network."""
    interface: str = ""

    @property
    def network(self) -> str:
        """Give the network that it is in."""
        return str(ipaddress.ip_network(f"{self.text}/{self.prefix}", strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells two machines and two users apart."""

    boot: str
    """Drawn by the kernel when it starts; empty where it is not Linux."""
    host: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A machine, and where it stands in its networks."""

    identity: Identity
    port: int
    """At which its sshd was reached, as it sees that itself; 0: it was not asked over ssh."""
    addresses: tuple[Address, ...]
    has_aes: bool = False
    """Whether its CPU computes AES by itself."""


def ask_standing() -> Command:
    """Ask a machine who it is and which addresses it has."""
    return Command(
        argv=("/bin/sh", "-c", _WHO + _WHERE), why="see which addresses it has", timeout=_QUICK
    )


def parse_standing(answer: Completed) -> Standing:
    """Read what :func:`ask_standing` gives.

    Raises:
        NodeError: E552, it is something else.
    """
    lines = answer.stdout.decode("utf-8", "replace").split("\n", 5)
    if not answer.passed or len(lines) != 6:  # noqa: PLR2004 (what the script says)
        raise NodeError(
            f"who it is and which addresses it has cannot be asked: {answer.last_lines() or f'status {answer.status}'}",
            remedy="see that /bin/sh, uname and id can be run there",
            code="E552",
        )
    boot, host, user, connection, aes, told = lines
    port = _connection(connection)[1]
    return Standing(
        identity=Identity(boot=boot.strip(), host=host.strip(), user=user.strip()),
        port=int(port) if port.isdecimal() else 0,
        addresses=parse_addresses(told),
        has_aes=aes == "aes",
    )


def _connection(told: str) -> tuple[str, str]:
    """Read the server's address and port. Source: ssh(1), SSH_CONNECTION: those of the client, then those of the server."""
    match told.split():
        case [_, _, address, port]:
            return address, port
        case _:
            return "", ""


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read ``ip -j addr``: the addresses by which others may reach this machine.

    Not those of IPv6 within one link, which mean nothing without the interface of whoever uses them. IPv4's 169.254 is one of
    them: two machines with a cable between them and no more have it.
    """
    try:
        links = LINKS.read(text)
    except (ValueError, KeyError, TypeError):  # no ip, or one that knows no -j
        return ()
    return tuple(
        Address(text=each.address, prefix=each.prefix, interface=link.name)
        for link in links
        if link.is_outward
        for each in link.addresses
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to connect to a machine."""

    ssh: tuple[str, ...]
    """``ssh``, its options, and the destination last."""
    address: str
    """Empty: the one that the name leads to."""
    interface: str
    rate: int = 0
    """Bytes a second; 0: not measured."""


Ways = tuple[Way, ...]
"""To one address: the first of them that leads there is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What the SSH configuration of the machine that connects says of a name."""

    host: str
    port: int
    key_name: str
    """Under which the host's key is known."""
    checks: bool
    """False: its user has switched the check of host keys off."""
    ciphers: tuple[str, ...] = ()
    """In the order in which they are offered."""


def ask_configured(name: str) -> Command:
    """Ask what a machine's SSH configuration says of a name; nothing is connected to."""
    return Command(argv=("ssh", "-G", "--", name), why=f"see how {name} is reached", timeout=_QUICK)


def parse_configured(answer: Completed) -> Configured | None:
    """Read ``ssh -G``; None where there is no ssh, or it will not say.

    Source: OpenSSH 8.2 to 9.9, sshconnect.c, get_hostfile_hostname_ipaddr: a key is known under HostKeyAlias, else under the
    host, and with a port other than 22 under ``[HOST]:PORT``.
    """
    said = answer.stdout.decode("utf-8", "replace")
    told = dict(re.findall(r"^(\w+) (.*)$", said, re.MULTILINE))
    if not answer.passed or not told.get("port", "").isdecimal() or "hostname" not in told:
        return None
    host, port = told["hostname"], int(told["port"])
    own = host if port == 22 else f"[{host}]:{port}"  # noqa: PLR2004 (ssh's own)
    return Configured(
        host=host,
        port=port,
        key_name=told.get("hostkeyalias") or own,
        checks=told.get("stricthostkeychecking") not in ("no", "false", "off"),
        ciphers=tuple(filter(None, told.get("ciphers", "").split(","))),
    )


def by_name(name: str, configured: Configured | None, server: Identity, port: int) -> Ways:
    """Give the ways to a machine by its name: as the SSH configuration of whoever connects has it, else as is known from here.

    ``port``: at which its sshd was reached; 0: not known.
    """
    ways = (_way(Address(), "--", name),)
    if port and "@" not in name:
        ways += (_way(Address(), *_login(configured, server, port), "--", name),)
    return ways


def at_address(
    name: str, configured: Configured | None, server: Standing, address: Address
) -> Ways:
    """Give the ways to a machine at one of its addresses: with all that its name has, else with what the address itself has."""
    ways: Ways = ()
    if configured:
        alias = ("-o", f"HostName={address.text}", "-o", f"HostKeyAlias={configured.key_name}")
        ways += (_way(address, *_trust(configured), *alias, "--", name),)
    if server.port:
        login = _login(configured, server.identity, server.port)
        ways += (_way(address, *login, "--", address.text),)
    return ways


def _trust(configured: Configured | None) -> tuple[str, ...]:
    return ("-o", "StrictHostKeyChecking=yes") if configured is None or configured.checks else ()


def _login(configured: Configured | None, server: Identity, port: int) -> tuple[str, ...]:
    return (*_trust(configured), "-l", server.user, "-p", str(port))


def _way(address: Address, *words: str) -> Way:
    return Way(ssh=("ssh", *_OPTIONS, *words), address=address.text, interface=address.interface)


def reachable(client: Standing, server: Standing) -> tuple[Address, ...]:
    """Give the addresses of ``server`` in networks that ``client`` is in too: what lies behind a router, the name reaches too.

    Without those that ``client`` has itself: Docker gives every machine 172.17.0.1.
    """
    own = {each.text for each in client.addresses}
    networks = {each.network for each in client.addresses}
    return tuple(
        each for each in server.addresses if each.network in networks and each.text not in own
    )


def ask_identity() -> Command:
    """Ask who answers at an address."""
    return Command(argv=("/bin/sh", "-c", _WHO), why="see who answers there", timeout=_QUICK)


def parse_answered(answer: Completed, wanted: Identity) -> str | None:
    """Give the address at which the machine that was meant has answered, as the user that was meant; None: it was another."""
    said = answer.stdout.decode("utf-8", "replace").splitlines()
    if not answer.passed or said[-4:-1] != [wanted.boot, wanted.host, wanted.user]:
        return None
    return _connection(said[-1])[0]


def at(way: Way, address: str, server: Standing) -> Way:
    """Give the way with the address that it has turned out to lead to."""
    interfaces = {each.text: each.interface for each in server.addresses}
    if not address:
        return way
    return replace(way, address=address, interface=interfaces.get(address, way.interface))


def without_doubles(ways: Sequence[Way]) -> tuple[Way, ...]:
    """Leave out what leads to the same address as one before it."""
    firsts: dict[str, Way] = {}
    for way in ways:
        firsts.setdefault(way.address, way)
    return tuple(firsts.values())


def why_not(answer: Completed) -> str:
    """Say why the machine that was meant has not answered."""
    return (
        "another machine, or another user, answers there" if answer.passed else answer.last_lines(1)
    )


def is_out_of_reach(answer: Completed) -> bool:
    """Tell whether nothing answered at all, so that no other login will do either.

    Source: OpenSSH, sshconnect.c, with the words of strerror(3).
    """
    said = answer.stderr.decode("utf-8", "replace").lower()
    return any(each in said for each in ("timed out", "no route to host", "unreachable"))


def give_zeros(mebibytes: int) -> Command:
    """Say so many MiB of nothing."""
    return Command(
        argv=("head", "-c", str(mebibytes << 20), "/dev/zero"),
        why="measure the path",
        timeout=_QUICK,
    )


def take_zeros() -> Command:
    """Take what is said, and tell how long it took."""
    return Command(
        argv=("/bin/sh", "-c", _TAKE_ZEROS),
        why="measure the path",
        timeout=_QUICK,
    )


def is_measured(mebibytes: int, rate: int) -> bool:
    """Tell whether a link that took so many MiB at this rate will not be found another one by more of them."""
    return not rate or rate >= _FAST or (mebibytes << 20) / rate > _NO_TIME


def first_measure() -> int:
    """Give how many MiB are sent first."""
    return _FIRST


def next_measure(sent: int, rate: int, size: int) -> int:
    """Give how many MiB are to be sent once more; 0: what was measured will do.

    ``sent``: MiB that were; ``size``: bytes that are to be sent over it in the end.
    """
    if not rate or (sent << 20) / rate > _NO_TIME:
        return 0
    more = min(_MOST, (size >> 20) // _PART)
    return more if more > sent else 0


def parse_rate(answer: Completed) -> int:
    """Read the bytes a second from what dd says of itself where it reads; 0 where it does not.

    Source: GNU coreutils 8.24 to 9.7, dd.c; busybox 1.36 says the same but for ``seconds``.
    """
    said = answer.stderr.decode("utf-8", "replace")
    found = re.findall(r"^(\d+) bytes .*copied, ([\d.e+-]+) ?s", said, re.MULTILINE)
    if not answer.passed or not found:
        return 0
    size, seconds = found[-1]
    return int(int(size) / max(float(seconds), 1e-6))


def fastest(ways: Sequence[Way]) -> Way:
    """Give the fastest; one that comes before it and is hardly slower is preferred. There is at least one."""
    best = max(way.rate for way in ways)
    return next(way for way in ways if way.rate * _CLEARLY_FASTER >= best)


def as_hop(way: Way, *, sender: str, receiver: str, kind: HopKind) -> Hop:
    """Give a way as the hop from one machine to another."""
    return Hop(
        sender=sender,
        receiver=receiver,
        kind=kind,
        ssh=way.ssh,
        address=way.address,
        interface=way.interface,
        rate=way.rate,
    )


def relay(sender: str, receiver: str) -> Hop:
    """Give the hop through this machine."""
    return Hop(sender=sender, receiver=receiver, kind="relay")


def leads_nowhere(address: str, receiver: str, sender: str, said: Sequence[str]) -> NodeError:
    """Say that the address that the user gave for a machine is none."""
    return NodeError(
        f"{sender} does not reach {receiver} at {address}: {'; '.join(dict.fromkeys(said))}",
        remedy=f"give an address of {receiver} that `ssh {address} true` on {sender} reaches without being asked for anything;"
        " or none, and the fastest that leads there is taken",
        code="E550",
    )

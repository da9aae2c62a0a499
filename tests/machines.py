"""Real machines for tests: each has namespaces, addresses, users, an sshd and an engine of its own, on one or two networks.

A machine is lost as a real one is: its link goes down, and then all that runs on it is gone. Only root can make them.
"""

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engines import Docker
from imaging import Item
from nodes import NOISE, below

PACKAGES = "docker.io,docker-cli,containerd,openssh-server,openssh-client,iproute2,procps,python3-minimal,zsh,fish,tcsh"
PROGRAMS = ("unshare", "nsenter", "ip", "sshd", "ssh", "ssh-keygen", "useradd")

SSHD = """\
Port {port}
HostKey /etc/ssh/of-the-test/host
AuthorizedKeysFile /etc/ssh/of-the-test/authorized
PidFile /run/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxSessions 50
MaxStartups 100
"""

# Another system than this machine's: all that is done afterwards is done in it.
ENTER = """
set -e
mount --make-rprivate /
mkdir -p "$PLACE/system"
mount -t tmpfs none "$PLACE/system"
mkdir "$PLACE/system/up" "$PLACE/system/work" "$PLACE/system/root"
mount -t overlay none -o "lowerdir=$SYSTEM,upperdir=$PLACE/system/up,workdir=$PLACE/system/work" "$PLACE/system/root"
cd "$PLACE/system/root"
mkdir -p ".$SHARED"
mount --bind "$SHARED" ".$SHARED"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mkdir before
pivot_root . before
umount -l before
exec chroot . /bin/sh -c "$BEGIN"
"""

BEGIN = """
set -e
hostname "$NAME"
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p "$PLACE/layers" "$PLACE/home" "$PLACE/data" "$PLACE/door" /run/sshd /run/door
mount --bind "$PLACE/door" /run/door
mount -t tmpfs none "$PLACE/layers"
mkdir "$PLACE/layers/up" "$PLACE/layers/work"
mount -t overlay none -o "lowerdir=/etc,upperdir=$PLACE/layers/up,workdir=$PLACE/layers/work" /etc
mkdir /etc/ssh/of-the-test
cp "$PLACE/host" "$PLACE/sshd" "$SHARED/authorized" /etc/ssh/of-the-test
printf '%s\\n' "$HOSTS" >>/etc/hosts
mount --bind "$PLACE/home" /home
mkdir -p /var/lib/docker
mount --bind "$PLACE/data" /var/lib/docker
mkdir -p /etc/docker
printf '{"features": {"containerd-snapshotter": %s}}' "$CONTAINERD" >/etc/docker/daemon.json
[ -z "$DISK" ] || mount -t tmpfs -o "size=$DISK" none /var/lib/docker
getent group docker >/dev/null || groupadd --system docker
useradd --no-create-home --home-dir "/home/$USER" --shell "$LOGIN_SHELL" "$USER"
usermod --password '*' "$USER"
[ "$ENGINE" != group ] || usermod --append --groups docker "$USER"
[ "$ENGINE" != sudo ] || printf '%s ALL=(root) NOPASSWD: %s\\n' "$USER" "$(command -v docker)" >"/etc/sudoers.d/$USER"
mkdir -p "/home/$USER/.ssh"
cp "$SHARED/known" "/home/$USER/.ssh/known_hosts"
[ -z "$TRUSTED" ] || cp "$SHARED/between" "/home/$USER/.ssh/id_ed25519"
if [ -n "$NOISE" ]; then
    mkdir -p "$(dirname "/home/$USER/$NOISE")"
    printf "echo noise of a startup file\\nprintf 'and more'\\n" >"/home/$USER/$NOISE"
fi
chown -R "$USER" "/home/$USER"
mount -t tmpfs -o mode=1777 none /tmp
ip link set lo up
echo begun
read -r _
for each in $ADDRESSES; do
    ip address add "${each#*=}/24" dev "${each%=*}"
    ip link set "${each%=*}" up
done
"$SSHD_PROGRAM" -f /etc/ssh/of-the-test/sshd -E /run/sshd.log
echo ready
# The first process of a machine takes in those whose parents have ended.
while :; do sleep 600 & wait "$!" || true; done
"""

START_ENGINE = """
rm -f /run/docker.pid
exec dockerd --host unix:///run/docker.sock --host unix:///run/door/docker.sock --group docker \\
    --bridge none --iptables=false --ip-masq=false >>/run/docker.log 2>&1
"""

NETWORK = """
ip link set lo up
ip link add name lan type bridge
ip link set lan up
ip link add name fabric type bridge
ip link set fabric up
echo ready
exec sleep infinity
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a machine is to be like."""

    login: str = "bash"
    """The login shell of its user."""
    engine: str = "group"
    """How its user gets at the engine: ``group``, ``sudo``, ``root`` (not at all), or ``none``: it has none running."""
    disk: str = ""
    """Size of the engine's disk, such as ``40m``: in memory, and gone with the machine. Empty: as large as the test's."""
    trusted: bool = True
    """Whether its user may log in to the other machines."""
    system: str = ""
    """A folder with the whole of another Debian, with another Docker; see :func:`newer_docker`. Empty: this machine's."""
    containerd: bool = False
    """Whether images lie in containerd's store: Docker 24 and later."""
    rate: str = ""
    """Of its link, both ways, as ``tc`` reads it, such as ``200mbit``. Empty: as fast as it goes."""
    fabric: str = ""
    """Likewise of its link to the second network; ``none``: it has no such link."""


@dataclass(kw_only=True)
class Machine:
    """One machine."""

    name: str
    kind: Kind
    user: str
    address: str
    fabric: str
    """Its address in the second network; empty: it has none."""
    port: int
    place: Path
    network: "Network"
    number: int
    hosts: str
    """What it has in ``/etc/hosts``: all machines by name."""
    variables: Mapping[str, str]
    """Those of the test, on the machine that is no node: with an `ssh` that knows the machines by name."""
    child: "subprocess.Popen[bytes] | None" = None
    engine_child: "subprocess.Popen[bytes] | None" = None

    @property
    def docker(self) -> Docker:
        """Give its engine as it is seen from inside: what a test says to it goes through no ssh."""
        return Docker(host=f"unix://{self.place}/door/docker.sock")

    @property
    def init(self) -> int:
        """Give its first process, as the test's machine counts."""
        assert self.child is not None, "it is up"
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return int(children.split()[0])

    def inside(self, *argv: str, check: bool = True) -> str:
        """Run something there as root."""
        done = subprocess.run(
            ["nsenter", "--all", "-t", str(self.init), *argv],
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
        )
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> list[str]:
        """Give the command lines of what runs there for its user, but for what sshd keeps of his connections."""
        return [line for _, line in self._of_user() if not line.startswith("sshd:")]

    def _of_user(self) -> list[tuple[int, str]]:
        user = int(self.inside("id", "-u", self.user))
        found: list[tuple[int, str]] = []
        for process in below(self.init):
            with contextlib.suppress(OSError):
                place = Path(f"/proc/{process}")
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if place.stat().st_uid == user and line:
                    found.append((process, line))
        return found

    def start(self) -> None:
        """Switch it on; its disk is as it was."""
        _begin(self)
        if self.kind.engine != "none":
            self.start_engine()

    def start_engine(self) -> None:
        self.engine_child = subprocess.Popen(
            ["nsenter", "--all", "-t", str(self.init), "sh", "-c", START_ENGINE],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ask = ["docker", "version", "--format", "{{.Server.Version}}"]
            if (
                subprocess.run(
                    ask, env=self.docker.variables, capture_output=True, check=False
                ).returncode
                == 0
            ):
                return
            if self.engine_child.poll() is not None:
                break
            time.sleep(0.1)
        _skip(self.inside("tail", "-n", "20", "/run/docker.log", check=False))

    def stop_engine(self, *, how: str = "KILL") -> None:
        """End the daemon at once, or as a service is stopped with ``TERM``; containerd goes with it."""
        self.inside("sh", "-c", f"kill -{how} $(cat /run/docker.pid)")
        assert self.engine_child is not None, "it was started"
        self.engine_child.wait(60)
        if how == "KILL":
            self.inside(
                "sh", "-c", "kill -KILL $(cat /run/docker/containerd/containerd.pid)", check=False
            )

    def restart_engine(self) -> None:
        self.stop_engine()
        self.start_engine()

    def unplug(self) -> None:
        """Take its link down: nothing arrives, and nobody is told."""
        self.network.run("ip", "link", "set", f"lan{self.number}", "down")

    def plug(self) -> None:
        self.network.run("ip", "link", "set", f"lan{self.number}", "up")

    def lose(self) -> None:
        """Switch it off as a power cut does: no connection is ended in good order."""
        if self.child is None:
            return
        with contextlib.suppress(AssertionError):  # it may be gone by itself
            self.unplug()
            if self.fabric:
                self.network.run("ip", "link", "set", f"fab{self.number}", "down")
        self._kill()

    def change_host_key(self) -> None:
        """Show another host key than before, as one that was set up anew does."""
        _keygen(self.place / "door/host")
        self.inside("mv", "/run/door/host", "/etc/ssh/of-the-test/host")

    def hang_up(self) -> None:
        """End every ssh connection to it: the far end is told."""
        for process, line in self._of_user():
            if line.startswith("sshd:"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def stop_ssh(self) -> None:
        """End its sshd: who connects is refused."""
        self.inside("sh", "-c", "kill $(cat /run/sshd.pid)")

    def _kill(self) -> None:
        assert self.child is not None, "it is up"
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self.init, signal.SIGKILL)
        self.child.wait(30)
        self.child = None
        if self.engine_child is not None:
            self.engine_child.wait(30)

    def clean(self) -> None:
        if self.child is not None:
            self._kill()


@dataclass(kw_only=True)
class Network:
    """Two bridges in a namespace of their own: what the machines are connected by."""

    child: "subprocess.Popen[bytes]"
    number: int
    link: str
    """The link of this machine, on which it has the address ``198.18.N.254``."""

    def run(self, *argv: str) -> None:
        _run("nsenter", "--net", "-t", str(self.child.pid), *argv)

    def connect(self, machine: Machine) -> None:
        """Give a machine its links."""
        self._connect(machine, "lan", "eth0", machine.kind.rate)
        if machine.fabric:
            self._connect(machine, "fabric", "fab0", machine.kind.fabric)

    def _connect(self, machine: Machine, bridge: str, there: str, rate: str) -> None:
        here = f"{bridge[:3]}{machine.number}"
        inside = str(machine.init)
        # What is left of the link of a machine that was switched off goes with its namespace, some time later.
        with contextlib.suppress(AssertionError):
            self.run("ip", "link", "delete", here)
        # A network card keeps its address over a restart; with another, neighbours look for the old one for half a minute.
        network = 0 if bridge == "lan" else 1
        own = f"02:00:00:{network:02x}:{self.number:02x}:{machine.number:02x}"
        peer = ("peer", "name", there, "address", own, "netns", inside)
        self.run("ip", "link", "add", here, "type", "veth", *peer)
        self.run("ip", "link", "set", here, "master", bridge, "up")
        if rate:
            shape = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
            self.run("tc", "qdisc", "add", "dev", here, *shape)
            _run("nsenter", "--net", "-t", inside, "tc", "qdisc", "add", "dev", there, *shape)


@dataclass(kw_only=True)
class Machines:
    """All machines, by name and in order; the first is the head."""

    folder: Path
    network: Network
    variables: Mapping[str, str]
    made: Sequence[Machine] = field(default_factory=tuple)

    def __getitem__(self, name: str) -> Machine:
        return next(each for each in self.made if each.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.made)


def newer_docker() -> str:
    """Give a folder with a Debian that has Docker 28 and containerd 2, made once with debootstrap and kept beside pip's cache."""
    told = os.environ.get("VLLM_GRAFT_TEST_SYSTEM", "")
    place = Path(told or Path.home() / ".cache/vllm-graft-tests/debian-sid-docker")
    if (place / "usr/sbin/dockerd").exists():
        return str(place)
    if os.getuid() != 0 or _program("debootstrap") is None:
        _skip("no debootstrap, or not root")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / "system"
        debootstrap = ("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "sid")
        done = subprocess.run(
            [*debootstrap, str(made)],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            _skip(done.stdout.decode()[-300:])
        made.rename(place)
    return str(place)


def shell_items() -> list[Item]:
    """Give what an image must hold so that ``/bin/sh`` and ``/bin/cat`` run in it, as this machine has them."""
    programs = [Path(shutil.which(name) or "/") for name in ("dash", "cat")]
    told = "".join(_run("ldd", str(program)) for program in programs)
    found = {word for word in told.split() if word.startswith("/")}
    needed = [
        Item(path=each.lstrip("/"), content=Path(each).read_bytes(), mode=0o755)
        for each in sorted(found)
    ]
    own = [
        Item(path=f"bin/{name}", content=program.read_bytes(), mode=0o755)
        for name, program in zip(("sh", "cat"), programs, strict=True)
    ]
    return [*needed, *own]


def _skip(reason: str) -> None:
    if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        pytest.fail(f"machines of the test's own are required: {reason}")
    pytest.skip(f"no machines of one's own here: {reason}")


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def _keygen(path: Path) -> None:
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path))


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextlib.contextmanager
def machines(**kinds: Kind) -> Generator[Machines]:
    """Make machines and switch them on: ``machines(spark1=Kind(login="zsh"), spark2=Kind(login="fish"))``."""
    reason = "" if os.getuid() == 0 else "only root may make them"
    for program in (*PROGRAMS, "dockerd", "docker", *(each.login for each in kinds.values())):
        reason = reason or ("" if _program(program) else f"no {program}")
    if reason:
        _skip(reason)
    # Not under pytest's folder, which others may not enter.
    folder = Path(tempfile.mkdtemp(prefix="vllm-graft-machines-"))
    folder.chmod(0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for key in ("user", "between"):
            _keygen(folder / key)
        (folder / "authorized").write_text(
            (folder / "user.pub").read_text() + (folder / "between.pub").read_text()
        )
        network = stack.enter_context(_network())
        variables = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        made = [
            _plan(folder, network, number, kinds, variables) for number in range(1, len(kinds) + 1)
        ]
        _write_client(folder, made)
        for machine in made:
            stack.callback(machine.clean)
            machine.start()
        yield Machines(folder=folder, network=network, variables=variables, made=made)


@contextlib.contextmanager
def _network() -> Generator[Network]:
    link = f"vg{uuid.uuid4().hex[:8]}"
    child = subprocess.Popen(
        ["unshare", "--net", "sh", "-ec", NETWORK], stdout=subprocess.PIPE, start_new_session=True
    )
    made = Network(child=child, number=0, link=link)
    try:
        assert child.stdout is not None, "it was asked for"
        if child.stdout.readline().strip() != b"ready":
            _skip("no bridge can be made in a namespace of its own")
        there = ("type", "veth", "peer", "name", "here", "netns", str(child.pid))
        _run("ip", "link", "add", link, *there)
        made.run("ip", "link", "set", "here", "master", "lan", "up")
        made.number = _take_number(link)
        _run("ip", "link", "set", link, "up")
        yield made
    finally:
        subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _take_number(link: str) -> int:
    """Give this link an address in a network that nobody has; tests run beside one another."""
    with (Path(tempfile.gettempdir()) / "vllm-graft-test-networks").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        taken = _run("ip", "-o", "address")
        free = [each for each in range(1, 255) if f"198.18.{each}." not in taken]
        number = random.SystemRandom().choice(free)
        _run("ip", "address", "add", f"198.18.{number}.254/24", "dev", link)
    return number


def _plan(
    folder: Path,
    network: Network,
    number: int,
    kinds: Mapping[str, Kind],
    variables: Mapping[str, str],
) -> Machine:
    name, kind = list(kinds.items())[number - 1]
    place = folder / name
    place.mkdir()
    _keygen(place / "host")
    port = 2200 + number
    (place / "sshd").write_text(SSHD.format(port=port))
    return Machine(
        name=name,
        kind=kind,
        user=f"{kind.login}-user",
        address=f"198.18.{network.number}.{number}",
        fabric="" if kind.fabric == "none" else f"198.19.{network.number}.{number}",
        port=port,
        place=place,
        network=network,
        number=number,
        hosts="\n".join(
            f"198.18.{network.number}.{each} {alias}" for each, alias in enumerate(kinds, 1)
        ),
        variables=variables,
    )


def _write_client(folder: Path, made: Sequence[Machine]) -> None:
    known = "".join(
        f"[{name}]:{each.port} {(each.place / 'host.pub').read_text()}"
        for each in made
        for name in filter(None, (each.name, each.address, each.fabric))
    )
    (folder / "known").write_text(known)
    (folder / "nobody").touch()
    hosts = [
        f"Host {each.name}\n  HostName {each.address}\n  Port {each.port}\n  User {each.user}\n"
        f"  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n"
        for each in made
    ]
    (folder / "config").write_text("\n".join(hosts))
    (folder / "bin").mkdir()
    ssh = folder / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {_program("ssh")} -F {folder}/config "$@"\n')
    ssh.chmod(0o755)


def _begin(machine: Machine) -> None:
    machine.place.joinpath("door").mkdir(exist_ok=True)
    addresses = [f"eth0={machine.address}"]
    if machine.fabric:
        addresses.append(f"fab0={machine.fabric}")
    shared = machine.place.parent
    variables = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "NAME": machine.name,
        "PLACE": str(machine.place),
        "SHARED": str(shared),
        "HOSTS": machine.hosts,
        "SYSTEM": machine.kind.system,
        "BEGIN": BEGIN,
        "CONTAINERD": "true" if machine.kind.containerd else "false",
        "DISK": machine.kind.disk,
        "USER": machine.user,
        "LOGIN_SHELL": _program(machine.kind.login) or "",
        "ENGINE": machine.kind.engine,
        "TRUSTED": "yes" if machine.kind.trusted else "",
        "NOISE": NOISE.get(machine.kind.login, ""),
        "ADDRESSES": " ".join(addresses),
        "SSHD_PROGRAM": _program("sshd") or "",
    }
    spaces = ("--mount", "--net", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child")
    with (machine.place / "log").open("ab") as log:
        machine.child = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", ENTER if machine.kind.system else BEGIN],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    child = machine.child
    assert child.stdin is not None, "it was asked for"
    assert child.stdout is not None, "it was asked for"
    with child.stdin, child.stdout:
        if child.stdout.readline() != b"begun\n":
            _skip((machine.place / "log").read_text()[-500:])
        machine.network.connect(machine)
        child.stdin.write(b"go\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n", (machine.place / "log").read_text()[-500:]
    for _ in range(100):
        with (
            contextlib.suppress(OSError),
            socket.create_connection((machine.address, machine.port), 1),
        ):
            return
        time.sleep(0.05)
    _skip(f"{machine.name} cannot be reached at {machine.address}")

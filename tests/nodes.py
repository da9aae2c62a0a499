"""Real nodes for tests: a real sshd on this machine, users with the login shells that there are, a real ssh."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SHELLS = ("bash", "zsh", "fish", "dash", "tcsh")
NOISE: Mapping[str, str] = {
    "bash": ".bashrc",
    "zsh": ".zshenv",
    "fish": ".config/fish/config.fish",
    "tcsh": ".cshrc",
}
"""What each shell reads although it is no login shell and has no terminal; dash reads nothing."""

SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxSessions 50
MaxStartups 100
{more}
"""


def _hide(folder: Path) -> str:
    """Lay a folder without engines over each that has one."""
    lines = [f"mount -t tmpfs none {folder}/over"]
    for number, place in enumerate(("/usr/local/bin", "/usr/bin", "/snap/bin")):
        if not any((Path(place) / name).exists() for name in ("docker", "podman")):
            continue
        own = f"{folder}/over/{number}"
        options = f"lowerdir={place},upperdir={own}/up,workdir={own}/work"
        lines += [
            f"mkdir -p {own}/up {own}/work",
            f"mount -t overlay none -o {options} {place}",
            f"rm -f {place}/docker {place}/podman",
        ]
    return "\n".join(lines) + "\n"


@dataclass(kw_only=True)
class Nodes:
    """Aliases of one machine: one for each shell, and some that do not work."""

    folder: Path
    port: int
    users: Mapping[str, str]
    """Shell → user."""
    variables: Mapping[str, str]
    """With an `ssh` that reads a configuration of the test's own; else it is the real one."""
    daemon: int
    """Process ID of sshd."""

    def running(self, user: str) -> Mapping[int, str]:
        """Give what runs there for a user, but for the sshd of its connections: process ID → words."""
        found = _processes(user).items()
        return {number: words for number, words in found if not words.startswith("sshd")}

    def sessions(self, user: str) -> list[int]:
        """Give the sshd of a user's connections, which started what runs for it."""
        found = _processes(user).items()
        return [number for number, words in found if words.startswith("sshd")]

    def lose(self) -> None:
        """End every connection, as where a machine goes down."""
        for process in below(self.daemon):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _processes(user: str) -> Mapping[int, str]:
    """Give what runs for a user, but for what has ended: process ID → words."""
    owner = pwd.getpwnam(user).pw_uid
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            if words and place.stat().st_uid == owner:
                found[int(place.name)] = words
    return found


def _forget(users: Mapping[str, str]) -> None:
    for user in users.values():
        for process in _processes(user):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        subprocess.run(["userdel", "--force", user], capture_output=True, check=False)


def below(parent: int) -> list[int]:
    """Give the processes that one started, and those that they started."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(place.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(place.parent.name))
    return [*found, *(each for child in found for each in below(child))]


def _skip(reason: str) -> None:
    if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        pytest.fail(f"a real sshd is required: {reason}")
    pytest.skip(f"no nodes on this machine: {reason}")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@contextlib.contextmanager
def nodes(
    *, environment: Mapping[str, str] | None = None, hidden: bool = False, settings: str = ""
) -> Generator[Nodes]:
    """Start sshd and make the users; only root can.

    ``environment``: of every command that is run there. ``hidden``: as on a machine without an engine.
    ``settings``: more lines of sshd's configuration.
    """
    if os.getuid() != 0:
        _skip("only root may make users and start sshd")
    for program in ("sshd", "ssh", "ssh-keygen", "useradd"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            _skip(f"no {program}")
    # Not under pytest's folder, which others may not enter.
    folder = Path(tempfile.mkdtemp(prefix="vllm-graft-nodes-"))
    folder.chmod(0o755)
    (folder / "over").mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "other-host", "user", "wrong"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key]
        subprocess.run(keygen, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = free_port()
    more = (
        "".join(f"SetEnv {name}={text}\n" for name, text in (environment or {}).items()) + settings
    )
    (folder / "sshd").write_text(SSHD.format(port=port, folder=folder, more=more))
    users: dict[str, str] = {}
    silent = socket.create_server(("127.0.0.1", 0))
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin") or "sshd"
    start = f"exec {sshd} -D -e -f {folder}/sshd"
    script = (_hide(folder) if hidden else "") + start
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", script], stderr=log, start_new_session=True
        )
    try:
        for shell in SHELLS:
            if (program := shutil.which(shell)) is not None:
                users[shell] = _user(folder, shell, program)
        variables = _client(folder, port, users, silent.getsockname()[1])
        made = Nodes(folder=folder, port=port, users=users, variables=variables, daemon=child.pid)
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            if child.poll() is not None:
                _skip((folder / "log").read_text()[-500:])
            time.sleep(0.1)
        yield made
    finally:
        child.kill()
        child.wait()
        silent.close()
        _forget(users)
        shutil.rmtree(folder, ignore_errors=True)


def _user(folder: Path, shell: str, program: str) -> str:
    name = f"vg{uuid.uuid4().hex[:8]}{shell}"
    home = folder / shell
    home.mkdir()
    if shell in NOISE:
        place = home / NOISE[shell]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("echo noise of a startup file\nprintf 'and more'\n")
    # A number that no other test has, nor a container: what runs for this user is found by it.
    number = ["--uid", str(1_000_000 + uuid.uuid4().int % 1_000_000_000)]
    useradd = ["useradd", *number, "--no-create-home", "--home-dir", str(home), "--shell", program]
    subprocess.run([*useradd, name], check=True, capture_output=True)
    subprocess.run(["usermod", "--password", "*", name], check=True, capture_output=True)
    subprocess.run(["chown", "-R", name, str(home)], check=True)
    return name


def _client(folder: Path, port: int, users: Mapping[str, str], silent: int) -> dict[str, str]:
    public = (folder / "host.pub").read_text().split()
    other = (folder / "other-host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    (folder / "changed").write_text(f"[127.0.0.1]:{port} {other[0]} {other[1]}\n")
    (folder / "nobody").touch()
    any_user = next(iter(users.values()))

    def host(
        alias: str, user: str, *, key: str = "user", known: str = "known", at: int = port
    ) -> str:
        return (
            f"Host {alias}\n  HostName 127.0.0.1\n  Port {at}\n  User {user}\n"
            f"  IdentityFile {folder}/{key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/{known}\n  GlobalKnownHostsFile none\n"
        )

    hosts = [host(f"node-{shell}", user) for shell, user in users.items()]
    hosts += [
        host("stranger", any_user, known="nobody"),
        host("changed", any_user, known="changed"),
        host("locked", any_user, key="wrong"),
        host("closed", any_user, at=free_port()),
        host("silent", any_user, at=silent),
        "Host nowhere\n  HostName no-such-host.invalid\n",
    ]
    (folder / "config").write_text("\n".join(hosts))
    (folder / "bin").mkdir()
    ssh = folder / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    ssh.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}

# A command for a node is a command for OpenSSH: user, port, keys, jump hosts and host keys are those of the user's own
# configuration, and nothing of it is switched off. Quoting stands in one function.
#
# The hard idea is the form of what is sent. sshd hands one string to the login shell of the user, which may be bash,
# zsh, fish, dash or tcsh, and each reads quotes, `!`, `=` and backslashes in another way. So the string has nothing in it
# that any of them reads otherwise: the true script, for /bin/sh, travels as base64.
#
# The other one is how it ends. Without a terminal, sshd ends nothing that it started: not when ssh is killed here, and not
# when the machine here is gone. So each command has a name there, by which another command ends it; and it is watched
# from beside itself, and ended when the sshd that it was started for is gone.
"""Commands over SSH."""

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType

from vllm_graft.errors import NodeError
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node

_MORE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
"""Where engines are; a shell that is no login shell may know less. Behind what the node's own PATH says."""

_LONGEST = 96_000
"""Bytes of a script: one argument of a process may have 128 KiB, and base64 makes four of three.
Source: MAX_ARG_STRLEN in Linux, include/uapi/linux/binfmts.h."""

_MASTER_TIME = timedelta(seconds=60)
_ENDING_TIME = timedelta(seconds=10)

_WATCHED = """\
{begin}
(read -r a b c p d </proc/$$/stat && [ "$p" = $PPID ] || exit
trap 'kill -9 $!; exit' TERM
while sleep 2 & wait $!; read -r a b c p d </proc/$$/stat && [ "$c" != Z ]; do
[ "$p" = $PPID ] || kill -9 -$$
done) </dev/null >/dev/null 2>&1 &
{words}
p=$?; kill $! 2>/dev/null; exit $p"""
"""What /bin/sh runs there. ``words`` is not exec'd: a program that a signal ends would look like a lost connection, since sshd
gives neither a status. Beside it is a watch: where another process has become the parent of the shell, sshd has gone, and the
process group is ended that sshd made for this command. Where the shell has ended it ends too, and what the command left on
purpose stays. Its descriptors are elsewhere, or sshd would wait for its end. Where /proc is not of this machine it watches nothing.
Source: OpenSSH 9.2, session.c, do_exec_no_pty (setsid); proc(5), /proc/PID/stat, fields 3 and 4."""

_END = """\
for found in $(grep -lsF -e {name} /proc/[0-9]*/cmdline); do
  process=${{found#/proc/}}; process=${{process%/cmdline}}
  kill -9 -$process{by_root}
done 2>/dev/null
exit 0
"""
"""Only what leads a process group is ended by it, with its group; not this script, and not grep."""

_NOBODY = MappingProxyType({"SSH_ASKPASS_REQUIRE": "never", "SSH_ASKPASS": "false"})
"""BatchMode does not reach the ssh that connects to a host on the way. Source: ssh(1), ENVIRONMENT; OpenSSH below 8.4 knows
the second alone."""

OPTIONS = (
    # Nobody is there to type; what would be asked for is told as an error instead.
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    # A node that is lost is noticed within a minute, also in the middle of a stream.
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
    # For what the user opens by hand, and in the way of a command.
    *("-o", "RemoteCommand=none", "-o", "RequestTTY=no", "-o", "ClearAllForwardings=yes"),
    # Banners of machines are no complaints.
    *("-o", "LogLevel=ERROR"),
)
"""Of every connection; none of them is about whom to trust."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The one connection to a node; every command goes through it."""

    node: Node
    control: str
    """Path of its socket; short, since a socket's path has about 100 bytes at most."""

    def __call__(self, command: Command) -> Command:
        """Give the command that runs this one on the node."""
        return over(command, self)


def quote(argv: Sequence[str], marker: str) -> str:
    """Write an argv so that every login shell runs it: the one place where words become a string.

    What the shell's startup files print stands before ``marker`` on stdout.

    Raises:
        NodeError: E500, it is too long.
    """
    words = " ".join(map(shlex.quote, argv))
    return f"exec {shell(_WATCHED.format(begin=begin(marker), words=words))}"


def begin(marker: str) -> str:
    """Give how a script begins on a node: with the marker, and with a PATH that has what is needed."""
    return f"printf '%s\\n' {marker} || exit; PATH=$PATH:{_MORE_PATH}; export PATH"


def shell(script: str) -> str:
    """Write a script so that whatever splits words at quotes and spaces hands it to /bin/sh as it is.

    Words that are put behind it become ``$0``, ``$1`` and so on.

    Raises:
        NodeError: E500, it is too long.
    """
    content = script.encode("utf-8", "surrogateescape")
    if len(content) > _LONGEST:
        raise NodeError(
            f"a command of {len(content):,} bytes is too long to be sent to a node: {script[:60]} …",
            remedy="this is a defect of vllm-graft: please report it",
            code="E500",
        )
    text = base64.b64encode(content).decode()
    # A startup file may have left a PATH on which not even base64 is.
    return f"""/bin/sh -c 'PATH=$PATH:/usr/bin:/bin; eval "$(echo {text} | base64 -d)"'"""


def over(command: Command, connection: Connection) -> Command:
    """Give the command that runs this one on a node."""
    digest = hashlib.sha256("\0".join(command.argv).encode("utf-8", "surrogateescape"))
    marker = f"vllm-graft-{digest.hexdigest()[:20]}"
    argv = ("ssh", *OPTIONS, *_on(connection, "no"), quote(command.argv, marker))
    return replace(
        command,
        argv=argv,
        marker=f"{marker}\n".encode(),
        node=connection.node.name,
        inner=command.argv,
    )


def asking_nobody(command: Command, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Give the variables under which a command is run: no ssh opens a window to ask somebody."""
    return {**variables, **_NOBODY} if command.argv[0] == "ssh" else variables


def ask_why(connection: Connection) -> Command:
    """Try once more without what is shared: what a host on the way says is hidden else.

    Source: OpenSSH 9.2, sshconnect.c, ssh_proxy_connect: with ControlPersist its stderr is /dev/null.
    """
    first = Command(
        argv=("true",), why=f"see why {connection.node} is not reached", timeout=_MASTER_TIME
    )
    return over(first, replace(connection, control="none"))


def named(command: Command, name: str) -> Command:
    """Give a command of a node a name there, in the arguments of its process; of letters, digits and ``-``."""
    return replace(command, argv=(*command.argv[:-1], f"{command.argv[-1]} {name}"))


def end_named(command: Command, name: str) -> Command:
    """End what a command began on its node under this name; only through the connection that stands.

    What sudo runs as root for this user, only root may end, where sudo allows that; else it ends when it next reads
    or writes.
    """
    by_root = "; sudo -n kill -9 -- -$process" if command.inner[:1] == ("sudo",) else ""
    script = _END.format(name=name, by_root=by_root)
    return _through_what_stands(command, (), (quote(("sh", "-c", script), "end"),))


def end_all(command: Command) -> Command:
    """End the connection that a command goes through, and with it everything that goes through it."""
    return _through_what_stands(command, ("-O", "exit"), ())


def _through_what_stands(
    command: Command, before: tuple[str, ...], behind: tuple[str, ...]
) -> Command:
    ssh, *options, separator, node, _ = command.argv
    # What comes first holds: where there is no connection any more, none is made for this.
    never = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
    return replace(
        command,
        argv=(ssh, *never, *options, *before, separator, node, *behind),
        why=f"end what was begun on {node}",
        stdin=b"",
        timeout=_ENDING_TIME,
    )


def open_connection(connection: Connection, ciphers: Sequence[str] = ()) -> Command:
    """Open the connection; it ends by itself a minute after the last command, should nobody end it.

    ``ciphers``: those that the user's configuration has for this node, in the order in which they are to be offered; empty: as
    they are there.
    """
    first = Command(argv=("true",), why=f"connect to {connection.node}", timeout=_MASTER_TIME)
    sent = over(first, connection)
    own = ("-o", "ControlPersist=60", *(("-o", f"Ciphers={','.join(ciphers)}") if ciphers else ()))
    argv = ("ssh", *OPTIONS, *own, *_on(connection, "yes"), sent.argv[-1])
    return replace(sent, argv=argv)


def _on(connection: Connection, master: str) -> tuple[str, ...]:
    # `--`: a name can be no option. Ours come before the user's own of the same name; only those named here.
    settings = ("-o", f"ControlMaster={master}", "-o", f"ControlPath={connection.control}")
    return (*settings, "--", connection.node.name)


def close_connection(connection: Connection) -> Command:
    """End the connection."""
    argv = ("ssh", "-o", f"ControlPath={connection.control}", "-O", "exit", "--")
    return Command(
        argv=(*argv, connection.node.name),
        why=f"end the connection to {connection.node}",
        timeout=_MASTER_TIME,
    )


def reach_port(connection: Connection, host: str, port: int) -> Command:
    """Lead stdin and stdout to a port that is reached from the node; ends with the other side.

    Through the one connection while it stands; after it was lost, through one of its own.
    """
    argv = ("ssh", *OPTIONS, "-W", f"{f'[{host}]' if ':' in host else host}:{port}")
    return Command(
        argv=(*argv, *_on(connection, "no")),
        why=f"ask {host}:{port} on {connection.node}",
        timeout=None,  # whoever asks there waits as long as that question is worth
    )


def forward_socket(connection: Connection, there: str, here: str) -> Command:
    """Make a socket of the node one of this machine, for as long as the connection stands."""
    argv = (
        "ssh",
        "-o",
        f"ControlPath={connection.control}",
        "-O",
        "forward",
        "-L",
        f"{here}:{there}",
    )
    return Command(
        argv=(*argv, "--", connection.node.name),
        why=f"read through the engine's socket on {connection.node}",
        timeout=_MASTER_TIME,
    )

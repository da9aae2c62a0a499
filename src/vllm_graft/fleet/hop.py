# One machine sends to another without this one in between: the ssh of one of them is run there, as its own user has it set
# up. What goes through is an argv once more, in the form that every login shell understands, and what the login shell
# prints of itself is taken away before the bytes.
#
# The hard idea is the shell script around it. A pipeline ends with the status of its last part alone, so the status of each
# part is written to a descriptor of its own (3) and read behind it; what is told while it runs goes to another (5).
"""Commands from one node to another."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vllm_graft.errors import NodeError
from vllm_graft.fleet.ssh import begin, quote, shell
from vllm_graft.values.command import Command, Completed

LOST = 254
"""Status of a command beyond a hop that could not be reached, or was lost: 255 is what ssh says of the machine before it."""

HopKind = Literal["push", "pull", "relay"]
"""``push``: the sender connects to the receiver; ``pull``: the receiver to the sender; ``relay``: neither can, all goes through
this machine."""

_BEYOND = """\
exec 4>&1
ended=$( { { "$@" 3>&- 4>&-; echo "$?" >&3; } | {
    while IFS= read -r line; do case $line in *%(marker)s) exec cat 3>&- >&4;; esac; done
} } 3>&1 )
[ "$ended" != 255 ] || exit %(lost)s
exit "$ended"
"""
"""``read`` takes single bytes from a pipe, so nothing behind the marker is lost."""

_PIPED = """\
exec 5>&1
count() { cat; }
if dd if=/dev/null status=progress 2>/dev/null; then count() { LC_ALL=C dd bs=1M status=progress 2>&5; }; fi
ended=$( { { %(produce)s 3>&- 5>&-; echo "a$?." >&3; } | count 3>&- | { %(take)s >&2 3>&- 5>&-; echo "b$?." >&3; }; } 3>&1 )
took=${ended#*b}
[ "${took%%%%.*}" = 0 ] || exit "${took%%%%.*}"
made=${ended#*a}
exit "${made%%%%.*}"
"""
"""Without GNU's dd (``status=progress``: coreutils 8.24) nothing is told while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """How one machine sends to another."""

    sender: str
    """Name of the machine, as the user calls it."""
    receiver: str
    kind: HopKind
    ssh: tuple[str, ...] = ()
    """What connects: ``ssh``, its options, and the destination last. Empty for ``relay``."""
    address: str = ""
    """Of the machine that is connected to, as that sees it itself."""
    interface: str = ""
    """Of the machine that is connected to, which has ``address``; empty: not known."""
    rate: int = 0
    """Bytes a second, measured before anything is sent; 0: not measured."""

    @property
    def client(self) -> str:
        """Give the machine whose ssh is run; for ``relay`` it has none."""
        return self.receiver if self.kind == "pull" else self.sender

    @property
    def said(self) -> str:
        """Give the path in words: ``over 192.168.100.11 (enp1s0f1np1)``."""
        if self.kind == "relay":
            return "through this machine"
        where = f" ({self.interface})" if self.interface else ""
        return f"over {self.address}{where}" if self.address else "over its name"

    def __call__(self, command: Command) -> Command:
        """Give what is to be run on the one machine so that this command runs on the other.

        Its stdin and stdout pass through. It ends with the command's status, or with :data:`LOST`.
        """
        marker = _marker(command.argv)
        script = _BEYOND % {"marker": marker, "lost": LOST}
        argv = ("/bin/sh", "-c", script, "sh", *self.ssh, quote(command.argv, marker))
        return replace(command, argv=argv, inner=command.argv)

    @property
    def remote_shell(self) -> str:
        """Give what rsync takes behind ``-e``; the host that is named to rsync is not looked at.

        With ``--protect-args`` all that rsync appends are plain words. Source: rsync 3.1 to 3.5, main.c, do_cmd: the string is
        split at spaces, quotes hold a word together.
        """
        marker = _marker(("rsync",))
        there = shell(f'{begin(marker)}; exec "$0" "$@"')
        connect = f'set -- {shlex.join(self.ssh)} "exec {_in_double_quotes(there)} $*"'
        beyond = _BEYOND % {"marker": marker, "lost": LOST}
        return f"{shell(f'{connect}{_NEW_LINE}{beyond}')}"


_NEW_LINE = "\n"


def _in_double_quotes(text: str) -> str:
    return re.sub(r'(["$`\\])', r"\\\1", text)


def _marker(argv: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(argv).encode("utf-8", "surrogateescape"))
    return f"vllm-graft-hop-{digest.hexdigest()[:20]}"


def piped(produce: Command, take: Command) -> Command:
    """Give one command that hands what the one says to the other.

    On its stdout stands how much has gone through (see :func:`bytes_through`), on stderr all that both say. It ends with the
    status of ``take``, or that of ``produce`` where ``take`` was content.
    """
    script = _PIPED % {"produce": shlex.join(produce.argv), "take": shlex.join(take.argv)}
    return replace(
        take,
        argv=("/bin/sh", "-c", script),
        stdin=produce.stdin,
        inner=(*(produce.inner or produce.argv), "|", *(take.inner or take.argv)),
    )


def through(hop: Hop, produce: Command, take: Command) -> Command:
    """Give what is to be run on ``hop.client`` so that what ``produce`` says on the sender is handed to ``take`` on the receiver.

    As for :func:`piped`; a relay has no such command.
    """
    if hop.kind == "pull":
        return piped(hop(produce), take)
    return piped(produce, hop(take))


_THROUGH = re.compile(rb"(\d+) bytes")


def bytes_through(said: bytes) -> int | None:
    """Read how many bytes have gone through; None where this says nothing of it.

    Source: GNU coreutils 8.24 to 9.7, dd.c: ``524288000 bytes (524 MB, 500 MiB) copied, 1 s, 524 MB/s``, behind a carriage return.
    """
    found = _THROUGH.findall(said)
    return int(found[-1]) if found else None


def hop_lost(answer: Completed, hop: Hop) -> NodeError | None:
    """Say that one machine lost the other while a command ran; None where it did not."""
    if answer.status != LOST:
        return None
    server = hop.sender if hop.kind == "pull" else hop.receiver
    return NodeError(
        f"{hop.client} lost its connection to {server}: {answer.last_lines() or 'ssh ended with status 255'}",
        remedy="see that the machine is up and run this again: what has arrived is not sent twice",
        code="E551",
    )

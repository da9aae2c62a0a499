# Each round trip to a node costs a process here, one there and a login shell: more than most answers cost. So questions that
# are known beforehand go together, and each is answered in a part of its own, on stdout and on stderr.
#
# What is not answered as it should be, is not read from here: whoever asks asks for that alone once more.
"""Several questions to a machine in one."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from vllm_graft.values.command import Command, Completed

_PART = "vllm-graft-part"

ASKING = f"""\
part() {{ printf '\\n{_PART} %s\\n' "$1"; printf '\\n{_PART} %s\\n' "$1" >&2; }}
ask() {{ part "$1"; shift; "$@" </dev/null; ended=$?; part "ended $ended"; return "$ended"; }}
"""
"""Begins a script in which ``ask NAME WORD ...`` runs a command as a part."""
_READ = re.compile(
    rf"\n{_PART} (?!ended )([^\n]*)\n(.*?)\n{_PART} ended (\d+)\n".encode(), re.DOTALL
)


def together(commands: Sequence[Command], *, why: str) -> Command:
    """Give one command that runs these, one after another, however each ends; what one is given to read is not handed on."""
    lines = [f"ask {number} {shlex.join(each.argv)}" for number, each in enumerate(commands)]
    limits = [each.timeout for each in commands if each.timeout is not None]
    return Command(
        argv=("/bin/sh", "-c", ASKING + "\n".join((*lines, "exit 0"))),
        why=why,
        timeout=sum(limits, timedelta()),
    )


def parse_together(answer: Completed, commands: Sequence[Command]) -> tuple[Completed, ...]:
    """Read how each command ended; nothing where not all of them did."""
    parts = parts_of(answer)
    if any(str(number) not in parts for number in range(len(commands))):
        return ()
    return tuple(
        replace(parts[str(number)], command=command) for number, command in enumerate(commands)
    )


def parts_of(answer: Completed) -> Mapping[str, Completed]:
    """Read the parts that a script with :data:`ASKING` asked for, by their names."""
    complaints = {name: said for name, said, _ in _READ.findall(answer.stderr)}
    return {
        name.decode("utf-8", "replace"): replace(
            answer, status=int(status), stdout=said, stderr=complaints.get(name, b"")
        )
        for name, said, status in _READ.findall(answer.stdout)
    }

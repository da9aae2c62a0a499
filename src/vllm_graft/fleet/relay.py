# One machine gets a stream and hands it on to the next while it takes it in itself. So a stream of any length is with the
# last machine hardly later than with the first, each link carries it once, and nothing is kept on the way.
#
# What one of them cannot do keeps no other from its own: a machine whose engine refuses hands on all the same, and one that
# loses the next one takes in to the end. How each fared is told in a line of its own, on stderr, all the way back.
"""A stream through a chain of machines."""

import base64
import binascii
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_graft.fleet.hop import Hop
from vllm_graft.values.command import Command, Completed

LONGEST = 8
"""Machines in a chain. What is run on the first one holds what is run on all behind it, in base64 over base64: a third more
for each; sixteen would be more than ssh takes."""

_TOOK = "vllm-graft-took"

_TAKE = """\
said=$( {take} 2>&1 ); ended=$?
printf '%s\\n' "{took} {name} $ended $(printf %s "$said" | tail -c 2000 | base64 | tr -d '\\n')" >&2
exit 0
"""
"""The status is told in the line: some have a meaning for whatever stands before it."""

_AND_HAND_ON = """\
keep_on=
if tee -p </dev/null >/dev/null 2>&1; then keep_on=-p; fi
{{ tee $keep_on /dev/fd/3 | {{
{take}}} 3>&- >&2; }} 3>&1 | {next} >&2
exit 0
"""
"""Source: GNU coreutils 8.24 to 9.7, tee.c: with ``-p`` it goes on where a pipe that it writes to is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A machine in a chain."""

    name: str
    take: Command
    """What takes the stream in there, as it is run there."""
    hop: Hop | None = None
    """From the machine before it, which connects; None for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How the machine of a link fared."""

    name: str
    answer: Completed
    """Of what takes the stream in; both that it said are in ``stderr``."""


def chained(links: Sequence[Link]) -> Command:
    """Give what is to be run on the first machine of a chain: all machines take in what it gets on its stdin.

    How each fared :func:`parse_took` tells, and not the status.
    """
    link, *behind = links
    script = _taking(link)
    if behind:
        hop = behind[0].hop
        assert hop is not None, "only the first of a chain has none"
        script = _AND_HAND_ON.format(take=script, next=shlex.join(hop(chained(behind)).argv))
    return replace(link.take, argv=("/bin/sh", "-c", script), inner=link.take.argv)


def _taking(link: Link) -> str:
    return _TAKE.format(take=shlex.join(link.take.argv), took=_TOOK, name=shlex.quote(link.name))


_LINE = re.compile(rf"^{_TOOK} (\S+) (\d+) ([A-Za-z0-9+/=]*)$", re.MULTILINE)


def parse_took(answer: Completed, links: Sequence[Link]) -> tuple[Took, ...]:
    """Read how each machine of a chain fared; one that was lost, or was not reached, says nothing."""
    said = answer.stderr.decode("utf-8", "replace")
    told = {name: (int(status), text) for name, status, text in _LINE.findall(said)}
    return tuple(
        Took(
            name=link.name,
            answer=replace(
                answer,
                command=link.take,
                status=told[link.name][0],
                stdout=b"",
                stderr=_decoded(told[link.name][1]),
            ),
        )
        for link in links
        if link.name in told
    )


def beside(answer: Completed) -> str:
    """Give what was said beside those lines: why one of them is not there."""
    said = answer.stderr.decode("utf-8", "replace")
    lines = [line.strip() for line in _LINE.sub("", said).splitlines()]
    return "\n".join([line for line in lines if line][-5:])


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""

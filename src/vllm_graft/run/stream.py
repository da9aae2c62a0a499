# An archive that is made here, or what an engine elsewhere says, goes into a chain of machines. What it costs is measured here.
"""Sending an image to the first of a chain."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllm_graft.fleet.hop import Hop, hop_lost, piped
from vllm_graft.fleet.path import give_zeros, is_measured, parse_rate, take_zeros
from vllm_graft.image.inside_archive import packed
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import run_command, run_fed
from vllm_graft.run.send import Heard, send
from vllm_graft.values.command import Command, Completed

_MEASURED = (1, 4, 4)
"""MiB; the first will do where they pass at once, or in no short time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Where a stream goes."""

    hop: Hop
    """To the first machine."""
    first: Machine
    take: Command
    """What is run there."""
    rate: int
    """Bytes a second of the slowest link, as for ``packed``; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """How the first command of a chain ended."""

    answer: Completed
    sent: int
    """Bytes."""
    took: int
    """Milliseconds."""


def rate_to(machine: Machine) -> int:
    """Measure the link from this machine to another: bytes a second; 0 where it cannot be measured."""
    best = 0
    for size in _MEASURED:
        sent = piped(give_zeros(size), machine.command(take_zeros()))
        # Not as a command of the node: what its login shell prints is of no interest here.
        command = Command(argv=sent.argv, why=sent.why, timeout=sent.timeout)
        rate = parse_rate(run_command(command, variables=machine.variables))
        best = max(best, rate)
        if is_measured(size, rate):
            break
    return best


def stream_archive(pieces: Iterable[bytes], chain: Chain, heard: Heard) -> Streamed:
    """Hand an archive that is made here to a chain.

    Raises:
        NodeError: E501 to E503, E507, E551.
    """
    began, count = time.monotonic(), 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for piece in packed(pieces, chain.rate, time.monotonic):
            yield piece
            count += len(piece)
            heard(count)

    by_name = chain.hop.kind == "relay"
    command = chain.first.command(chain.take) if by_name else chain.hop(chain.take)
    answer = run_fed(command, counted(), variables=chain.first.variables)
    if (error := hop_lost(answer, chain.hop)) is not None:
        raise error
    return Streamed(answer=answer, sent=count, took=_since(began))


def stream_command(produce: Command, sender: Machine, chain: Chain, heard: Heard) -> Streamed:
    """Hand what a command says on one machine to a chain.

    Raises:
        NodeError: E501 to E503, E507, E551.
    """
    began, count = time.monotonic(), 0

    def counting(so_far: int) -> None:
        nonlocal count
        count = so_far
        heard(so_far)

    answer = send(chain.hop, (sender, chain.first), (produce, chain.take), counting)
    return Streamed(answer=answer, sent=count, took=_since(began))


def _since(began: float) -> int:
    return round(1000 * (time.monotonic() - began))

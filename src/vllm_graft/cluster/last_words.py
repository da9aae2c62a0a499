"""What is told of ranks that ended, or of a start that came to nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.cluster.containers import FoundContainer
from vllm_graft.cluster.launch import role_of
from vllm_graft.rehearse.log_causes import diagnose_log
from vllm_graft.rehearse.log_line import harmless
from vllm_graft.rehearse.signatures import Signature
from vllm_graft.values.deployment import Member
from vllm_graft.values.log import LogEvent

_LINES = 8
"""Of each rank, in a message."""
_WIDEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A member, how its container is, and what it said."""

    member: Member
    found: FoundContainer | None
    """None: there is none, or its node does not say."""
    log: tuple[str, ...] = ()
    error: LogEvent | None = None
    """The first cause that its log names, or the first exception where none is known."""

    @property
    def has_ended(self) -> bool:
        """Tell whether its container was started and does not run any more."""
        return self.found is not None and not self.found.is_alive

    @property
    def told(self) -> str:
        """Say how it is."""
        how = self.found.told if self.found is not None else "is gone"
        return f"rank {self.member.rank} ({role_of(self.member)}) on {self.member.node} {how}"


def first_ended(ranks: Sequence[Rank]) -> Rank | None:
    """Give the rank that ended first, by the clocks of the nodes; None where all run.

    The others often end of it, with words that say nothing of the cause.
    """
    gone = [rank for rank in ranks if rank.found is None]
    ended = [rank for rank in ranks if rank.found is not None and not rank.found.is_alive]
    return min(
        ended, key=lambda rank: rank.found.finished if rank.found else "", default=None
    ) or next(iter(gone), None)


def first_error(log: Sequence[str], signatures: Sequence[Signature]) -> LogEvent | None:
    """Find in a log what its last lines seldom show: the first error, not what followed from it."""
    told = diagnose_log("", ("\n".join((*log, "")),), signatures)
    return told.first or next(iter(told.unexplained), None)


def told_together(ranks: Sequence[Rank], first: Rank | None) -> str:
    """Give what each rank said, that of ``first`` before the others, each line with the name of its node."""
    ordered = sorted(ranks, key=lambda rank: rank is not first)
    return "".join(_said(rank) for rank in ordered)


def _said(rank: Rank) -> str:
    lines = [f"\n  {rank.told}" + ("" if rank.log else "; it said nothing")]
    if rank.error is not None:
        at = f"line {rank.error.line} of its log"
        lines += [
            f"  {rank.member.node} | {harmless(rank.error.text)[:_WIDEST]}",
            f"    its first error, {at}",
        ]
        lines += [f"    {rank.error.cause}"] if rank.error.cause else []
    lines += ["  its last lines:"] if rank.log else []
    lines += [f"  {rank.member.node} | {harmless(line)[:_WIDEST]}" for line in rank.log[-_LINES:]]
    return "\n".join(lines)


def known_remedy(ranks: Sequence[Rank], first: Rank | None) -> str:
    """Give what to do about the first error, where that is known; empty where it is not."""
    ordered = sorted(ranks, key=lambda rank: rank is not first)
    return next((rank.error.remedy for rank in ordered if rank.error and rank.error.remedy), "")


def logs_by_name(ranks: Sequence[Rank]) -> Mapping[str, bytes]:
    """Give the files in which logs are kept, by name; who said nothing has none."""
    return {
        f"rank-{rank.member.rank}.log": "\n".join((*rank.log, "")).encode()
        for rank in ranks
        if rank.log
    }

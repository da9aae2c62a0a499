"""A receipt: what an action did, or that there was nothing to do."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import PlanSource
from vllm_graft.values.route import NOT_COMPARED, RouteDecision

RECEIPT_SCHEMA = "vllm-graft/receipt/1"
NOTHING_TO_DO_SCHEMA = "vllm-graft/nothing-to-do/2"

Outcome = Literal["applied", "already applied", "reverted", "nothing to revert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReceipt:
    """What was done, or with ``dry_run`` what would have been."""

    outcome: Outcome
    dry_run: bool
    root: str
    """The folder that holds ``vllm/``."""
    plan: Digest
    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    recovered: tuple[Digest, ...] = ()
    """Plans that an earlier run was ended in the middle of, and that were undone first."""
    same_base: bool = True
    """Whether the install was, file for file, the base that was planned for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """The base has everything that was asked for: there is no plan."""

    base: PlanSource
    present: tuple[str, ...]
    """Where the base has it, one sentence each."""
    route: RouteDecision = NOT_COMPARED

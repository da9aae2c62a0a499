"""A memory plan as what stops a verb, and as findings."""

from collections.abc import Iterator

from vllm_graft.errors import NodeError
from vllm_graft.values.amount import a_few, memory
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.memory_plan import MemoryPlan, NodeShare


def refuse_too_large(plan: MemoryPlan, model: str) -> None:
    """Refuse what vLLM would refuse after it has loaded for minutes, for all nodes together.

    Raises:
        NodeError: E583.
    """
    short = [each for each in plan.nodes if each.verdict == "does not fit"]
    if short:
        told = "".join(f"\n  {each.budget.node}: {each.cause}{_users(each)}" for each in short)
        raise NodeError(
            f"{model} ({memory(plan.size)} of weights) does not fit with {plan.topology}:{told}",
            remedy=remedy_of(plan, short[0]),
            code="E583",
        )


def memory_findings(plan: MemoryPlan) -> Iterator[NodeFinding]:
    """Say what would stop ``up`` (E583) and what may (N212); that a share is not free is N207's to say."""
    for each in plan.nodes:
        if each.verdict not in ("does not fit", "tight") or each.budget.available < each.asked:
            continue
        is_refused = each.verdict == "does not fit"
        yield NodeFinding(
            code="E583" if is_refused else "N212",
            severity="blocked" if is_refused else "review",
            nodes=(each.budget.node,),
            stops=("up",),
            wanted=f"room for the model with {plan.topology}",
            found=each.cause + _users(each),
            remedy=remedy_of(plan, each),
        )


def remedy_of(plan: MemoryPlan, short: NodeShare) -> str:
    """Say what would help, the least first."""
    found: list[str] = []
    budget = short.budget
    if budget.available < short.asked:
        found.append(
            f"stop what else has memory on {budget.node}"
            + ("" if budget.users else " (ps aux --sort=-rss)")
        )
    if plan.flags:
        found.append(f"say {' '.join(plan.flags)} in [serve] args")
    if plan.smallest and not plan.flags:
        found.append(f"share it out further: {plan.smallest} would do")
    if not found:
        found.append(
            "take a smaller or more strongly quantised release of the model, more nodes, or a shorter --max-model-len"
        )
    return ", or ".join(found)


def _users(share: NodeShare) -> str:
    users = share.budget.users
    return f" ({a_few(users, 3)})" if users and share.budget.available < share.asked else ""

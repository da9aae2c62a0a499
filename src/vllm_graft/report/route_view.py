# The route in sentences, once for text, Markdown and HTML.
"""The route of a plan, arranged for reading."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_graft.values.route import Difference, RouteCandidate, RouteCost, RouteDecision

_SHOWN = 6
_WAYS = {"several nodes": "yes", "one node": "one node", "nothing": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRow:
    """One route."""

    route: str
    possible: str
    """``yes``, ``one node`` (it serves no more) or ``no``."""
    reason: str
    costs: tuple[tuple[str, str], ...]
    """What is added and what is lost: heading and text."""
    evidence: tuple[tuple[str, str], ...]
    """Fact, and where it was read."""
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """All that is said of routes."""

    headline: str
    reasons: tuple[str, ...]
    rows: tuple[RouteRow, ...]


def view_route(decision: RouteDecision, *, shown: int = _SHOWN) -> RouteView | None:
    """Arrange a decision, long lists cut to ``shown``; None where nothing was compared."""
    if not decision.candidates:
        return None
    chosen = [each for each in decision.recommended if each.route == decision.chosen]
    told = chosen or decision.recommended
    return RouteView(
        headline=_headline(decision),
        reasons=tuple(dict.fromkeys(reason for each in told for reason in each.reasons)),
        rows=tuple(_row(each, decision, shown) for each in decision.candidates),
    )


def _headline(decision: RouteDecision) -> str:
    ways = {each.nodes: each.route for each in decision.recommended}
    many = {1: "one node"}.get(decision.nodes, f"{decision.nodes} nodes")
    if decision.nodes:
        advice = f"recommended for {many}"
        other = f"{next(iter(ways.values()))} is {advice}"
    elif len(set(ways.values())) == 1:
        advice = "recommended, for one node and for several"
        other = f"{next(iter(ways.values()))} is {advice}"
    else:
        told = [f"{route} for {nodes}" for nodes, route in ways.items()]
        mine = next((nodes for nodes, route in ways.items() if route == decision.chosen), "none")
        rest = [f"{route} for {nodes}" for nodes, route in ways.items() if nodes != mine]
        advice = f"recommended for {mine}; {', '.join(rest)}"
        other = f"recommended: {', '.join(told)}"
    if not decision.asked:
        return f"{decision.chosen}, {advice}"
    if set(ways.values()) == {decision.chosen}:
        return f"{decision.chosen}, as asked, and {advice}"
    return f"{decision.chosen}, as asked; {other}"


def _row(candidate: RouteCandidate, decision: RouteDecision, shown: int) -> RouteRow:
    told = candidate.serves != "nothing" and candidate.route != "rebuild"
    costs = tuple(cost_lines(candidate.cost, shown)) if told else ()
    before = decision.candidate("donor-as-is")
    if candidate.route == "donor+ray" and before is not None and costs:
        known = set(cost_lines(before.cost, shown))
        costs = tuple(each for each in costs if each not in known or each[0] == "layer")
        costs = (*costs, ("else", "as donor-as-is"))
    return RouteRow(
        route=candidate.route,
        possible=_WAYS[candidate.serves],
        reason=candidate.reason,
        costs=costs,
        evidence=tuple((each.fact, each.where) for each in candidate.evidence),
        steps=candidate.steps if decision.chosen == candidate.route else (),
    )


def cost_lines(cost: RouteCost, shown: int) -> Iterator[tuple[str, str]]:
    """Give what a route adds and what would not be as in the base."""
    size = f", {cost.layer_bytes:,} bytes" if cost.layer_bytes else ""
    yield "layer", f"{cost.layer}{size}"
    if cost.launchers:
        yield "scripts lost", _few(cost.launchers, shown)
    if cost.settings:
        yield "settings", _few([_change(each) for each in cost.settings], shown)
    if cost.distributions:
        lost = sum(not each.instead for each in cost.distributions)
        counted = f"{len(cost.distributions)} differ, {lost} of them are not there: "
        yield "distributions", counted + _few([_change(each) for each in cost.distributions], shown)
    if cost.native:
        yield "GPU code", _few([_change(each) for each in cost.native], shown)
    for sentence in cost.not_told:
        yield "not told", sentence


def _change(difference: Difference) -> str:
    return f"{difference.name} {difference.base or 'none'} → {difference.instead or 'none'}"


def _few(told: Sequence[str], shown: int) -> str:
    more = f"; and {len(told) - shown} more" if len(told) > shown else ""
    return "; ".join(told[:shown]) + more

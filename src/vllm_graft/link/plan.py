# From two installs and a request to a plan: layout, roots, link, texts, edits, findings, verdict. Everything that
# decides is elsewhere; this file puts the answers in order.
"""Plan a graft between two installs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from vllm_graft.errors import SourceError
from vllm_graft.link.absent import refuse_absent
from vllm_graft.link.decide import SERVES_THE_ENGINE, Decisions
from vllm_graft.link.edits import EditRequest, plan_edits
from vllm_graft.link.emit import emit
from vllm_graft.link.engine_questions import finding_of, questions_of_the_engine
from vllm_graft.link.exact_types import check_exact_types
from vllm_graft.link.index import Found, Index
from vllm_graft.link.inserted import check_inserted
from vllm_graft.link.layout import Layout, read_layout
from vllm_graft.link.linked import Linked, Root
from vllm_graft.link.making import makes_alike
from vllm_graft.link.methods import check_methods, check_targets
from vllm_graft.link.outside import check_native
from vllm_graft.link.pair import Pair
from vllm_graft.link.requirements import check_requirements
from vllm_graft.link.resolution import version_suffix
from vllm_graft.link.roots import RootPart, Roots, find_roots
from vllm_graft.link.side_by_side import Comparisons
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.taught import link_with_words
from vllm_graft.link.vllm import REGISTRY_PATH, room_of
from vllm_graft.link.words import ComparedWords, check_words
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.install import Install
from vllm_graft.values.plan import (
    PLAN_SCHEMA,
    EditSite,
    GraftPlan,
    PlanSource,
    Reference,
    Rung,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """What is asked of the linker."""

    architectures: tuple[str, ...]
    config: Mapping[str, object] | None = None
    """The model's config.json, where it is at hand."""
    features: tuple[str, ...] = ()
    """``mtp``, ``reasoning-parser=NAME``, ``tool-parser=NAME``."""


class LinkSession:
    """Two installs, read once; plans over them share what they find out."""

    def __init__(self, base: Install, donor: Install) -> None:
        """Take two installs; they are read when a plan asks."""
        self.base = base
        self.donor = donor
        self._donor_trees = SourceTrees(donor.files)
        self._base_trees = SourceTrees(base.files)
        self._pair = Pair(
            Index(self._donor_trees, "donor"),
            Index(self._base_trees, "base"),
            room_of,
            base.native,
        )
        self._compared = ComparedWords(self._pair.donor, lambda module: room_of(module) == "engine")

    @cached_property
    def base_layout(self) -> Layout:
        """The base's tables.

        Raises:
            SourceError: a file that holds one is no valid Python.
        """
        return read_layout(self._base_trees, install="base")

    @cached_property
    def donor_layout(self) -> Layout:
        """The donor's tables.

        Raises:
            SourceError: a file that holds one is no valid Python.
        """
        return read_layout(self._donor_trees, install="donor")

    def roots(self, request: LinkRequest) -> Roots:
        """Find what the donor has of what is asked for.

        Raises:
            RequestError: the donor has no such architecture or feature.
            SourceError: a file of the donor is no valid Python.
        """
        return find_roots(
            self.donor_layout,
            self._donor_trees,
            architectures=request.architectures,
            config=request.config,
            features=request.features,
        )

    def refuse_unknown_layout(self) -> None:
        """Refuse a base in which an entry could not be made, and a donor that does not tell which models it has.

        Raises:
            SourceError: E307, one of them is such an install.
        """
        unread = [
            *self.base_layout.findings,
            *(each for each in self.donor_layout.findings if each.site.path == REGISTRY_PATH),
        ]
        for finding in unread:
            of = self.base if finding.site.install == "base" else self.donor
            raise SourceError(
                f"the layout of the {finding.site.install} {of.source} is not known: {finding.site.path} has"
                f" {finding.found}; wanted {finding.wanted}",
                remedy="Use a release or an unpatched install, or report the version"
                f" ({of.version}) and this file.",
                code="E307",
            )

    def plan(self, request: LinkRequest) -> GraftPlan:
        """Work out everything that must move from the donor into the base for the requested model.

        Raises:
            RequestError: the donor has no such architecture or feature.
            SourceError: a file of one of the installs is no valid Python; E306, the donor registers a model
                class that it has nowhere; E307, the layout of one is not known.
        """
        self.refuse_unknown_layout()
        roots = self.roots(request)
        for model in roots.models:
            refuse_absent(self._donor_trees, model)
        decisions = Decisions(
            self._pair, donor_version=self.donor.version, family=family_module(roots)
        )
        linked = link_with_words(
            decisions,
            tuple(_roots(roots, self.base_layout)),
            self._compared,
            (*roots.architectures, *roots.model_types, *roots.draft_types),
        )
        modules = emit(linked, donor_version=self.donor.version)
        grafted = {m.origin: m.name for m in modules if m.kind != "extracted"}
        questions = tuple(questions_of_the_engine(linked))
        edited = plan_edits(
            EditRequest(
                donor=self._donor_trees,
                base=self._base_trees,
                donor_layout=self.donor_layout,
                base_layout=self.base_layout,
                roots=replace(
                    roots, parts=tuple(self._registered(part, grafted) for part in roots.parts)
                ),
                grafted=grafted,
                operators=linked.operators,
                donor_version=version_suffix(self.donor.version),
                questions=questions,
            )
        )
        check_inserted(linked, edited.inserted)
        doubts, dependencies = check_requirements(linked, self.base, self.donor)
        comparisons = Comparisons(self._pair)
        found = _ordered(
            (
                *self.donor_layout.findings,
                *self.base_layout.findings,
                *_contract_findings(linked, comparisons),
                *check_native(linked, self.base),
                *check_exact_types(linked),
                *map(finding_of, questions),
                *doubts,
                *check_words(linked, self._compared, (site.identifier for site in edited.sites)),
                *check_methods(
                    roots,
                    self.donor_layout,
                    (self._donor_trees, self._base_trees),
                    (s.identifier for s in edited.sites if s.decision == "transplant"),
                ),
                *check_targets(roots, self._pair, (self.donor_layout, self.base_layout)),
                *edited.findings,
            )
        )
        findings = tuple(map(comparisons.of_finding, found))
        references = tuple(_references(linked, comparisons))
        return GraftPlan(
            schema=PLAN_SCHEMA,
            verdict=_verdict(findings),
            base=_remembered(self.base),
            donor=_remembered(self.donor),
            architectures=roots.architectures,
            features=request.features,
            modules=modules,
            reference_counts=dict(sorted(Counter(r.resolution for r in references).items())),
            references=tuple(r for r in references if r.resolution != "identical"),
            comparisons=comparisons.entries,
            sites=edited.sites,
            edits=edited.edits,
            dependencies=dependencies,
            findings=findings,
            rungs=_rungs(findings, edited.sites),
        )

    def nothing(self, request: LinkRequest) -> GraftPlan:
        """Give the plan that grafts nothing: of a base that has what is asked for, or of a route without a graft."""
        return GraftPlan(
            schema=PLAN_SCHEMA,
            verdict="ok",
            base=_remembered(self.base),
            donor=_remembered(self.donor),
            architectures=request.architectures,
            features=request.features,
            modules=(),
            reference_counts={},
            references=(),
            comparisons=(),
            sites=(),
            edits=(),
            dependencies=(),
            findings=(),
            rungs=(),
        )

    def _registered(self, part: RootPart, grafted: Mapping[str, str]) -> RootPart:
        """Name the module that a part comes from, where the one it is registered with only re-exports it.

        Else the base's module of that name, which re-exports the base's own, would pass for the donor's.
        """
        found = self._pair.donor.resolve(part.module, part.class_name)
        if part.module in grafted or found is None or found.module not in grafted:
            return part
        return replace(part, module=found.module, class_name=found.name)


def link(base: Install, donor: Install, request: LinkRequest) -> GraftPlan:
    """Plan one graft; for several over the same pair, keep a ``LinkSession``.

    Raises:
        RequestError: the donor has no such architecture or feature.
        SourceError: a file of one of the installs is no valid Python.
    """
    return LinkSession(base, donor).plan(request)


def _remembered(install: Install) -> PlanSource:
    return PlanSource(source=install.source, version=install.version, digest=install.digest)


def _contract_findings(linked: Linked, comparisons: Comparisons) -> Iterable[Finding]:
    """Give breaches as findings, and tell where the base's version of model code is used after all."""
    decisions = linked.decisions
    for breach in (*linked.breaches, *decisions.repaired.values()):
        finding = Finding(
            code=breach.code,
            severity=breach.severity,
            site=Site(
                install="donor",
                path=decisions.donor.path_of(breach.module) or breach.module,
                line=breach.line,
            ),
            wanted=breach.wanted,
            found=breach.found + (f" (where {breach.guard})" if breach.guard else ""),
            remedy=breach.remedy,
            comparison=breach.about,
        )
        yield comparisons.of_finding(finding, breach.met_at)
    for target, decision, use, unit in linked.names.values():
        if target.dotted in decisions.declined and decision.kind == "changed":
            yield Finding(
                code="G217",
                severity=_severity_of_declining(decisions, target),
                site=Site(
                    install="donor",
                    path=decisions.donor.path_of(unit.module) or unit.module,
                    line=use.span.line,
                ),
                wanted=target.dotted,
                found=f"the base's own version is used, which has another body:"
                f" {decisions.declined[target.dotted]}",
                remedy="read both versions; the rungs P5 to P7 show whether the difference matters",
                comparison=target.dotted,
            )


def _severity_of_declining(decisions: Decisions, target: Found) -> Severity:
    """Tell how doubtful it is that the base's version of a definition serves in place of the donor's."""
    counterpart = decisions.counterpart(target)
    if decisions.declined[target.dotted] == SERVES_THE_ENGINE:
        return "note"
    is_alike = counterpart is not None and makes_alike(decisions.pair, target, counterpart)
    return "note" if is_alike else "review"


def family_module(roots: Roots) -> str:
    """Dotted name of the module that single definitions of this graft go to."""
    stem = roots.models[0].module.rpartition(".")[2]
    return f"vllm.model_executor.models.{stem}__linked"


def _roots(roots: Roots, base_layout: Layout) -> Iterable[Root]:
    """Give what the linker starts from: all that was asked for, less the models that the base knows."""
    unknown = [m for m in roots.models if m.architecture not in base_layout.by_architecture]
    for model in unknown:
        yield Root(
            module=model.module,
            name=model.class_name,
            why=f"it defines {model.architecture}, {model.why}",
        )
    for config in roots.configs if unknown else ():
        yield Root(
            module=config.module, name=config.class_name, why=f"config class {config.class_name}"
        )
    for part in roots.parts:
        yield Root(
            module=part.module, name=part.class_name, why=f"{part.role} {part.name}, asked for"
        )


def _references(linked: Linked, comparisons: Comparisons) -> Iterable[Reference]:
    donor = linked.decisions.donor
    for dotted in sorted(linked.names):
        target, _, use, unit = linked.names[dotted]
        decision = linked.decisions.of(target)
        if decision.kind != "identical":
            comparisons.of_reference(target, decision.base)
        yield Reference(
            target=dotted,
            site=Site(
                install="donor",
                path=donor.path_of(unit.module) or unit.module,
                line=use.span.line,
            ),
            resolution=decision.kind,
            satisfied_by=""
            if decision.kind == "blocked"
            else ".".join(p for p in (decision.module, decision.name) if p),
            reason=decision.reason,
        )


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    rank = {"blocked": 0, "review": 1, "note": 2}
    unique = dict.fromkeys(findings)
    return tuple(
        sorted(unique, key=lambda f: (rank[f.severity], f.code, f.site.path, f.site.line, f.wanted))
    )


def _verdict(findings: Iterable[Finding]) -> Verdict:
    severities = {f.severity for f in findings}
    if "blocked" in severities:
        return "blocked"
    return "review" if "review" in severities else "ok"


def _rungs(findings: Iterable[Finding], sites: Iterable[EditSite]) -> tuple[Rung, ...]:
    blocked = {f.code for f in findings if f.severity == "blocked"}
    review = {f.code for f in findings if f.severity == "review"}
    refused = any(s.decision == "refuse" for s in sites)

    def outcome(prefix: str, *, failed: bool) -> str:
        if failed or any(c.startswith(prefix) for c in blocked):
            return "failed"
        return "review" if any(c.startswith(prefix) for c in review) else "passed"

    return (
        Rung(name="P1 link", outcome=outcome("G1", failed=False), on="the two sources"),  # pyright: ignore[reportArgumentType] literals above
        Rung(name="P2 contract", outcome=outcome("G2", failed=refused), on="the two sources"),  # pyright: ignore[reportArgumentType] literals above
        Rung(name="P3 pins", outcome="not run", on="an interpreter with the base's transformers"),
        Rung(name="P4 import", outcome="not run", on="the grafted install"),
        Rung(name="P5 weights", outcome="not run", on="the grafted install"),
        Rung(name="P6 rehearsal", outcome="not run", on="a GPU, or a CPU build of vLLM"),
        Rung(name="P7 parity", outcome="not run", on="both installs, able to run"),
        Rung(name="P8 cluster", outcome="not run", on="the cluster"),
    )

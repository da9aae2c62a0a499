# From two installs and a request to a plan: layout, roots, link, texts, edits, findings, verdict. Everything that
# decides is elsewhere; this file puts the answers in order.
"""Plan a graft between two installs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vllm_graft.link.decide import Decisions, version_suffix
from vllm_graft.link.edits import EditRequest, plan_edits
from vllm_graft.link.emit import emit
from vllm_graft.link.index import Index
from vllm_graft.link.layout import read_layout
from vllm_graft.link.linker import Linked, Linker, Root, findings_of
from vllm_graft.link.outside import check_exact_types, check_native, check_packages
from vllm_graft.link.roots import Roots, find_roots
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import room_of
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.install import Install
from vllm_graft.values.plan import (
    PLAN_SCHEMA,
    DependencyDecision,
    EditSite,
    GraftedModule,
    GraftPlan,
    PlanSource,
    Reference,
    Rung,
    Verdict,
)

_BLOCKING = ("G1", "G2")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """What is asked of the linker."""

    architectures: tuple[str, ...]
    config: Mapping[str, object] | None = None
    """The model's config.json, where it is at hand."""
    features: tuple[str, ...] = ()
    """``mtp``, ``reasoning-parser=NAME``, ``tool-parser=NAME``."""


def link(base: Install, donor: Install, request: LinkRequest) -> GraftPlan:
    """Work out everything that must move from ``donor`` into ``base`` for the requested model.

    Raises:
        RequestError: the donor has no such architecture or feature.
        SourceError: a file of one of the installs is no valid Python.
    """
    donor_trees, base_trees = SourceTrees(donor.files), SourceTrees(base.files)
    donor_layout = read_layout(donor_trees, install="donor")
    base_layout = read_layout(base_trees)
    roots = find_roots(
        donor_layout,
        donor_trees,
        architectures=request.architectures,
        config=request.config,
        features=request.features,
    )
    decisions = Decisions(
        Index(donor_trees, "donor"),
        Index(base_trees, "base"),
        room_of=room_of,
        donor_version=donor.version,
        family=family_module(roots),
    )
    linker = Linker(decisions, tuple(_roots(roots)))
    linked = linker.link()
    modules = emit(linked, linker, donor_version=donor.version)
    edited = plan_edits(
        EditRequest(
            donor=donor_trees,
            base=base_trees,
            donor_layout=donor_layout,
            base_layout=base_layout,
            roots=roots,
            grafted={m.origin: m.name for m in modules if m.kind != "extracted"},
            operators=linked.operators,
            donor_version=version_suffix(donor.version),
        )
    )
    packages = tuple(check_packages(linked, base))
    findings = _ordered(
        (
            *donor_layout.findings,
            *base_layout.findings,
            *findings_of(linked, decisions.donor),
            *check_native(linked, linker, base),
            *check_exact_types(linked),
            *(finding for finding, _ in packages),
            *edited.findings,
        )
    )
    references = tuple(_references(linked))
    return GraftPlan(
        schema=PLAN_SCHEMA,
        verdict=_verdict(findings),
        base=PlanSource(source=base.source, version=base.version, digest=base.digest),
        donor=PlanSource(source=donor.source, version=donor.version, digest=donor.digest),
        architectures=roots.architectures,
        features=request.features,
        modules=modules,
        reference_counts=dict(sorted(Counter(r.resolution for r in references).items())),
        references=tuple(r for r in references if r.resolution != "identical"),
        sites=edited.sites,
        edits=edited.edits,
        dependencies=_dependencies(packages),
        findings=findings,
        rungs=_rungs(findings, edited.sites, modules),
    )


def family_module(roots: Roots) -> str:
    """Dotted name of the module that single definitions of this graft go to."""
    stem = roots.models[0].module.rpartition(".")[2]
    return f"vllm.model_executor.models.{stem}__linked"


def _roots(roots: Roots) -> Iterable[Root]:
    for model in roots.models:
        yield Root(
            module=model.module,
            name=model.class_name,
            why=f"it defines {model.architecture}, {model.why}",
        )
    for config in roots.configs:
        yield Root(
            module=config.module, name=config.class_name, why=f"config class {config.class_name}"
        )
    for part in roots.parts:
        yield Root(
            module=part.module, name=part.class_name, why=f"{part.role} {part.name}, asked for"
        )


def _references(linked: Linked) -> Iterable[Reference]:
    donor, base = linked.decisions.donor, linked.decisions.base
    for dotted in sorted(linked.names):
        target, _, use, unit = linked.names[dotted]
        decision = linked.decisions.of(target)
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
            donor_definition=donor.site(target),
            base_definition=None if decision.base is None else base.site(decision.base),
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


def _dependencies(
    packages: Iterable[tuple[Finding, DependencyDecision]],
) -> tuple[DependencyDecision, ...]:
    return tuple(sorted((d for _, d in packages), key=lambda d: d.name))


def _rungs(
    findings: Iterable[Finding], sites: Iterable[EditSite], modules: Iterable[GraftedModule]
) -> tuple[Rung, ...]:
    blocked = {f.code for f in findings if f.severity == "blocked"}
    review = {f.code for f in findings if f.severity == "review"}
    refused = any(s.decision == "refuse" for s in sites)
    del modules

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

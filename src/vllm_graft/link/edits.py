# Where the planning of edits begins and ends: sites are found, decided one by one, and what was decided
# becomes one edit for each base file.
"""Edits to base files, computed in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_graft.errors import BuildError
from vllm_graft.link.engine_questions import ask_for_both
from vllm_graft.link.registering import register_parts
from vllm_graft.link.site_decisions import EditRequest, SiteDecisions
from vllm_graft.link.sites import Known, find_sites, owned_identifiers
from vllm_graft.link.syntax import parse_source_text
from vllm_graft.link.unified import render_diff
from vllm_graft.link.workbench import InsertedCode, Workbench
from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding
from vllm_graft.values.plan import Edit, EditSite

__all__ = ["EditRequest", "Edits", "plan_edits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Everything that is planned for existing base files."""

    edits: tuple[Edit, ...]
    texts: Mapping[str, bytes]
    """Path → whole new text, for checks that read the edited files."""
    sites: tuple[EditSite, ...]
    findings: tuple[Finding, ...]
    needs: tuple[str, ...]
    """Dotted vLLM names that inserted code imports."""
    inserted: tuple[InsertedCode, ...]
    names: Mapping[str, str]
    """``reasoning-parser`` or ``tool-parser`` → name under which this model's is registered."""


def plan_edits(request: EditRequest) -> Edits:
    """Decide about every place that names the family, and make the edits.

    Applied to a base that has them already, nothing changes: each site is ``present``.
    """
    owned = owned_identifiers(
        request.roots,
        Known(donor=request.donor_layout, base=request.base_layout, text=request.base),
        grafted=request.grafted,
        operators=request.operators,
    )
    bench = Workbench(
        donor=request.donor,
        base=request.base,
        donor_layout=request.donor_layout,
        grafted=request.grafted,
        operators=request.operators,
        owned=owned,
    )
    registered = tuple(
        register_parts(bench, request.roots, request.base_layout, request.donor_version)
    )
    mentions, elsewhere = find_sites(owned, request.donor, request.base, request.grafted)
    decided = SiteDecisions(request, owned, bench, registered)
    sites = [*decided.of_mentions(mentions), *decided.of_parts()]
    sites.extend(
        EditSite(
            path=place.path,
            line=place.line,
            identifier=place.identifier,
            kind="other",
            decision="not-needed",
            reason="the file is not part of the graft, and what is grafted does not use it",
        )
        for place in elsewhere
    )
    for question in request.questions:
        if not question.obstacle:
            ask_for_both(bench, question)
    texts = {path: surgery.result() for path, surgery in sorted(bench.files.items())}
    return Edits(
        edits=tuple(_edit(request, path, text, bench) for path, text in texts.items()),
        texts=texts,
        sites=tuple(sorted(sites, key=lambda site: (site.path, site.line, site.identifier))),
        findings=tuple(decided.findings),
        needs=tuple(dict.fromkeys(bench.needs)),
        inserted=tuple(bench.inserted),
        names={
            item.part.role: item.name for item in registered if item.outcome.decision != "refuse"
        },
    )


def _edit(request: EditRequest, path: str, text: bytes, bench: Workbench) -> Edit:
    before = request.base.files.read(path)
    try:
        parse_source_text(text, path)
    except SyntaxError as error:
        message = f"the edit of {path} would not be valid Python: {error}"
        raise BuildError(
            message, remedy="This is a defect of vllm-graft: please report it."
        ) from error
    return Edit(
        path=path,
        before=Digest.of(before),
        after=Digest.of(text),
        diff=render_diff(path, before.decode(), text.decode()),
        why=tuple(bench.why[path]),
    )

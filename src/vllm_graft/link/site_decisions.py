# Rule 6: each mention of the family gets a decision. What cannot be said in the base is refused with
# its reason; what nobody asked for, or the base has no place for, is not needed, and that is told too.
"""The decision for each place that names the family."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.link.branches import attribute, branch, registered_definition
from vllm_graft.link.engine_questions import EngineQuestion
from vllm_graft.link.members import member
from vllm_graft.link.names import top_level_names
from vllm_graft.link.operands import operand
from vllm_graft.link.places import Scope, find_scope, scope_of
from vllm_graft.link.registering import Registration, export_eagerly
from vllm_graft.link.roots import Roots
from vllm_graft.link.sites import Mention, Owned
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.units import (
    Unit,
    enclosing_condition,
    makes_the_family,
    unit_of,
    variable_of,
)
from vllm_graft.link.vllm import Layout, Role, is_draft_table, kind_of_place, parser_package_of
from vllm_graft.link.workbench import Outcome, Workbench
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.plan import EditSite, EditSiteKind

_REFUSED: Mapping[EditSiteKind, Severity] = {
    # Without these the model is not found, or silently computes something else.
    "registry": "blocked",
    "config-registry": "blocked",
    "config-exports": "blocked",
    "models-config-map": "blocked",
    "speculative": "blocked",
    "convertor": "blocked",
    "parser-registry": "blocked",
    "tokenizer-registry": "blocked",
    "splitting-ops": "blocked",
}
_ABSENT: Mapping[EditSiteKind, Severity] = {"model-type-list": "note"}
_ORDER = ("member", "branch", "attribute", "definition", "import", "statement")
_EAGER: tuple[Role, ...] = ("config-exports", "processor")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """What edits are planned from."""

    donor: SourceTrees
    base: SourceTrees
    donor_layout: Layout
    base_layout: Layout
    roots: Roots
    grafted: Mapping[str, str]
    """Donor module → module in the grafted base, for every grafted file."""
    operators: Mapping[str, str]
    """Custom op that grafted code registers → its name in the grafted base."""
    donor_version: str
    """As it stands in module names: ``0_17_1``."""
    questions: Sequence[EngineQuestion] = ()
    """Where the base's engine asks for a class of which the graft brings another version."""


def _registers_itself(unit: Unit) -> bool:
    return isinstance(unit.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and bool(
        unit.node.decorator_list
    )


class SiteDecisions:
    """The decisions, unit by unit: several mentions in one unit share one."""

    def __init__(
        self,
        request: EditRequest,
        owned: Owned,
        bench: Workbench,
        registered: Sequence[Registration],
    ) -> None:
        self.request = request
        self.owned = owned
        self.bench = bench
        self.registered = registered
        self.findings: list[Finding] = []
        self._moved: dict[int, Outcome] = {}
        self._asked = frozenset(request.roots.architectures)
        tables = {entry.architecture: entry.table for entry in request.donor_layout.models}
        self._drafts = any(
            is_draft_table(tables.get(architecture, "")) for architecture in self._asked
        )

    def of_parts(self) -> Iterator[EditSite]:
        """Give the site of each part that is registered by name."""
        for item in self.registered:
            kind = kind_of_place(
                item.path,
                next(
                    table.variable
                    for table in self.request.donor_layout.of_role(item.part.role)
                    if table.path == item.path
                ),
                self.request.donor_layout,
            )
            site = EditSite(
                path=item.path,
                line=item.line,
                identifier=item.part.name,
                kind=kind,
                decision=item.outcome.decision,
                reason=item.outcome.reason,
            )
            if site.decision == "refuse":
                self._find(site, _REFUSED.get(kind, "review"))
            elif item.differs:
                about = f"{item.part.module}.{item.part.class_name}"
                self._find(site, "review", code="G304", about=about)
            yield site

    def of_mentions(self, mentions: Sequence[Mention]) -> Iterator[EditSite]:
        """Give the sites of all mentions; members first, so that definitions know their users."""
        units = {id(mention): unit_of(mention, self.owned) for mention in mentions}
        parts = {(item.path, item.part.name) for item in self.registered}
        outcomes: dict[tuple[int, str], tuple[EditSiteKind, Outcome]] = {}
        # Definitions that register themselves before those that they may need.
        ordered = sorted(mentions, key=lambda mention: not _registers_itself(units[id(mention)]))
        for form in _ORDER:
            for mention in ordered:
                unit = units[id(mention)]
                if unit.form != form or unit.key in outcomes:
                    continue
                if (mention.path, unit.label) in parts:
                    continue
                kind = self._kind(unit, mention.path)
                outcome = self._carried(unit) or self._decide(unit, kind, mention)
                outcomes[unit.key] = (kind, outcome)
        told: set[tuple[int, str]] = set()
        for mention in mentions:
            unit = units[id(mention)]
            if unit.key not in outcomes:
                continue
            kind, outcome = outcomes[unit.key]
            site = EditSite(
                path=mention.path,
                line=mention.line,
                identifier=mention.identifier,
                kind=kind,
                decision=outcome.decision,
                reason=outcome.reason,
            )
            yield site
            if unit.key not in told and outcome.decision == "refuse":
                self._find(site, _REFUSED.get(kind, "review"))
            told.add(unit.key)

    def _kind(self, unit: Unit, path: str) -> EditSiteKind:
        variable = ""
        for node in unit.ancestors:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ) if not variable.endswith("()"):
                    variable += name
                case ast.ClassDef(name=name):
                    variable += f"{name}."
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    variable += f"{name}()"
                case _:
                    pass
        if variable == "__all__":
            variable = next(
                (t.variable for t in self.request.donor_layout.tables if t.path == path), ""
            )
        return kind_of_place(path, variable, self.request.donor_layout)

    def _decide(self, unit: Unit, kind: EditSiteKind, mention: Mention) -> Outcome:
        if (reason := self._not_asked(unit, kind, mention)) is not None:
            return Outcome(decision="not-needed", reason=reason)
        path = mention.path
        outcome: Outcome | None = None
        match unit.form:
            case "member":
                outcome = member(self.bench, unit, path) or self._export(unit, path)
                condition = enclosing_condition(unit)
                if outcome is None and condition is not None:
                    outcome = self._branch(condition, path)
            case "branch":
                outcome = self._branch(unit, path)
            case "attribute":
                outcome = attribute(self.bench, unit, path)
            case "definition":
                outcome = self._definition(unit, path)
            case "import":
                outcome = Outcome(
                    decision="not-needed",
                    reason="an import moves with the code that uses it; by itself it does nothing",
                )
            case "statement":
                outcome = self._statement(unit, path)
        return outcome or self._absent(unit, kind, mention)

    def _branch(self, unit: Unit, path: str) -> Outcome | None:
        outcome = branch(self.bench, unit, path)
        if outcome is not None:
            self._moved[id(unit.node)] = outcome
        return outcome

    def _carried(self, unit: Unit) -> Outcome | None:
        """Give the outcome of the branch around a unit, where that has one."""
        for index, node in enumerate(unit.ancestors[: unit.at]):
            if (
                isinstance(node, ast.If)
                and id(node) in self._moved
                and unit.ancestors[index + 1] not in node.orelse
            ):
                return self._moved[id(node)]
        return None

    def _not_asked(self, unit: Unit, kind: EditSiteKind, mention: Mention) -> str | None:
        label, layout = unit.label, self.request.donor_layout
        if label in layout.by_architecture and label not in self._asked:
            return f"nobody asked for {label}"
        # A target that nobody asked for leads to the draft that somebody did.
        leads_here = isinstance(unit.node, ast.If) and makes_the_family(unit.node, self.owned)
        if mention.identifier in self.owned.unasked and unit.form != "member" and not leads_here:
            return f"nobody asked for {mention.identifier}"
        drafts_only = kind in {"speculative", "proposer"} or layout.lookup("mtp-types", label)
        if drafts_only and not self._drafts:
            return "it is for speculative decoding, and the feature mtp was not asked for"
        if kind in {"parser-registry", "tokenizer-registry"} and label:
            return f"nobody asked for {label} here"
        package = parser_package_of(mention.path)
        if package is not None and not any(
            part.module.startswith(f"{package}.") for part in self.request.roots.parts
        ):
            return f"nobody asked for a parser of {package}"
        module = self._exported_module(label, mention.path)
        if module is not None and module not in self.request.grafted:
            return f"{module} is not grafted"
        return None

    def _exported_module(self, label: str, path: str) -> str | None:
        """Give the vLLM module that an exported class comes from, by the donor's map."""
        for role in _EAGER:
            for table in self.request.donor_layout.of_role(role):
                entry = table.get(label) if table.path == path else None
                if entry is not None and entry.module.startswith("vllm."):
                    return entry.module
        return None

    def _export(self, unit: Unit, path: str) -> Outcome | None:
        """Handle an export where the base imports eagerly and the donor has a map."""
        for role in _EAGER:
            donor_entry = next(
                (
                    table.get(unit.label)
                    for table in self.request.donor_layout.of_role(role)
                    if table.path == path and table.variable
                ),
                None,
            )
            tables = [t for t in self.request.base_layout.of_role(role) if not t.variable]
            if donor_entry is not None and tables:
                return export_eagerly(self.bench, unit.label, donor_entry.module, tables[0])
        return None

    def _definition(self, unit: Unit, path: str) -> Outcome:
        node = unit.node
        assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        scope = (*scope_of(unit.ancestors[: unit.at + 1]), node.name)
        tree = self.request.base.tree(path)
        if self.bench.arrived(path, node.name):
            return Outcome(
                decision="transplant", reason="what is transplanted uses it", base_path=path
            )
        if tree is not None and find_scope(tree, scope) is not None:
            return Outcome(decision="present", reason="the base has this definition")
        if any(isinstance(inner, ast.Call) for inner in node.decorator_list):
            outcome = registered_definition(self.bench, unit, path)
            if outcome is not None:
                return outcome
        return Outcome(decision="not-needed", reason="nothing that is transplanted uses it")

    def _statement(self, unit: Unit, path: str) -> Outcome | None:
        outcome = operand(self.bench, unit, path)
        if outcome is not None:
            return outcome
        tree = self.request.base.tree(path)
        scope = scope_of(unit.ancestors[: unit.at + 1])
        around = find_scope(tree, scope) if tree is not None else None
        if tree is None or around is None:
            return None
        name = getattr(unit.node, "name", "")
        if isinstance(unit.node, Scope) and find_scope(tree, (*scope, name)) is None:
            return Outcome(
                decision="not-needed",
                reason=f"{name} stands on the family, is not part of it, and is not in the base",
            )
        if any(
            isinstance(other, ast.stmt) and ast.dump(other) == ast.dump(unit.node)
            for other in ast.walk(around)
        ):
            return Outcome(decision="present", reason="the base has this statement")
        assert isinstance(unit.node, ast.stmt)
        return Outcome(
            decision="refuse",
            reason="it stands in the middle of the engine's own code, where the base has something "
            f"else: {ast.unparse(unit.node).splitlines()[0][:80]}",
        )

    def _absent(self, unit: Unit, kind: EditSiteKind, mention: Mention) -> Outcome:
        """Say what it means that the base has no such place."""
        tree = self.request.base.tree(mention.path)
        scope = scope_of(unit.ancestors[: unit.at + 1])
        if tree is None:
            reason = f"the base has no {mention.path}: nothing there asks which model it is"
        elif scope and find_scope(tree, scope) is None:
            reason = f"the base has no {'.'.join(scope)} in this file"
        elif not scope and (name := variable_of(unit)) and name not in top_level_names(tree):
            reason = f"the base has no {name}: it treats no model in this way"
        else:
            return Outcome(
                decision="refuse", reason="the base has this file, but no such list or condition"
            )
        site = EditSite(
            path=mention.path,
            line=mention.line,
            identifier=mention.identifier,
            kind=kind,
            decision="not-needed",
            reason=reason,
        )
        self._find(site, _ABSENT.get(kind, "review"))
        return Outcome(decision="not-needed", reason=reason)

    def _find(
        self, site: EditSite, severity: Severity, code: str = "G301", about: str = ""
    ) -> None:
        remedy = {
            "G301": "Look at this place in the donor and in the base, or choose a donor nearer to the base.",
            "G304": "Start the server with the name that the plan gives, not with the base's.",
        }[code]
        self.findings.append(
            Finding(
                code=code,
                severity=severity,
                site=Site(install="donor", path=site.path, line=site.line),
                wanted=f"{site.kind} names {site.identifier}",
                found=site.reason,
                remedy=remedy,
                comparison=about,
            )
        )

# One unit of donor code into one base file. Each method gives the outcome as words; None means that the
# base has no such place, and the caller says what that means for this kind of site.
"""Moving members, branches, attributes and definitions into base files."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.link.excerpt import Excerpter, Retargeting
from vllm_graft.link.names import (
    Bindings,
    Import,
    NameSource,
    free_names,
    local_names,
    top_level_names,
)
from vllm_graft.link.places import (
    Spot,
    find_scope,
    head,
    matching_block,
    matching_collection,
    members,
    position_in,
    scope_of,
)
from vllm_graft.link.sites import Owned
from vllm_graft.link.surgery import Addition, FileSurgery
from vllm_graft.link.tables import SourceTrees, path_of
from vllm_graft.link.units import Unit, strangers
from vllm_graft.link.vllm import REGISTRY_PATH, Layout, registry_takes_full_paths, written_module
from vllm_graft.values.plan import SiteDecision

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a unit."""

    decision: SiteDecision
    reason: str
    base_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertedCode:
    """Donor code that now stands in a base file: rule 5 must hold for it too."""

    donor_path: str
    first_line: int
    last_line: int
    base_path: str


@dataclass(slots=True, kw_only=True)
class Transplanter:
    """Collects the additions to base files."""

    donor: SourceTrees
    base: SourceTrees
    donor_layout: Layout
    grafted: Mapping[str, str]
    operators: Mapping[str, str]
    owned: Owned
    files: dict[str, FileSurgery] = field(default_factory=dict[str, FileSurgery])
    why: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    inserted: list[InsertedCode] = field(default_factory=list[InsertedCode])
    needs: list[str] = field(default_factory=list[str])
    _arrived: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def surgery(self, path: str, why: str) -> FileSurgery:
        """Open a base file for additions and note the reason."""
        if path not in self.files:
            self.files[path] = FileSurgery(self.base.files.read(path))
        reasons = self.why.setdefault(path, [])
        if why not in reasons:
            reasons.append(why)
        return self.files[path]

    def excerpter(self, path: str) -> Excerpter:
        """Open a donor file for cutting."""
        return Excerpter(
            path,
            self.donor.files.read(path),
            Retargeting(modules=self.grafted, operators=self.operators),
        )

    def arrived(self, path: str, name: str) -> bool:
        """Tell whether a definition or import was brought into a base file."""
        return name in self._arrived.get(path, ())

    # ---- members of collections

    def member(self, unit: Unit, path: str) -> Outcome | None:
        """Add a member of a collection to the same collection of the base."""
        spot = matching_collection(unit.ancestors, unit.at, path, self.base)
        if spot is None or not isinstance(spot.node, ast.expr):
            return None
        retargeting = Retargeting(modules=self.grafted, operators=self.operators)
        label = retargeting.word(unit.label)
        there = dict(members(spot.node))
        given = dict(members(unit.node))[unit.label]
        if label in there:
            return self._present(label, there[label], given, spot)
        try:
            source = self._member_source(unit, path, label, given)
        except LookupError as error:
            return Outcome(decision="refuse", reason=str(error.args[0]), base_path=spot.path)
        if isinstance(unit.node, ast.Dict | ast.Call):
            outcome = self._bind([given], frozenset(), path, spot)
            if outcome is not None:
                return outcome
        why = f"{_variable_name(unit)} lists {label}"
        self.surgery(spot.path, why).add_member(
            spot.node, Addition(source=source, before=_before(unit, list(there)))
        )
        moved = "" if spot.path == path else f"; the base has this list in {spot.path}"
        return Outcome(
            decision="transplant",
            reason=f"added to {_variable_name(unit)}{moved}",
            base_path=spot.path,
        )

    def _present(self, label: str, found: ast.AST, wanted: ast.AST, spot: Spot) -> Outcome:
        same = ast.dump(found) == ast.dump(wanted) or isinstance(found, ast.Constant | ast.Name)
        return Outcome(
            decision="present",
            reason=f"the base has {label} here" + ("" if same else f", as {ast.unparse(found)}"),
            base_path=spot.path,
        )

    def _member_source(self, unit: Unit, path: str, label: str, given: ast.AST) -> str:
        assert isinstance(given, ast.expr)
        cutter = self.excerpter(path)
        replaced: list[tuple[ast.expr, str]] = []
        if path == REGISTRY_PATH and isinstance(given, ast.Tuple):
            replaced.append((given.elts[0], f'"{self._registered_module(label)}"'))
        else:
            self._check_paths(given)
        value = cutter.cut(given, replaced)
        match unit.node:
            case ast.Dict():
                return f'"{label}": {value}'
            case ast.Call() if label.isidentifier():
                return f"{label}={value}"
            case ast.Call():
                return f'**{{"{label}": {value}}}'
            case _:
                return value

    def _registered_module(self, architecture: str) -> str:
        module = self.donor_layout.by_architecture[architecture].module
        target = self.grafted.get(module, module)
        if target not in self.grafted.values() and path_of(target, self.base.files) is None:
            message = f"its module {module} is neither grafted nor in the base"
            raise LookupError(message)
        written = written_module(target)
        registry = self.base.files.read(REGISTRY_PATH)
        if written is None or (
            written.startswith("vllm.") and not registry_takes_full_paths(registry)
        ):
            message = f"the base's registry cannot name a module outside its own folder: {target}"
            raise LookupError(message)
        return written

    def _check_paths(self, value: ast.expr) -> None:
        """Refuse a dotted path that leads nowhere in the grafted base."""
        for node in ast.walk(value):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            text = node.value
            if not text.startswith("vllm.") or " " in text:
                continue
            # The path of a module, or of a class in one.
            if not any(
                name in self.grafted or path_of(name, self.base.files) is not None
                for name in (text, text.rpartition(".")[0])
            ):
                message = f"{text} is neither grafted nor in the base"
                raise LookupError(message)

    # ---- branches

    def branch(self, unit: Unit, path: str) -> Outcome | None:
        """Add an ``if`` or one arm of a chain that holds for the family only."""
        node = unit.node
        assert isinstance(node, ast.If)
        place = matching_block(
            unit.ancestors, _chain_start(unit, self._text(path)), path, self.base
        )
        if place is None:
            return self._branch_elsewhere(unit, path)
        spot, block = place
        head_node = unit.ancestors[_chain_start(unit, self._text(path))]
        assert isinstance(head_node, ast.If)
        replaced = self._without_strangers(node.test, path)
        wanted = _test_text(node.test, replaced)
        function = _function_around(spot, self.base.tree(spot.path))
        if any(
            isinstance(other, ast.If) and ast.unparse(other.test) == wanted
            for other in ast.walk(function)
        ):
            return Outcome(decision="present", reason="the base has this branch", base_path=path)
        if node is not head_node:
            return self._arm(unit, spot, block, path)
        if node.orelse:
            return self._before_chain(unit, spot, block, path)
        siblings = _siblings(unit)
        position = position_in(block, siblings, node)
        if position is None:
            return Outcome(
                decision="refuse",
                reason=f"nothing around this branch of {_place_name(unit, path)} is the same in the base",
                base_path=spot.path,
            )
        prefix = self._needed_locals(unit, function)
        if isinstance(prefix, Outcome):
            return prefix
        outcome = self._bind([node, *prefix], local_names(function), path, spot)
        if outcome is not None:
            return outcome
        cutter = self.excerpter(path)
        indent = block[0].col_offset
        source = "".join(cutter.lines(statement, indent) for statement in prefix)
        source += cutter.lines(node, indent, replaced)
        if cutter.blank_above(node):
            source = f"\n{source}"
        self._insert_statement(spot.path, block, position, source, _place_name(unit, path))
        return self._transplanted(
            unit, path, spot, f"the branch goes into {_place_name(unit, path)}"
        )

    def _branch_elsewhere(self, unit: Unit, path: str) -> Outcome | None:
        """Refuse a branch whose function the base has, but not the condition or loop around it."""
        tree = self.base.tree(path)
        scope = scope_of(unit.ancestors[: unit.at + 1])
        if tree is None or find_scope(tree, scope) is None:
            return None
        return Outcome(
            decision="refuse",
            reason=f"the code around this branch of {_place_name(unit, path)} is different in the base",
            base_path=path,
        )

    def _arm(self, unit: Unit, spot: Spot, block: Sequence[ast.stmt], path: str) -> Outcome:
        """Add an ``elif`` to the chain of the base that shares a condition with the donor's."""
        node = unit.node
        assert isinstance(node, ast.If)
        start = _chain_start(unit, self._text(path))
        first = unit.ancestors[start]
        assert isinstance(first, ast.If)
        earlier = [ast.dump(arm.test) for arm in _arms(first) if arm.lineno < node.lineno]
        tests = {ast.dump(arm.test) for arm in _arms(first)}
        for statement in block:
            if not isinstance(statement, ast.If):
                continue
            arms = list(_arms(statement))
            if not any(ast.dump(arm.test) in tests for arm in arms):
                continue
            after = max(
                (index for index, arm in enumerate(arms) if ast.dump(arm.test) in earlier),
                default=len(arms) - 1,
            )
            function = _function_around(spot, self.base.tree(spot.path))
            outcome = self._bind([node.test, *node.body], local_names(function), path, spot)
            if outcome is not None:
                return outcome
            replaced = self._without_strangers(node.test, path)
            source = self._arm_source(node, statement.col_offset, path, replaced)
            last = arms[after].body[-1]
            self.surgery(spot.path, f"{_place_name(unit, path)} asks for the family").insert_lines(
                (last.end_lineno or last.lineno) + 1, source
            )
            return self._transplanted(
                unit, path, spot, f"the condition goes into {_place_name(unit, path)}"
            )
        return Outcome(
            decision="refuse",
            reason=f"the base has no such chain of conditions in {_place_name(unit, path)}",
            base_path=spot.path,
        )

    def _arm_source(
        self, node: ast.If, indent: int, path: str, replaced: Sequence[tuple[ast.expr, str]]
    ) -> str:
        alone = ast.If(
            test=node.test,
            body=node.body,
            orelse=[],
            lineno=node.lineno,
            col_offset=node.col_offset,
            end_lineno=node.body[-1].end_lineno,
            end_col_offset=node.body[-1].end_col_offset,
        )
        return self.excerpter(path).lines(alone, indent, replaced)

    def _before_chain(
        self, unit: Unit, spot: Spot, block: Sequence[ast.stmt], path: str
    ) -> Outcome:
        """Put the family's condition before one that the base has: ``if`` there becomes ``elif``."""
        node = unit.node
        assert isinstance(node, ast.If)
        rest = node.orelse[0]
        known = next(
            (
                statement
                for statement in block
                if isinstance(statement, ast.If)
                and isinstance(rest, ast.If)
                and ast.dump(statement.test) == ast.dump(rest.test)
            ),
            None,
        )
        if known is None:
            return Outcome(
                decision="refuse",
                reason=f"{_place_name(unit, path)} has another branch beside the family's, and the "
                "base does not have that one",
                base_path=spot.path,
            )
        function = _function_around(spot, self.base.tree(spot.path))
        outcome = self._bind([node.test, *node.body], local_names(function), path, spot)
        if outcome is not None:
            return outcome
        replaced = self._without_strangers(node.test, path)
        source = self._arm_source(node, known.col_offset, path, replaced)
        surgery = self.surgery(spot.path, f"{_place_name(unit, path)} asks for the family")
        surgery.insert_lines(known.lineno, source)
        surgery.respell(known.lineno, known.col_offset, "if", "elif")
        return self._transplanted(
            unit, path, spot, f"the condition goes into {_place_name(unit, path)}"
        )

    def _needed_locals(self, unit: Unit, function: ast.AST) -> list[ast.stmt] | Outcome:
        """Find the donor's assignments of local variables that the branch reads and the base lacks."""
        outer = next(
            (node for node in reversed(unit.ancestors[: unit.at]) if isinstance(node, _Function)),
            None,
        )
        if outer is None:
            return []
        lacking = (free_names([unit.node]) & local_names(outer)) - local_names(function)
        found: list[ast.stmt] = []
        for name in sorted(lacking):
            assignment = next(
                (
                    statement
                    for statement in outer.body
                    if statement.lineno < unit.statement.lineno
                    and isinstance(statement, ast.Assign)
                    and head(statement) == f"assign {name}"
                ),
                None,
            )
            if assignment is None or (free_names([assignment]) & local_names(outer)) - local_names(
                function
            ):
                return Outcome(
                    decision="refuse",
                    reason=f"it reads the local variable {name}, which the base does not have there",
                )
            found.append(assignment)
        return found

    def _without_strangers(self, test: ast.expr, path: str) -> list[tuple[ast.expr, str]]:
        """Leave other models out of a condition that is inserted for the family."""
        replaced: list[tuple[ast.expr, str]] = []
        cutter = self.excerpter(path)
        for collection in strangers(test, self.owned):
            kept = [
                cutter.cut(item)
                for item in collection.elts
                if isinstance(item, ast.Constant)
                and isinstance(item.value, str)
                and self.owned.of(item.value) is not None
            ]
            replaced.append((collection, f"({', '.join(kept)},)"))
        return replaced

    # ---- attributes and definitions

    def attribute(self, unit: Unit, path: str) -> Outcome | None:
        """Add an assignment to the class body of the base, such as a member of an enum."""
        place = matching_block(unit.ancestors, unit.at, path, self.base)
        node = unit.node
        if place is None or not isinstance(node, ast.Assign | ast.AnnAssign):
            return None
        spot, block = place
        if any(head(other) == head(node) for other in block):
            return Outcome(decision="present", reason="the base's class has it", base_path=path)
        position = position_in(block, _siblings(unit), node)
        try:
            self._check_paths(node.value if node.value is not None else ast.Constant(value=""))
        except LookupError as error:
            return Outcome(decision="refuse", reason=str(error.args[0]), base_path=path)
        if position is None:
            return None
        outcome = self._bind([node], frozenset(), path, spot)
        if outcome is not None:
            return outcome
        source = self.excerpter(path).lines(node, block[0].col_offset)
        self._insert_statement(path, block, position, source, _place_name(unit, path))
        return self._transplanted(unit, path, spot, f"added to {_place_name(unit, path)}")

    def registered_definition(self, unit: Unit, path: str) -> Outcome | None:
        """Add a top-level definition that registers itself by a decorator."""
        node = unit.node
        tree = self.base.tree(path)
        if tree is None or not isinstance(node, ast.stmt) or unit.at != 1:
            return None
        spot = Spot(path=path, tree=tree, node=tree)
        outcome = self._bind([node], frozenset(), path, spot)
        if outcome is not None:
            return outcome
        self._insert_definition(node, path, path, before=len(tree.body))
        return self._transplanted(unit, path, spot, "the definition registers itself")

    def _transplanted(self, unit: Unit, path: str, spot: Spot, reason: str) -> Outcome:
        node = unit.statement if unit.form == "attribute" else unit.node
        assert isinstance(node, ast.stmt)
        self.inserted.append(
            InsertedCode(
                donor_path=path,
                first_line=node.lineno,
                last_line=node.end_lineno or node.lineno,
                base_path=spot.path,
            )
        )
        return Outcome(decision="transplant", reason=reason, base_path=spot.path)

    # ---- what comes along

    def _bind(
        self, nodes: Sequence[ast.AST], local: frozenset[str], path: str, spot: Spot
    ) -> Outcome | None:
        """Bring what the nodes need into the base file; give the refusal where that cannot be."""
        arrived = self._arrived.setdefault(spot.path, set())
        bindings = Bindings()
        source = NameSource(
            path=path, donor=self.donor, base=self.base, base_path=spot.path, grafted=self.grafted
        )
        source.bind(nodes, local | frozenset(arrived), bindings)
        if bindings.missing:
            return Outcome(
                decision="refuse",
                reason="; ".join(dict.fromkeys(bindings.missing)),
                base_path=spot.path,
            )
        for needed in bindings.imports:
            if needed.bound not in arrived:
                arrived.add(needed.bound)
                self._insert_import(needed, spot.path)
        limit = _top_level_index(spot)
        for definition in bindings.definitions:
            for name in _names_bound(definition):
                arrived.add(name)
            self._insert_definition(definition, path, spot.path, before=limit)
        return None

    def _insert_import(self, needed: Import, path: str) -> None:
        tree = self.base.tree(path)
        assert tree is not None
        earlier = [
            node
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            and node.module != "__future__"
            and not node.level
            and (node.module or "") <= needed.module
        ]
        others = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        last = max(earlier or others or tree.body[:1], key=lambda node: node.lineno, default=None)
        line = 1 if last is None else (last.end_lineno or last.lineno) + 1
        self.surgery(path, f"imports {needed.bound}").insert_lines(line, needed.source())
        if needed.module.startswith("vllm."):
            self.needs.append(f"{needed.module}.{needed.name}".rstrip("."))

    def _insert_definition(
        self, definition: ast.stmt, path: str, base_path: str, *, before: int
    ) -> None:
        donor_tree, tree = self.donor.tree(path), self.base.tree(base_path)
        assert donor_tree is not None
        assert tree is not None
        cutter = self.excerpter(path)
        needs = free_names([definition])
        least = max(
            (index + 1 for index, node in enumerate(tree.body) if needs & _names_bound(node)),
            default=0,
        )
        found = position_in(tree.body, donor_tree.body, definition)
        position = min(max(found if found is not None else before, least), before)
        source = cutter.lines(definition, 0)
        spaced = isinstance(definition, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        name = ", ".join(sorted(_names_bound(definition)))
        self._insert_statement(
            base_path, tree.body, position, f"\n\n{source}" if spaced else source, f"defines {name}"
        )
        self.inserted.append(
            InsertedCode(
                donor_path=path,
                first_line=definition.lineno,
                last_line=definition.end_lineno or definition.lineno,
                base_path=base_path,
            )
        )

    def _insert_statement(
        self, path: str, block: Sequence[ast.stmt], position: int, source: str, why: str
    ) -> None:
        if position:
            earlier = block[position - 1]
            line = (earlier.end_lineno or earlier.lineno) + 1
        else:
            line = block[0].lineno
        self.surgery(path, why).insert_lines(line, source)

    def _text(self, path: str) -> bytes:
        return self.donor.files.read(path)


def _before(unit: Unit, there: Sequence[str]) -> int:
    """Say before which member of the base the new one goes, by its neighbours in the donor."""
    labels = [label for label, _ in members(unit.node)]
    at = labels.index(unit.label)
    # A renamed operator stands behind the one that the base has under the old name.
    for earlier in (unit.label, *reversed(labels[:at])):
        if earlier in there:
            return there.index(earlier) + 1
    for later in labels[at + 1 :]:
        if later in there:
            return there.index(later)
    return len(there)


def _variable_name(unit: Unit) -> str:
    for node in reversed(unit.ancestors[: unit.at]):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return f"a list in {name}"
            case _:
                pass
    return "a list"


def _place_name(unit: Unit, path: str) -> str:
    return ".".join(scope_of(unit.ancestors[: unit.at + 1])) or path


def _siblings(unit: Unit) -> list[ast.stmt]:
    outer, node = unit.ancestors[unit.at - 1], unit.node
    for name in ("body", "orelse", "finalbody"):
        block: list[ast.stmt] = getattr(outer, name, [])
        if node in block:
            return block
    return []


def _arms(node: ast.If) -> list[ast.If]:
    found = [node]
    while len(found[-1].orelse) == 1 and isinstance(found[-1].orelse[0], ast.If):
        found.append(found[-1].orelse[0])
    return found


def _chain_start(unit: Unit, text: bytes) -> int:
    """Give the index of the ``if`` that an ``elif`` belongs to; of the unit itself where it is no arm."""
    lines = text.split(b"\n")
    at = unit.at
    while at:
        node = unit.ancestors[at]
        assert isinstance(node, ast.If)
        if not lines[node.lineno - 1][node.col_offset :].startswith(b"elif"):
            return at
        at -= 1
    return at


def _test_text(test: ast.expr, replaced: Sequence[tuple[ast.expr, str]]) -> str:
    """Give a condition in the normal form of ``ast.unparse``, replacements made."""
    text = ast.unparse(test)
    for old, new in replaced:
        text = text.replace(ast.unparse(old), ast.unparse(ast.parse(new, mode="eval")))
    return text


def _function_around(spot: Spot, tree: ast.Module | None) -> ast.AST:
    assert tree is not None
    return find_scope(tree, spot.scope) or tree


def _top_level_index(spot: Spot) -> int:
    """Give the index of the top-level statement of the base that holds the place."""
    line = getattr(spot.node, "lineno", None)
    if line is None:
        return len(spot.tree.body)
    return next(
        (
            index
            for index, node in enumerate(spot.tree.body)
            if node.lineno <= line <= (node.end_lineno or node.lineno)
        ),
        len(spot.tree.body),
    )


def _names_bound(node: ast.stmt) -> frozenset[str]:
    return top_level_names(ast.Module(body=[node], type_ignores=[]))

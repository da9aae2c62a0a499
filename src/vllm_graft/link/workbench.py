# The bench on which edits are made: base files opened for additions, donor files for cutting, and the
# imports and definitions that come along. What is to be added is decided in members.py and branches.py.
"""Additions to base files, collected until all are known."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.link.excerpt import Excerpter, Retargeting
from vllm_graft.link.names import Bindings, Import, NameSource, free_names, top_level_names
from vllm_graft.link.places import Spot, position_in
from vllm_graft.link.sites import Owned
from vllm_graft.link.surgery import FileSurgery
from vllm_graft.link.tables import SourceTrees, path_of
from vllm_graft.link.units import Unit
from vllm_graft.link.vllm import Layout
from vllm_graft.values.plan import SiteDecision


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
class Workbench:
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
    found: dict[int, Spot | None] = field(default_factory=dict[int, Spot | None])
    """Collection of the donor, by identity → the same in the base: many members share one."""
    _placed: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Base file → name → index of the statement that its definition was put before."""
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

    def note_arrival(self, path: str, name: str) -> None:
        """Remember that a definition was brought into a base file."""
        self._arrived.setdefault(path, set()).add(name)

    def arrived(self, path: str, name: str) -> bool:
        """Tell whether a definition or import was brought into a base file."""
        return name in self._arrived.get(path, ())

    def bind(
        self, nodes: Sequence[ast.AST], local: frozenset[str], path: str, spot: Spot
    ) -> Outcome | None:
        """Bring what the nodes need into the base file; give the refusal where that cannot be."""
        arrived = self._arrived.setdefault(spot.path, set())
        bindings = Bindings()
        source = NameSource(
            path=path,
            donor=self.donor,
            base=self.base,
            base_path=spot.path,
            grafted=self.grafted,
            arrived=frozenset(arrived),
        )
        source.bind(nodes, local, bindings)
        if bindings.missing:
            return Outcome(
                decision="refuse",
                reason="; ".join(dict.fromkeys(bindings.missing)),
                base_path=spot.path,
            )
        for needed in bindings.imports:
            if needed.bound not in arrived:
                arrived.add(needed.bound)
                self.insert_import(needed, spot.path)
        limit = _top_level_index(spot)
        for definition in bindings.definitions:
            for name in _names_bound(definition):
                arrived.add(name)
            self.insert_definition(definition, path, spot.path, before=limit)
        return None

    def insert_import(self, needed: Import, path: str) -> None:
        """Import a name at the top of a base file."""
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

    def insert_definition(
        self, definition: ast.stmt, path: str, base_path: str, *, before: int
    ) -> None:
        """Put a top-level definition where its neighbours are, before what uses it and after what it needs.

        ``before``: index of the top-level statement of the base that it must precede.
        """
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
        placed = self._placed.setdefault(base_path, {})
        least = max([least, *(placed[name] for name in needs if name in placed)])
        position = min(max(found if found is not None else before, least), before)
        placed.update(dict.fromkeys(_names_bound(definition), position))
        source = cutter.lines(definition, 0)
        spaced = isinstance(definition, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        name = ", ".join(sorted(_names_bound(definition)))
        self.insert_statement(
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

    def insert_statement(
        self, path: str, block: Sequence[ast.stmt], position: int, source: str, why: str
    ) -> None:
        """Put source, as whole lines, before the statement at a position of a block."""
        if position:
            earlier = block[position - 1]
            line = (earlier.end_lineno or earlier.lineno) + 1
        else:
            line = block[0].lineno
        self.surgery(path, why).insert_lines(line, source)

    def transplanted(self, unit: Unit, path: str, spot: Spot, reason: str) -> Outcome:
        """Note what was inserted and give the outcome."""
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

    def check_paths(self, value: ast.expr) -> None:
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

    def text(self, path: str) -> bytes:
        """Give the text of a donor file."""
        return self.donor.files.read(path)


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

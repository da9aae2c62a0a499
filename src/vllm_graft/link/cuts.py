# Of a donor module that goes beside the base's, only what the graft reaches is kept: the rest would need what the
# base lacks, and would register a second time what the base has registered.
"""Cuts: what a module loses that is taken only in part."""

import ast
from collections.abc import Iterator

from vllm_graft.link.linked import Linked
from vllm_graft.link.redirect import import_line
from vllm_graft.link.resolution import Taken
from vllm_graft.link.scopes import flatten, global_names
from vllm_graft.link.splices import Source, Splice, removal
from vllm_graft.link.uses import NameUse


class Cuts:
    """Finds what a taken module keeps."""

    def __init__(self, linked: Linked) -> None:
        """Cut as the linker decided."""
        self._linked = linked
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor

    def used_names(self, taken: Taken) -> frozenset[str] | None:
        """Local names that the kept code of a module uses; None where everything is kept."""
        if taken.kind == "donor":
            return None
        summary = self._donor.summary(taken.module)
        if summary is None:
            return frozenset()
        reached = {u.name for u in self._linked.units if u.module == taken.module}
        tree = self._donor.tree(taken.module)
        names: set[str] = set()
        for name in reached:
            definition = summary.definitions.get(name)
            node = definition.node if definition is not None else None
            if node is not None and self._is_emitted(taken.module, name):
                names.update(global_names(node))
        for statement in summary.loose:
            if not self._is_loose_registration(statement, taken.module, reached):
                names.update(global_names(statement))
        for node in tree.body:
            if isinstance(node, ast.If):
                names.update(global_names(node.test))
        for node in self._stand_ins(taken.module, names):
            names.update(global_names(node))
        return frozenset(names)

    def _stand_ins(self, module: str, names: set[str]) -> Iterator[ast.stmt]:
        """Statements that give names of this set a value at run time only; the set may grow meanwhile."""
        for item in flatten(self._donor.tree(module).body):
            name = _defined_name(item.node)
            if name is not None and name in names and self._stands_in(module, name, item.node):
                yield item.node

    def cut(
        self, taken: Taken, source: Source, notes: list[str], used: frozenset[str]
    ) -> tuple[list[Splice], list[str]]:
        """Cut what the graft does not reach, and import what the base's version serves for."""
        if taken.kind == "donor":
            return [], []
        splices: list[Splice] = []
        borrowed: list[str] = []
        kept: list[str] = []
        reached = {u.name for u in self._linked.units if u.module == taken.module}
        for item in flatten(self._donor.tree(taken.module).body):
            node = item.node
            name = _defined_name(node)
            if name is None:
                if self._is_loose_registration(node, taken.module, reached):
                    splices.append(removal(node, source))
                continue
            if name in used and self._stands_in(taken.module, name, node):
                continue
            found = self._donor.resolve(taken.module, name)
            declined = found is not None and self._decisions.prefers_base(found)
            if name in reached and not declined:
                kept.append(name)
                continue
            splices.append(removal(node, source, block=bool(item.guard)))
            if declined and found is not None and self._names_used_in(taken.module, reached, name):
                decision = self._decisions.of(found)
                borrowed.append(import_line(decision, name))
        notes.append(f"definitions kept: {', '.join(dict.fromkeys(kept))}")
        return splices, list(dict.fromkeys(borrowed))

    def _stands_in(self, module: str, name: str, node: ast.stmt) -> bool:
        """Tell whether a value stands in at run time for what only type checkers import."""
        summary = self._donor.summary(module)
        definition = summary.definitions.get(name) if summary else None
        return definition is not None and definition.node is not node

    def _names_used_in(self, module: str, reached: set[str], name: str) -> bool:
        return any(
            isinstance(use, NameUse)
            and use.owner.name in reached
            and use.target.module == module
            and use.target.name == name
            and self._is_emitted(module, use.owner.name)
            for use in self._decisions.pair.uses_of(module).uses
        )

    def _is_emitted(self, module: str, name: str) -> bool:
        if not name:
            return True
        found = self._donor.resolve(module, name)
        return found is None or not self._decisions.prefers_base(found)

    def _is_loose_registration(self, node: ast.stmt, module: str, reached: set[str]) -> bool:
        """Tell whether a bare statement is about definitions that are cut."""
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            return False
        summary = self._donor.summary(module)
        own = {
            n
            for n in global_names(node)
            if summary is not None
            and n in summary.definitions
            and summary.definitions[n].kind in {"function", "class"}
        }
        return bool(own) and not own <= reached


def _defined_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name):
            return target.id
    return None

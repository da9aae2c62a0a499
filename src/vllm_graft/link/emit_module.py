# Donor files keep every byte that needs no change.
"""Whole donor modules as text: imports redirected, what the graft does not reach cut."""

import ast
from collections.abc import Iterator, Sequence

from vllm_graft.link.cuts import Cuts
from vllm_graft.link.environment import reader_of
from vllm_graft.link.linked import Linked
from vllm_graft.link.redirect import BASE_SUFFIX, Place, Redirection, base_import, import_line
from vllm_graft.link.resolution import Taken
from vllm_graft.link.scopes import flatten
from vllm_graft.link.splices import Source, Splice, removal
from vllm_graft.link.syntax import every_statement
from vllm_graft.link.uses import NameUse, span_of
from vllm_graft.values.plan import GraftedModule


class ModuleEmitter:
    """Writes donor modules that the graft takes."""

    def __init__(self, linked: Linked, donor_version: str) -> None:
        """Write as the linker decided."""
        self._linked = linked
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._version = donor_version
        self._redirection = Redirection(linked)
        self._cuts = Cuts(linked)

    def emit(self, taken: Taken) -> GraftedModule:
        """Give the file of a donor module that is taken."""
        module = taken.module
        source = Source(self._donor.source(module))
        path = self._donor.path_of(module) or ""
        is_package = path.endswith("/__init__.py")
        place = Place(
            module=module,
            target=taken.target,
            is_package=is_package,
            is_elsewhere=is_package and taken.kind == "beside",
        )
        notes: list[str] = []
        splices = list(self._redirection.rewrites(module, source, notes))
        splices.extend(self._redirection.operators(module, source, notes))
        used = self._cuts.used_names(taken)
        cut, borrowed = self._cuts.cut(taken, source, notes, used or frozenset())
        splices.extend(cut)
        splices.extend(self._import_splices(place, source, used=used, notes=notes))
        chains, extra = self._chain_splices(taken, source)
        splices.extend(chains)
        header = self._insertion_point(module, source)
        if borrowed or extra:
            splices.append(Splice(header, header, "".join([*borrowed, *extra])))
        text = source.spliced(splices)
        target_path = path
        if taken.kind == "beside":
            target_path = taken.target.replace(".", "/") + ("/__init__.py" if is_package else ".py")
            text = self._note(path, taken, notes) + text
        return GraftedModule(
            name=taken.target,
            path=target_path,
            kind=taken.kind,
            why=taken.why,
            origin=module,
            text=text,
            rewrites=tuple(dict.fromkeys(notes)),
        )

    def _note(self, path: str, taken: Taken, notes: Sequence[str]) -> str:
        lines = [
            f"# Grafted from vLLM {self._version}, {path}: {taken.why}.",
            *(f"# {note}." for note in dict.fromkeys(notes)),
        ]
        return "\n".join(line[:160] for line in lines) + "\n"

    def _import_splices(
        self,
        place: Place,
        source: Source,
        *,
        used: frozenset[str] | None,
        notes: list[str],
    ) -> Iterator[Splice]:
        tree = self._donor.tree(place.module)
        top = {id(item.node) for item in flatten(tree.body)}
        for node in every_statement(tree):
            if isinstance(node, ast.ImportFrom):
                yield from self._redirection.imports_from(
                    place, node, source, used=used if id(node) in top else None, notes=notes
                )
            elif isinstance(node, ast.Import) and used is not None and id(node) in top:
                kept = [a for a in node.names if (a.asname or a.name.split(".")[0]) in used]
                if not kept:
                    yield removal(node, source, block=node.col_offset > 0)

    def _chain_splices(self, taken: Taken, source: Source) -> tuple[list[Splice], list[str]]:
        """Redirect names that are written as attributes of an imported module: ``envs.X``."""
        splices: list[Splice] = []
        lines: list[str] = []
        checks = {
            span_of(part): base
            for part, base in self._redirection.instance_checks(
                taken.module, self._donor.tree(taken.module)
            )
        }
        for span, base in checks.items():
            local = f"{base.name}{BASE_SUFFIX}"
            lines.append(base_import(base, local))
            splices.append(Splice(*source.of(span), local))
        reached = {u.name for u in self._linked.units if u.module == taken.module}
        for use in self._decisions.pair.uses_of(taken.module).uses:
            if not isinstance(use, NameUse) or use.span in checks:
                continue
            if taken.kind == "beside" and use.owner.name not in reached:
                continue
            decision = self._redirection.chain(taken.module, use)
            if decision is None:
                continue
            local = f"_linked_{use.target.name}"
            lines.append(import_line(decision, local))
            is_read = (
                decision.kind == "extracted" and reader_of(self._donor, use.target) is not None
            )
            splices.append(Splice(*source.of(use.span), f"{local}()" if is_read else local))
        return splices, list(dict.fromkeys(lines))

    def _insertion_point(self, module: str, source: Source) -> int:
        """Byte offset behind the last top-level import of a module."""
        last = 0
        for node in self._donor.tree(module).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                last = node.end_lineno or node.lineno
        return source.line_start(last + 1)

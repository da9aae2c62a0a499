# The texts of the files that a graft adds. Donor files keep every byte that needs no change; what changes is
# spliced in at positions that the syntax tree gives. Names are redirected in import statements, under the
# local name that the donor's code uses, so that the code itself stays the donor's.
"""Grafted modules as text: imports redirected, unused definitions cut, single definitions collected."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vllm_graft.link.decide import Decision, Derivation, Taken
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.linked import Linked, Rewrite
from vllm_graft.link.symbols import (
    Definition,
    absolute_module,
    flatten,
    global_names,
    start_line,
)
from vllm_graft.link.uses import NameUse, OperatorUse, Span, span_of
from vllm_graft.values.plan import GraftedModule

_BASE_SUFFIX = "__base"


@dataclass(frozen=True, slots=True, order=True)
class Splice:
    """Replace bytes ``start`` to ``end`` (exclusive) of a file by ``text``."""

    start: int
    end: int
    text: str


class Source:
    """Bytes of a module with line offsets."""

    def __init__(self, content: bytes) -> None:
        """Index the lines."""
        self.content = content
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a place: line from 1, column in bytes from 0."""
        return self._starts[line - 1] + column

    def line_start(self, line: int) -> int:
        """Byte offset where a line begins; the end of the file for the line after the last."""
        return self._starts[min(line - 1, len(self._starts) - 1)]

    def of(self, span: Span) -> tuple[int, int]:
        """Byte offsets of a span."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def spliced(self, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
        """Text from ``start`` to ``end`` with the splices inside it made.

        A splice inside another one is dropped: the outer one replaces it anyway.
        """
        stop = len(self.content) if end is None else end
        chosen: list[Splice] = []
        for splice in sorted(set(splices), key=lambda s: (s.start, -s.end)):
            if splice.start < start or splice.end > stop:
                continue
            if chosen and splice.start < chosen[-1].end:
                continue
            chosen.append(splice)
        parts: list[bytes] = []
        at = start
        for splice in chosen:
            parts.append(self.content[at : splice.start])
            parts.append(splice.text.encode())
            at = splice.end
        parts.append(self.content[at:stop])
        return b"".join(parts).decode()


def emit(linked: Linked, *, donor_version: str) -> tuple[GraftedModule, ...]:
    """Give the texts of all files that the graft adds, by path."""
    emitter = _Emitter(linked, donor_version)
    modules = [emitter.taken(taken) for taken in list(linked.decisions.taken.values())]
    family = emitter.family()
    if family is not None:
        modules.append(family)
    return tuple(sorted(modules, key=lambda m: m.path))


class _Emitter:
    def __init__(self, linked: Linked, donor_version: str) -> None:
        self._linked = linked
        self._decisions = linked.decisions
        self._donor: Index = linked.decisions.donor
        self._base: Index = linked.decisions.base
        self._version = donor_version

    # ── whole modules ─────────────────────────────────────────────────────────────────────────────────

    def taken(self, taken: Taken) -> GraftedModule:
        module = taken.module
        source = Source(self._donor.source(module))
        path = self._donor.path_of(module) or ""
        is_package = path.endswith("/__init__.py")
        notes: list[str] = []
        splices = list(self._contract_splices(module, source, notes))
        splices.extend(self._operator_splices(module, source, notes))
        used = self._used_names(taken)
        cut, borrowed = self._cut(taken, source, notes, used or frozenset())
        splices.extend(cut)
        splices.extend(
            self._import_splices(taken, source, used=used, is_package=is_package, notes=notes)
        )
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

    def _contract_splices(self, module: str, source: Source, notes: list[str]) -> Iterator[Splice]:
        for rewrite in self._linked.rewrites:
            if rewrite.module == module:
                notes.append(rewrite.note)
                yield self._rewrite_splice(rewrite, source)

    @staticmethod
    def _rewrite_splice(rewrite: Rewrite, source: Source) -> Splice:
        start, end = source.of(rewrite.span)
        if rewrite.text:
            receiver = source.content[start:end].rpartition(b".")[0].decode()
            return Splice(start, end, rewrite.text.replace("@", receiver))
        # An argument goes with the comma behind it, or else the one before it.
        content = source.content
        after = end
        while after < len(content) and content[after : after + 1].isspace():
            after += 1
        if content[after : after + 1] == b",":
            after += 1
            while after < len(content) and content[after : after + 1] in b" \t":
                after += 1
            return Splice(start, after, "")
        before = start
        while before > 0 and content[before - 1 : before].isspace():
            before -= 1
        if content[before - 1 : before] == b",":
            return Splice(before - 1, end, "")
        return Splice(start, end, "")

    def _operator_splices(self, module: str, source: Source, notes: list[str]) -> Iterator[Splice]:
        for use in self._decisions.pair.uses_of(module).uses:
            if isinstance(use, OperatorUse) and use.namespace == "vllm":
                new = self._linked.operators.get(use.name, use.name)
                if new != use.name:
                    start, end = source.of(use.span)
                    notes.append(f"torch.ops.vllm.{use.name} is called as {new}")
                    yield Splice(start, end, f"torch.ops.vllm.{new}")

    def _cut(
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
            name = self._defined_name(node)
            if name is None:
                if self._is_loose_registration(node, taken.module, reached):
                    splices.append(self._removal(node, source))
                continue
            if name in used and self._stands_in(taken.module, name, node):
                continue
            found = self._donor.resolve(taken.module, name)
            declined = found is not None and self._decisions.prefers_base(found)
            if name in reached and not declined:
                kept.append(name)
                continue
            splices.append(self._removal(node, source, block=bool(item.guard)))
            if declined and found is not None and self._names_used_in(taken.module, reached, name):
                decision = self._decisions.of(found)
                borrowed.append(self._import_line(decision, name))
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

    @staticmethod
    def _defined_name(node: ast.stmt) -> str | None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return node.name
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                return target.id
        return None

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

    @staticmethod
    def _removal(node: ast.stmt, source: Source, *, block: bool = False) -> Splice:
        first = (
            start_line(node)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            else node.lineno
        )
        start = source.line_start(first)
        end = source.line_start((node.end_lineno or node.lineno) + 1)
        return Splice(start, end, f"{' ' * node.col_offset}pass\n" if block else "")

    def _used_names(self, taken: Taken) -> frozenset[str] | None:
        """Local names that the kept code of a module uses; None where everything is kept."""
        if taken.kind == "donor":
            return None
        summary = self._donor.summary(taken.module)
        if summary is None:
            return frozenset()
        reached = {u.name for u in self._linked.units if u.module == taken.module}
        names: set[str] = set()
        for name in reached:
            definition = summary.definitions.get(name)
            if (
                definition is not None
                and definition.node is not None
                and self._is_emitted(taken.module, name)
            ):
                names.update(global_names(definition.node))
        for statement in summary.loose:
            if not self._is_loose_registration(statement, taken.module, reached):
                names.update(global_names(statement))
        for node in self._donor.tree(taken.module).body:
            if isinstance(node, ast.If):
                names.update(global_names(node.test))
        for item in flatten(self._donor.tree(taken.module).body):
            name = self._defined_name(item.node)
            if name in names and self._stands_in(taken.module, name, item.node):
                names.update(global_names(item.node))
        return frozenset(names)

    def _import_splices(
        self,
        taken: Taken,
        source: Source,
        *,
        used: frozenset[str] | None,
        is_package: bool,
        notes: list[str],
    ) -> Iterator[Splice]:
        tree = self._donor.tree(taken.module)
        top = {id(item.node) for item in flatten(tree.body)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                yield from self._import_from(
                    taken,
                    node,
                    source,
                    used=used if id(node) in top else None,
                    is_package=is_package,
                    notes=notes,
                )
            elif isinstance(node, ast.Import) and used is not None and id(node) in top:
                kept = [a for a in node.names if (a.asname or a.name.split(".")[0]) in used]
                if not kept:
                    yield self._removal(node, source, block=node.col_offset > 0)

    def _import_from(
        self,
        taken: Taken,
        node: ast.ImportFrom,
        source: Source,
        *,
        used: frozenset[str] | None,
        is_package: bool,
        notes: list[str],
        elsewhere: bool = False,
    ) -> Iterator[Splice]:
        origin = absolute_module(
            taken.module, is_package=is_package, level=node.level, target=node.module
        )
        if origin == "__future__":
            return
        kept: list[ast.alias] = []
        lines: list[str] = []
        for alias in node.names:
            local = alias.asname or alias.name
            if used is not None and local not in used and alias.name != "*":
                continue
            redirected = self._redirect(taken, origin, alias, notes) if is_inside(origin) else None
            if redirected is None:
                kept.append(alias)
            elif redirected and not redirected.startswith(f"from {self._here(taken)} import"):
                lines.append(redirected)
        relative_is_broken = node.level > 0 and (
            elsewhere or (taken.kind == "beside" and is_package)
        )
        if len(kept) == len(node.names) and not lines and not relative_is_broken:
            return
        head = origin if relative_is_broken else "." * node.level + (node.module or "")
        if kept:
            names = ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in kept)
            lines.insert(
                0,
                f"from {head} import {names}\n"
                if len(names) < 60  # noqa: PLR2004
                else f"from {head} import (\n"
                + "".join(f"    {a.name}{f' as {a.asname}' if a.asname else ''},\n" for a in kept)
                + ")\n",
            )
        start, end = source.of(span_of(node))
        indent = " " * node.col_offset
        body = ("\n" + indent).join(
            part for line in lines for part in line.rstrip("\n").split("\n")
        )
        if not body:
            body = "pass" if node.col_offset else ""
        yield Splice(start, end, body)

    def _here(self, taken: Taken) -> str:
        """Module that the emitted text stands in."""
        return taken.target

    def _redirect(
        self, taken: Taken, origin: str, alias: ast.alias, notes: list[str]
    ) -> str | None:
        """Give the import line that replaces one alias; None where it may stay as it is."""
        if alias.name == "*":
            return None
        found = self._donor.resolve(origin, alias.name)
        local = alias.asname or alias.name
        if found is None:
            return None
        if found.definition.kind == "import":  # comes from outside through a re-export of vLLM
            if self._base.resolve(origin, alias.name) is not None:
                return None
            return _outside_import(found.definition, local)
        decision = self._decisions.of(found)
        if decision.kind == "blocked":
            notes.append(f"{local} is not in the base: {decision.reason}")
            return f"{local} = None  # not in the base\n"
        if self._is_satisfied(origin, alias.name, found, decision):
            return None
        if decision.kind in {"moved", "extracted", "derived"} or decision.module != origin:
            notes.append(f"{local} comes from {decision.module}")
        del taken
        return self._import_line(decision, local)

    def _is_satisfied(self, origin: str, name: str, found: Found, decision: Decision) -> bool:
        """Tell whether an import as the donor writes it gives the right thing in the grafted base."""
        if decision.kind in {"extracted", "derived"}:
            return False
        if decision.kind == "grafted":
            if found.definition.kind == "submodule":
                return decision.module == f"{origin}.{name}"
            return decision.module == origin and decision.name == name
        there = self._base.resolve(origin, name)
        return (
            there is not None and decision.base is not None and there.dotted == decision.base.dotted
        )

    @staticmethod
    def _import_line(decision: Decision, local: str) -> str:
        if not decision.name:
            package, _, last = decision.module.rpartition(".")
            alias = "" if last == local else f" as {local}"
            return f"from {package} import {last}{alias}\n"
        alias = "" if decision.name == local else f" as {local}"
        line = f"from {decision.module} import {decision.name}{alias}\n"
        if len(line) <= 89:  # noqa: PLR2004  vLLM's own line length is 88
            return line
        return f"from {decision.module} import (\n    {decision.name}{alias},\n)\n"

    def _chain_splices(self, taken: Taken, source: Source) -> tuple[list[Splice], list[str]]:
        """Redirect names that are written as attributes of an imported module: ``envs.X``."""
        splices: list[Splice] = []
        lines: list[str] = []
        reached = {u.name for u in self._linked.units if u.module == taken.module}
        for use in self._decisions.pair.uses_of(taken.module).uses:
            if not isinstance(use, NameUse) or "." not in use.written or ":" in use.written:
                continue
            if taken.kind == "beside" and use.owner.name not in reached:
                continue
            replacement = self._chain_replacement(taken.module, use, lines)
            if replacement is not None:
                start, end = source.of(use.span)
                splices.append(Splice(start, end, replacement))
        return splices, list(dict.fromkeys(lines))

    def _chain_replacement(self, module: str, use: NameUse, lines: list[str]) -> str | None:
        decision = self._decisions.of(use.target)
        if decision.kind == "blocked" or use.target.definition.kind == "submodule":
            return None
        base_view = (
            self._base.resolve_dotted(module, use.written) if self._base.summary(module) else None
        )
        if (
            decision.base is not None
            and decision.kind in {"identical", "changed", "moved"}
            and (
                (base_view is not None and base_view[0].dotted == decision.base.dotted)
                or decision.base.dotted == use.target.dotted
            )
        ):
            return None
        if decision.kind == "grafted" and decision.module == use.target.module:
            return None
        local = f"_linked_{use.target.name}"
        lines.append(self._import_line(decision, local))
        return local

    def _insertion_point(self, module: str, source: Source) -> int:
        """Byte offset behind the last top-level import of a module."""
        last = 0
        for node in self._donor.tree(module).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                last = node.end_lineno or node.lineno
        return source.line_start(last + 1)

    # ── the graft's own module ────────────────────────────────────────────────────────────────────────

    def family(self) -> GraftedModule | None:
        decisions = self._decisions
        if not decisions.extracted and not decisions.derived:
            return None
        pieces: dict[str, _Piece] = {}
        for dotted, found in list(decisions.extracted.items()):
            pieces[dotted] = self._extracted_piece(found)
        for dotted, derivation in list(decisions.derived.items()):
            pieces[dotted] = self._derived_piece(derivation)
        imports: dict[str, str] = {}
        aliases: list[str] = []
        for piece in pieces.values():
            for local, line in piece.imports.items():
                if imports.setdefault(local, line) != line:
                    aliases.append(f"# {local} is imported twice\n")
        ordered = _in_import_order(pieces)
        notes = tuple(piece.why for piece in ordered)
        text = (
            "# SPDX-License-Identifier: Apache-2.0\n"
            "# SPDX-FileCopyrightText: Copyright contributors to the vLLM project\n"
            f"# Single definitions of vLLM {self._version} that the grafted model needs and the base lacks,\n"
            "# or has with another contract. Written by vllm-graft; do not edit.\n"
            + "".join(sorted(imports.values(), key=_import_key))
            + "".join(aliases)
            + "".join(
                f"\n\n# {piece.origin}: {piece.why}\n{piece.text.rstrip()}\n" for piece in ordered
            )
        )
        return GraftedModule(
            name=decisions.family,
            path=decisions.family.replace(".", "/") + ".py",
            kind="extracted",
            why="definitions that the base lacks or has with another contract",
            origin=decisions.family.rpartition(".")[2],
            text=text,
            rewrites=notes,
        )

    def _extracted_piece(self, found: Found) -> "_Piece":
        source = Source(self._donor.source(found.module))
        definition = found.definition
        start = source.line_start(definition.line)
        end = source.line_start(definition.end_line + 1)
        assert definition.node is not None
        splices = self._piece_splices(found.module, source, definition.node)
        text = _dedented(source.spliced(splices, start, end))
        return _Piece(
            name=found.name,
            origin=found.dotted,
            why=self._decisions.extraction_reasons[found.dotted],
            text=text,
            imports=self._piece_imports(found.module, global_names(definition.node) - {found.name}),
            needs=frozenset(self._needed_at_import(found.module, definition.node)),
        )

    def _piece_splices(self, module: str, source: Source, node: ast.stmt) -> list[Splice]:
        """Changes inside a piece: the contract's, renamed operators, imports of its functions."""
        ignored: list[str] = []
        place = Taken(module, self._decisions.family, "beside", "")
        is_package = (self._donor.path_of(module) or "").endswith("/__init__.py")
        splices = [
            *self._contract_splices(module, source, ignored),
            *self._operator_splices(module, source, ignored),
        ]
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom):
                splices.extend(
                    self._import_from(
                        place,
                        inner,
                        source,
                        used=None,
                        is_package=is_package,
                        notes=ignored,
                        elsewhere=True,
                    )
                )
        return splices

    def _derived_piece(self, derivation: Derivation) -> "_Piece":
        found = derivation.donor
        parent = f"{found.name}{_BASE_SUFFIX}"
        imports = {
            parent: self._import_line(
                Decision(
                    kind="changed",
                    module=derivation.base.module,
                    name=derivation.base.name,
                    reason="",
                ),
                parent,
            )
        }
        parts: list[str] = []
        needs: set[str] = set()
        for member, provider in sorted(
            derivation.members.items(),
            key=lambda m: (m[1].module, m[1].definition.members[m[0]].line),
        ):
            source = Source(self._donor.source(provider.module))
            node = provider.definition.node
            if not isinstance(node, ast.ClassDef):
                continue
            splices = self._piece_splices(provider.module, source, node)
            ancestor = parent
            if provider.dotted != found.dotted:
                counterpart = self._decisions.counterpart(provider)
                if counterpart is not None:
                    ancestor = f"{provider.name}{_BASE_SUFFIX}"
                    imports[ancestor] = self._import_line(
                        Decision(
                            kind="changed",
                            module=counterpart.module,
                            name=counterpart.name,
                            reason="",
                        ),
                        ancestor,
                    )
            for item in flatten(node.body):
                statement = item.node
                if not _binds(statement, member):
                    continue
                splices.extend(_explicit_supers(statement, source, ancestor))
                first = (
                    start_line(statement)
                    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                    else statement.lineno
                )
                text = source.spliced(
                    splices,
                    source.line_start(first),
                    source.line_start((statement.end_lineno or first) + 1),
                )
                parts.append(_indented(_dedented(text)))
                imports.update(
                    self._piece_imports(provider.module, global_names(statement) - {found.name})
                )
                needs.update(self._needed_at_import(provider.module, statement))
        doc = f'    """{found.name} of the base with members of vLLM {self._version}."""\n\n'
        return _Piece(
            name=found.name,
            origin=found.dotted,
            why="; ".join(derivation.reasons),
            text=f"class {found.name}({parent}):\n{doc}" + "\n".join(parts),
            imports=imports,
            needs=frozenset(needs),
        )

    def _piece_imports(self, module: str, names: Iterable[str]) -> dict[str, str]:
        """Import lines for the global names of a piece: local name → line."""
        lines: dict[str, str] = {}
        summary = self._donor.summary(module)
        for name in sorted(names):
            definition = summary.definitions.get(name) if summary else None
            if (
                definition is not None
                and definition.kind == "import"
                and not is_inside(definition.target_module)
            ):
                lines[name] = _outside_import(definition, name)
                continue
            found = self._donor.resolve(module, name)
            if found is None:
                continue
            if found.definition.kind == "import":
                lines[name] = _outside_import(found.definition, name)
                continue
            decision = self._decisions.of(found)
            if decision.kind == "blocked":
                lines[name] = f"{name} = None  # not in the base\n"
            elif decision.module == self._decisions.family:
                if decision.name != name:
                    lines[name] = (
                        ""  # an alias inside the same module is made behind its definition
                    )
            else:
                lines[name] = self._import_line(decision, name)
        return lines

    def _needed_at_import(self, module: str, node: ast.stmt) -> Iterator[str]:
        """Dotted donor names that a statement needs when it is executed, not when it is called."""
        for name in global_names(*_executed(node)):
            found = self._donor.resolve(module, name)
            if found is not None:
                yield found.dotted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    name: str
    origin: str
    why: str
    text: str
    imports: dict[str, str]
    needs: frozenset[str]


def _executed(node: ast.stmt) -> Iterator[ast.AST]:
    """Parts of a statement that run when the module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.decorator_list
        yield from node.args.defaults
        yield from (d for d in node.args.kw_defaults if d is not None)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        yield from (a.annotation for a in every if a.annotation is not None)
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.ClassDef):
        yield from node.decorator_list
        yield from node.bases
        yield from (k.value for k in node.keywords)
        for statement in node.body:
            yield from _executed(statement)
    else:
        yield node


def _binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name == name
    if isinstance(statement, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)
    return (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == name
    )


def _explicit_supers(statement: ast.stmt, source: Source, ancestor: str) -> Iterator[Splice]:
    """Make ``super()`` skip the base's own class, as it does where the donor wrote it."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or not statement.args.args:
        return
    receiver = statement.args.args[0].arg
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
        ):
            start, end = source.of(span_of(node))
            yield Splice(start, end, f"super({ancestor}, {receiver})")


def _dedented(text: str) -> str:
    lines = text.splitlines(keepends=True)
    margin = min((len(line) - len(line.lstrip()) for line in lines[:1] if line.strip()), default=0)
    return "".join(
        line[margin:] if line[:margin].isspace() and line.strip() else line for line in lines
    )


def _indented(text: str) -> str:
    return "".join(
        f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True)
    )


def _outside_import(definition: Definition, local: str) -> str:
    """Write an import of something outside vLLM under a local name."""
    if not definition.target_name:
        if isinstance(definition.node, ast.Import):
            for alias in definition.node.names:
                if (alias.asname or alias.name.split(".")[0]) == definition.name:
                    if alias.asname or alias.name != local:
                        return (
                            f"import {alias.name} as {local}\n"
                            if alias.asname
                            else (f"import {alias.name}\n")
                        )
                    return f"import {alias.name}\n"
        return f"import {definition.target_module} as {local}\n"
    alias = "" if definition.target_name == local else f" as {local}"
    return f"from {definition.target_module} import {definition.target_name}{alias}\n"


def _import_key(line: str) -> tuple[int, str]:
    if line.startswith(("import vllm", "from vllm")):
        return 2, line
    return (0 if line.startswith("import") else 1), line


def _in_import_order(pieces: dict[str, _Piece]) -> list[_Piece]:
    """Order pieces so that each stands behind what it needs when it is executed."""
    done: dict[str, _Piece] = {}
    open_: set[str] = set()

    def place(dotted: str) -> None:
        if dotted in done or dotted in open_:
            return
        open_.add(dotted)
        for needed in sorted(pieces[dotted].needs):
            if needed in pieces:
                place(needed)
        done[dotted] = pieces[dotted]

    for dotted in sorted(pieces):
        place(dotted)
    return list(done.values())


__all__ = ["Source", "Splice", "emit"]

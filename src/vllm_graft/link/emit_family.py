# Single definitions, extracted or derived, go to one module of the graft's own, in the order in which importing
# it needs them.
"""The graft's own module: definitions that the base lacks or has with another contract."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllm_graft.link.decide import Decision, Derivation
from vllm_graft.link.index import Found, is_inside
from vllm_graft.link.linked import Linked
from vllm_graft.link.redirect import Place, Redirection, import_line, outside_import
from vllm_graft.link.scopes import flatten, global_names
from vllm_graft.link.splices import Source, Splice, dedented, explicit_supers, indented
from vllm_graft.link.symbols import start_line
from vllm_graft.values.plan import GraftedModule

_BASE_SUFFIX = "__base"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    name: str
    origin: str
    why: str
    text: str
    imports: dict[str, str]
    needs: frozenset[str]


class FamilyEmitter:
    """Writes the graft's own module."""

    def __init__(self, linked: Linked, donor_version: str) -> None:
        """Write as the linker decided."""
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._version = donor_version
        self._redirection = Redirection(linked)

    def emit(self) -> GraftedModule | None:
        """Give the graft's own module; None where there is nothing for it."""
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
        text = dedented(source.spliced(splices, start, end))
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
        place = Place(
            module=module,
            target=self._decisions.family,
            is_package=(self._donor.path_of(module) or "").endswith("/__init__.py"),
            is_elsewhere=True,
        )
        splices = [
            *self._redirection.rewrites(module, source, ignored),
            *self._redirection.operators(module, source, ignored),
        ]
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom):
                splices.extend(
                    self._redirection.imports_from(place, inner, source, used=None, notes=ignored)
                )
        return splices

    def _derived_piece(self, derivation: Derivation) -> "_Piece":
        found = derivation.donor
        parent = f"{found.name}{_BASE_SUFFIX}"
        imports = {
            parent: import_line(
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
                    imports[ancestor] = import_line(
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
                splices.extend(explicit_supers(statement, source, ancestor))
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
                parts.append(indented(dedented(text)))
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
                lines[name] = outside_import(definition, name)
                continue
            found = self._donor.resolve(module, name)
            if found is None:
                continue
            if found.definition.kind == "import":
                lines[name] = outside_import(found.definition, name)
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
                lines[name] = import_line(decision, name)
        return lines

    def _needed_at_import(self, module: str, node: ast.stmt) -> Iterator[str]:
        """Dotted donor names that a statement needs when it is executed, not when it is called."""
        for name in global_names(*_executed(node)):
            found = self._donor.resolve(module, name)
            if found is not None:
                yield found.dotted


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

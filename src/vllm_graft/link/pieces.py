# A piece is the donor's own text of one definition, or of the members that a derived class gets; what it takes from
# its module is imported, under the donor's local name wherever that is free.
"""Single definitions as text: what is extracted, what is derived."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.link.constructors import generates_constructor
from vllm_graft.link.environment import reader_of
from vllm_graft.link.index import Found, is_inside
from vllm_graft.link.linked import Linked
from vllm_graft.link.local_names import LocalNames
from vllm_graft.link.redirect import (
    BASE_SUFFIX,
    Place,
    Redirection,
    base_import,
    outside_import,
)
from vllm_graft.link.resolution import Decision, Derivation
from vllm_graft.link.scopes import (
    annotations_in,
    bound_by,
    flatten,
    global_name_nodes,
    global_names,
    has_lazy_annotations,
)
from vllm_graft.link.splices import (
    Source,
    Splice,
    dedented,
    explicit_supers,
    indented,
    renamed_definition,
    renamed_globals,
)
from vllm_graft.link.symbols import Definition, start_line
from vllm_graft.link.uses import NameUse, Span, span_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One definition of the graft's own module."""

    origin: str
    """Dotted name in the donor."""
    why: str
    text: str
    executed: frozenset[str]
    """Dotted donor names that importing it needs."""
    called: frozenset[str]
    """All dotted donor names that its code needs."""


class Pieces:
    """Writes pieces; the names that they take from elsewhere are bound in ``names``."""

    def __init__(self, linked: Linked, names: LocalNames, donor_version: str) -> None:
        """Write as the linker decided."""
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._names = names
        self._version = donor_version
        self._redirection = Redirection(linked)

    # ── extracted definitions ─────────────────────────────────────────────────────────────────────

    def extracted(self, found: Found) -> Piece:
        """Give the text of a definition that is taken out of its module."""
        reader = reader_of(self._donor, found)
        if reader is not None:
            return self._reader(found, reader)
        node = found.definition.node
        assert node is not None
        source = Source(self._donor.source(found.module))
        splices = self._changes(found.module, source, node)
        own = self._decisions.name_of(found)
        if own != found.name:
            splices.extend(renamed_definition(node, source, own))
        start = source.line_start(found.definition.line)
        end = source.line_start(found.definition.end_line + 1)
        return Piece(
            origin=found.dotted,
            why=self._decisions.extraction_reasons[found.dotted],
            text=dedented(source.spliced(splices, start, end)),
            executed=self._executed(found.module, node),
            called=self._origins(found.module, node),
        )

    def _reader(self, found: Found, reader: ast.expr) -> Piece:
        source = Source(self._donor.source(found.module))
        text = source.spliced(
            self._changes(found.module, source, reader), *source.of(span_of(reader))
        )
        return Piece(
            origin=found.dotted,
            why=self._decisions.extraction_reasons[found.dotted],
            text=f"def {self._decisions.name_of(found)}():\n"
            f'    """Read the environment as vLLM {self._version} does."""\n'
            f"    return ({text})()\n",
            executed=frozenset(),
            called=self._origins(found.module, reader),
        )

    # ── derived classes ───────────────────────────────────────────────────────────────────────────

    def derived(self, derivation: Derivation) -> Piece:
        """Give a class that derives from the base's and has members of the donor's."""
        found = derivation.donor
        own = self._decisions.name_of(found)
        parent = self._base_class(derivation.base)
        parts: list[str] = []
        executed: set[str] = set()
        called: set[str] = set()
        for member, provider in sorted(
            derivation.members.items(),
            key=lambda m: (m[1].module, m[1].definition.members[m[0]].line),
        ):
            node = provider.definition.node
            counterpart = self._decisions.counterpart(provider)
            is_own = provider.dotted == found.dotted or counterpart is None
            ancestor = parent if is_own or counterpart is None else self._base_class(counterpart)
            source = Source(self._donor.source(provider.module))
            for item in flatten(node.body) if isinstance(node, ast.ClassDef) else ():
                if _binds(item.node, member):
                    parts.append(self._member(provider, source, item.node, ancestor))
                    executed |= self._executed(provider.module, item.node)
                    called |= self._origins(provider.module, item.node)
        doc = f'    """{found.name} of the base with members of vLLM {self._version}."""\n\n'
        if self._is_generic(derivation.base):
            # A subclass that does not repeat the type variables is not generic, and `X[…]` of it fails.
            parts.insert(
                0,
                "    @classmethod\n    def __class_getitem__(cls, _item):\n        return cls\n",
            )
        decorators, named = self._of_fields(derivation)
        return Piece(
            origin=found.dotted,
            why="; ".join(derivation.reasons),
            text=f"{decorators}class {own}({parent}):\n{doc}" + "\n".join(parts),
            executed=frozenset(executed | named),
            called=frozenset(called | named),
        )

    def _of_fields(self, derivation: Derivation) -> tuple[str, frozenset[str]]:
        """Decorators that a derived class needs where it has fields that its constructor takes; what they name."""
        found = derivation.donor
        node = found.definition.node
        has_fields = any(
            provider.definition.members[member].annotation is not None
            for member, provider in derivation.members.items()
        )
        if (
            not has_fields
            or not isinstance(node, ast.ClassDef)
            or generates_constructor(self._donor, found) != found
        ):
            return "", frozenset()
        source = Source(self._donor.source(found.module))
        lines = [
            "@"
            + source.spliced(self._changes(found.module, source, each), *source.of(span_of(each)))
            for each in node.decorator_list
        ]
        return "".join(f"{line}\n" for line in lines), self._origins(
            found.module, *node.decorator_list
        )

    def _is_generic(self, found: Found) -> bool:
        """Tell whether a class of the base takes type arguments: it, or an ancestor, is given type variables."""
        return any(
            "[" in parent
            for item in self._decisions.base.ancestry(found).classes
            for parent in item.definition.parents
        )

    def _base_class(self, found: Found) -> str:
        return self._names.bind(
            f"{found.name}{BASE_SUFFIX}",
            lambda local: base_import(found, local),
            found.module.rpartition(".")[2],
        )

    def _member(self, provider: Found, source: Source, node: ast.stmt, ancestor: str) -> str:
        splices = [
            *self._changes(provider.module, source, node),
            *explicit_supers(node, source, ancestor),
        ]
        is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        first = start_line(node) if is_definition else node.lineno
        start = source.line_start(first)
        end = source.line_start((node.end_lineno or first) + 1)
        return indented(dedented(source.spliced(splices, start, end)))

    # ── changes ───────────────────────────────────────────────────────────────────────────────────

    def _changes(self, module: str, source: Source, node: ast.stmt | ast.expr) -> list[Splice]:
        """All changes inside a piece; what it names from elsewhere is bound."""
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
        checks = {
            span_of(part): self._base_class(base)
            for part, base in self._redirection.instance_checks(module, node)
        }
        replaced = {**dict(self._chains(module, node)), **checks}
        renamed = self._renamed(module, global_names(node))
        for name in global_name_nodes(node):
            if name.id in renamed:
                replaced.setdefault(span_of(name), renamed[name.id])
        if has_lazy_annotations(self._donor.tree(module)):
            replaced.update((span_of(a), _quoted(a, renamed)) for a in annotations_in(node))
        splices.extend(Splice(*source.of(span), text) for span, text in replaced.items())
        splices.extend(renamed_globals(node, source, renamed))
        return splices

    def _chains(self, module: str, node: ast.stmt | ast.expr) -> Iterator[tuple[Span, str]]:
        """Attributes of modules, ``envs.X``, that are somewhere else in the grafted base."""
        place = span_of(node)
        for use in self._decisions.pair.uses_of(module).uses:
            if not isinstance(use, NameUse) or use.span not in place:
                continue
            decision = self._redirection.chain(module, use)
            if decision is None:
                continue
            local = decision.name
            if decision.module != self._decisions.family:
                local = self._bound(use.target, decision, f"_linked_{use.target.name}", module)
            is_read = (
                decision.kind == "extracted" and reader_of(self._donor, use.target) is not None
            )
            yield use.span, f"{local}()" if is_read else local

    def _renamed(self, module: str, names: Iterable[str]) -> Mapping[str, str]:
        """Bind the global names of a piece; give those that have another name here."""
        renamed: dict[str, str] = {}
        for name in sorted(names):
            local = self._local(module, name)
            if local is not None and local != name:
                renamed[name] = local
        return renamed

    def _local(self, module: str, name: str) -> str | None:
        """Bind one global name of a donor module; None where nothing binds it."""
        summary = self._donor.summary(module)
        if summary is None or name in summary.only_types:
            return None
        definition = summary.definitions.get(name)
        if (
            definition is not None
            and definition.kind == "import"
            and not is_inside(definition.target_module)
        ):
            return self._outside(module, definition, name)
        found = self._donor.resolve(module, name)
        if found is None:
            return None
        if found.definition.kind == "import":
            return self._outside(found.module, found.definition, name)
        decision = self._decisions.of(found)
        if decision.module == self._decisions.family:
            return decision.name
        return self._bound(found, decision, name, module)

    def _bound(self, found: Found, decision: Decision, preferred: str, module: str) -> str:
        hint = module.rpartition(".")[2]
        if decision.kind == "blocked":
            return self._names.bind(
                preferred, lambda local: f"{local} = None  # not in the base\n", hint
            )
        return self._names.bind(
            preferred, lambda local: self._redirection.line_for(found, decision, local), hint
        )

    def _outside(self, module: str, definition: Definition, name: str) -> str:
        """Bind a name that a donor module takes from outside vLLM, the way that it takes it."""
        hint = module.rpartition(".")[2]
        if definition.guard == "try":
            there = self._decisions.base.resolve(module, definition.name)
            if there is not None:
                here = Found(module, definition)
                return self._names.bind(name, lambda local: base_import(here, local), hint)
            fallback = self._decisions.pair.obstacles.fallback_of(module, definition.name)
            return self._names.bind(
                name,
                lambda local: (
                    f"try:\n    {outside_import(definition, local)}except ImportError:\n"
                    f"    {local} = {fallback or None}\n"
                ),
                hint,
            )
        key = "" if definition.target_name else f"import {definition.target_module}"
        return self._names.bind(name, lambda local: outside_import(definition, local), hint, key)

    def _executed(self, module: str, node: ast.stmt) -> frozenset[str]:
        """Dotted donor names of what importing a statement needs."""
        is_lazy = has_lazy_annotations(self._donor.tree(module))
        return self._origins(module, *_executed(node, is_lazy=is_lazy))

    def _origins(self, module: str, *nodes: ast.AST) -> frozenset[str]:
        """Dotted donor names of the globals that these nodes name."""
        resolved = (self._donor.resolve(module, name) for name in global_names(*nodes))
        return frozenset(found.dotted for found in resolved if found is not None)


def _executed(node: ast.stmt, *, is_lazy: bool) -> Iterator[ast.AST]:
    """Parts of a statement that run when the module is imported; lazy annotations do not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.decorator_list
        yield from (d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        annotations = (*(a.annotation for a in every), node.returns)
        yield from (a for a in annotations if a is not None and not is_lazy)
    elif isinstance(node, ast.ClassDef):
        yield from node.decorator_list
        yield from node.bases
        yield from (k.value for k in node.keywords)
        for statement in node.body:
            yield from _executed(statement, is_lazy=is_lazy)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        # Not the target: an attribute of a class may be called as a global of the module is.
        if isinstance(node, ast.AnnAssign) and not is_lazy:
            yield node.annotation
        yield from () if node.value is None else (node.value,)
    else:
        yield node


def _quoted(annotation: ast.expr, renamed: Mapping[str, str]) -> str:
    """Write an annotation as the string that it is where annotations are lazy."""
    node = ast.parse(ast.unparse(annotation), mode="eval").body
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            inner.id = renamed.get(inner.id, inner.id)
    text = ast.unparse(node)
    return (
        text if isinstance(node, ast.Constant) else f'"{text}"' if '"' not in text else repr(text)
    )


def _binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name == name
    return name in bound_by(statement)

# Names are redirected in import statements, under the local name that the donor's code uses, so that the code
# itself stays the donor's. The same changes are made wherever a piece of donor text lands.
"""Redirection: changes in donor text that make it find what it needs in the grafted base."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_graft.link.environment import reader_of
from vllm_graft.link.index import Found, is_inside
from vllm_graft.link.linked import Linked, Rewrite
from vllm_graft.link.resolution import Decision
from vllm_graft.link.scopes import dotted, global_names
from vllm_graft.link.splices import Source, Splice
from vllm_graft.link.summary import absolute_module
from vllm_graft.link.symbols import Definition
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import NameUse, OperatorUse, span_of

BASE_SUFFIX = "__base"
"""Ends the local name of the base's class beside the one that is derived from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece of donor text comes from and lands."""

    module: str
    """The donor's module that it was written in."""
    target: str
    """The module of the grafted base that it lands in."""
    is_package: bool
    """The donor's module is a package's ``__init__``."""
    is_elsewhere: bool
    """Relative imports mean something else there."""


class Redirection:
    """Makes the changes that one graft needs in its donor texts."""

    def __init__(self, linked: Linked) -> None:
        """Redirect as the linker decided."""
        self._linked = linked
        self._decisions = linked.decisions
        self._donor = linked.decisions.donor
        self._base = linked.decisions.base

    def rewrites(self, module: str, source: Source, notes: list[str]) -> Iterator[Splice]:
        """Make the changes that repairs of contracts ask for in a module."""
        for rewrite in self._linked.rewrites:
            if rewrite.module == module:
                notes.append(rewrite.note)
                yield _rewrite_splice(rewrite, source)

    def operators(self, module: str, source: Source, notes: list[str]) -> Iterator[Splice]:
        """Call operators of vLLM by the names that they have in the grafted base."""
        for use in self._decisions.pair.uses_of(module).uses:
            if isinstance(use, OperatorUse) and use.namespace == "vllm":
                new = self._linked.operators.get(use.name, use.name)
                if new != use.name:
                    start, end = source.of(use.span)
                    notes.append(f"torch.ops.vllm.{use.name} is called as {new}")
                    yield Splice(start, end, f"torch.ops.vllm.{new}")

    def imports_from(
        self,
        place: Place,
        node: ast.ImportFrom,
        source: Source,
        *,
        used: frozenset[str] | None,
        notes: list[str],
    ) -> Iterator[Splice]:
        """Redirect one import statement; names outside ``used`` are left out, unless that is None."""
        origin = absolute_module(
            place.module, is_package=place.is_package, level=node.level, target=node.module
        )
        if origin == "__future__":
            return
        kept: list[ast.alias] = []
        lines: list[str] = []
        for alias in node.names:
            local = alias.asname or alias.name
            if alias.name == "*":
                kept.extend([alias] if self._has_module(origin) else [])
                lines.extend(self._starred(place.module, origin, notes))
                continue
            if used is not None and local not in used:
                continue
            redirected = self._redirect(origin, alias, notes) if is_inside(origin) else None
            if redirected is None:
                kept.append(alias)
            elif not redirected.startswith(f"from {place.target} import") or (
                node.col_offset and " as " in redirected
            ):
                lines.append(redirected)
        relative_is_broken = node.level > 0 and place.is_elsewhere
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

    def _has_module(self, module: str) -> bool:
        """Tell whether the grafted base has a module at this place."""
        taken = self._decisions.taken.get(module)
        return (
            not is_inside(module)
            or self._base.path_of(module) is not None
            or (taken is not None and taken.kind == "donor")
        )

    def _starred(self, module: str, origin: str, notes: list[str]) -> Iterator[str]:
        """Import by name what a star import gives in the donor, and would not give in the grafted base."""
        summary = self._donor.summary(module)
        starred = self._donor.summary(origin)
        if summary is None or starred is None:
            return
        for name in sorted(global_names(self._donor.tree(module)) - summary.definitions.keys()):
            found = self._donor.resolve(module, name) if starred.gives_to_star(name) else None
            if found is not None and found == self._donor.resolve(origin, name):
                line = self._redirect(origin, ast.alias(name=name), notes)
                if line is not None:
                    yield line

    def chain(self, module: str, use: NameUse) -> Decision | None:
        """Decide what an attribute of a module, ``envs.X``, is replaced by; None where it may stay."""
        if "." not in use.written or ":" in use.written:
            return None
        decision = self._decisions.of(use.target)
        if decision.kind == "blocked" or use.target.definition.kind == "submodule":
            return None
        if decision.kind == "grafted":
            return None if decision.module == use.target.module else decision
        if decision.base is None or decision.kind in {"extracted", "derived"}:
            return decision
        view = (
            self._base.resolve_dotted(module, use.written) if self._base.summary(module) else None
        )
        is_seen = view is not None and view[0].dotted == decision.base.dotted
        return None if is_seen or decision.base.dotted == use.target.dotted else decision

    def instance_checks(self, module: str, node: ast.AST) -> Iterator[tuple[ast.expr, Found]]:
        """Give the classes that ``isinstance`` and ``issubclass`` ask for and that the graft derives from.

        Objects that the base's engine makes are of the base's class, and so are those of the derived
        one: the base's class answers as the donor's does.
        """
        if not self._decisions.derived:
            return
        for call in every_node(node):
            match call:
                case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                    for part in asked.elts if isinstance(asked, ast.Tuple) else [asked]:
                        reached = self._donor.resolve_dotted(module, dotted(part) or "")
                        derivation = self._decisions.derived.get(
                            reached[0].dotted if reached else ""
                        )
                        if derivation is not None and reached is not None and not reached[1]:
                            yield part, derivation.base
                case _:
                    pass

    def _redirect(self, origin: str, alias: ast.alias, notes: list[str]) -> str | None:
        """Give the import line that replaces one alias; None where it may stay as it is."""
        found = self._donor.resolve(origin, alias.name)
        local = alias.asname or alias.name
        if found is None:
            return None
        if found.definition.kind == "import":  # comes from outside through a re-export of vLLM
            if self._base.gives(origin, alias.name):
                return None
            return outside_import(found.definition, local)
        decision = self._decisions.of(found)
        if decision.kind == "blocked":
            notes.append(f"{local} is not in the base: {decision.reason}")
            return f"{local} = None  # not in the base\n"
        if self._is_satisfied(origin, alias.name, found, decision):
            return None
        if decision.kind in {"moved", "extracted", "derived"} or decision.module != origin:
            notes.append(f"{local} comes from {decision.module}")
        return self.line_for(found, decision, local)

    def line_for(self, found: Found, decision: Decision, local: str) -> str:
        """Write the import of a definition, as it is decided, under a local name."""
        line = import_line(decision, local)
        if decision.kind == "extracted" and reader_of(self._donor, found) is not None:
            return f"{line}{local} = {local}()\n"
        return line

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
            there is not None
            and decision.base is not None
            and there.dotted == decision.base.dotted
            and self._base.gives(origin, name)
        )


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


def base_import(found: Found, local: str) -> str:
    """Write the import of a definition of the base under a local name."""
    return import_line(
        Decision(kind="changed", module=found.module, name=found.name, reason=""), local
    )


def import_line(decision: Decision, local: str) -> str:
    """Write the import of what a decision leads to, under a local name."""
    if not decision.name:
        package, _, last = decision.module.rpartition(".")
        alias = "" if last == local else f" as {local}"
        return f"from {package} import {last}{alias}\n"
    alias = "" if decision.name == local else f" as {local}"
    line = f"from {decision.module} import {decision.name}{alias}\n"
    if len(line) <= 89:  # noqa: PLR2004  vLLM's own line length is 88
        return line
    return f"from {decision.module} import (\n    {decision.name}{alias},\n)\n"


def outside_import(definition: Definition, local: str) -> str:
    """Write an import of something outside vLLM under a local name."""
    module, name = definition.target_module, definition.target_name
    if name:
        alias = "" if name == local else f" as {local}"
        return f"from {module} import {name}{alias}\n"
    whole = _imported_whole(definition)
    if whole == local:
        return f"import {whole}\n"
    if local == module:  # `import a.b` binds `a`
        return f"import {whole}\n"
    return f"import {whole if '.' not in whole or module == whole else module} as {local}\n"


def _imported_whole(definition: Definition) -> str:
    """The module as an ``import`` statement writes it: ``a.b``, although that binds ``a``."""
    if isinstance(definition.node, ast.Import):
        for alias in definition.node.names:
            if (alias.asname or alias.name.partition(".")[0]) == definition.name:
                return alias.name
    return definition.target_module

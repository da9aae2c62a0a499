# One install as the linker sees it: modules by name, definitions by name, classes with their ancestors.
#
# Everything is lazy. A vLLM tree has about 1,400 modules; a graft touches one in ten of them, and parsing is
# what costs. Nothing here knows vLLM's layout: that is link/vllm.py.
"""An index over the modules of one install."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vllm_graft.link.scopes import ONLY_TYPES
from vllm_graft.link.summary import ModuleSummary, summarize
from vllm_graft.link.symbols import Definition, Member
from vllm_graft.link.tables import SourceTrees
from vllm_graft.values.finding import Site

ROOT_PACKAGE = "vllm"


@dataclass(frozen=True, slots=True)
class Found:
    """A definition and the module that really holds it, re-exports followed."""

    module: str
    definition: Definition

    @property
    def name(self) -> str:
        """Name in that module."""
        return self.definition.name

    @property
    def dotted(self) -> str:
        """Module and name; the module alone for a submodule."""
        if self.definition.kind == "submodule":
            return self.module
        return f"{self.module}.{self.definition.name}"

    def dotted_of(self, member: str) -> str:
        """Give the dotted name of a member of it; its own where no member is meant."""
        return f"{self.dotted}.{member}" if member else self.dotted


@dataclass(frozen=True, slots=True)
class Ancestry:
    """A class and its ancestors, nearest first."""

    classes: tuple[Found, ...]
    """Those whose source is in this install."""
    outside: tuple[str, ...]
    """Dotted names of ancestors from elsewhere, such as ``torch.nn.Module``."""


def is_inside(module: str) -> bool:
    """Tell whether a module belongs to vLLM itself."""
    return module == ROOT_PACKAGE or module.startswith(ROOT_PACKAGE + ".")


class Index:
    """Lazy, memoised look-ups in one install."""

    def __init__(self, trees: SourceTrees, install: Literal["base", "donor"]) -> None:
        """Take the trees of an install; nothing is parsed yet."""
        self.files = trees.files
        self.install: Literal["base", "donor"] = install
        self._trees = trees
        self._summaries: dict[str, ModuleSummary | None] = {}
        self._resolved: dict[tuple[str, str], Found | None] = {}
        self._ancestries: dict[tuple[str, str], Ancestry] = {}
        self._lineages: dict[str, frozenset[str]] = {}
        self._members: dict[tuple[str, str], tuple[Found, Member] | None] = {}

    def path_of(self, module: str) -> str | None:
        """Path of the file that defines a module, or None where there is none."""
        stem = module.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if path in self.files:
                return path
        return None

    @staticmethod
    def module_at(path: str) -> str:
        """Dotted name of the module in the file at ``path``."""
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def source(self, module: str) -> bytes:
        """Bytes of a module's file.

        Raises:
            KeyError: there is no such module.
        """
        path = self.path_of(module)
        if path is None:
            raise KeyError(module)
        return self.files.read(path)

    def tree(self, module: str) -> ast.Module:
        """Syntax tree of a module.

        Raises:
            KeyError: there is no such module.
            SourceError: its file is no valid Python.
        """
        path = self.path_of(module)
        tree = None if path is None else self._trees.tree(path)
        if tree is None:
            raise KeyError(module)
        return tree

    def summary(self, module: str) -> ModuleSummary | None:
        """Summary of a module; None where the install has no such module."""
        if module not in self._summaries:
            path = self.path_of(module)
            self._summaries[module] = (
                None
                if path is None
                else summarize(
                    self.tree(module),
                    module=module,
                    path=path,
                    is_package=path.endswith("/__init__.py"),
                )
            )
        return self._summaries[module]

    def resolve(self, module: str, name: str) -> Found | None:
        """Find what ``from module import name`` gives, through re-exports, star imports and lazy maps.

        A name that comes from outside vLLM resolves to the ``import`` definition that brings it in.
        """
        key = (module, name)
        if key not in self._resolved:
            self._resolved[key] = None  # a cycle of re-exports resolves to nothing
            self._resolved[key] = self._find(module, name)
        return self._resolved[key]

    def gives(self, module: str, name: str) -> bool:
        """Tell whether ``from module import name`` gives, when it runs, what ``resolve`` finds.

        A name that stands under ``TYPE_CHECKING`` is not there at run time, or something else stands in
        for it, unless the module has a ``__getattr__`` that serves it.
        """
        seen: set[tuple[str, str]] = set()
        while (module, name) not in seen:
            seen.add((module, name))
            summary = self.summary(module)
            definition = summary.definitions.get(name) if summary is not None else None
            if summary is None or definition is None:
                return self.resolve(module, name) is not None
            if definition.guard == ONLY_TYPES:
                return summary.has_getattr or self.path_of(f"{module}.{name}") is not None
            if definition.kind != "import" or not is_inside(definition.target_module):
                return True
            if not definition.target_name:
                return self.path_of(definition.target_module) is not None
            module, name = definition.target_module, definition.target_name
        return False

    def _find(self, module: str, name: str) -> Found | None:
        summary = self.summary(module)
        if summary is None:
            return None
        definition = summary.definitions.get(name)
        if definition is not None:
            return self._follow(module, definition)
        lazy = summary.lazy.get(name, module)
        found = self.resolve(lazy, name) if lazy != module else None
        if found is not None:
            return found
        for source in summary.stars:
            starred = self.summary(source) if is_inside(source) else None
            found = self.resolve(source, name) if starred and starred.gives_to_star(name) else None
            if found is not None:
                return found
        return self.submodule(f"{module}.{name}")

    def _follow(self, module: str, definition: Definition) -> Found | None:
        """Follow an import inside vLLM to what it brings in; everything else is found already."""
        source, name = definition.target_module, definition.target_name
        if definition.kind != "import" or not is_inside(source):
            return Found(module, definition)
        if not name:
            return self.submodule(source)
        # `from . import x` in a package names its own submodule before anything else.
        if (source, name) != (module, definition.name):
            found = self.resolve(source, name)
            if found is not None:
                return found
        return self.submodule(f"{source}.{name}")

    def submodule(self, module: str) -> Found | None:
        """The module itself as a definition; None where there is none."""
        if self.path_of(module) is None:
            return None
        return Found(
            module,
            Definition(name=module.rpartition(".")[2], kind="submodule", line=0, end_line=0),
        )

    def resolve_dotted(self, module: str, expression: str) -> tuple[Found, tuple[str, ...]] | None:
        """Resolve ``a.b.c`` as written in ``module``: the definition reached and the attributes left over."""
        head, *rest = expression.split(".")
        found = self.resolve(module, head)
        if found is None:
            return None
        while rest and found.definition.kind == "submodule":
            inner = self.resolve(found.module, rest[0])
            if inner is None:
                break
            found = inner
            rest = rest[1:]
        return found, tuple(rest)

    def class_named(self, module: str, expression: str) -> Found | None:
        """Find the class that ``a.b.C`` means where it is written, through assignments such as ``Own = C``."""
        seen: set[tuple[str, str]] = set()
        while (module, expression) not in seen:
            seen.add((module, expression))
            reached = self.resolve_dotted(module, expression)
            if reached is None or reached[1]:
                return None
            found = reached[0]
            if found.definition.kind != "value":
                return found if found.definition.kind == "class" else None
            module, expression = found.module, found.definition.value
            if not all(part.isidentifier() for part in expression.split(".")):
                return None
        return None

    def parent_named(self, found: Found, expression: str) -> Found | None:
        """Find the class that a class stands on by that name, which may be its own: ``class Layer(Layer)``."""
        name = expression.partition("[")[0]
        if name != found.name:
            return self.class_named(found.module, name)
        parent = self.shadowed(found)
        return parent if parent is not None and parent.definition.kind == "class" else None

    def shadowed(self, found: Found) -> Found | None:
        """What the name of a class meant before the class took it, if anything inside vLLM."""
        before = found.definition.shadowed
        reached = None if before is None else self._follow(found.module, before)
        return reached if reached is not None and reached.dotted != found.dotted else None

    def ancestry(self, found: Found) -> Ancestry:
        """A class and its ancestors; order: depth first, left to right, each once, at its last place."""
        key = (found.module, found.name)
        if key not in self._ancestries:
            self._ancestries[key] = Ancestry((found,), ())
            chain: list[Found] = []
            outside: list[str] = []
            self._climb(found, chain, outside, set())
            unique: dict[str, Found] = {}
            for item in reversed(chain):
                unique.setdefault(item.dotted, item)
            self._ancestries[key] = Ancestry(
                tuple(reversed(unique.values())), tuple(dict.fromkeys(outside))
            )
        return self._ancestries[key]

    def _climb(self, found: Found, chain: list[Found], outside: list[str], open_: set[str]) -> None:
        if found.dotted in open_:
            return
        chain.append(found)
        for parent in found.definition.parents:
            reached = self.parent_named(found, parent)
            if reached is None:
                outside.append(self._outside_name(found.module, parent.partition("[")[0]))
                continue
            self._climb(reached, chain, outside, open_ | {found.dotted})

    def _outside_name(self, module: str, expression: str) -> str:
        head, _, rest = expression.partition(".")
        summary = self.summary(module)
        definition = summary.definitions.get(head) if summary else None
        if definition is None or definition.kind != "import":
            return expression
        origin = ".".join(p for p in (definition.target_module, definition.target_name) if p)
        return f"{origin}.{rest}" if rest else origin

    def descends(self, found: Found, ancestor: Found) -> bool:
        """Tell whether a class is another or inherits from it."""
        key = found.dotted
        if key not in self._lineages:
            self._lineages[key] = frozenset(c.dotted for c in self.ancestry(found).classes)
        return ancestor.dotted in self._lineages[key]

    def member(self, found: Found, name: str) -> tuple[Found, Member] | None:
        """Find an attribute of a class along its ancestors: the class that provides it, and it."""
        key = (found.dotted, name)
        if key not in self._members:
            self._members[key] = self._provided(found, name)
        return self._members[key]

    def _provided(self, found: Found, name: str) -> tuple[Found, Member] | None:
        assigned: tuple[Found, Member] | None = None
        for item in self.ancestry(found).classes:
            member = item.definition.members.get(name)
            if member is None:
                continue
            if member.kind == "property" or (member.kind != "instance" and assigned is None):
                return item, member
            # What a method assigns to may be a property of an ancestor: then that is what is read.
            assigned = assigned or (item, member)
        return assigned

    def definers(self, name: str, kind: str) -> Iterator[Found]:
        """Give every top-level class or function of this name in the install.

        Order: classes with bases before those without, then by path.
        """
        written = f"class {name}" if kind == "class" else f"def {name}"
        paths = sorted(self.files.containing(written.encode()))
        for needle in (f"{written}(".encode(), f"{written}:".encode()):
            for path in paths:
                if needle not in self.files.read(path):
                    continue
                module = self.module_at(path)
                summary = self.summary(module)
                definition = summary.definitions.get(name) if summary else None
                if definition is not None and definition.kind == kind:
                    yield Found(module, definition)

    def site(self, found: Found, line: int | None = None) -> Site:
        """Give the place of a definition, for reports."""
        return Site(
            install=self.install,
            path=self.path_of(found.module) or found.module,
            line=found.definition.line if line is None else line,
        )

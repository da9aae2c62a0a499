# Edit sites are computed, never listed: every mention, outside the grafted files, of a name that the
# grafted family owns. What "owns" means is the hard idea here: a name that the base does not know at
# all may be looked for inside other names; one that the base knows too counts only where it stands
# alone; a word such as ``granite``, which the base uses for another model, is not owned.
"""The places outside a model's own files where the donor names it."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.link.roots import Roots
from vllm_graft.link.syntax import children
from vllm_graft.link.tables import SourceTrees, absolute_module, module_of, package_of, path_of
from vllm_graft.link.vllm import Layout, room_of

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:\-]*")
_SHORTEST_STEM = 4
_LONG = 9
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import|import[ \t]+([.\w]+))", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The names that a grafted family owns."""

    exact: frozenset[str]
    """Count only as a whole name or string, or as a part between dots and colons."""
    stems: tuple[str, ...]
    """Unknown to the base, so they count inside longer names too."""
    unasked: frozenset[str]
    """Architectures of grafted files that nobody asked for."""

    def of(self, word: str) -> str | None:
        """Give the owned identifier that a name or string mentions, None where it has none."""
        if word in self.exact:
            return word
        if not _WORD.fullmatch(word):
            return None
        for part in re.split(r"[.:]+", word):
            if part in self.exact:
                return part
        for stem in self.stems:
            if stem in word:
                return word if word.isidentifier() else stem
        return None

    def needles(self) -> tuple[str, ...]:
        """Give the fewest strings of which one is in every file that mentions the family."""
        kept: list[str] = []
        for word in sorted({*self.exact, *self.stems, *self.unasked}, key=_shortest_first):
            if any(other in word for other in kept):
                continue
            if len(word) < _LONG and word not in self.stems:
                # ``umm`` is in many a comment; as a name of its own it stands so:
                kept += [f'"{word}"', f"'{word}'", f"{word}="]
            else:
                kept.append(word)
        return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One mention of an owned identifier in a file of the donor."""

    path: str
    line: int
    identifier: str
    ancestors: tuple[ast.AST, ...]
    """From the module down to the node that holds the mention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A file that mentions the family and needs no closer look: it is another model's own."""

    path: str
    line: int
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What each install knows."""

    donor: Layout
    base: Layout
    text: SourceTrees
    """Of the base."""


def owned_identifiers(
    roots: Roots,
    known: Known,
    *,
    grafted: Mapping[str, str],
    operators: Mapping[str, str],
) -> Owned:
    """Work out which names the family owns, given what the base knows.

    ``grafted``: donor module → module in the grafted base; ``operators``: custom op that grafted
    code registers → its name in the grafted base.
    """
    donor_layout, base_layout, base = known.donor, known.base, known.text
    words = {
        model.architecture
        for model in roots.models
        if model.architecture not in base_layout.by_architecture
        or base_layout.by_architecture[model.architecture].module in grafted.values()
    }
    unasked = {
        entry.architecture
        for entry in donor_layout.models
        if grafted.get(entry.module) == entry.module
        and entry.architecture not in base_layout.by_architecture
        and entry.architecture not in words
    }
    words |= unasked
    words |= {
        name
        for name in (*roots.model_types, *roots.draft_types)
        if _owns_model_type(name, donor_layout, base_layout, base)
    }
    words |= {
        donor for donor, new in grafted.items() if donor == new and room_of(donor) != "engine"
    }
    words |= set(operators)
    words |= set(_backends(donor_layout, base_layout, grafted))
    stems: set[str] = set()
    for config in roots.configs:
        if base_layout.lookup("config-exports", config.class_name) is None:
            words.add(config.class_name)
            stems.add(re.sub(r"(Text|Vision|Audio)?Config$", "", config.class_name))
    stems |= {_family_folder(module) for module in words if "." in module}
    candidates = {word for word in words | stems if len(word) >= _SHORTEST_STEM}
    # Shortest first: a word that contains a known stem needs no search of its own.
    strong: list[str] = []
    for word in sorted(candidates - set(operators), key=_shortest_first):
        if any(stem in word for stem in strong):
            continue
        if not base.files.mention(word.replace(".", "/").encode()) and not _known(word, base):
            strong.append(word)
    return Owned(exact=frozenset(words), stems=tuple(strong), unasked=frozenset(unasked))


def _shortest_first(word: str) -> tuple[int, str]:
    # Words of one length by name: a set's own order changes from run to run.
    return len(word), word


def _known(word: str, base: SourceTrees) -> bool:
    return base.files.mention(word.encode())


def _family_folder(module: str) -> str:
    """Give the part of a module's name that is the family's: the folder, else the file."""
    parts = module.split(".")
    return parts[2] if module.startswith("vllm.models.") else parts[-1]


def _owns_model_type(
    name: str, donor_layout: Layout, base_layout: Layout, base: SourceTrees
) -> bool:
    if base_layout.lookup("config-registry", name) or base_layout.lookup("mtp-types", name):
        return False
    if donor_layout.lookup("config-registry", name) or donor_layout.lookup("mtp-types", name):
        return True
    return not any(base.files.mention(form.encode()) for form in (f'"{name}"', f"'{name}'"))


def _backends(
    donor_layout: Layout, base_layout: Layout, grafted: Mapping[str, str]
) -> Iterator[str]:
    """Give the attention backends of the donor's enum whose class is in a grafted file."""
    known = {
        entry.name for table in base_layout.of_role("attention-backend") for entry in table.entries
    }
    for table in donor_layout.of_role("attention-backend"):
        for entry in table.entries:
            if entry.module in grafted and entry.name not in known:
                yield entry.name


def find_sites(
    owned: Owned, donor: SourceTrees, base: SourceTrees, grafted: Mapping[str, str]
) -> tuple[tuple[Mention, ...], tuple[Elsewhere, ...]]:
    """Find every mention outside the grafted files.

    Order: by path, then line. Comments and docstrings are not mentions. A file that belongs to
    another model, and is neither grafted nor used by what is, is one ``Elsewhere``.
    """
    paths: set[str] = set()
    needles = owned.needles()
    for needle in needles:
        # An import writes its module with dots; a relative one only its last part.
        for form in {needle, needle.rpartition(".")[2]} if needle.startswith("vllm.") else {needle}:
            paths.update(donor.files.containing(form.encode()))
    used = _used_by_grafted(donor, base, grafted)
    mentions: list[Mention] = []
    elsewhere: list[Elsewhere] = []
    for path in sorted(paths):
        module = module_of(path)
        if module in grafted:
            continue
        if room_of(module) != "engine" and module not in used:
            first = _first_line_with(donor.files.read(path), needles)
            if first is not None:
                elsewhere.append(Elsewhere(path=path, line=first[0], identifier=first[1]))
            continue
        tree = donor.tree(path)
        if tree is not None:
            mentions.extend(_mentions(tree, path, owned))
    return tuple(mentions), tuple(elsewhere)


def _used_by_grafted(
    donor: SourceTrees, base: SourceTrees, grafted: Mapping[str, str]
) -> frozenset[str]:
    """Give the modules of the base that grafted files import: their donor text matters too."""
    used: set[str] = set()
    for module in grafted:
        path = path_of(module, donor.files)
        if path is None:
            continue
        package = package_of(path).split(".")
        for found in _IMPORT.finditer(donor.files.read(path)):
            name = (found[1] or found[2]).decode()
            dots = len(name) - len(name.lstrip("."))
            around = package[: len(package) - (dots - 1)] if dots else []
            used.add(".".join([*around, name[dots:]]) if around else name)
    return frozenset(
        name
        for name in used
        if name not in grafted and f"{name.replace('.', '/')}.py" in base.files
    )


def _first_line_with(text: bytes, words: Sequence[str]) -> tuple[int, str] | None:
    """Find the first line that holds one of the words and is no comment."""
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.lstrip().startswith(b"#"):
            for word in words:
                if word.encode() in line:
                    return number, word
    return None


def _mentions(tree: ast.Module, path: str, owned: Owned) -> Iterator[Mention]:
    seen: set[tuple[int, str]] = set()
    package = package_of(path)
    around: dict[ast.AST, ast.AST] = {}
    renamed: dict[str, str] = {}
    """Names of this file → what they are called where they come from; classes → the family's that they stand on."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            renamed.update((a.asname, a.name) for a in node.names if a.asname and owned.of(a.name))
        if isinstance(node, ast.ClassDef):
            renamed.update(_standing_on(node, owned, renamed))
        for word, line in _words(node, around.get(node), package):
            identifier = owned.of(renamed.get(word, word))
            if identifier is not None and (line, identifier) not in seen:
                seen.add((line, identifier))
                yield Mention(
                    path=path, line=line, identifier=identifier, ancestors=_chain(node, around)
                )
        inside = children(node)
        for child in inside:
            around[child] = node
        stack.extend(reversed(inside))


def _standing_on(
    node: ast.ClassDef, owned: Owned, renamed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A class that stands on one of the family's is of the family: what asks for it asks for that."""
    for parent in node.bases:
        written = ast.unparse(parent).partition("[")[0]
        name = renamed.get(written, written.rpartition(".")[2])
        if owned.of(name) in owned.exact:
            yield node.name, name


def _chain(node: ast.AST, around: Mapping[ast.AST, ast.AST]) -> tuple[ast.AST, ...]:
    found = [node]
    while (outer := around.get(found[-1])) is not None:
        found.append(outer)
    return tuple(reversed(found))


def _words(node: ast.AST, outer: ast.AST | None, package: str) -> Iterable[tuple[str, int]]:
    match node:
        case ast.Constant(value=str(text)):
            # A string statement is documentation.
            return () if isinstance(outer, ast.Expr) else ((text, node.lineno),)
        case ast.Name(id=name):
            return ((name, node.lineno),)
        case ast.Attribute(attr=name):
            return ((name, node.end_lineno or node.lineno),)
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return ((name, node.lineno),)
        case ast.ImportFrom():
            module = absolute_module(node, package)
            return (
                (module, node.lineno),
                *((f"{module}.{alias.name}", alias.lineno) for alias in node.names),
            )
        case ast.Import(names=names):
            return tuple((alias.name, alias.lineno) for alias in names)
        case ast.keyword(arg=str(name)):
            return ((name, node.lineno),)
        case ast.arg(arg=name):
            return ((name, node.lineno),)
        case _:
            return ()

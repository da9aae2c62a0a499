# Models and engine agree on words too: a model asks for the rotary embedding "bailing_mrope", and the engine makes one where
# it is asked for by that word. In a base whose engine does not know the word every import resolves, and making the
# model fails, or takes the branch for whatever is not known.
"""Words of grafted code that the donor's engine asks for and the base knows nothing of."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from vllm_graft.link.index import Found, Index
from vllm_graft.link.linked import Linked
from vllm_graft.link.syntax import every_node
from vllm_graft.values.finding import Finding, Site

# What is compared with a string, or looked for in several. Each begins with letters of its own, by which the engine of
# regular expressions goes through a release in a tenth of the time.
_COMPARED = tuple(
    re.compile(pattern)
    for pattern in (
        rb"==\s*([\"'])(?P<word>\w[\w.-]{3,})\1",
        rb"!=\s*([\"'])(?P<word>\w[\w.-]{3,})\1",
        rb" in\s*[(\[{](?P<words>[^)\]}]*)[)\]}]",
    )
)
_QUOTED = re.compile(rb"[\"'](\w[\w.-]{3,})[\"']")


class ComparedWords:
    """The words that one install's engine compares something with: word → where, each file read once."""

    def __init__(self, index: Index, is_engine: Callable[[str], bool]) -> None:
        """Read the engine's modules of an install when first asked."""
        self._index = index
        self._is_engine = is_engine
        self._sites: dict[str, list[Site]] | None = None
        self._spelled: dict[str, tuple[tuple[int, str], ...]] = {}

    def spelled(self, module: str) -> tuple[tuple[int, str], ...]:
        """Give the words that a module passes on, with their lines."""
        if module not in self._spelled:
            self._spelled[module] = tuple(_spelled(self._index.tree(module)))
        return self._spelled[module]

    def sites(self, word: str) -> Sequence[Site]:
        """Give the places that compare something with a word, by path and line."""
        if self._sites is None:
            self._sites = {}
            for path, line, found in self._read():
                self._sites.setdefault(found, []).append(
                    Site(install="donor", path=path, line=line)
                )
        return self._sites.get(word, ())

    def _read(self) -> Iterator[tuple[str, int, str]]:
        files = self._index.files
        for path in sorted(files.paths()):
            if not path.endswith(".py") or not self._is_engine(self._index.module_at(path)):
                continue
            text = files.read(path)
            for match in sorted(
                (match for pattern in _COMPARED for match in pattern.finditer(text)),
                key=re.Match[bytes].start,
            ):
                line = text.count(b"\n", 0, match.start()) + 1
                parts = match.groupdict()
                words = [parts["word"]] if "word" in parts else _QUOTED.findall(parts["words"])
                yield from ((path, line, word.decode()) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownWord:
    """A word of a grafted file that the base's engine compares nothing with."""

    word: str
    site: Site
    """Where a grafted file passes it on."""
    asked: Sequence[Site]
    """Where the donor's engine compares something with it."""


def unknown_words(
    linked: Linked, compared: ComparedWords, decided: Iterable[str] = ()
) -> Iterator[UnknownWord]:
    """Find words that grafted code passes on and that only the donor's engine knows, each once.

    ``decided``: words whose places in the engine were decided already, such as model types.
    """
    decisions = linked.decisions
    files = decisions.base.files
    told = {*decided}
    for module in sorted(decisions.taken):
        path = decisions.donor.path_of(module) or module
        for line, word in compared.spelled(module):
            asked = () if word in told else compared.sites(word)
            if not asked or decisions.donor.module_at(asked[0].path) in decisions.taken:
                continue
            if files.mention(f'"{word}"'.encode()) or files.mention(f"'{word}'".encode()):
                continue
            told.add(word)
            yield UnknownWord(
                word=word, site=Site(install="donor", path=path, line=line), asked=asked
            )


def function_that_asks(linked: Linked, unknown: UnknownWord) -> Found | None:
    """The one function of the donor's engine that asks for a word, where grafted code calls the base's version of it."""
    decisions = linked.decisions
    found: set[str] = set()
    for site in unknown.asked:
        summary = decisions.donor.summary(decisions.donor.module_at(site.path))
        module = decisions.donor.module_at(site.path)
        found |= {
            f"{module}.{name}"
            for name, definition in (summary.definitions.items() if summary is not None else ())
            if definition.kind == "function" and definition.line <= site.line <= definition.end_line
        } or {""}
    used = linked.names.get(found.pop()) if len(found) == 1 else None
    if used is None or decisions.counterpart(used[0]) is None:
        return None
    return used[0]


def check_words(
    linked: Linked, compared: ComparedWords, decided: Iterable[str]
) -> Iterator[Finding]:
    """Tell of the words that only the donor's engine knows; a note where the donor's function came along for one."""
    for unknown in unknown_words(linked, compared, decided):
        asking = function_that_asks(linked, unknown)
        comes = asking is not None and asking.dotted in linked.decisions.extracted
        first = unknown.asked[0]
        yield Finding(
            code="G223",
            severity="note" if comes else "review",
            site=unknown.site,
            wanted=f"the word {unknown.word!r}, which the donor's engine asks for in {first.path}:{first.line}",
            found="the base's engine does not know it",
            remedy="repaired: grafted code calls the donor's function, which knows it"
            if comes
            else "see what the donor's engine does for it: that does not happen in the base",
        )


def _spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Words that a module passes on: not those that it only compares itself, and no documentation."""
    skipped: set[int] = set()
    for node in every_node(tree):
        if isinstance(node, ast.Compare):
            skipped.update(id(inner) for inner in ast.walk(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    for node in every_node(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.lineno, node.value

# Takes a model family out of a copy of an install, so that grafting it back can be judged against the untouched
# one. Shares nothing with the linker on purpose: what both got wrong in the same way would not be seen. It works
# on tokens and line ranges, from a list that a person wrote (ablations.toml).
"""Remove a model family from a copy of a tree."""

import ast
import io
import shutil
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import copy_of
from listing import listed

OPENING, CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What belongs to one family, and where it is named."""

    name: str
    base: str
    """The release that it is taken from."""
    donors: tuple[str, ...]
    """The releases that it is grafted back from."""
    architectures: tuple[str, ...]
    files: tuple[str, ...]
    """Files and folders that go."""
    identifiers: tuple[str, ...]
    sites: tuple[str, ...]
    """Files in which elements (of a dict, list, call) that hold an identifier go."""
    models: tuple[str, ...] = ()
    """Names in tiny_models.py that it must serve again once grafted back."""
    kind: str = ""
    """Of model: dense, mixture of experts and so on."""
    reason: str = ""
    """Why grafting it back is not plainly ok, as a person reads the plan."""
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A config.json to make a small model of, where no class has defaults that do."""
    definitions: tuple[str, ...] = ()
    """``path:Name`` of functions and classes that go."""
    branches: tuple[str, ...] = ()
    """``path:identifier``: if statements without else whose test holds the identifier go."""
    features: tuple[str, ...] = ()
    """What to ask of the plan that grafts it back."""


def families(file: str | Path = "ablations.toml") -> tuple[Family, ...]:
    """Read a list of families: the one beside the tests, or the bench's."""
    return listed(file, "family", Family)


def ablate(family: Family, tree: Path, out: Path) -> Path:
    """Copy a tree and take the family out of the copy.

    Raises:
        ValueError: something that the list names is not there, or an identifier is left in a site.
    """
    copy = copy_of(tree, out)
    take_out(family, copy)
    for cached in copy.rglob("__pycache__"):
        shutil.rmtree(cached)
    return copy


def take_out(family: Family, copy: Path) -> None:
    """Take the family out of a tree that is a copy already.

    Raises:
        ValueError: something that the list names is not there, or an identifier is left in a site.
    """
    for path in family.files:
        if (copy / path).is_dir():
            shutil.rmtree(copy / path)
        else:
            (copy / path).unlink()
    for place in family.definitions:
        path, name = place.split(":")
        _rewrite(copy / path, _without_definition((copy / path).read_text(), name))
    for place in family.branches:
        path, identifier = place.split(":")
        _rewrite(copy / path, _without_branch((copy / path).read_text(), identifier))
    for path in family.sites:
        text = _without_elements((copy / path).read_text(), family.identifiers)
        left = sorted({word for word, _, _ in _words(text) if word in family.identifiers})
        if left:
            message = f"{family.name}: {path} still names {', '.join(left)}"
            raise ValueError(message)
        _rewrite(copy / path, text)


def _rewrite(file: Path, text: str) -> None:
    ast.parse(text)
    file.unlink()  # never through a hard link
    file.write_text(text)


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """Give names and contents of plain strings, with their places."""
    for kind, word, start, end in _tokens(text):
        if kind == tokenize.NAME:
            yield word, start, end
        elif kind == tokenize.STRING and word[0] in "\"'" and not word.startswith(('"""', "'''")):
            yield word[1:-1], start, end


def _tokens(text: str) -> list[tuple[int, str, int, int]]:
    """Give tokens with offsets into the text in place of rows and columns."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [
        (t.type, t.string, starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1])
        for t in tokenize.generate_tokens(io.StringIO(text).readline)
        if t.type not in {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
    ]


def _without_elements(text: str, identifiers: Sequence[str]) -> str:
    """Cut every element of a bracket that holds one of the identifiers, with the comma after it."""
    cuts: list[tuple[int, int]] = []
    for word, start, _ in _words(text):
        if word in identifiers and not any(a <= start < b for a, b in cuts):
            cuts.append(_element(text, start))
    for start, end in sorted(cuts, reverse=True):
        line = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", end)
        rest = text[end:stop].strip()
        if not text[line:start].strip() and (not rest or rest.startswith("#")):
            text = text[:line] + text[stop + 1 :]
        else:
            text = text[:start] + text[end:].lstrip(" ")
    return text


def _element(text: str, place: int) -> tuple[int, int]:
    """Give where the element around a place begins and ends."""
    tokens = [(word, a, b) for kind, word, a, b in _tokens(text) if kind != tokenize.NEWLINE]
    at = next(i for i, (_, a, b) in enumerate(tokens) if a <= place < b)
    depth, first = 0, at
    while depth or tokens[first - 1][0] not in OPENING | {","}:
        first -= 1
        depth += (tokens[first][0] in CLOSING) - (tokens[first][0] in OPENING)
    depth, last = 0, at
    while depth or tokens[last + 1][0] not in CLOSING | {","}:
        last += 1
        depth += (tokens[last][0] in OPENING) - (tokens[last][0] in CLOSING)
    after = tokens[last + 1]
    return tokens[first][1], after[2] if after[0] == "," else after[1]


def _without_lines(text: str, nodes: Sequence[ast.stmt]) -> str:
    lines = text.splitlines(keepends=True)
    for node in sorted(nodes, key=lambda n: n.lineno, reverse=True):
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(d.lineno for d in decorators)])
        assert node.end_lineno is not None
        del lines[first - 1 : node.end_lineno]
    return "".join(lines)


def _without_definition(text: str, name: str) -> str:
    found = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
    ]
    if len(found) != 1:
        message = f"{len(found)} definitions of {name}"
        raise ValueError(message)
    return _without_lines(text, found)


def _without_branch(text: str, identifier: str) -> str:
    def named(test: ast.expr) -> bool:
        return any(isinstance(n, ast.Constant) and n.value == identifier for n in ast.walk(test))

    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.If) and not node.orelse and named(node.test)
    ]
    if not found:
        message = f"no branch on {identifier}"
        raise ValueError(message)
    return _without_lines(text, found)

# What an engineer would look up by hand before believing a resolution or a finding: the two definitions, with file and
# line in both trees. A plan is read more often than both trees are at hand, so it carries them, cut to a bound.
"""The definitions that a plan speaks of, side by side."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from vllm_graft.link.index import Found, Index
from vllm_graft.link.pair import Pair
from vllm_graft.link.symbols import Definition
from vllm_graft.link.syntax import every_statement
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.side_by_side import MOST_LINES, Side, SideBySide

_AROUND = 2
# Lines that are compared, from the first that differs: enough for what is shown, whatever the size of a class.
_WINDOW = 4 * MOST_LINES
_LONGEST_LINE = 200
_LONGEST_SIGNATURE = 400


@dataclass(frozen=True, slots=True)
class _Lines:
    """The source of one side, and the number of its first line."""

    first: int
    texts: Sequence[str]


_NOTHING = _Lines(0, ())


@dataclass(frozen=True, slots=True)
class _Shown:
    """One side, and its text."""

    side: Side
    lines: _Lines
    is_member: bool = False
    is_class: bool = False

    @property
    def stands_for_more(self) -> bool:
        return self.is_class and len(self.lines.texts) > MOST_LINES


class Comparisons:
    """Collects what a plan is to show side by side, each thing once."""

    def __init__(self, pair: Pair) -> None:
        """Compare definitions of these two installs."""
        self._pair = pair
        self._donor = _Tree(pair.donor)
        self._base = _Tree(pair.base)
        self._entries: dict[str, SideBySide] = {}

    @property
    def entries(self) -> tuple[SideBySide, ...]:
        """Give what was collected, by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def of_reference(self, found: Found, base: Found | None) -> None:
        """Set a donor's definition beside what the base has in its place.

        What the base lacks comes along, and its text is in the plan already.
        """
        if found.dotted not in self._entries:
            ours = self._donor.definition(found)
            theirs = None if base is None else self._base.definition(base)
            difference = ("", False) if theirs is None else _compared(ours, theirs)
            self._entries[found.dotted] = _entry(found.dotted, ours, theirs, difference)

    def of_finding(self, finding: Finding, met_at: Site | None = None) -> Finding:
        """Set what a finding is about side by side, and name that in the finding.

        It names the donor's definition, if it is about one; else its own place is all there is to see.
        ``met_at``: where the base meets it, if that is not its own definition of that name.
        """
        dotted, ours, theirs = finding.comparison, None, None
        if finding.site.install == "base":
            met_at = met_at or finding.site
        name = f"{dotted} at {met_at}" if dotted and met_at else dotted or str(finding.site)
        if name not in self._entries:
            if dotted:
                ours, theirs = self._definitions(dotted)
            elif finding.site.install == "donor":
                ours = self._donor.place(finding.site)
            if met_at is not None:
                theirs = self._base.place(met_at)
            if (
                ours is not None
                and theirs is not None
                and met_at is None
                and ours.is_member == theirs.is_member
            ):
                difference = _compared(ours, theirs)
            else:
                difference = _beside(ours, theirs)
            self._entries[name] = _entry(name, ours, theirs, difference)
        return replace(finding, comparison=name)

    def _definitions(self, dotted: str) -> tuple[_Shown | None, _Shown | None]:
        """Find a definition, or a member of a class, in the donor, and what corresponds to it in the base."""
        found, member = _resolve(self._pair.donor, dotted)
        if found is None:
            return None, None
        if member:
            return self._donor.member(found, member), self._base_member(found, member)
        base = self._pair.counterpart(found)
        return (
            self._donor.definition(found),
            None if base is None else self._base.definition(base),
        )

    def _base_member(self, found: Found, member: str) -> _Shown | None:
        """Find the base's version of a member; its class, where that has no such member."""
        nearest: Found | None = None
        for item in self._pair.donor.ancestry(found).classes:
            counterpart = self._pair.counterpart(item)
            if counterpart is None:
                continue
            if self._pair.base.member(counterpart, member) is not None:
                return self._base.member(counterpart, member)
            nearest = nearest or counterpart
        return None if nearest is None else self._base.definition(nearest)


def _entry(
    name: str, donor: _Shown | None, base: _Shown | None, difference: tuple[str, bool]
) -> SideBySide:
    return SideBySide(
        name=name,
        donor=None if donor is None else donor.side,
        base=None if base is None else base.side,
        difference=difference[0],
        is_cut=difference[1],
    )


# ── one side ──────────────────────────────────────────────────────────────────────────────────────


def _resolve(index: Index, dotted: str) -> tuple[Found | None, str]:
    """Split a dotted name into the definition that it names and the member of it."""
    parts = dotted.split(".")
    for at in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:at])
        if index.path_of(module) is None:
            continue
        found = index.resolve(module, parts[at])
        if found is not None and found.definition.kind != "submodule":
            return found, ".".join(parts[at + 1 :])
    module = index.submodule(dotted)
    return module, ""


class _Tree:
    """Reads sides from one install, the text of each file once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._texts: dict[str, Sequence[str]] = {}

    def definition(self, found: Found) -> _Shown:
        definition = found.definition
        signature = _signature(definition) or f"module {found.module}"
        shown = self._shown(self._index.site(found), definition.end_line, signature)
        return replace(shown, is_class=definition.kind == "class")

    def member(self, found: Found, name: str) -> _Shown:
        """Show a member; the class, where it has no such member."""
        provided = self._index.member(found, name)
        if provided is None:
            return self.definition(found)
        provider, member = provided
        site = self._index.site(provider, member.line)
        shown = self._shown(site, member.end_line, _of_node(member.node, provider.name))
        return replace(shown, is_member=True)

    def place(self, site: Site) -> _Shown:
        """Show the innermost statement at a place; a whole file has none."""
        if not site.line or site.path not in self._index.files:
            return _Shown(Side(site=site, end_line=0, signature=""), _NOTHING)
        holding = [
            statement
            for statement in every_statement(self._index.tree(self._index.module_at(site.path)))
            if statement.lineno <= site.line <= (statement.end_lineno or statement.lineno)
        ]
        if not holding or hasattr(holding[-1], "body"):
            return self._shown(site, site.line, self._lines(site.path)[site.line - 1].strip())
        innermost = holding[-1]
        last = innermost.end_lineno or site.line
        first = innermost.lineno if last - innermost.lineno < MOST_LINES else site.line
        return self._shown(replace(site, line=first), last, _of_node(innermost))

    def _shown(self, site: Site, last: int, signature: str) -> _Shown:
        side = Side(site=site, end_line=last, signature=_cut(signature, _LONGEST_SIGNATURE))
        if not site.line:
            return _Shown(side, _NOTHING)
        return _Shown(side, _Lines(site.line, self._lines(site.path)[site.line - 1 : last]))

    def _lines(self, path: str) -> Sequence[str]:
        if path not in self._texts:
            text = self._index.files.read(path).decode(errors="replace")
            self._texts[path] = text.split("\n")
        return self._texts[path]


def _signature(definition: Definition) -> str:
    return "" if definition.node is None else _of_node(definition.node)


def _of_node(node: ast.stmt, owner: str = "") -> str:
    """Say on one line what a statement defines; ``owner`` is the class that it stands in."""
    prefix = f"{owner}." if owner else ""
    match node:
        case ast.FunctionDef(name=name, args=args, returns=returns):
            back = f" -> {ast.unparse(returns)}" if returns is not None else ""
            return f"def {prefix}{name}({ast.unparse(args)}){back}"
        case ast.AsyncFunctionDef(name=name, args=args, returns=returns):
            back = f" -> {ast.unparse(returns)}" if returns is not None else ""
            return f"async def {prefix}{name}({ast.unparse(args)}){back}"
        case ast.ClassDef(name=name, bases=bases, keywords=keywords):
            parents = ", ".join(ast.unparse(part) for part in (*bases, *keywords))
            return f"class {prefix}{name}({parents})" if parents else f"class {prefix}{name}"
        case _:
            return f"{prefix}{' '.join(ast.unparse(node).split())}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# ── the difference of two sides ───────────────────────────────────────────────────────────────────


def _compared(donor: _Shown, base: _Shown) -> tuple[str, bool]:
    """Give the hunks of a unified diff of two versions, and whether there are more lines that differ."""
    ours, theirs = donor.lines, base.lines
    same = _common_beginning(theirs.texts, ours.texts)
    if same == len(theirs.texts) == len(ours.texts):
        return "", False
    skipped = max(same - _AROUND, 0)
    end = skipped + _WINDOW
    rows, is_cut = _rows(theirs.texts[skipped:end], ours.texts[skipped:end])
    is_cut = is_cut or max(len(theirs.texts), len(ours.texts)) > end
    return _rendered(rows, theirs.first + skipped, ours.first + skipped), is_cut


def _beside(donor: _Shown | None, base: _Shown | None) -> tuple[str, bool]:
    """Give the texts of two different things as one hunk.

    A class beside something that is none is named, and shown only where it is small.
    """
    ours = _NOTHING if donor is None else donor.lines
    theirs = _NOTHING if base is None else base.lines
    if base is not None and base.stands_for_more:
        theirs = _NOTHING
    if donor is not None and donor.stands_for_more and base is not None:
        ours = _NOTHING
    is_cut = max(len(theirs.texts), len(ours.texts)) > MOST_LINES
    rows = [
        *(_Row("-", text, number, 0) for number, text in enumerate(theirs.texts[:MOST_LINES])),
        *(
            _Row("+", text, len(theirs.texts[:MOST_LINES]), number)
            for number, text in enumerate(ours.texts[:MOST_LINES])
        ),
    ]
    return _rendered(rows, theirs.first, ours.first), is_cut


def _common_beginning(one: Sequence[str], other: Sequence[str]) -> int:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a diff."""

    mark: str
    text: str
    base: int
    """Number of the base's lines before it, in the window."""
    donor: int


def _rows(theirs: Sequence[str], ours: Sequence[str]) -> tuple[list[_Row], bool]:
    """Give the lines that differ with a few around them, no more of either side than a plan may hold."""
    rows: list[_Row] = []
    left = {"-": MOST_LINES, "+": MOST_LINES}
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    for group in matcher.get_grouped_opcodes(_AROUND):
        for tag, base, base_end, donor, donor_end in group:
            is_cut = False
            for row in _rows_of(tag, theirs[base:base_end], ours[donor:donor_end], base, donor):
                uses = "-+" if row.mark == " " else row.mark
                if any(not left[side] for side in uses):
                    is_cut = True
                    continue
                for side in uses:
                    left[side] -= 1
                rows.append(row)
            if is_cut:  # what follows would stand beside the wrong lines
                return rows, True
    return rows, False


def _rows_of(
    tag: str, theirs: Sequence[str], ours: Sequence[str], base: int, donor: int
) -> Iterator[_Row]:
    if tag == "equal":
        for number, text in enumerate(theirs):
            yield _Row(" ", text, base + number, donor + number)
        return
    for number, text in enumerate(theirs):
        yield _Row("-", text, base + number, donor)
    for number, text in enumerate(ours):
        yield _Row("+", text, base + len(theirs), donor + number)


def _rendered(rows: Sequence[_Row], base: int, donor: int) -> str:
    """Write rows as hunks; the two numbers are those of the window's first lines."""
    lines: list[str] = []
    for hunk in _hunks(rows):
        removed = sum(row.mark != "+" for row in hunk)
        added = sum(row.mark != "-" for row in hunk)
        # A side that has no line is numbered by the line before. Source: POSIX diff, unified format.
        start = max(base + hunk[0].base - (not removed), 0)
        new_start = max(donor + hunk[0].donor - (not added), 0)
        lines.append(f"@@ -{start},{removed} +{new_start},{added} @@")
        lines += [f"{row.mark}{_cut(row.text, _LONGEST_LINE)}" for row in hunk]
    return "".join(f"{line}\n" for line in lines)


def _hunks(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    hunk: list[_Row] = list(rows[:1])
    for before, row in pairwise(rows):
        follows = row.base == before.base + (before.mark != "+") and row.donor == before.donor + (
            before.mark != "-"
        )
        if not follows:
            yield hunk
            hunk = []
        hunk.append(row)
    if hunk:
        yield hunk

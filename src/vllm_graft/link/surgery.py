# Changing one file's text, in memory. The syntax tree says where; LibCST changes the one expression that
# changes, so that comments and layout stay. Nothing but that expression is parsed with it: a file of a
# thousand lines takes LibCST half a second, the list in it a millisecond.
"""Additions to a base file: members of collections, statements, arms of conditions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

    _Item = cst.Element | cst.DictElement | cst.Arg | cst.SubscriptElement


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A member to add to a collection."""

    source: str
    """As it is written there: an element, ``"key": value`` or ``name=value``."""
    before: int
    """Index in the collection as it was; several for one index keep their order."""


@dataclass(slots=True)
class FileSurgery:
    """The additions to one file, applied together."""

    text: bytes
    _lines: list[int] = field(init=False)
    _splices: list[tuple[int, int, bytes]] = field(
        init=False, default_factory=list[tuple[int, int, bytes]]
    )
    _collections: dict[int, tuple[ast.expr, list[Addition]]] = field(
        init=False, default_factory=dict[int, tuple[ast.expr, list[Addition]]]
    )

    def __post_init__(self) -> None:
        """Find where lines begin."""
        self._lines = line_starts(self.text)

    def add_member(self, collection: ast.expr, addition: Addition) -> None:
        """Add a member to a collection of this file's tree."""
        self._collections.setdefault(id(collection), (collection, []))[1].append(addition)

    def insert_lines(self, line: int, source: str) -> None:
        """Insert whole lines before a line, counted from 1; one past the last line appends."""
        at = self._lines[line - 1] if line <= len(self._lines) else len(self.text)
        given = source if source.endswith("\n") else f"{source}\n"
        if at == len(self.text) and self.text and not self.text.endswith(b"\n"):
            given = f"\n{given}"
        self._splices.append((at, at, given.encode()))

    def replace(self, node: ast.expr, source: str) -> None:
        """Write an expression anew."""
        start, end = extent(node, self._lines)
        self._splices.append((start, end, source.encode()))

    def insert_behind(self, node: ast.expr, source: str) -> None:
        """Put source right behind an expression."""
        _, end = extent(node, self._lines)
        self._splices.append((end, end, source.encode()))

    def respell(self, line: int, column: int, old: str, new: str) -> None:
        """Change a keyword at a position of the tree, such as ``if`` into ``elif``."""
        at = self._lines[line - 1] + column
        if self.text[at : at + len(old)] != old.encode():
            message = f"line {line} does not have {old!r} at column {column}"
            raise ValueError(message)
        self._splices.append((at, at + len(old), new.encode()))

    def result(self) -> bytes:
        """Give the whole new text."""
        splices = list(self._splices)
        for collection, additions in self._collections.values():
            start, end = extent(collection, self._lines)
            source = self.text[start:end].decode()
            splices.append((start, end, add_members(source, additions).encode()))
        text = self.text
        # From the end; insertions at one place keep their order, since the sort is stable.
        ordered = sorted(enumerate(splices), key=lambda pair: (pair[1][0], pair[0]))
        for _, (start, end, new) in reversed(ordered):
            text = text[:start] + new + text[end:]
        return text


def line_starts(text: bytes) -> list[int]:
    """Give the offset of each line; lines end at newlines only, as the compiler counts them."""
    starts = [0]
    at = text.find(b"\n")
    while at != -1:
        starts.append(at + 1)
        at = text.find(b"\n", at + 1)
    if starts[-1] == len(text) and len(starts) > 1:
        starts.pop()
    return starts


def extent(node: ast.expr | ast.stmt, lines: Sequence[int]) -> tuple[int, int]:
    """Give the offsets in bytes between which a node stands."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (
        lines[node.lineno - 1] + node.col_offset,
        lines[node.end_lineno - 1] + node.end_col_offset,
    )


def add_members(source: str, additions: Sequence[Addition]) -> str:
    """Add members to the source of one collection, in the layout of those that are there."""
    import libcst as cst

    expression = cst.parse_expression(source)
    match expression:
        case cst.Dict() | cst.List() | cst.Set() | cst.Tuple():
            items: Sequence[_Item] = expression.elements  # pyright: ignore[reportAssignmentType] none is starred
            name = "elements"
        case cst.Call():
            items, name = expression.args, "args"
        case cst.Subscript():
            items, name = expression.slice, "slice"
        case _:
            message = f"not a collection: {source[:60]!r}"
            raise TypeError(message)
    separator = _separator(items, expression)
    closed, closing = expression, None
    if any(addition.before == len(items) for addition in additions):
        closed, closing = _take_closing_comment(expression)
    changed = closed.with_changes(
        **{name: _with_additions(items, additions, closing=closing, separator=separator)}
    )
    return cst.Module(body=[]).code_for_node(changed)


def _take_closing_comment(
    expression: cst.BaseExpression,
) -> tuple[cst.BaseExpression, cst.ParenthesizedWhitespace | None]:
    """Take the comment behind the last member off the closing bracket: it belongs to that member."""
    import libcst as cst

    for name in ("rbracket", "rbrace"):
        bracket = getattr(expression, name, None)
        space = getattr(bracket, "whitespace_before", None)
        if (
            bracket is not None
            and isinstance(space, cst.ParenthesizedWhitespace)
            and space.first_line.comment is not None
        ):
            plain = bracket.with_changes(whitespace_before=_without_comments(space))
            return expression.with_changes(**{name: plain}), space
    return expression, None


def _with_additions(
    items: Sequence[_Item],
    additions: Sequence[Addition],
    *,
    closing: cst.ParenthesizedWhitespace | None,
    separator: cst.Comma,
) -> list[_Item]:
    import libcst as cst

    added: dict[int, list[_Item]] = {}
    for addition in additions:
        added.setdefault(addition.before, []).append(
            _item(addition.source, items).with_changes(comma=separator)
        )
    result: list[_Item] = [*added.get(0, ())]
    for index, item in enumerate(items):
        new = added.get(index + 1, [])
        result.append(item)
        if not new:
            continue
        if index + 1 < len(items):
            # Comment lines between two members are about the second: they stay with it.
            before, after = _split_comments(item.comma)
            result[-1] = item.with_changes(comma=before)
            new[-1] = new[-1].with_changes(comma=after)
        else:
            comma = separator
            if closing is not None:
                space = separator.whitespace_after
                if isinstance(space, cst.ParenthesizedWhitespace):
                    first = space.first_line.with_changes(
                        comment=closing.first_line.comment, whitespace=closing.first_line.whitespace
                    )
                    comma = separator.with_changes(
                        whitespace_after=space.with_changes(first_line=first)
                    )
            result[-1] = item.with_changes(comma=comma)
            new[-1] = new[-1].with_changes(comma=item.comma)
        result.extend(new)
    return result


def _split_comments(
    comma: cst.Comma | cst.MaybeSentinel,
) -> tuple[cst.Comma | cst.MaybeSentinel, cst.Comma | cst.MaybeSentinel]:
    import libcst as cst

    if isinstance(comma, cst.Comma):
        space = comma.whitespace_after
        if isinstance(space, cst.ParenthesizedWhitespace):
            first = comma.with_changes(whitespace_after=space.with_changes(empty_lines=[]))
            second = comma.with_changes(
                whitespace_after=space.with_changes(
                    first_line=cst.TrailingWhitespace(newline=space.first_line.newline)
                )
            )
            return first, second
    return comma, comma


def _without_comments(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    import libcst as cst

    return space.with_changes(
        first_line=cst.TrailingWhitespace(newline=space.first_line.newline), empty_lines=[]
    )


def _separator(items: Sequence[_Item], expression: cst.BaseExpression) -> cst.Comma:
    """Give the comma and white space that stand between members, without comments.

    Where there is one member only, those that stand behind the opening bracket.
    """
    import libcst as cst

    for item in items[:-1]:
        if isinstance(item.comma, cst.Comma):
            space = item.comma.whitespace_after
            if isinstance(space, cst.ParenthesizedWhitespace):
                return item.comma.with_changes(whitespace_after=_without_comments(space))
            return item.comma
    opening = getattr(expression, "lbracket", None) or getattr(expression, "lbrace", None)
    space = getattr(opening, "whitespace_after", None)
    if isinstance(space, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=_without_comments(space))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _item(source: str, items: Sequence[_Item]) -> _Item:
    """Parse one member, of the kind that the collection has."""
    import libcst as cst

    wrapped: cst.BaseExpression
    kind = items[0] if items else None
    if isinstance(kind, cst.DictElement) or (kind is None and ":" in source):
        wrapped = cst.parse_expression("{" + source + "}")
        assert isinstance(wrapped, cst.Dict)
        return wrapped.elements[0]  # pyright: ignore[reportReturnType] never starred
    if isinstance(kind, cst.Arg):
        wrapped = cst.parse_expression(f"f({source})")
        assert isinstance(wrapped, cst.Call)
        return wrapped.args[0]
    if isinstance(kind, cst.SubscriptElement):
        wrapped = cst.parse_expression(f"f[{source}]")
        assert isinstance(wrapped, cst.Subscript)
        return wrapped.slice[0]
    wrapped = cst.parse_expression(f"[{source}]")
    assert isinstance(wrapped, cst.List)
    return wrapped.elements[0]  # pyright: ignore[reportReturnType] never starred

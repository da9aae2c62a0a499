# Two columns that read well: what both have stands on one line, what differs faces what it differs from, each line with
# its number in its own file. On a narrow page the two stand below each other.
"""Two definitions as two columns of a page."""

from collections.abc import Iterator
from html import escape

from vllm_graft.report.side_by_side import Line, Row, hunks_of, indentation, lines_of
from vllm_graft.values.side_by_side import Side, SideBySide


def render_compared(comparison: SideBySide, *, base: str, donor: str) -> str:
    """Give a comparison as HTML; the two words are the versions of the installs."""
    heads = (
        ("base", base, comparison.base, "The base has nothing of the kind."),
        ("donor", donor, comparison.donor, "It is a matter of the base alone."),
    )
    columns = "".join(
        f'<div class="{role}"><p><b>{role}</b> {escape(version)} {_head(side, otherwise)}</div>'
        for role, version, side, otherwise in heads
    )
    hunks = hunks_of(comparison.difference)
    skipped = indentation(hunks)
    rows = "".join(f"<tbody>{''.join(_rows(hunk, skipped))}</tbody>" for hunk in hunks)
    table = (
        f'<table><colgroup><col class="n"><col><col class="n"><col></colgroup>{rows}</table>'
        if rows
        else ""
    )
    more = '<p class="more">More lines differ: see the files.</p>' if comparison.is_cut else ""
    return f'<div class="sides"><div class="heads">{columns}</div>{table}{more}</div>'


def _head(side: Side | None, otherwise: str) -> str:
    if side is None:
        return f"</p><p>{otherwise}</p>"
    signature = f'<pre class="signature">{escape(side.signature)}</pre>' if side.signature else ""
    return f"<code>{_breakable(lines_of(side))}</code></p>{signature}"


def _breakable(path: str) -> str:
    return escape(path).replace("/", "/<wbr>")


def _rows(hunk: tuple[Row, ...], skipped: int) -> Iterator[str]:
    for row in hunk:
        kind = ' class="same"' if row.is_same else ""
        yield f"<tr{kind}>{_cell(row.base, 'old', skipped)}{_cell(row.donor, 'new', skipped)}</tr>"


def _cell(line: Line | None, kind: str, skipped: int) -> str:
    if line is None:
        return '<td class="n"></td><td class="none"></td>'
    text = escape(line.text[skipped:])
    return f'<td class="n">{line.number}</td><td class="{kind}">{text}</td>'

# Makes docs/coverage.md and docs/coverage.html from the same figures.
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from coverage_figures import COLUMNS, HEADINGS, HOW, WORDS, Figures, figures

TITLE = "Coverage: every new architecture of five pairs of releases"
EXCLUDED = ("base ← donor", "architectures", "", "symbol", "where the donor needs it", "why")
OPEN = ("base ← donor", "architecture", "plan", "why")
KINDS = {"native": "(a) native operator", "engine": "(b) engine"}


def coverage_page() -> str:
    found = figures()
    parts = [f"# {TITLE}\n", f"{HOW}\n"]
    parts += [f"- **{word}**: {text}" for word, text in WORDS]
    parts += ["", *_table(HEADINGS, found.summary)]
    for name, cases in found.pairs:
        parts += [
            f"## {name}\n",
            f"{found.planned_with(cases)}\n",
            *_table(COLUMNS, map(found.row, cases)),
        ]
    parts += ["## Excluded\n", *_table(EXCLUDED, _exclusions(found))]
    parts += ["## Not ok, and not excluded\n", *_table(OPEN, found.open)]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _exclusions(found: Figures) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.base} ← {one.donor}",
            ", ".join(one.architectures),
            KINDS[one.kind],
            one.symbol,
            one.site,
            one.reason,
        )
        for one in found.exclusions
    ]


# ── the same as one page without anything fetched ────────────────────────────────────────────────────

STYLE = """\
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --line: #d8d8d8; --soft: #f4f4f2;
  --ok: #14703a; --review: #8a5a00; --blocked: #a32020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #161616; --line: #3a3a3a;
  --soft: #202020; --ok: #6fd08f; --review: #e0b050; --blocked: #ff8d85; } }
body { margin: 0 auto; max-width: 90rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; } .figures td:not(:first-child) { text-align: right; }
.figures th:not(:first-child) { text-align: right; } .figures tr:last-child td { font-weight: 600; }
.figures td, .figures th { overflow-wrap: normal; }
.ok, .same { color: var(--ok); } .review { color: var(--review); } .blocked { color: var(--blocked); }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; }
@media (max-width: 52rem) {
  .cases thead { display: none; } .cases tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .cases td { display: block; border: 0; padding: 0; } .cases td:empty { display: none; }
  .cases td:first-child { font-weight: 600; }
  .cases td:not(:first-child)::before { content: attr(data-name) ": "; opacity: .7; } }
"""


def coverage_html() -> str:
    found = figures()
    words = "".join(f"<dt>{escape(word)}</dt><dd>{_prose(text)}</dd>\n" for word, text in WORDS)
    parts = [
        f"<h1>{escape(TITLE)}</h1>\n<p>{_prose(HOW)}</p>\n<dl>{words}</dl>",
        _html_table("figures", HEADINGS, found.summary),
    ]
    for name, cases in found.pairs:
        parts += [
            f"<h2>{escape(name)}</h2>\n<p>{escape(found.planned_with(cases))}</p>",
            _html_table("cases", COLUMNS, [found.row(case) for case in cases]),
        ]
    parts += ["<h2>Excluded</h2>", _html_table("cases", EXCLUDED, _exclusions(found))]
    parts += ["<h2>Not ok, and not excluded</h2>", _html_table("cases", OPEN, found.open)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _html_table(kind: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "\n".join(
        f"<tr>{''.join(_cell(name, cell) for name, cell in zip(head, row, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table class="{kind}">\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def _cell(name: str, text: str) -> str:
    told = f' class="{text}"' if text in ("ok", "review", "blocked", "same") else ""
    return f'<td data-name="{escape(name)}"{told}>{escape(text)}</td>'


def _prose(text: str) -> str:
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped)

# Makes docs/coverage.md from what bench/coverage.py kept.
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "bench/coverage.json"
HEAD = """\
# Coverage: every new architecture of five pairs of releases

Generated from `bench/coverage.json`, which `python bench/coverage.py` writes (`--execute` for the column *executed*).

- **own file**, **all new files**: what copying the model's own file, or with it every file that the base lacks and that it
  leads to, meets in the base. *resolve*: every import does. That proves little: such a graft may still fail in every other
  way, and no copied file was run.
- **plan**: our verdict. `review` counts as not ok.
- **executed**: for an `ok`, the graft held against the donor: vLLM's own engine configuration made, the class constructed
  from a small configuration, its weights loaded; names, shapes, types and contents of all parameters equal to those that the
  donor makes. Empty: not run. *not runnable here*: the donor itself fails at it on this machine, for the reason given.
"""


def coverage_page() -> str:
    cases: list[Mapping[str, Any]] = json.loads(FILE.read_text())
    parts = [HEAD, *_summary(cases)]
    for pair, found in groupby(cases, key=lambda one: (one["base"], one["donor"])):
        parts += [f"## {pair[0]} ← {pair[1]}\n", *_table(list(found))]
    return "\n".join(parts)


def _summary(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| base ← donor | new | own file | all new files | ok | review | blocked | ok, executed | held | did not hold |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    pairs = [
        (f"{base} ← {donor}", list(found))
        for (base, donor), found in groupby(cases, key=lambda one: (one["base"], one["donor"]))
    ]
    for name, found in [*pairs, ("all", list(cases))]:
        verdicts = Counter(one["verdict"] for one in found)
        ran = [one["executed"] for one in found if one["executed"] not in ("", "not runnable here")]
        cells = (
            name,
            len(found),
            sum(not one["copied"] for one in found),
            sum(not one["closed"] for one in found),
            *(verdicts[word] for word in ("ok", "review", "blocked")),
            len(ran),
            ran.count("same"),
            len(ran) - ran.count("same"),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _table(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| architecture | own file | all new files | plan | executed | why |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one in cases:
        blocked = "; ".join(one["blocked"][:2])
        more = len(one["blocked"]) - 2
        reasons = {
            "blocked": f"{blocked} and {more} more" if more > 0 else blocked,
            "review": ", ".join(one["review"]),
            "ok": one["why"],
        }
        cells = (
            one["architecture"],
            one["copied"] or "resolve",
            one["closed"] or "resolve",
            one["verdict"],
            one["executed"],
            reasons[one["verdict"]],
        )
        escaped = [cell.replace("|", "\\|") for cell in cells]
        yield f"| {' | '.join(escaped)} |"
    yield ""

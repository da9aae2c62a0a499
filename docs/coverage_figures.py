# What both coverage pages say, from bench/coverage.json and bench/exclusions.toml: no page counts for itself.
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent.parent / "bench"
Case = Mapping[str, Any]

HEADINGS = (
    "base ← donor",
    "new",
    "own file",
    "all new files",
    "ok",
    "review",
    "blocked",
    "excluded (a)",
    "excluded (b)",
    "rest",
    "ok of the rest",
    "ok, executed",
    "held",
    "held, other names",
    "class only",
    "did not hold",
)
COLUMNS = (
    "architecture",
    "own file",
    "all new files",
    "plan",
    "seconds",
    "executed",
    "review, executed",
    "why",
)
WORDS = (
    (
        "own file, all new files",
        (
            "what copying the model's own file, or with it every file that the base lacks and that it leads to, meets in"
            " the base. *resolve*: every import does. That proves little: such a graft may still fail in every other way, and"
            " no copied file was run."
        ),
    ),
    (
        "plan",
        (
            "our verdict; `review` counts as not ok. A wheel has no transformers beside it: each base is planned with the"
            " release that it is run with here (`--with`), which stands above its table. *seconds*: to plan it, the two"
            " sources open."
        ),
    ),
    (
        "executed",
        (
            "for an `ok`, the graft held against the donor: vLLM's own engine configuration made, the class constructed from"
            " a small configuration, its weights loaded; names, shapes, types and contents of all parameters equal to those"
            " that the donor makes. Empty: not run. *not runnable here*: the donor itself fails at it on this machine, for"
            " the reason given. *same, other names*: the same numbers in the same shapes, but what"
            " the base's own layers are made of is called otherwise there. *constructed the same* (*class only*): the donor's loader does not tell which tensors a"
            " checkpoint has, so nothing was loaded; not counted as held."
        ),
    ),
    (
        "review, executed",
        "the same for plans that a person should look at first. It proves no verdict; it tells which reviews were worth it.",
    ),
    (
        "excluded",
        (
            "(a) needs a native operator that the base's binaries have not; (b) needs a change of the engine that no"
            " resolution covers. Reviewed by hand, each below. *rest*: all new architectures less these; the goal is that"
            " 95 % of the rest are ok."
        ),
    ),
)
HOW = (
    "Generated from `bench/coverage.json`, which `python bench/coverage.py` writes (`--execute` and `--reviews` for what"
    " was run, with the configurations of `bench/coverage_configs.toml` where the defaults of a class make no model), and"
    " `bench/exclusions.toml`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Architectures of one pair that are left out of the share, and why."""

    kind: str
    base: str
    donor: str
    architectures: tuple[str, ...]
    symbol: str
    site: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is told."""

    cases: Sequence[Case]
    exclusions: Sequence[Exclusion]
    excluded: Mapping[tuple[str, str, str], str] = field(default_factory=dict[Any, Any])
    """Base, donor and architecture → kind."""

    @cached_property
    def pairs(self) -> list[tuple[str, list[Case]]]:
        """Give the cases by pair."""
        found = groupby(self.cases, key=lambda one: (one["base"], one["donor"]))
        return [(f"{base} ← {donor}", list(cases)) for (base, donor), cases in found]

    @cached_property
    def summary(self) -> list[tuple[str, ...]]:
        """Give a line for each pair and one for all, in the order of HEADINGS."""
        return [
            (name, *map(str, self._counts(found)))
            for name, found in [*self.pairs, ("all", list(self.cases))]
        ]

    def _counts(self, cases: Sequence[Case]) -> Iterator[int | str]:
        kinds = [self.kind(one) for one in cases]
        rest = [one for one, kind in zip(cases, kinds, strict=True) if not kind]
        good = sum(one["verdict"] == "ok" for one in rest)
        yield len(cases)
        yield sum(not one["copied"] for one in cases)
        yield sum(not one["closed"] for one in cases)
        for word in ("ok", "review", "blocked"):
            yield sum(one["verdict"] == word for one in cases)
        yield kinds.count("native")
        yield kinds.count("engine")
        yield len(rest)
        yield f"{100 * good / len(rest):.0f} %" if rest else "none"
        ran = [one["executed"] for one in cases if one["verdict"] == "ok"]
        ran = [said for said in ran if said not in ("", "not runnable here")]
        same, made = ran.count("same"), ran.count("constructed the same")
        other = ran.count("same, other names")
        yield len(ran) - made
        yield same
        yield other
        yield made
        yield len(ran) - same - other - made

    def planned_with(self, cases: Sequence[Case]) -> str:
        """Say which transformers the base of a pair was planned with."""
        told = sorted({one["transformers"] for one in cases if one.get("transformers")})
        return f"The base with transformers {' or '.join(told)}." if told else ""

    def kind(self, case: Case) -> str:
        """Give the kind of a case's exclusion; empty where it has none."""
        return self.excluded.get((case["base"], case["donor"], case["architecture"]), "")

    def row(self, case: Case) -> tuple[str, ...]:
        """Give a case in the order of COLUMNS."""
        good = case["verdict"] == "ok"
        return (
            case["architecture"],
            case["copied"] or "resolve",
            case["closed"] or "resolve",
            case["verdict"],
            f"{case['seconds']:.1f}",
            case["executed"] if good else "",
            case["executed"] if case["verdict"] == "review" else "",
            self.why(case),
        )

    def why(self, case: Case) -> str:
        """Say what speaks against a plan, or what running it met."""
        kind = self.kind(case)
        if kind:
            return f"excluded ({'a' if kind == 'native' else 'b'})"
        if case["verdict"] == "blocked":
            more = len(case["blocked"]) - 2
            told = "; ".join(case["blocked"][:2])
            return f"{told} and {more} more" if more > 0 else told
        if case["verdict"] == "review":
            told = ", ".join(case["review"])
            return f"{told}; run: {case['why']}" if case["executed"] not in ("", "same") else told
        return case["why"]

    @cached_property
    def open(self) -> list[tuple[str, str, str, str]]:
        """Give what is not ok and not excluded: pair, architecture, verdict, why."""
        return [
            (name, one["architecture"], one["verdict"], self.why(one))
            for name, cases in self.pairs
            for one in cases
            if one["verdict"] != "ok" and not self.kind(one)
        ]


def exclusions() -> tuple[Exclusion, ...]:
    """Read the table that was reviewed by hand."""
    with (BENCH / "exclusions.toml").open("rb") as file:
        read = tomllib.load(file)["exclusion"]
    return tuple(Exclusion(**{**one, "architectures": tuple(one["architectures"])}) for one in read)


def figures() -> Figures:
    """Read both files."""
    listed = exclusions()
    return Figures(
        cases=json.loads((BENCH / "coverage.json").read_text()),
        exclusions=listed,
        excluded={
            (one.base, one.donor, name): one.kind for one in listed for name in one.architectures
        },
    )

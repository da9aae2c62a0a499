"""What holds for every row of the specification, whatever it is about."""

import keyword
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from held import HeldFiles
from linking import MODEL, Linking, install_of, linked
from specification import PLACES, ROWS, WRITTEN, Place, Row, Written
from vllm_graft.link.plan import LinkRequest, link
from vllm_graft.values.finding import Finding
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan

Any_ = Row | Written | Place


def forms(row: Any_) -> tuple[str, ...]:
    if isinstance(row, Row):
        return tuple(row.forms())
    return tuple(row.models if isinstance(row, Written) else row.texts)


ALL: tuple[tuple[Any_, str], ...] = tuple(
    (row, form) for row in (*ROWS, *WRITTEN, *PLACES) for form in forms(row)
)
DRAWN = st.sampled_from(ALL)
OUTSIDE = ("G210", "G211")
"""Binaries and packages of others: the donor's own lack of them proves nothing."""


def planned(base: Install, donor: Mapping[str, str], features: tuple[str, ...] = ()) -> GraftPlan:
    asked = LinkRequest(architectures=("OkapiForCausalLM",), features=features)
    return link(base, install_of(donor, "0.17.1"), asked)


def features_of(row: Any_) -> tuple[str, ...]:
    return () if isinstance(row, Row) else row.features


def told(findings: Sequence[Finding]) -> set[Finding]:
    """Findings without the names of what stands beside them, which lines may shift."""
    return {replace(each, comparison="") for each in findings if each.site.install == "donor"}


# ── base = donor ──────────────────────────────────────────────────────────────────────────────────


# A base whose tables are not known is refused (E307), so nothing can be said of those.
PUT = tuple((row, form) for row, form in ALL if row.code != "G302")


@pytest.mark.parametrize(
    ("row", "form"), PUT, ids=[f"{row.code} {row.says}, through {form}" for row, form in PUT]
)
def test_a_base_with_the_donors_engine_gives_no_finding(row: Any_, form: str) -> None:
    linking = row.link(form)
    own = {path: text for path, text in linking.base.items() if path not in linking.donor}
    engine = {
        path: text
        for path, text in linking.donor.items()
        if path in linking.base or "okapi" not in path.lower()
    }
    # The tables stay the base's, without the family, else nothing would be grafted at all.
    tables = {p: t for p, t in linking.base.items() if "okapi" in linking.donor.get(p, "").lower()}
    if isinstance(row, Place):
        tables.pop(row.path, None)
    plan = planned(
        install_of({**own, **engine, **tables}, "0.14.1"), linking.donor, features_of(row)
    )
    assert plan.modules
    assert [each for each in plan.findings if each.code not in OUTSIDE] == []


# ── an unused symbol ──────────────────────────────────────────────────────────────────────────────

NAMES = st.from_regex(r"[A-Za-z][a-z]{2,7}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
SYMBOLS = st.sampled_from(
    (
        "\n\ndef {name}(x, *, by=1):\n    return x * by\n",
        "\n\nclass {name}:\n    size = 3\n    def run(self):\n        return 1\n",
        "\n\n{name} = 4\n",
        "\n\n{name}: list[int] = []\n",
        "\n\n_SIZES_OF_{name} = {{'{name}': 1}}\n",
        "\n\nclass {name}(int):\n    def __getattr__(self, name):\n        return {name}\n",
    )
)


@settings(max_examples=120)
@given(drawn=DRAWN, name=NAMES, symbol=SYMBOLS, data=st.data())
def test_an_unused_symbol_in_the_base_adds_no_finding(
    drawn: tuple[Any_, str], name: str, symbol: str, data: st.DataObject
) -> None:
    row, form = drawn
    linking = row.link(form)
    assume(not _is_mentioned(name, linking))
    paths = sorted(path for path in linking.base if path.endswith(".py"))
    new = f"vllm/model_executor/layers/{name.lower()}_of_the_base.py"
    path = data.draw(st.sampled_from((*paths, new)))
    text = linking.base.get(path, "") + symbol.format(name=name)
    native = None if isinstance(row, Place) else row.native
    base = install_of({**linking.base, path: text}, "0.14.1", native)
    plan = planned(base, linking.donor, features_of(row))
    assert told(plan.findings) == told(linking.plan.findings)
    assert plan.verdict == linking.plan.verdict


def _is_mentioned(name: str, linking: Linking) -> bool:
    word = re.compile(rf"\b{name}\b", re.IGNORECASE)
    return any(
        word.search(text) or word.search(path)
        for files in (linking.base, linking.donor)
        for path, text in files.items()
    )


# ── the order of files ────────────────────────────────────────────────────────────────────────────


class Shuffled(HeldFiles):
    """The same files, given in another order wherever an order is given."""

    def __init__(self, files: Mapping[str, str], seed: int) -> None:
        super().__init__(files)
        self._random = random.Random(seed)  # noqa: S311  (an order, not a secret)

    def paths(self) -> Sequence[str]:
        return self._in_some_order(super().paths())

    def containing(self, needle: bytes) -> Sequence[str]:
        return self._in_some_order(super().containing(needle))

    def _in_some_order(self, paths: Sequence[str]) -> Sequence[str]:
        return self._random.sample(list(paths), len(paths))


@settings(max_examples=120)
@given(drawn=DRAWN, seed=st.integers(0, 1000))
def test_a_plan_does_not_depend_on_the_order_of_files(drawn: tuple[Any_, str], seed: int) -> None:
    row, form = drawn
    linking = row.link(form)
    native = None if isinstance(row, Place) else row.native
    base = replace(install_of(linking.base, "0.14.1", native), files=Shuffled(linking.base, seed))
    donor = replace(install_of(linking.donor, "0.17.1"), files=Shuffled(linking.donor, seed + 1))
    asked = LinkRequest(architectures=("OkapiForCausalLM",), features=features_of(row))
    assert asdict(link(base, donor, asked)) == asdict(linking.plan)


@pytest.mark.parametrize("seed", range(8))
def test_which_of_two_equals_stands_for_what_moved_does_not_depend_on_the_order(seed: int) -> None:
    layer = "class Layer:\n    def scale(self):\n        return {}\n"
    model = (
        "from vllm.model_executor.layers.old import Layer\n\n\n"
        "class OkapiForCausalLM:\n    def run(self):\n        return Layer().scale()\n"
    )
    old, here, there = (
        f"vllm/model_executor/layers/{name}.py" for name in ("old", "here", "there")
    )
    linking = linked(
        donor={old: layer.format(1), MODEL: model},
        base={here: layer.format(1), there: layer.format(2)},
    )
    base = replace(install_of(linking.base, "0.14.1"), files=Shuffled(linking.base, seed))
    assert asdict(planned(base, linking.donor)) == asdict(linking.plan)

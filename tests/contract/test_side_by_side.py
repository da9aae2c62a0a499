"""Each finding and each resolution that is not identical names two definitions that are where it says."""

import re
from collections.abc import Mapping

import pytest

from linking import LAYERS, MODEL, Linking, linked
from specification import PLACES, ROWS, WRITTEN, Place, Row, Written
from vllm_graft.values.side_by_side import MOST_LINES, Side, SideBySide

HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")
ROW = "from vllm.model_executor.layers.library import "


def model(imports: str, body: str) -> str:
    return f"{imports}\n\n\nclass OkapiForCausalLM:\n    def run(self):\n        {body}\n"


def of_library(donor: str, base: str, imports: str, body: str) -> Linking:
    return linked(donor={LAYERS: donor, MODEL: model(imports, body)}, base={LAYERS: base})


def compared(linking: Linking, code: str) -> SideBySide:
    name = linking.finding(code).comparison
    (found,) = [each for each in linking.plan.comparisons if each.name == name]
    return found


def lines(side: Side, files: Mapping[str, str]) -> list[str]:
    return files[side.site.path].split("\n")[side.site.line - 1 : side.end_line]


CASES = [
    pytest.param(row, form, id=f"{row.code} {row.says}, through {form}")
    for row in (*ROWS, *WRITTEN, *PLACES)
    for form in (
        [*row.forms()]
        if isinstance(row, Row)
        else [*(row.models if isinstance(row, Written) else row.texts)]
    )[:2]
]


@pytest.mark.parametrize(("row", "form"), CASES)
def test_whatever_is_told_has_its_definitions_where_it_says(
    row: Row | Written | Place, form: str
) -> None:
    linking = row.link(form)
    entries = {each.name: each for each in linking.plan.comparisons}
    assert len(entries) == len(linking.plan.comparisons)
    assert list(entries) == sorted(entries)
    wanted = {f.comparison for f in linking.plan.findings}
    wanted |= {r.target for r in linking.plan.references}
    assert entries.keys() == wanted
    for entry in entries.values():
        assert entry.donor or entry.base
        for side, files in ((entry.donor, linking.donor), (entry.base, linking.base)):
            if side is not None and side.site.line:
                assert side.site.install == ("donor" if files is linking.donor else "base")
                assert lines(side, files)
                assert side.signature
        check_difference(entry, linking)


def check_difference(entry: SideBySide, linking: Linking) -> None:
    """Each line of a difference stands in its file at the number that it has."""
    base = donor = 0
    seen = {"-": 0, "+": 0, " ": 0}
    for line in entry.difference.split("\n")[:-1]:
        if (header := HUNK.fullmatch(line)) is not None:
            base, donor = int(header[1]), int(header[3])
            continue
        mark, text = line[0], line[1:]
        seen[mark] += 1
        for number, side, files, own in (
            (base, entry.base, linking.base, mark in "- "),
            (donor, entry.donor, linking.donor, mark in "+ "),
        ):
            if own:
                assert side is not None
                assert files[side.site.path].split("\n")[number - 1] == text
                assert side.site.line <= number <= side.end_line
        base += mark in "- "
        donor += mark in "+ "
    assert seen["-"] + seen[" "] <= MOST_LINES
    assert seen["+"] + seen[" "] <= MOST_LINES


def test_a_call_that_does_not_fit_shows_both_signatures() -> None:
    linking = of_library(
        "SIZE = 1\n\n\ndef scale(x, *, by: int = 1) -> int:\n    return x * by\n",
        "def scale(x):\n    return x\n",
        ROW + "scale",
        "return scale(2, by=5)",
    )
    entry = compared(linking, "G201")
    assert entry.donor is not None
    assert entry.base is not None
    assert (str(entry.donor.site), entry.donor.end_line) == (f"donor {LAYERS}:4", 5)
    assert (str(entry.base.site), entry.base.end_line) == (f"base {LAYERS}:1", 2)
    assert entry.donor.signature == "def scale(x, *, by: int=1) -> int"
    assert entry.base.signature == "def scale(x)"
    assert entry.difference == (
        "@@ -1,2 +4,2 @@\n-def scale(x):\n-    return x\n"
        "+def scale(x, *, by: int = 1) -> int:\n+    return x * by\n"
    )


def test_a_member_that_the_base_lacks_stands_beside_its_class() -> None:
    linking = of_library(
        "class Layer:\n    def part(self):\n        return 4\n",
        "class Layer(object):\n" + "    size = 1\n" * MOST_LINES,
        ROW + "Layer",
        "return Layer().part()",
    )
    entry = compared(linking, "G203")
    assert entry.base is not None
    assert entry.base.signature == "class Layer(object)"
    assert entry.difference == "@@ -0,0 +2,2 @@\n+    def part(self):\n+        return 4\n"
    assert not entry.is_cut


def test_an_override_stands_beside_the_call_that_it_does_not_fit() -> None:
    (row,) = [row for row in ROWS if row.code == "G219"]
    entry = compared(row.link("its own name"), "G219")
    assert entry.donor is not None
    assert entry.base is not None
    assert entry.donor.signature == "def OkapiForCausalLM.process(self, items)"
    assert entry.base.signature == "return model.process('', items=[])"


def test_what_neither_has_a_name_for_is_shown_at_its_place() -> None:
    (row,) = [row for row in WRITTEN if row.says.startswith("a native operator")]
    entry = compared(row.link("its own name"), "G210")
    assert entry.donor is not None
    assert entry.base is None
    assert entry.donor.signature == "return torch.ops._C.fused_okapi(1)"


@pytest.mark.parametrize("size", [30, 3000])
def test_however_much_differs_a_plan_holds_a_few_lines_of_each_side(size: int) -> None:
    def layer(answer: int) -> str:
        body = "".join(
            f"    def part{i}(self):\n        return {answer * i}\n" for i in range(size)
        )
        return f"class Layer:\n{body}"

    linking = of_library(layer(1), layer(2), ROW + "Layer", "return Layer().part3()")
    (entry,) = [each for each in linking.plan.comparisons if each.name.endswith(".Layer")]
    assert entry.is_cut
    check_difference(entry, linking)
    assert len(entry.difference) < 2000


def test_lines_and_signatures_are_cut() -> None:
    long = ", ".join(f"parameter_{i}=None" for i in range(200))
    linking = of_library(
        f"def scale(x, {long}):\n    return x\n",
        f"def scale(x, y, {long}):\n    return x\n",
        ROW + "scale",
        "return scale(2)",
    )
    entry = compared(linking, "G201")
    assert entry.donor is not None
    assert len(entry.donor.signature) == 400
    assert max(map(len, entry.difference.split("\n"))) <= 201

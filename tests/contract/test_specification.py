"""The rules of the linker as a table: each code, in each way in which a name can be reached."""

import pytest

from linking import Linking
from specification import FORMS, PLACES, ROWS, WRITTEN, Place, Row, Written
from vllm_graft.workflows.explain import read_rules

NO_ROW: dict[str, str] = {}
"""Code of the linker's families → why it can have no row."""
NO_OTHER_NAME = {"G302": "a table is read where it stands; under another name it is not found"}
NO_SUBCLASS = {
    "G205": "an object of the model's own class is made by the model; a row has the engine's subclass",
    "G208": "operators are called, not derived from; a method that calls one is inherited",
    "G209": "a registration stands at the top of a module",
    "G210": "operators are called; the extension module's row has a subclass",
    "G215": "an enumeration with members has no subclass",
    "G221": "no object that the base makes is of the model's own class",
    "G302": "a table is data",
}


def forms(row: Row | Written | Place) -> tuple[str, ...]:
    if isinstance(row, Row):
        return tuple(row.forms())
    return tuple(row.models if isinstance(row, Written) else row.texts)


CASES = [
    pytest.param(
        row,
        form,
        id=f"{row.code} {row.says}, through {form}",
        marks=[pytest.mark.xfail(strict=True, reason=row.missed[form])]
        if form in row.missed
        else [],
    )
    for row in (*ROWS, *WRITTEN, *PLACES)
    for form in forms(row)
]


def check(linking: Linking, expected: frozenset[str]) -> None:
    found = {f"{code} {severity}" for code, severity in linking.codes}
    assert found == expected
    severities = {word.split()[1] for word in found}
    verdict = next((s for s in ("blocked", "review") if s in severities), "ok")
    assert linking.plan.verdict == verdict


@pytest.mark.parametrize(("row", "form"), CASES)
def test_a_rule_holds_however_a_name_is_reached(row: Row | Written | Place, form: str) -> None:
    linking = row.link(form)
    check(linking, row.expected(form) if isinstance(row, Row) else row.found)
    if isinstance(row, Row) and row.runs:
        linking.answer("model.OkapiForCausalLM().run()")


def forms_of(code: str) -> set[str]:
    rows = (*ROWS, *WRITTEN, *PLACES)
    return {form for row in rows if row.code == code for form in forms(row)}


CODES = [code for code in read_rules() if code.startswith(("G1", "G2", "G3"))]


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_row_or_a_reason(code: str) -> None:
    assert (code in NO_ROW) != bool(forms_of(code))


@pytest.mark.parametrize("code", [code for code in CODES if code not in NO_ROW])
def test_every_code_is_tried_under_another_name_and_through_a_subclass(code: str) -> None:
    forms = forms_of(code)
    assert any("another name" in form for form in forms) or code in NO_OTHER_NAME
    assert any("subclass" in form for form in forms) or code in NO_SUBCLASS


def test_what_a_row_expects_is_its_code() -> None:
    for row in (*ROWS, *WRITTEN, *PLACES):
        assert any(word.startswith(row.code) for word in row.found), row.says


def test_every_reason_is_about_a_form() -> None:
    for row in ROWS:
        assert row.unfit.keys() <= set(FORMS)
        assert row.found_if.keys() <= set(FORMS)

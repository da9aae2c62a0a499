"""The rules of the linker as a table: each code, in each way in which a name can be reached."""

import pytest

from specification import ROWS, Row

CASES = [
    pytest.param(row, form, id=f"{row.code} {row.says} through {form}")
    for row in ROWS
    for form in row.forms()
]


@pytest.mark.parametrize(("row", "form"), CASES)
def test_a_rule_holds_however_a_name_is_reached(row: Row, form: str) -> None:
    linking = row.link(form)
    found = {f"{code} {severity}" for code, severity in linking.codes}
    assert found == row.expected(form)
    severities = {word.split()[1] for word in found}
    verdict = next((s for s in ("blocked", "review") if s in severities), "ok")
    assert linking.plan.verdict == verdict
    if row.runs:
        linking.answer("model.OkapiForCausalLM().run()")

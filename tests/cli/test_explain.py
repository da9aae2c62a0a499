import json

import pytest

from vllm_graft.errors import RequestError
from vllm_graft.workflows.explain import explain, read_rules


@pytest.mark.parametrize("code", ["G204", "g204", " error[G204] "])
def test_a_code_is_found_however_it_was_copied(code: str) -> None:
    assert explain(code, "text").startswith("G204 (usually note): ")


def test_every_code_is_explained_in_every_form() -> None:
    for code, rule in read_rules().items():
        assert rule.remedy.split()[0] in explain(code, "text")
        assert explain(code, "markdown").startswith(f"### {code}: ")
        assert json.loads(explain(code, "json"))["code"] == code


def test_without_a_code_all_are_listed() -> None:
    assert len(explain("", "text").splitlines()) == len(read_rules())
    assert len(json.loads(explain("", "json"))) == len(read_rules())


def test_an_unknown_code_offers_the_nearest() -> None:
    with pytest.raises(RequestError) as caught:
        explain("G24", "text")
    assert "G204" in caught.value.remedy

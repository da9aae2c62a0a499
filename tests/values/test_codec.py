import json
from typing import Any

import pytest

from plans import PlanParts
from vllm_graft.errors import RequestError
from vllm_graft.values.codec import decode_plan, encode_plan, plan_digest


def test_a_plan_comes_back_as_it_was_written() -> None:
    plan = PlanParts().plan()
    assert decode_plan(encode_plan(plan), where="plan.json") == plan


def test_the_same_plan_gives_the_same_bytes_whatever_the_order_of_its_keys() -> None:
    plan = PlanParts().plan()
    shuffled = json.dumps(dict(reversed(json.loads(encode_plan(plan)).items())), indent=4)
    again = decode_plan(shuffled.encode(), where="plan.json")
    assert encode_plan(again) == encode_plan(plan)
    assert plan_digest(again) == plan_digest(plan)


def test_the_file_holds_text_as_text_and_ends_with_a_newline() -> None:
    content = encode_plan(PlanParts().plan())
    assert "grüße" in content.decode()
    assert content.endswith(b"}\n")


def set_in(value: Any, path: list[str | int], new: object) -> None:
    *steps, last = path
    for step in steps:
        value = value[step]
    value[last] = new


@pytest.mark.parametrize(
    ("path", "new", "complaint"),
    [
        (["verdit"], "ok", "$: unknown key 'verdit' (did you mean 'verdict'?)"),
        (["edits", 0, "dif"], "", "$.edits[0]: unknown key 'dif' (did you mean 'diff'?)"),
        (["base", "version"], 14, "$.base.version: wanted a string, found a whole number"),
        (["findings", 0, "site", "line"], "12", "$.findings[0].site.line: wanted a whole number"),
        (["findings", 0, "site", "line"], True, "found true or false"),
        (["edits", 1, "before"], "sha256:12", "$.edits[1].before: not a digest"),
        (["verdict"], "fine", "$.verdict: wanted one of 'ok', 'review', 'blocked', found 'fine'"),
        (["modules"], None, "$.modules"),
        (["edits"], "x", "$.edits: wanted a list, found a string"),
        (["architectures", 0], "\ud800", "$.architectures[0]: half a surrogate pair is no text"),
        (
            ["verdict"],
            "x" * 1000,
            "found 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
        ),
        (["reference_counts", "moved"], 1.5, "$.reference_counts.moved: wanted a whole number"),
    ],
)
def test_a_wrong_key_or_value_is_told_with_its_path(
    path: list[str | int], new: object, complaint: str
) -> None:
    value = json.loads(encode_plan(PlanParts().plan()))
    set_in(value, path, new)
    with pytest.raises(RequestError) as caught:
        decode_plan(json.dumps(value).encode(), where="plan.json")
    assert caught.value.code == "E212"
    assert complaint in caught.value.what


def test_all_problems_are_told_at_once() -> None:
    value = json.loads(encode_plan(PlanParts().plan()))
    del value["donor"]["digest"]
    value["extra"] = 1
    value["base"]["source"] = []
    with pytest.raises(RequestError) as caught:
        decode_plan(json.dumps(value).encode(), where="plan.json")
    for complaint in ("$.donor: key 'digest' is missing", "unknown key 'extra'", "$.base.source"):
        assert complaint in caught.value.what


def test_another_schema_version_is_refused_before_its_keys_are() -> None:
    content = b'{"schema": "vllm-graft/plan/1", "whatever": []}'
    with pytest.raises(RequestError, match="vllm-graft/plan/1") as caught:
        decode_plan(content, where="plan.json")
    assert caught.value.code == "E211"


def test_the_file_names_the_digest_that_names_the_plan_elsewhere() -> None:
    plan = PlanParts().plan()
    assert json.loads(encode_plan(plan))["digest"] == str(plan_digest(plan))


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (["modules", 0, "text"], "import os\n"),
        (["verdict"], "ok"),
        (["findings"], []),
        (["digest"], "sha256:" + "0" * 64),
        (["digest"], None),
    ],
)
def test_a_plan_that_was_changed_after_it_was_written_is_refused(
    path: list[str | int], new: object
) -> None:
    value = json.loads(encode_plan(PlanParts().plan()))
    set_in(value, path, new)
    with pytest.raises(RequestError, match="was changed after it was written") as caught:
        decode_plan(json.dumps(value).encode(), where="plan.json")
    assert caught.value.code == "E214"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b'{"schema": NaN}', "NaN"),
        (b'{"schema": "a", "schema": "b"}', "'schema' stands twice"),
        (b"[]", "wanted a JSON object, found a list"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_plan_at_all_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint) as caught:
        decode_plan(content, where="plan.json")
    assert caught.value.code == "E210"

# What a user says of a base that cannot tell it itself is one exact version, or nothing.
import pytest

from vllm_graft.errors import RequestError
from vllm_graft.values.stated import parse_stated


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("transformers==5.16.1", "transformers==5.16.1"),
        ("Transformers == 5.16.1", "transformers==5.16.1"),
        ("transformers==5.0.0-rc1", "transformers==5.0.0rc1"),
    ],
)
def test_one_exact_version_is_read(text: str, shown: str) -> None:
    assert str(parse_stated(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "transformers",
        "transformers>=5",
        "transformers==5.*",
        "transformers>=5,<6",
        "transformers==5.1; python_version > '3'",
        "transformers[torch]==5.1",
        "transformers===5.1",
        "transformers @ file:///t.whl",
        "torch==2.9.1",
        "-e .",
    ],
)
def test_anything_else_is_refused_with_the_form_that_is_wanted(text: str) -> None:
    with pytest.raises(RequestError, match="wanted transformers==VERSION") as told:
        parse_stated(text)
    assert told.value.code == "E203"

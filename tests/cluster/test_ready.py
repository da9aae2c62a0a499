# What is a correct answer, and what must not pass for one.
import json
from typing import Any

import pytest

from vllm_graft.cluster.ready import (
    PROMPT,
    TOKENS,
    NotServed,
    Reply,
    completion_request,
    read_completion,
    read_models,
)
from vllm_graft.values.deployment import Completion


def reply(value: Any, status: int = 200) -> Reply:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Reply(status=status, body=body)


def answer(**more: Any) -> dict[str, Any]:
    """As vLLM 0.30 answers, without what nobody reads."""
    choice = {
        "index": 0,
        "text": " eight, nine, ten, eleven",
        "logprobs": {"token_logprobs": [-0.01] * TOKENS, "tokens": ["x"] * TOKENS},
        "finish_reason": "length",
        **more.pop("choice", {}),
    }
    usage = {"prompt_tokens": 15, "total_tokens": 15 + TOKENS, "completion_tokens": TOKENS}
    return {"id": "cmpl-1", "model": "tiny", "choices": [choice], "usage": usage, **more}


def test_a_whole_answer_of_the_model_is_one() -> None:
    found = read_completion(reply(answer()), "tiny")
    assert found == Completion(
        model="tiny", prompt=PROMPT, text=" eight, nine, ten, eleven", tokens=TOKENS
    )


def test_the_question_is_greedy_and_of_a_fixed_length_whatever_the_model_would_end_with() -> None:
    asked = json.loads(completion_request("tiny"))
    assert asked["temperature"] == 0
    assert asked["ignore_eos"] is True
    assert asked["max_tokens"] == TOKENS


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (reply(b""), "no completion"),
        (reply(b"<html>Welcome</html>"), "no completion"),
        (reply({}), "no completion"),
        (reply([]), "no completion"),
        (reply(None), "no completion"),
        (reply(answer(choices=[])), "no completion"),
        (reply(answer(usage=None)), "no completion"),
        (reply(answer(choice={"text": ""})), "empty text"),
        (reply(answer(choice={"text": None})), "empty text"),
        (reply(answer(choice={"logprobs": None})), "no completion"),
        (reply(answer(model="another")), "'another' answered"),
        (reply(answer(usage={"prompt_tokens": 15, "completion_tokens": 0})), "counts 0"),
        (reply(answer(usage={"prompt_tokens": 0, "completion_tokens": TOKENS})), "a prompt of 0"),
        (reply(answer(choice={"logprobs": {"token_logprobs": [-1.0]}})), "probabilities"),
        (
            reply(answer(choice={"logprobs": {"token_logprobs": [float("nan")] * TOKENS}})),
            "probabilities",
        ),
        (reply(answer(choice={"logprobs": {"token_logprobs": [None] * TOKENS}})), "probabilities"),
        (reply(answer(choice={"logprobs": {"token_logprobs": [0.5] * TOKENS}})), "probabilities"),
        (reply({"error": {"message": "EngineCore encountered an issue"}}, 500), "EngineCore"),
        (reply({"detail": "Not Found"}, 404), "status 404"),
    ],
)
def test_what_is_no_answer_does_not_pass(given: Reply, why: str) -> None:
    found = read_completion(given, "tiny")
    assert isinstance(found, NotServed)
    assert not found.is_early
    assert why in found.why


@pytest.mark.parametrize("status", [502, 503, 504])
def test_what_says_that_it_is_not_ready_is_asked_again(status: int) -> None:
    for found in (read_models(reply(b"", status), "tiny"), read_completion(reply(b"", status), "")):
        assert isinstance(found, NotServed)
        assert found.is_early


def test_the_model_is_asked_for_by_the_name_that_is_listed() -> None:
    listed = {"object": "list", "data": [{"id": "tiny"}, {"id": "an-adapter"}]}
    assert read_models(reply(listed), "tiny") == "tiny"
    other = read_models(reply({"data": [{"id": "llama"}]}), "tiny")
    assert isinstance(other, NotServed)
    assert "does not list tiny: the models llama" in other.why
    assert not other.is_early


@pytest.mark.parametrize("body", [b"Ollama is running", b"{}", b'{"data": {}}', b'{"data": [1]}'])
def test_another_service_at_the_port_is_not_taken_for_vllm(body: bytes) -> None:
    found = read_models(reply(body), "tiny")
    assert isinstance(found, NotServed)
    assert not found.is_early


def test_an_endpoint_that_wants_a_key_is_told_as_such() -> None:
    found = read_models(reply({"error": "Unauthorized"}, 401), "tiny")
    assert isinstance(found, NotServed)
    assert "wants a key" in found.why

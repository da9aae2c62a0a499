# What proves that a model is served. A socket that takes connections, 200 on /health and exit status 0 prove nothing
# (vLLM 0.30 answers /health with a rank dead, and no request any more): only an answer of the model that was looked at does.
"""What is asked of an endpoint, and what a correct answer is."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from vllm_graft.values.deployment import Completion

HEALTH_PATH = "/health"
MODELS_PATH = "/v1/models"
COMPLETIONS_PATH = "/v1/completions"

PROMPT = "One, two, three, four, five, six, seven,"
TOKENS = 8

_SHOWN = 120
_OK = 200
_TOO_EARLY = (502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back over HTTP."""

    status: int
    body: bytes

    @property
    def shown(self) -> str:
        """Give its beginning, for a message."""
        text = " ".join(self.body.decode("utf-8", "replace").split())
        return f"status {self.status}, {text[:_SHOWN]!r}" + ("…" if len(text) > _SHOWN else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotServed:
    """In the place of an answer."""

    why: str
    is_early: bool
    """Whether it may yet come: nobody listens so far, or says so."""


def read_models(reply: Reply, name: str) -> str | NotServed:
    """Give the id under which the model is served.

    Source: OpenAI API, ``GET /v1/models``, as vLLM 0.11 to 0.31 answers it.
    """
    if reply.status in _TOO_EARLY:
        return NotServed(why=f"{MODELS_PATH} answers with {reply.shown}", is_early=True)
    if reply.status in (401, 403):
        why = f"{MODELS_PATH} wants a key that `up` does not have ({reply.shown})"
        return NotServed(why=why, is_early=False)
    ids = listed_models(reply)
    if reply.status != _OK or name not in ids:
        found = f"the models {', '.join(ids)}" if ids else reply.shown
        why = f"{MODELS_PATH} does not list {name}: {found}"
        return NotServed(why=why, is_early=False)
    return name


def listed_models(reply: Reply) -> tuple[str, ...]:
    """Give the ids that an answer to :data:`MODELS_PATH` lists; none where it is no such answer."""
    try:
        told = cast("Mapping[str, object]", json.loads(reply.body))
        listed = cast("Sequence[Mapping[str, object]]", told["data"])
        return tuple(str(each["id"]) for each in listed)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def completion_request(model: str) -> bytes:
    """Give the question: greedy, of a fixed number of tokens, with the model's own probabilities.

    Source: OpenAI API, ``POST /v1/completions``; ``ignore_eos`` and ``skip_special_tokens`` are vLLM's (0.11 to 0.31,
    CompletionRequest). With them a model of random weights answers too, and none with an empty text.
    """
    value = {
        "model": model,
        "prompt": PROMPT,
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "logprobs": 1,
        "stream": False,
    }
    return json.dumps(value).encode()


def read_completion(reply: Reply, model: str) -> Completion | NotServed:
    """Look at an answer to :func:`completion_request`: whether the model that was asked for made it, whole."""
    if reply.status in _TOO_EARLY:
        return NotServed(why=f"{COMPLETIONS_PATH} answers with {reply.shown}", is_early=True)
    if reply.status != _OK:
        return _wrong(f"answers with {reply.shown}")
    try:
        told = json.loads(reply.body)
        (choice,) = told["choices"]
        text, usage = choice["text"], told["usage"]
        made, read = usage["completion_tokens"], usage["prompt_tokens"]
        probabilities = choice["logprobs"]["token_logprobs"]
        said_by = told["model"]
    except (ValueError, KeyError, TypeError) as error:
        return _wrong(f"gives no completion ({type(error).__name__}: {error}): {reply.shown}")
    if said_by != model:
        return _wrong(f"was asked for {model}, and {said_by!r} answered")
    if not isinstance(text, str) or not text:
        return _wrong(f"gives an empty text: {reply.shown}")
    if made != TOKENS or not isinstance(read, int) or read < 1:
        return _wrong(f"was asked for {TOKENS} tokens and counts {made!r}, of a prompt of {read!r}")
    if not _are_probabilities(probabilities):
        return _wrong(f"gives tokens whose probabilities are none: {probabilities!r}")
    return Completion(model=model, prompt=PROMPT, text=text, tokens=TOKENS)


def _are_probabilities(values: object) -> bool:
    """Tell whether these are logarithms of probabilities, one a token; a model that computes NaN gives none."""
    if not isinstance(values, list) or len(cast("list[object]", values)) != TOKENS:
        return False
    return all(
        isinstance(each, int | float) and math.isfinite(each) and each <= _ROUNDING
        for each in cast("list[object]", values)
    )


_ROUNDING = 1e-3
"""A probability of 1 may come out a little above, in half precision."""


def _wrong(why: str) -> NotServed:
    return NotServed(why=f"{COMPLETIONS_PATH} {why}", is_early=False)

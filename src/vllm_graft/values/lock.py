"""What a build was made of, and what came out: the content of graft.lock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from vllm_graft.errors import RequestError

LOCK_SCHEMA = "vllm-graft/lock/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftLock:
    """Inputs and results by their digests, as they are printed."""

    inputs: Mapping[str, str]
    """``plan``, ``base vllm``, ``base config``, ``base layer 1`` …, ``donor vllm``; and every file: ``vllm/…`` → what the base
    has (empty where nothing)."""
    results: Mapping[str, str]
    """``layer``, ``config``; and every file: ``vllm/…`` → what the image has."""
    names: Mapping[str, str]
    """What base and donor were called; not compared."""


def encode_lock(lock: GraftLock) -> bytes:
    """Give the canonical bytes."""
    value = {
        "schema": LOCK_SCHEMA,
        "inputs": dict(lock.inputs),
        "results": dict(lock.results),
        "names": dict(lock.names),
    }
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"


def decode_lock(content: bytes, *, where: str) -> GraftLock:
    """Read a lock.

    Raises:
        RequestError: E217, it is none.
    """
    try:
        value: object = json.loads(content)
    except ValueError as error:
        raise _no_lock(where, str(error)) from error
    told: Mapping[str, object] = (
        cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
    )
    if told.get("schema") != LOCK_SCHEMA:
        raise _no_lock(where, f"wanted schema {LOCK_SCHEMA!r}, found {told.get('schema')!r}")
    return GraftLock(
        inputs=_texts(told, "inputs", where),
        results=_texts(told, "results", where),
        names=_texts(told, "names", where),
    )


def differences(wanted: GraftLock, found: GraftLock) -> tuple[str, ...]:
    """Say what is not as the lock has it: the inputs that changed, or where none did, the results."""
    return _changed(wanted.inputs, found.inputs) or _changed(wanted.results, found.results)


def _changed(wanted: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name}: wanted {wanted.get(name) or 'nothing'}, found {found.get(name) or 'nothing'}"
        for name in sorted({*wanted, *found})
        if wanted.get(name) != found.get(name)
    )


def _texts(told: Mapping[str, object], key: str, where: str) -> Mapping[str, str]:
    value = told.get(key)
    if not isinstance(value, dict):
        raise _no_lock(where, f"{key} is no object")
    texts = cast("Mapping[str, object]", value)
    if not all(isinstance(text, str) for text in texts.values()):
        raise _no_lock(where, f"a value in {key} is no text")
    return cast("Mapping[str, str]", texts)


def _no_lock(where: str, why: str) -> RequestError:
    return RequestError(
        f"{where} is no graft.lock: {why}",
        remedy="give a file that `vllm-graft build --lock FILE` wrote",
        code="E217",
    )

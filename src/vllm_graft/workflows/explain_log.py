# Applies the table of known lines to a log; reads it once, in pieces.
"""Explain a log."""

import tomllib
from importlib.resources import files

from vllm_graft.rehearse.log_causes import diagnose_log
from vllm_graft.rehearse.signatures import Signature, parse_signatures
from vllm_graft.run.log_pieces import read_log_pieces
from vllm_graft.values.log import LogDiagnosis


def read_signatures() -> tuple[Signature, ...]:
    """Give every line that this version knows."""
    text = (files("vllm_graft") / "data" / "signatures.toml").read_text(encoding="utf-8")
    return parse_signatures(tomllib.loads(text))


def explain_log(name: str) -> LogDiagnosis:
    """Say what a log shows; ``-`` is stdin.

    Raises:
        RequestError: E230 to E232, it cannot be read, is empty or no text.
    """
    return diagnose_log(name, read_log_pieces(name), read_signatures())

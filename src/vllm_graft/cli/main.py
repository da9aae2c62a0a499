# argv → request value → workflow → rendered result → exit status. No decision about grafting is made here.
"""The command line."""

from collections.abc import Mapping
from typing import TextIO


def run(argv: tuple[str, ...], environment: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Do what ``argv`` asks; gives the exit status."""
    del argv, environment, out
    err.write("vllm-graft: no verb is built yet\n")
    return 70

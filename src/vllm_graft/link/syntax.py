# Python warns about odd escapes in other people's files (0.17.1 has some); with -W error it even refuses them. What
# vLLM's authors wrote in a string is not our user's concern.
"""Parsing Python source, without a word about its style."""

import ast
import warnings


def parse_source_text(source: str | bytes, path: str) -> ast.Module:
    """Parse one file.

    Raises:
        SyntaxError: it is no valid Python.
        ValueError: it has a NUL, or an encoding that is not known.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, filename=path)

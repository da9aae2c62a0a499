# `envs.X` is no value: vllm/envs.py declares it for type checkers only, and calls a function at every access.
"""Environment variables of vLLM, as its code reads them."""

import ast

from vllm_graft.link.index import Found, Index
from vllm_graft.link.tables import text_of
from vllm_graft.link.vllm import ENVIRONMENT, ENVIRONMENT_READERS


def reader_of(index: Index, found: Found) -> ast.expr | None:
    """Give the expression whose call reads a variable of the environment; None for anything else.

    Source: vLLM 0.14.1 to 0.31.0, vllm/envs.py ``environment_variables`` and ``__getattr__``.
    """
    summary = index.summary(ENVIRONMENT) if found.module == ENVIRONMENT else None
    table = summary.definitions.get(ENVIRONMENT_READERS) if summary is not None else None
    node = table.node if table is not None else None
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Dict):
        return None
    for key, value in zip(node.value.keys, node.value.values, strict=True):
        if key is not None and text_of(key) == found.name:
            return value
    return None

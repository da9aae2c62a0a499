# Which architectures a release registers, read here on our own, so that a matrix of architectures is not made by
# the code that it tests.
"""The architectures of a tree."""

import ast
from pathlib import Path

REGISTRY = "vllm/model_executor/models/registry.py"


def architectures(tree: Path) -> frozenset[str]:
    """Give the keys of the registry's tables."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((tree / REGISTRY).read_text())):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            found |= {
                key.value
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and isinstance(value, ast.Tuple)
            }
    return frozenset(found)


def new_architectures(base: Path, donor: Path) -> tuple[str, ...]:
    """Give what the donor registers and the base does not."""
    return tuple(sorted(architectures(donor) - architectures(base)))

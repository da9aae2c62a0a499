# Which names stand where, without asking what they mean: enough to know that nothing calls a method.
"""Names that the code of two installs spells, each place read once."""

import ast

from vllm_graft.link.index import Index


class Mentions:
    """Finds names in the donor's modules and anywhere in the base."""

    def __init__(self, donor: Index, base: Index) -> None:
        """Look into two installs; nothing is read yet."""
        self._donor = donor
        self._base = base
        self._by_module: dict[str, dict[str, set[str]]] = {}

    def in_base(self, name: str) -> bool:
        """Tell whether a name stands anywhere in the base, if only in a comment or in another name."""
        return self._base.files.mention(name.encode())

    def by(self, module: str) -> dict[str, set[str]]:
        """Give the names that a donor module reads or spells: name → the functions and methods that do."""
        if module not in self._by_module:
            found: dict[str, set[str]] = {}
            _note(self._donor.tree(module), "", found)
            self._by_module[module] = found
        return self._by_module[module]


def _note(node: ast.AST, owner: str, found: dict[str, set[str]]) -> None:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            owner = name
        case ast.Attribute(attr=word) | ast.Name(id=word) | ast.Constant(value=str(word)):
            found.setdefault(word, set()).add(owner)
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        _note(child, owner, found)

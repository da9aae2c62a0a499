# With no code to follow, a graft of nothing would pass every check.
"""Registry entries that lead nowhere."""

import ast

from vllm_graft.errors import SourceError
from vllm_graft.link.roots import RootModel
from vllm_graft.link.tables import SourceTrees, path_of


def refuse_absent(trees: SourceTrees, model: RootModel) -> None:
    """Refuse a registry entry that leads nowhere: with no code to follow, every check would pass.

    Raises:
        SourceError: E306.
    """
    path = path_of(model.module, trees.files)
    tree = trees.tree(path) if path is not None else None
    if tree is not None and _binds(tree, model.class_name):
        return
    lacks = f"{path} has no {model.class_name}" if path else f"it has no module {model.module}"
    message = f"the donor registers {model.architecture} as {model.class_name}, but {lacks}"
    remedy = "Fetch or copy the donor again: it is not whole, or was patched by hand."
    raise SourceError(message, remedy=remedy, code="E306")


def _binds(tree: ast.Module, name: str) -> bool:
    """Whether the module itself gives this name; one with ``__getattr__`` or a star may give any."""
    pending: list[ast.stmt] = list(tree.body)
    for node in pending:
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found):
                if found in (name, "__getattr__"):
                    return True
            case ast.ImportFrom(names=names):
                if any((alias.asname or alias.name) in (name, "*") for alias in names):
                    return True
            case ast.Assign(targets=targets):
                if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                    return True
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                handlers = node.handlers if isinstance(node, ast.Try) else []
                pending += [*inner, *other, *(line for each in handlers for line in each.body)]
            case _:
                pass
    return False

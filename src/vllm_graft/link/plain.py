# Rule 1 keeps engine code the base's because it holds state, registries and classes that the engine checks. Some of
# what engine modules define has none of that: records, and names for types. A copy of it is as good as the original.
"""Definitions that hold nothing but data or types."""

import ast

from vllm_graft.link.index import Found, Index

_RECORDS = frozenset(
    {"NamedTuple", "TypedDict", "Protocol", "Exception", "ValueError", "TypeError", "RuntimeError"}
    | {"Enum", "IntEnum", "StrEnum"}
)
_BESIDE = frozenset({"Generic", "ABC", "object", "dict", "str", "int"})
_TYPE_MAKERS = frozenset({"TypeVar", "ParamSpec", "NewType", "TypeAliasType"})


def is_plain(index: Index, found: Found) -> bool:
    """Tell whether a definition is a record, an enumeration or a type: no ancestor in vLLM, nothing it does at import."""
    node = found.definition.node
    if isinstance(node, ast.ClassDef):
        ancestry = index.ancestry(found)
        names = {name.partition("[")[0].rpartition(".")[2] for name in ancestry.outside}
        is_record = bool(names & _RECORDS) or any(
            d.partition("(")[0].rpartition(".")[2] == "dataclass"
            for d in found.definition.decorators
        )
        return (
            is_record
            and len(ancestry.classes) == 1
            and names <= _RECORDS | _BESIDE
            and all(k.arg == "total" for k in node.keywords)
        )
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return _is_type(node.value)
    return False


def _is_type(node: ast.expr) -> bool:
    """Tell whether an expression only puts types together."""
    match node:
        case ast.Name() | ast.Constant() | ast.Attribute():
            return True
        case ast.Subscript(value=value, slice=inner):
            return _is_type(value) and _is_type(inner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) and _is_type(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(_is_type(part) for part in parts)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _TYPE_MAKERS
        case _:
            return False

# Registrations that importing a module makes with torch or with vLLM's own table of layers.
"""Custom operators and CustomOp classes that a module registers."""

import ast
from collections.abc import Callable

from vllm_graft.link.scopes import dotted
from vllm_graft.link.uses import Owner, Registration, span_of


def operator_registration(node: ast.Call, name: str, owner: Owner) -> Registration | None:
    """Read a ``direct_register_custom_op`` call; ``name`` is what is called, aliases undone.

    Source: vLLM 0.14.1 to 0.31.0, vllm/utils/torch_utils.py ``direct_register_custom_op(op_name, op_func, …)``.
    """
    if name.rpartition(".")[2] != "direct_register_custom_op":
        return None
    values = {k.arg: k.value for k in node.keywords if k.arg}
    operator = values.get("op_name", node.args[0] if node.args else None)
    function = values.get("op_func", node.args[1] if len(node.args) > 1 else None)
    if not isinstance(operator, ast.Constant) or not isinstance(operator.value, str):
        return None
    return Registration(
        owner=owner,
        kind="operator",
        name=operator.value,
        function="" if function is None else ast.unparse(function),
        span=span_of(operator),
    )


def class_registration(
    node: ast.ClassDef, owner: Owner, without_alias: Callable[[str], str]
) -> Registration | None:
    """Read ``@CustomOp.register("name")``.

    Source: vLLM 0.14.1 to 0.31.0, vllm/model_executor/custom_op.py.
    """
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr="register") as function,
                args=[ast.Constant(value=str(name)) as argument, *_],
            ) if without_alias(dotted(function) or "").endswith("CustomOp.register"):
                return Registration(
                    owner=owner,
                    kind="custom-op",
                    name=name,
                    function=node.name,
                    span=span_of(argument),
                )
            case _:
                pass
    return None

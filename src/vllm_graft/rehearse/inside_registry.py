# Runs inside an install (see inside.py): what vLLM's registry says of a class. Its engine goes by that, not by the class.
"""Ask the registry of models."""

from typing import Any


def inspected(architecture: str) -> dict[str, Any]:
    """Ask vLLM's registry what it says of a class: the answers that its engine goes by."""
    from vllm.model_executor.models import ModelRegistry

    inspect_here()
    entry = ModelRegistry.models.get(architecture)
    if entry is None:
        return {"error": "not registered"}
    try:
        # Not the registry's own question, which logs why a class cannot be inspected, and says nothing.
        said = entry.inspect_model_cls()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        name: value if isinstance(value, bool | str | int | None) else str(value)
        for name, value in vars(said).items()
    }


def inspect_here() -> None:
    """Let vLLM's registry look at classes in this process, which is a fork for one case anyway.

    It starts a new Python for each class, which imports all of vLLM once more.
    Source: vllm 0.14.1 to 0.31.0, model_executor/models/registry.py, ``_run_in_subprocess``.
    """
    from vllm.model_executor.models import registry

    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = lambda question: question()

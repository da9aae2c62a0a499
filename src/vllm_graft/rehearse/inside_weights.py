# Runs inside an install (see inside.py): loading tensors, and what was filled.
#
# Numbers depend on a tensor's name and place alone, so that two trees that load the same names must hold the same
# numbers in every parameter, and a tensor that went to the wrong rows is seen.
"""Load weights through the model's own loader, and tell every parameter that was not filled."""

import contextlib
import hashlib
import zlib
from pathlib import Path
from typing import Any

Tensors = dict[str, list[Any]]
"""Name → [shape, dtype], as a checkpoint's header has them."""

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
"""Source: safetensors' names of types (safetensors 0.8.0)."""


PERIOD = 1021
"""A prime, so that no row of a matrix begins as the one before it."""


def numbers(name: str, shape: list[int], dtype: str, device: str = "cpu") -> Any:
    """Give a tensor whose numbers follow from its name and its places."""
    import torch

    kind = getattr(torch, DTYPES.get(dtype, dtype.removeprefix("torch.")))
    if device == "meta":
        return torch.empty(shape, dtype=kind, device="meta")
    size = 1
    for one in shape:
        size *= one
    if not kind.is_floating_point:
        return torch.zeros(shape, dtype=kind)
    period = torch.arange(PERIOD, dtype=torch.int64) * 7919 + zlib.crc32(name.encode())
    values = (period % PERIOD).to(torch.float32).div_(10 * PERIOD).sub_(0.05).to(kind)
    return values.repeat(-(-size // PERIOD))[:size].reshape(shape)


def write(file: Path, listed: Tensors) -> None:
    """Write a safetensors file with such numbers."""
    from safetensors.torch import save_file

    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: numbers(name, *described) for name, described in listed.items()}, file)


def poison(model: Any) -> None:
    """Fill every floating-point parameter with NaN, so that what is not loaded can be told."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.device.type != "meta":
                with contextlib.suppress(NotImplementedError, RuntimeError):
                    parameter.fill_(float("nan"))


def watch() -> Any:
    """Make a mode that notes which storages are written to; it sees tensors without storage too (meta)."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.written: set[int] = set()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            for given, schema in zip(args, func._schema.arguments, strict=False):
                if schema.alias_info is not None and schema.alias_info.is_write:
                    self.written.add(storage(given))
            return func(*args, **(kwargs or {}))

    return Watch()


def storage(tensor: Any) -> int:
    """Identify what a tensor is a view of."""
    return tensor.untyped_storage()._cdata


def feed(model: Any, config: Any, given: list[tuple[str, Any]], watching: Any) -> Any:
    """Hand tensors to the model's loader."""
    import torch
    from vllm.config import set_current_vllm_config

    with set_current_vllm_config(config), torch.no_grad(), watching:
        return model.load_weights(iter(given))


def load(asked: dict[str, Any], model: Any, config: Any, listed: Tensors) -> dict[str, Any]:
    """Load all tensors at once and tell what they filled."""
    poison(model)
    before = {name: storage(one) for name, one in model.named_parameters()}
    device = next((str(one.device) for one in model.parameters()), "cpu")
    watching = watch()
    given = [(name, numbers(name, shape, dtype, device)) for name, (shape, dtype) in listed.items()]
    told = feed(model, config, given, watching)
    named = dict(model.named_parameters())
    spoilt = sorted(name for name, one in named.items() if has_nan(one))
    untouched = sorted(
        name
        for name, one in named.items()
        if storage(one) == before.get(name) and storage(one) not in watching.written
    )
    report = {
        "given": len(given),
        "not_filled": sorted({*spoilt, *untouched}),
        "partly_filled": sorted(set(spoilt) - set(untouched)),
        "told": told is not None,
        "not_told": [] if told is None else sorted(set(named) - set(told)),
        "told_but_absent": [] if told is None else sorted(set(told) - set(named))[:20],
    }
    if asked.get("contents", True) and device != "meta":
        report["contents"] = {name: fingerprint(one) for name, one in named.items()}
    return report


def has_nan(parameter: Any) -> bool:
    """Tell whether some of a parameter is still what it was poisoned with."""
    import torch

    if not parameter.is_floating_point() or parameter.device.type == "meta":
        return False
    try:
        return bool(torch.isnan(parameter.detach()).any())
    except (NotImplementedError, RuntimeError):  # types of eight bits and less
        return bool(torch.isnan(parameter.detach().float()).any())


def fingerprint(parameter: Any) -> str:
    """Digest shape and numbers."""
    import torch

    whole = parameter.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    told = f"{tuple(parameter.shape)} {parameter.dtype}".encode()
    return hashlib.sha256(told + whole.tobytes()).hexdigest()[:16]

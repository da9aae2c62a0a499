# Runs inside an install (see inside_gates.py): the model's class is made as on one rank of the planned width, on the device meta,
# where tensors have shapes and no memory, and its own loader is given the checkpoint's names and shapes. The whole model is
# made, every layer of it: what a checkpoint lacks or has too much it may have in one layer only. The world is one process that
# is told another width and place: nothing that is made or loaded talks to another rank.
"""Make a model as a rank would, and load a checkpoint that has no numbers."""

import contextlib
import gc
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from vllm_graft.rehearse.inside_checks import Asked, entry, planned
from vllm_graft.rehearse.inside_landing import Ledger, storage, uncovered, watching

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
IN_MEMORY = 2 << 30
"""Bytes of a checkpoint up to which a class that cannot be made on the device meta is made in memory."""
MOST_ERRORS = 8
NOT_ON_META = re.compile(r"meta (?:tensor|device|backend)|'Meta'|device type meta", re.IGNORECASE)
NEEDS_GPU = re.compile(r"(?i)CUDA|NVIDIA|Triton|\bGPU|\bHIP\b|ROCm|compute capability|\bCPU\b")
"""Also "not supported in cpu": a machine without a GPU is configured as a CPU, which takes fewer kinds of quantisation."""
Tensors = dict[str, list[Any]]
"""Name → [shape, type]."""


class UnableError(Exception):
    """What is asked cannot be tried here; nothing is shown of the model by that."""


def asks_for_a_gpu(error: Exception) -> bool:
    """Tell whether an error is about a GPU that this machine has not; a name that is lacking is not."""
    import torch

    if torch.cuda.is_available() or isinstance(error, ImportError | AttributeError | NameError):
        return False
    return NEEDS_GPU.search(str(error)) is not None


def inspect_here(names: Iterable[str]) -> None:
    """Have vLLM's registry look at classes in this process, which needs them anyway; that it can in another is P4's to show."""
    from vllm.model_executor.models.registry import ModelRegistry

    for name in names:
        known = entry(name)
        if known is not None:
            ModelRegistry.register_model(name, known.load_model_cls())


def engine_config(asked: Asked, *, control: bool) -> Any:
    """Make the engine's configuration for the planned width."""
    width = asked.request["width"]
    names = [asked.request["control_architecture"]] if control else asked.request["architectures"]
    inspect_here(names if control else {*names, *asked.request["drafts"]})
    more = {"speculative_config": None if control else asked.request["speculative"]}
    made = planned(asked, control=control, enforce_eager=True, load_format="dummy", **more)
    config = made.create_engine_config()
    speculative = config.speculative_config
    drafts = getattr(speculative, "draft_parallel_config", None)
    for parallel in (config.parallel_config, *([drafts] if drafts is not None else [])):
        parallel.tensor_parallel_size = width
        parallel.world_size = width
    config.model_config.verify_with_parallel_config(config.parallel_config)
    return config


@contextlib.contextmanager
def as_rank(config: Any, rank: int) -> Iterator[None]:
    """Be one rank of the planned width, in a world of one.

    Source: vllm 0.14.1 to 0.31.0, distributed/parallel_state.py: width and place are read off the group's coordinator.
    """
    import tempfile

    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state

    width = config.parallel_config.tensor_parallel_size
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            meeting = Path(tempfile.mkdtemp()) / "rendezvous"
            parallel_state.init_distributed_environment(1, 0, f"file://{meeting}", 0, "gloo")
        parallel_state.ensure_model_parallel_initialized(1, 1)
        group = parallel_state.get_tp_group()
        group.world_size, group.rank_in_group, group.ranks = width, rank, list(range(width))
        told = (
            parallel_state.get_tensor_model_parallel_world_size(),
            parallel_state.get_tensor_model_parallel_rank(),
        )
        if told != (width, rank):
            message = f"this vLLM does not take its width and rank from the group: {told}"
            raise UnableError(message)
        try:
            yield
        finally:
            group.world_size, group.rank_in_group, group.ranks = 1, 0, [0]


def construct(config: Any, model_config: Any, size: int) -> Any:
    """Make the class; ``size``: bytes of the checkpoint."""
    import torch
    from vllm.model_executor.model_loader.utils import initialize_model

    try:
        from vllm.utils.torch_utils import set_default_torch_dtype
    except ImportError:
        from vllm.model_executor.model_loader.utils import set_default_torch_dtype

    def made(device: str) -> Any:
        # What is computed on the way (rotary tables, a tower's depth) has no numbers on meta; see `watching`.
        with set_default_torch_dtype(model_config.dtype), torch.device(device), watching(Ledger()):
            return initialize_model(vllm_config=config, model_config=model_config)

    try:
        return made("meta")
    except Exception as error:
        if not NOT_ON_META.search(str(error)):
            raise
        if size > IN_MEMORY:
            message = (
                f"the class computes with numbers while it is made ({type(error).__name__}: {error}),"
                f" and {size:,} bytes are not made in memory for that"
            )
            raise UnableError(message) from error
        traceback.print_exc()
        config.compilation_config.static_forward_context.clear()
        return made("cpu")


def load(
    model: Any, config: Any, model_config: Any, listed: Tensors, seconds: float
) -> dict[str, Any]:
    """Give the model's loader all tensors, and tell what came of it."""
    import torch
    from vllm.config import set_current_vllm_config

    ledger = Ledger()
    parameters = dict(model.named_parameters())
    for name, each in (*parameters.items(), *model.named_buffers()):
        ledger.watch(name, each)
    device = next(iter(parameters.values())).device
    begin, errors, bad = time.monotonic(), [], set[str]()
    last = ""

    def tensors() -> Iterator[tuple[str, Any]]:
        nonlocal last
        for name, (shape, dtype) in listed.items():
            if name in bad:
                continue
            kind = getattr(torch, DTYPES.get(dtype, dtype))
            made = torch.zeros(shape, dtype=kind, device=device)
            ledger.give(name, made)
            last = name
            yield name, made

    ended = False
    with own_words() as words:
        while not ended and len(errors) < MOST_ERRORS:
            try:
                with set_current_vllm_config(config), torch.no_grad(), watching(ledger):
                    model.load_weights(tensors())
                ended = True
            except Exception as error:
                traceback.print_exc()
                if NOT_ON_META.search(str(error)) and device.type == "meta":
                    message = f"the loader computes with numbers: {type(error).__name__}: {error}"
                    raise UnableError(message) from error
                told = blamed(error, ledger, last)
                errors.append(told)
                if told["tensor"] in bad or time.monotonic() - begin > seconds / 3:
                    break
                bad.add(told["tensor"])
    replaced(model, parameters, ledger)
    return {
        "given": len(listed),
        "ended": ended,
        "errors": errors,
        "landed": sorted(ledger.landed),
        "read": ledger.read,
        "spread": ledger.spread,
        "lost": lost(listed, ledger, words, bad, not_needed(config, model_config)),
        **unfilled(model, ledger, {each["parameter"] for each in errors}),
        "kinds": kinds(listed, ledger, dict(model.named_parameters())),
    }


def replaced(model: Any, before: dict[str, Any], ledger: Ledger) -> None:
    """Note the parameters that the loader put another tensor in place of."""
    for name, now in model.named_parameters():
        old = before.get(name)
        if old is not None and storage(now) in ledger.places:
            continue
        ledger.written.setdefault(name, set()).add(
            (now.storage_offset(), tuple(now.shape), tuple(now.stride()))
        )
        for source in ledger.sources(now):
            ledger.landed.setdefault(source, set()).add(name)


def unfilled(model: Any, ledger: Ledger, spoilt: set[str]) -> dict[str, Any]:
    """Tell the parameters that are not wholly written; ``spoilt``: those whose tensor was refused, which is told already."""
    ours = {
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in model.named_modules()
        if any(
            kind.__name__ == "BaseKVCacheMethod"
            for kind in type(getattr(module, "quant_method", None)).__mro__
        )
        for name, _ in module.named_parameters(recurse=False)
    }
    """Scales of an 8-bit KV cache stand at their own value where a checkpoint has none.
    Source: vllm 0.14.1 to 0.31.0, quantization/kv_cache.py."""
    holes, unmeasured = {}, []
    named = dict(model.named_parameters())
    for name, each in named.items():
        if name in ours or name in spoilt:
            continue
        missing = uncovered(each, ledger.written.get(name, set()))
        if missing is None:
            unmeasured.append(name)
        elif missing:
            holes[name] = [missing, each.numel()]
    return {"parameters": len(named), "holes": holes, "unmeasured": unmeasured}


def kinds(
    listed: Tensors, ledger: Ledger, named: dict[str, Any]
) -> list[tuple[str, str, str, str]]:
    """Tell the tensors whose type is quantised and whose parameter's is not, or the other way round."""
    found = []
    for tensor, places in ledger.landed.items():
        if tensor in ledger.computed:
            continue  # taken apart or put together on the way: its type is not meant to stay
        dtype = listed[tensor][1]
        for place in sorted(places & set(named)):
            kind = str(named[place].dtype).removeprefix("torch.")
            if is_narrow(DTYPES.get(dtype, dtype)) != is_narrow(kind):
                found.append((tensor, dtype, place, kind))
    return found


def is_narrow(dtype: str) -> bool:
    """Tell whether a type holds quantised numbers: eight bits and less, or packed into integers."""
    return not re.fullmatch(r"b?float(16|32|64)", dtype)


@contextlib.contextmanager
def own_words() -> Iterator[dict[str, Any]]:
    """Hear what vLLM's own loader leaves out on purpose: the prefixes that a class lists, and names that its map gives up.

    Source: vllm 0.14.1 to 0.31.0, model_executor/models/utils.py: ``AutoWeightsLoader._can_skip``, ``_can_ignore_unexpected``,
    ``WeightsMapper._map_name``.
    """
    from vllm.model_executor.models import utils

    words: dict[str, Any] = {"skipped": set(), "mapped": {}}
    loader, map_name = utils.AutoWeightsLoader, utils.WeightsMapper._map_name
    before = {name: getattr(loader, name) for name in ("_can_skip", "_can_ignore_unexpected")}

    def heard(ask: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
        def can(self: Any, name: str) -> bool:
            found = ask(self, name)
            if found:
                words["skipped"].add(name)
            return found

        return can

    def mapped(self: Any, key: str) -> Any:
        found = map_name(self, key)
        words["mapped"][key] = found
        return found

    for name, ask in before.items():
        setattr(loader, name, heard(ask))
    utils.WeightsMapper._map_name = mapped
    try:
        yield words
    finally:
        for name, ask in before.items():
            setattr(loader, name, ask)
        utils.WeightsMapper._map_name = map_name


NOT_NEEDED = r"rotary_emb\.(inv_freq|cos_cached|sin_cached)$|\.[kvq]_scale$|\.kv_scale$"
"""Tables that older checkpoints hold and every vLLM computes; scales of a KV cache of 8 bits, if one is used.
Source: vllm 0.14.1, models/utils.py, ``ROTARY_EMBEDS_UNUSED_WEIGHTS``."""
HEAD = r"(^|\.)lm_head\."
EXTRA_BIAS = r"\.bias$"


def not_needed(config: Any, model_config: Any) -> re.Pattern[str]:
    """Give which tensors a model may hold and no engine wants: the head where it is the embedding, biases that GPTQ adds.

    Source: vllm 0.14.1, models/qwen2_moe.py and others: "Skip loading extra bias for GPTQ models".
    """
    patterns = [NOT_NEEDED]
    if getattr(model_config.hf_text_config, "tie_word_embeddings", False):
        patterns.append(HEAD)
    if "gptq" in str(config.model_config.quantization):
        patterns.append(EXTRA_BIAS)
    return re.compile("|".join(patterns))


def lost(
    listed: Tensors,
    ledger: Ledger,
    words: dict[str, Any],
    bad: set[str],
    unwanted: re.Pattern[str],
) -> dict[str, list[str]]:
    """Give the tensors that landed nowhere: without a word, or by the class's own word."""
    found: dict[str, list[str]] = {"silently": [], "by its own word": []}
    skipped = words["skipped"]
    mapped = words["mapped"]
    for tensor in listed:
        if tensor in ledger.landed or tensor in bad:
            continue
        name = tensor
        seen: set[str] = set()
        while name in mapped and name not in seen:  # a map within a map
            seen.add(name)
            name = mapped[name]
        dotted = f".{name}."
        said = (
            name is None
            or unwanted.search(tensor) is not None
            or any(f".{each.rstrip('.')}." in dotted for each in skipped)
        )
        found["by its own word" if said else "silently"].append(tensor)
    return found


def blamed(error: BaseException, ledger: Ledger, last: str) -> dict[str, str]:
    """Say which tensor an error is about, by what the functions that it came through held."""
    import torch

    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append((step.tb_frame, step.tb_lineno))
        step = step.tb_next
    told = {"tensor": "", "parameter": "", "shard": ""}
    for frame, _ in reversed(frames):
        held = frame.f_locals
        for key in ("loaded_shard_id", "shard_id"):
            if key in held and not told["shard"]:
                told["shard"] = repr(held[key])
        for value in list(held.values()):
            if isinstance(value, torch.Tensor):
                sources = ledger.sources(value)
                names = ledger.places.get(storage(value), [])
                if len(sources) == 1:
                    (told["tensor"],) = sources
                told["parameter"] = told["parameter"] or next(iter(names), "")
        if told["tensor"]:
            break  # what functions further out hold may be of the tensor before
    lines = [
        (each, frame)
        for each, (frame, _) in zip(traceback.extract_tb(error.__traceback__), frames, strict=True)
        if "/vllm/" in each.filename
    ]
    where, line = "", ""
    if lines:
        each, frame = lines[-1]
        owner = type(frame.f_locals["self"]).__name__ + "." if "self" in frame.f_locals else ""
        line = each.line or ""
        file = each.filename.rpartition("/vllm/")[2]
        where = f"{owner}{each.name} (vllm/{file}:{each.lineno}: {line})"
    told["tensor"] = told["tensor"] or last
    said = f"{type(error).__name__}: {error}".strip().rstrip(":")[:600]
    return {**told, "error": said, "where": where, "line": line}


def forget(config: Any) -> None:
    """Let go of what a model left in its configuration."""
    config.compilation_config.static_forward_context.clear()
    gc.collect()
    sys.stdout.flush()

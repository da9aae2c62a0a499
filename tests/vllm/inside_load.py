# Runs inside the tree under test (see inside_tokens.py). No forward pass: what is shown is that vLLM's own code
# makes an engine configuration, constructs the class and fills every parameter from a checkpoint.
"""Construct models from tiny checkpoints with the vLLM of one tree, load them, and count what was filled.

usage: python -P inside_load.py REQUEST.json ANSWER.json
"""

import hashlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def vllm_of_the_tree() -> str:
    """Import vLLM and refuse any other than the tree's."""
    import vllm

    tree = Path(os.environ["VLLM_GRAFT_TREE"]).resolve()
    found = Path(vllm.__file__).resolve()
    if tree not in found.parents:
        message = f"vllm was imported from {found}, not from the tree {tree}"
        raise SystemExit(message)
    return str(found)


def one_process(config: Any) -> None:
    """Set up the process groups of a world of one, over a file, so that no port is needed.

    Anew for each case: a mixture of experts gets a group that a dense model does not.
    """
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state

    parallel_state.destroy_model_parallel()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            meeting = Path(tempfile.mkdtemp()) / "rendezvous"
            parallel_state.init_distributed_environment(1, 0, f"file://{meeting}", 0, "gloo")
        parallel_state.ensure_model_parallel_initialized(1, 1)


def poison(model: Any) -> int:
    """Fill every floating-point parameter with NaN, so that what is not loaded can be told."""
    import torch

    poisoned = 0
    with torch.no_grad():
        for parameter in model.parameters():
            if torch.is_floating_point(parameter):
                parameter.fill_(float("nan"))
                poisoned += 1
    return poisoned


def load(config: Any, model_config: Any) -> dict[str, Any]:
    """Construct one model and load its checkpoint, as vLLM's default loader does."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader import get_model_loader
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_default_torch_dtype(model_config.dtype), torch.device("cpu"):
        model = initialize_model(vllm_config=config, model_config=model_config)
    poisoned = poison(model)
    loader = get_model_loader(config.load_config)
    given: list[str] = []

    def weights() -> Any:
        for name, tensor in loader.get_all_weights(model_config, model):
            given.append(name)
            yield name, tensor

    with set_current_vllm_config(config):
        loaded = model.load_weights(weights())
    named = dict(model.named_parameters())
    spoilt = sorted(
        name
        for name, parameter in named.items()
        if torch.is_floating_point(parameter) and bool(torch.isnan(parameter).any())
    )
    return {
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "parameters": len(named),
        "poisoned": poisoned,
        "given": len(given),
        "loaded": None if loaded is None else len(loaded & set(named)),
        "not_reported": [] if loaded is None else sorted(set(named) - loaded),
        "reported_but_absent": [] if loaded is None else sorted(loaded - set(named))[:20],
        "still_nan": spoilt,
        "contents": {name: fingerprint(parameter) for name, parameter in named.items()},
    }


def fingerprint(parameter: Any) -> str:
    """Digest shape and numbers, so that a tensor loaded into the wrong rows is seen."""
    numbers = parameter.detach().double().contiguous().numpy().tobytes()
    return hashlib.sha256(repr(tuple(parameter.shape)).encode() + numbers).hexdigest()[:16]


def settings(config: Any) -> dict[str, Any]:
    """Give what the engine configuration came to, where a graft can get it silently wrong."""
    cache, model = config.cache_config, config.model_config
    found = {
        "architecture": model.architecture,
        "hybrid": model.is_hybrid,
        "multimodal": model.is_multimodal_model,
        "mamba_cache_dtype": str(getattr(cache, "mamba_cache_dtype", None)),
        "mamba_ssm_cache_dtype": str(getattr(cache, "mamba_ssm_cache_dtype", None)),
        "block_size": cache.block_size,
        "attention_ops": list(type(config.compilation_config)._attention_ops),
    }
    if config.speculative_config is not None:
        draft = config.speculative_config.draft_model_config
        found |= {
            "method": config.speculative_config.method,
            "draft_architecture": draft.architecture,
            "draft_layers": draft.get_total_num_hidden_layers()
            if hasattr(draft, "get_total_num_hidden_layers")
            else None,
            "draft_multimodal": draft.is_multimodal_model,
        }
    return found


def state_dtypes(config: Any) -> Any:
    """Ask a hybrid model's class for the types and shapes of its recurrent state."""
    from vllm.model_executor.model_loader.utils import get_model_architecture

    model_class, _ = get_model_architecture(config.model_config)
    if not hasattr(model_class, "get_mamba_state_dtype_from_config"):
        return None
    return {
        "dtypes": [str(kind) for kind in model_class.get_mamba_state_dtype_from_config(config)],
        "shapes": [list(shape) for shape in model_class.get_mamba_state_shape_from_config(config)],
    }


def case(request: dict[str, Any]) -> dict[str, Any]:
    """Do one case; keep how far it came."""
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs

    answer: dict[str, Any] = {"stage": "engine configuration"}
    try:
        arguments = EngineArgs(
            model=request["model"],
            max_model_len=256,
            max_num_seqs=4,
            enforce_eager=True,
            dtype="bfloat16",
            enable_prefix_caching=False,
            **request.get("engine", {}),
        )
        config = arguments.create_engine_config()
        answer["settings"] = settings(config)
        answer["stage"] = "recurrent state"
        with set_current_vllm_config(config):
            answer["state"] = state_dtypes(config)
        answer["stage"] = "process groups"
        one_process(config)
        answer["stage"] = "construct and load"
        answer["target"] = load(config, config.model_config)
        if config.speculative_config is not None:
            answer["stage"] = "construct and load the draft"
            answer["draft"] = load(config, config.speculative_config.draft_model_config)
        answer["stage"] = "done"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer to this case
        answer["error"] = f"{type(error).__name__}: {error}"
        answer["traceback"] = traceback.format_exc()
    return answer


def inspect_architecture(name: str) -> dict[str, Any]:
    """Ask vLLM's registry, which inspects the class in a child process of its own."""
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.plugins import load_general_plugins

    load_general_plugins()  # as every process of vLLM does before its work
    try:
        import inspect

        wanted = inspect.signature(ModelRegistry.inspect_model_cls).parameters
        if "model_config" in wanted:
            entry = ModelRegistry.models.get(name)
            info = None if entry is None else entry.inspect_model_cls()
        else:
            info, _ = ModelRegistry.inspect_model_cls([name])
    except BaseException as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}
    if info is None:
        return {"error": "not registered, or its inspection failed"}
    return {
        field: value if isinstance(value, bool | str | int | None) else str(value)
        for field, value in vars(info).items()
    }


def split_reasoning(request: dict[str, Any]) -> dict[str, Any]:
    """Let a reasoning parser split texts, whole and token by token."""
    from transformers import AutoTokenizer
    from vllm.reasoning import ReasoningParserManager

    try:
        tokenizer = AutoTokenizer.from_pretrained(request["model"])
        parser_class = ReasoningParserManager.get_reasoning_parser(request["parser"])
        whole, streamed = [], []
        for text in request["texts"]:
            whole.append(parser_class(tokenizer).extract_reasoning(text, None))
            streamed.append(stream(parser_class(tokenizer), tokenizer, text))
    except BaseException as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    return {
        "class": f"{parser_class.__module__}.{parser_class.__qualname__}",
        "whole": whole,
        "streamed": streamed,
    }


def stream(parser: Any, tokenizer: Any, text: str) -> list[str]:
    """Feed a text token by token; give reasoning and content as they add up."""
    before, seen, reasoning, content = "", [], "", ""
    for token in tokenizer.encode(text, add_special_tokens=False):
        now = tokenizer.decode([*seen, token])
        delta = parser.extract_reasoning_streaming(
            before, now, now[len(before) :], seen, [*seen, token], [token]
        )
        before, seen = now, [*seen, token]
        if delta is not None:
            reasoning += getattr(delta, "reasoning", None) or ""
            content += delta.content or ""
    return [reasoning, content]


def main(request: Path, answer: Path) -> None:
    """Answer all parts of the request."""
    imported = vllm_of_the_tree()
    asked = json.loads(request.read_text())
    answers: dict[str, Any] = {"vllm": imported, "cases": {}, "registry": {}, "parsers": {}}
    for name in asked.get("registry", []):
        answers["registry"][name] = inspect_architecture(name)
    for name, parser in asked.get("parsers", {}).items():
        answers["parsers"][name] = split_reasoning(parser)
    for name, one in asked.get("cases", {}).items():
        print(f"=== case {name}", file=sys.stderr, flush=True)
        answers["cases"][name] = case(one)
        answer.write_text(json.dumps(answers))
    answer.write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

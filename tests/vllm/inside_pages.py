# Runs inside the tree under test (see inside_tokens.py). Each class is constructed from its config.json alone, by vLLM's own code, and
# each of its layers is asked what it keeps; then vLLM's own allocator says how many tokens that makes. No weight is loaded, and
# nothing is computed.
"""Ask the vLLM of one tree which pages of KV cache each layer of tiny models keeps.

usage: python -P inside_pages.py REQUEST.json ANSWER.json [RANK]
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def engine_configuration(case: dict[str, Any], folder: Path, ranks: int) -> Any:
    from vllm.engine.arg_utils import EngineArgs

    (folder / "config.json").write_text(json.dumps(case["config"]))
    arguments = EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        enforce_eager=True,
        tensor_parallel_size=ranks,
        distributed_executor_backend="mp" if ranks > 1 else None,
        **case["engine"],
    )
    return arguments.create_engine_config()


def meet(config: Any, request: dict[str, Any], rank: int) -> None:
    """Set up the process groups anew for each case, over a file, so that no port is needed."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state

    ranks = request["ranks"]
    parallel_state.destroy_model_parallel()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            parallel_state.init_distributed_environment(
                ranks, rank, f"file://{request['meeting']}", rank, "gloo"
            )
        parallel_state.ensure_model_parallel_initialized(ranks, 1)


def construct(config: Any) -> None:
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    model_config = config.model_config
    with (
        set_current_vllm_config(config),
        set_default_torch_dtype(model_config.dtype),
        torch.device("cpu"),
    ):
        initialize_model(vllm_config=config, model_config=model_config)


def pages(config: Any, memory: int) -> dict[str, Any]:
    from vllm.config import get_layers_from_vllm_config, set_current_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.platforms import current_platform
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity, get_kv_cache_configs

    with set_current_vllm_config(config):
        current_platform.update_block_size_for_backend(config)
        layers = get_layers_from_vllm_config(config, AttentionLayerBase)
        specs = {name: layer.get_kv_cache_spec(config) for name, layer in layers.items()}
        specs = {name: spec for name, spec in specs.items() if spec is not None}
        told = {
            name: [type(spec).__name__, spec.block_size, spec.page_size_bytes]
            for name, spec in specs.items()
        }
        config.cache_config.kv_cache_layout = "LBNHC"
        (made,) = get_kv_cache_configs(config, [specs], [memory])
        tokens, _ = get_kv_cache_capacity(config, made)
    return {
        "pages": told,
        "blocks": made.num_blocks,
        "tokens": tokens,
        "block_size": config.cache_config.block_size,
        "length": config.model_config.max_model_len,
        "in_flight": config.max_in_flight_tokens,
        "mode": config.cache_config.mamba_cache_mode,
        "state_type": config.cache_config.mamba_ssm_cache_dtype,
    }


def look_at_classes_here() -> None:
    """vLLM looks at each model class in a process of its own, which takes as long as all the rest: here it does so in this one."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda look: look()


def answers(request: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for case in request["cases"]:
        try:
            with tempfile.TemporaryDirectory() as folder:
                config = engine_configuration(case, Path(folder), request["ranks"])
                meet(config, request, rank)
                construct(config)
                found.append({"name": case["name"], **pages(config, case["memory"])})
        except Exception:  # noqa: BLE001 (the next case is asked all the same)
            found.append({"name": case["name"], "error": traceback.format_exc()[-3000:]})
    return found


def main() -> None:
    os.environ.setdefault("VLLM_DIST_IDENT", "pages")
    request = json.loads(Path(sys.argv[1]).read_text())
    rank = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    others: list[subprocess.Popen[bytes]] = []
    if rank == 0:
        request["meeting"] = str(Path(tempfile.mkdtemp()) / "rendezvous")
        shared = Path(request["meeting"]).with_name("request.json")
        shared.write_text(json.dumps(request))
        others = [
            subprocess.Popen(
                [sys.executable, "-P", __file__, shared, shared.with_name("none"), str(each)]
            )
            for each in range(1, request["ranks"])
        ]
    look_at_classes_here()
    told = answers(request, rank)
    Path(sys.argv[2]).write_text(json.dumps({"cases": told}))
    for each in others:
        each.wait(timeout=60)


if __name__ == "__main__":
    main()

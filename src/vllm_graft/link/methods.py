# A draft model is of no use without the way of speculating that it is made for. Those are words of the engine's
# configuration, and an architecture is named after its own: DFlashDraftModel speculates by "dflash".
"""Ways of speculating that a draft needs and the base does not know."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from vllm_graft.link.index import Index
from vllm_graft.link.pair import Pair
from vllm_graft.link.roots import Roots
from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import SPECULATIVE_PATH, Layout, ModelEntry, is_draft_table
from vllm_graft.values.finding import Finding, Site

_DRAFT = re.compile(r"^(?:P?Eagle3?|Peagle|DFlash)(?=[A-Z])")


def check_methods(
    roots: Roots,
    layout: Layout,
    trees: tuple[SourceTrees, SourceTrees],
    carried: Iterable[str],
) -> Iterator[Finding]:
    """Find words by which the donor's engine speculates with a draft that was asked for.

    ``layout``: the donor's; ``trees``: donor and base; ``carried``: words that edits bring into the base.
    """
    donor, base = (dict(_methods(each)) for each in trees)
    unknown = donor.keys() - base.keys() - {*carried}
    tables = {entry.architecture: entry.table for entry in layout.models}
    for model in roots.models:
        if not is_draft_table(tables.get(model.architecture, "")):
            continue
        names = [_squeezed(model.architecture), _squeezed(model.module.rpartition(".")[2])]
        for word in sorted(unknown):
            if any(_squeezed(word) in name for name in names):
                yield Finding(
                    code="G301",
                    severity="blocked",
                    site=Site(install="donor", path=SPECULATIVE_PATH, line=donor[word]),
                    wanted=f"the method {word!r}, by which {model.architecture} speculates",
                    found="the base's configuration knows no such method",
                    remedy="choose a base that speculates in this way, or another draft",
                )


_ANY = "SupportsEagle"
"""No engine asks for this one alone: it asks for ``SupportsEagle3``, or for any of them.

Source: vllm 0.14.1 to 0.31.0, models/utils.py ``process_eagle_weight``, v1/worker/gpu_model_runner.py.
"""


def check_targets(roots: Roots, pair: Pair, layouts: tuple[Layout, Layout]) -> Iterator[Finding]:
    """Find drafts that are named after a target which the base cannot speculate with.

    Source: vLLM 0.11 to 0.33: a target gives a draft what it needs through an interface whose name starts with
    ``SupportsEagle``, and a draft is often named after its target: Eagle3MiniMaxM2ForCausalLM.
    ``layouts``: donor and base.
    """
    donor, base = layouts
    tables = {entry.architecture: entry.table for entry in donor.models}
    for model in roots.models:
        target = _DRAFT.sub("", model.architecture, count=1)
        ours, theirs = donor.by_architecture.get(target), base.by_architecture.get(target)
        if (
            not is_draft_table(tables.get(model.architecture, ""))
            or target == model.architecture
            or ours is None
            or theirs is None
        ):
            continue
        given, there = _given(pair.donor, ours), _given(pair.base, theirs)
        for name in sorted(given.keys() - there.keys()):
            if name == _ANY and there:
                continue
            yield Finding(
                code="G301",
                severity="review",
                site=Site(
                    install="donor", path=pair.donor.path_of(ours.module) or "", line=given[name]
                ),
                wanted=f"{target}, the target of {model.architecture}, is a {name}",
                found=f"the base's {theirs.class_name} is not: it gives a draft nothing to start from",
                remedy="choose a base whose target can speculate in this way, or serve without this draft",
            )


def _given(index: Index, entry: ModelEntry) -> Mapping[str, int]:
    """Interfaces of a target for drafts, with the line of the target's class."""
    found = index.class_named(entry.module, entry.class_name)
    if found is None:
        return {}
    return {
        item.name: found.definition.line
        for item in index.ancestry(found).classes
        if item.name.startswith("SupportsEagle")
    }


def _methods(trees: SourceTrees) -> Iterator[tuple[str, int]]:
    """Words that the speculative configuration lists as literals, with their lines."""
    tree = trees.tree(SPECULATIVE_PATH)
    for node in tree.body if tree is not None else ():
        match node:
            case ast.Assign(value=ast.Subscript(value=ast.Name(id="Literal")) as literal):
                for inner in every_node(literal.slice):
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                        yield inner.value, inner.lineno
            case _:
                pass


def _squeezed(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")

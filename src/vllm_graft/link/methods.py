# A draft model is of no use without the way of speculating that it is made for. Those are words of the engine's
# configuration, and an architecture is named after its own: DFlashDraftModel speculates by "dflash".
"""Ways of speculating that a draft needs and the base does not know."""

import ast
from collections.abc import Iterable, Iterator

from vllm_graft.link.roots import Roots
from vllm_graft.link.syntax import every_node
from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import SPECULATIVE_PATH, Layout, is_draft_table
from vllm_graft.values.finding import Finding, Site


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

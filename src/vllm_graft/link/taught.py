# A word that the base's engine does not know is of no use to it. Where one function of the donor's engine does all that is
# done for the word, and grafted code calls that function, the donor's function can come along for the grafted code, as long
# as it stands on what the base has.
"""Functions of the donor's engine that come along for the words that they know."""

from collections.abc import Sequence

from vllm_graft.link.decide import Decisions, is_engine_core
from vllm_graft.link.linked import Linked, Root
from vllm_graft.link.linker import Linker
from vllm_graft.link.words import ComparedWords, function_that_asks, unknown_words


def link_with_words(
    decisions: Decisions, roots: Sequence[Root], compared: ComparedWords, owned: Sequence[str]
) -> Linked:
    """Link; then once more with the functions that know unknown words, kept where nothing gets worse by it.

    ``owned``: names of the family itself, for which edits see to every place.
    """
    linked = Linker(decisions, roots).link()
    if _doubts(linked, "blocked"):
        return linked
    for unknown in unknown_words(linked, compared, owned):
        found = function_that_asks(linked, unknown)
        if found is not None and not is_engine_core(found.module):
            why = f"it knows the word {unknown.word!r}, which the base's does not"
            decisions.taught.setdefault(found.dotted, (found, why))
    if not decisions.taught:
        return linked
    before = (dict(decisions.declined), _doubts(linked, "blocked", "review"))
    again = Linker(decisions, roots).link()
    if (
        decisions.declined.keys() == before[0].keys()
        and _doubts(again, "blocked", "review") <= before[1]
        and decisions.taught.keys() <= decisions.extracted.keys()
    ):
        return again
    decisions.taught.clear()
    decisions.declined.clear()
    decisions.declined.update(before[0])
    return Linker(decisions, roots).link()


def _doubts(linked: Linked, *severities: str) -> frozenset[tuple[str, str]]:
    return frozenset((b.code, b.wanted) for b in linked.breaches if b.severity in severities)

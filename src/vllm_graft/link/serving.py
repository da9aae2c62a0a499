# Some architectures have no code of their own: the registry names a class of the engine's for them, such as the one that
# wraps models of transformers. The base has that class too; whether its version can do what this model needs, only the
# donor's says.
"""Classes that are asked for and that the base's own version serves."""

from vllm_graft.link.breach import Breach
from vllm_graft.link.linked import Linked
from vllm_graft.link.repairs import Repairs


def check_serving(linked: Linked, repairs: Repairs) -> None:
    """Tell where the base's version of a class that was asked for is used although it differs."""
    decisions = linked.decisions
    donor = decisions.donor
    for dotted in sorted(decisions.required):
        module, _, name = dotted.rpartition(".")
        found = donor.class_named(module, name)
        if found is None:
            continue
        counterpart = decisions.counterpart(found)
        if counterpart is None or decisions.is_grafted(found):
            continue
        if decisions.pair.room_of(found.module) != "engine":
            continue
        if decisions.pair.comparison.same(found, counterpart) and all(
            (theirs := decisions.counterpart(item)) is not None
            and decisions.pair.comparison.same(item, theirs)
            for item in donor.ancestry(found).classes
        ):
            continue
        decisions.current = dotted
        repairs.report(
            Breach(
                code="G217",
                severity="review",
                module=found.module,
                line=found.definition.line,
                wanted=found.dotted,
                found="the base's own version is used, which has another body: it is the engine's class for"
                " models that have no code of their own",
                about=found.dotted,
                remedy="read both versions; the rungs P5 to P7 show whether the difference matters",
            )
        )

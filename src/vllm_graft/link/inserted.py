# Code that edits put into base files is donor code in a foreign place: the same rules hold for it, but it cannot be
# repaired, since what stands in a base file is not rewritten beyond what the edit says.
"""Contract checks of donor code that edits insert into base files."""

from collections.abc import Sequence

from vllm_graft.link.checks import Checker
from vllm_graft.link.index import Index
from vllm_graft.link.linked import Linked, Unit
from vllm_graft.link.unrepaired import NoRepairs
from vllm_graft.link.workbench import InsertedCode


def check_inserted(linked: Linked, inserted: Sequence[InsertedCode]) -> None:
    """Check every use that stands in inserted code; breaches are added to ``linked``."""
    pair = linked.decisions.pair
    for code in inserted:
        module = Index.module_at(code.donor_path)
        summary = pair.donor.summary(module)
        for name, definition in summary.definitions.items() if summary is not None else ():
            if code.first_line <= definition.line and definition.end_line <= code.last_line:
                linked.decisions.inserted.add(f"{module}.{name}")
    checker = Checker(linked, NoRepairs(linked))
    linked.decisions.current = ""
    for code in inserted:
        module = Index.module_at(code.donor_path)
        for use in pair.uses_of(module).uses:
            if code.first_line <= use.span.line <= code.last_line:
                checker.check_use(Unit(module, use.owner.name, use.owner.member), use)

# Code that edits put into base files is donor code in a foreign place: the same rules hold for it, but it cannot be
# repaired, since what stands in a base file is not rewritten beyond what the edit says.
"""Contract checks of donor code that edits insert into base files."""

from collections.abc import Sequence

from vllm_graft.link.breach import Breach
from vllm_graft.link.checks import Checker
from vllm_graft.link.contract import Mismatch
from vllm_graft.link.index import Found, Index
from vllm_graft.link.linked import Linked, Unit
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.uses import CallUse, ReadUse
from vllm_graft.link.workbench import InsertedCode


class _NoRepairs(Repairs):
    """Reports what would be repaired elsewhere."""

    def repair_call(
        self,
        unit: Unit,
        call: CallUse,
        mismatch: Mismatch,
        donor_signature: tuple[Parameter, ...],
        boundary: Found,
    ) -> None:
        del donor_signature
        self.report(
            Breach(
                code="G201",
                module=unit.module,
                line=call.span.line,
                wanted=".".join(p for p in (boundary.dotted, call.member) if p),
                found=f"the base's {mismatch.reason}",
                about=".".join(p for p in (boundary.dotted, call.member) if p),
            )
        )

    def repair_read(self, unit: Unit, read: ReadUse, boundary: Found, provider: Found) -> None:
        del provider
        self.report(
            Breach(
                code="G203",
                module=unit.module,
                line=read.span.line,
                wanted=f"{boundary.dotted}.{read.attribute}",
                found=f"the base's {boundary.name} has no {read.attribute}, which inserted code"
                " reads",
                about=f"{boundary.dotted}.{read.attribute}",
            )
        )

    def bring(self, unit: Unit, boundary: Found, member: str, breach: Breach) -> bool:
        del unit, boundary, member
        self.report(breach)
        return False


def check_inserted(linked: Linked, inserted: Sequence[InsertedCode]) -> None:
    """Check every use that stands in inserted code; breaches are added to ``linked``."""
    pair = linked.decisions.pair
    for code in inserted:
        module = Index.module_at(code.donor_path)
        summary = pair.donor.summary(module)
        for name, definition in summary.definitions.items() if summary is not None else ():
            if code.first_line <= definition.line and definition.end_line <= code.last_line:
                linked.decisions.inserted.add(f"{module}.{name}")
    checker = Checker(linked, _NoRepairs(linked))
    linked.decisions.current = ""
    for code in inserted:
        module = Index.module_at(code.donor_path)
        for use in pair.uses_of(module).uses:
            if code.first_line <= use.span.line <= code.last_line:
                checker.check_use(Unit(module, use.owner.name, use.owner.member), use)

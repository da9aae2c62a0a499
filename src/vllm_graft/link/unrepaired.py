# Some donor code is checked but not changed: what stands in a base file, and what nothing calls.
"""Reporting of breaches where nothing is repaired."""

from collections.abc import Sequence
from dataclasses import replace

from vllm_graft.link.breach import Breach
from vllm_graft.link.contract import Mismatch
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Unit
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.uses import CallUse, ReadUse


class NoRepairs(Repairs):
    """Reports what would be repaired elsewhere."""

    def repair_call(
        self,
        unit: Unit,
        call: CallUse,
        mismatch: Mismatch,
        donor_signature: tuple[Parameter, ...],
        boundary: Found,
    ) -> bool:
        """Report a call that does not bind."""
        del donor_signature
        wanted = boundary.dotted_of(call.member)
        self.report(
            Breach(
                code="G201",
                module=unit.module,
                line=call.span.line,
                wanted=wanted,
                found=f"the base's {mismatch.reason}",
                about=wanted,
            )
        )
        return False

    def write_out(self, unit: Unit, call: CallUse, changed: Sequence[tuple[str, str, str]]) -> bool:
        """Leave the call as it is."""
        del unit, call, changed
        return False

    def repair_read(self, unit: Unit, read: ReadUse, boundary: Found, provider: Found) -> None:
        """Report an attribute that is not there."""
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
        """Report what would be brought."""
        del unit, boundary, member
        self.report(breach)
        return False


class Moot(NoRepairs):
    """Reports what does not hold in methods that nothing calls: it is told, and no more."""

    def report(self, breach: Breach, *, repaired: bool = False) -> None:
        """Write down a breach as a note."""
        del repaired
        remedy = "none needed: nothing in the base or in the graft calls this method"
        super().report(replace(breach, severity="note", remedy=remedy))

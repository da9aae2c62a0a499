# Operators that vLLM registers with torch by name. The name is global in a process: a second registration is an
# error, a missing one too.
"""Rules about custom operators: missing, or registered twice."""

import re
from collections.abc import Mapping

from vllm_graft.link.breach import Breach
from vllm_graft.link.linked import Linked, Rewrite, Unit
from vllm_graft.link.repairs import Repairs
from vllm_graft.link.uses import OperatorUse, Registration
from vllm_graft.values.finding import Site

# Namespaces that torch and torchvision themselves register.
_TORCH = frozenset(
    {
        "aten",
        "prims",
        "torchvision",
        "higher_order",
        "inductor",
        "_c10d_functional",
        "symm_mem",
        "quantized",
        "mkldnn",
    }
)

# What stands before a name that is registered. Source: as in link/registrations.py.
_REGISTERS: Mapping[str, bytes] = {
    "operator": rb"(?:op_name\s*=|direct_register_custom_op\()",
    "custom-op": rb"CustomOp\.register\(",
}


def check_operator(linked: Linked, repairs: Repairs, unit: Unit, use: OperatorUse) -> None:
    """See that an operator that grafted code calls exists in the grafted base."""
    pair = linked.decisions.pair
    if use.namespace in _TORCH:
        return
    if use.namespace != "vllm":
        linked.native.append((use, unit.module))
        return
    registered_here = any(
        registration.kind == "operator" and registration.name == use.name
        for module in linked.decisions.taken
        for registration in pair.uses_of(module).registrations
    )
    quoted = f'"{use.name}"'.encode()
    if registered_here or pair.base.files.mention(quoted):
        return
    if pair.donor.files.mention(quoted):
        repairs.report(
            Breach(
                code="G208",
                module=unit.module,
                line=use.span.line,
                wanted=f"torch.ops.vllm.{use.name}",
                found="the base registers no such operator",
                guard=use.guard,
            )
        )


def check_registrations(linked: Linked, repairs: Repairs) -> None:
    """Rename operators that grafted modules would register a second time."""
    decisions = linked.decisions
    for module, taken in decisions.taken.items():
        decisions.current = module
        for registration in decisions.pair.uses_of(module).registrations:
            is_kept = taken.kind == "donor" or Unit(module, registration.function) in linked.units
            if not is_kept:
                continue
            if registration.kind == "operator":
                linked.operators.setdefault(registration.name, registration.name)
            if (there := _registered_at(linked, registration)) is None:
                continue
            new = f"{registration.name}__from_{decisions.suffix}"
            if registration.kind == "operator":
                linked.operators[registration.name] = new
            linked.rewrites.append(
                Rewrite(
                    module=module,
                    span=registration.span,
                    text=f'"{new}"',
                    note=f"{registration.name} is registered as {new}: the base has that name"
                    " already",
                )
            )
            repairs.report(
                Breach(
                    code="G209",
                    severity="note",
                    module=module,
                    line=registration.span.line,
                    wanted=f"to register {registration.name}",
                    found="the base registers that name already",
                    remedy=f"repaired: renamed to {new} wherever grafted code names it",
                    met_at=there,
                )
            )


def _registered_at(linked: Linked, registration: Registration) -> Site | None:
    """Find where the base registers a name; None where it does not."""
    files, quoted = linked.decisions.pair.base.files, f'"{registration.name}"'.encode()
    pattern = re.compile(_REGISTERS[registration.kind] + rb"\s*" + re.escape(quoted))
    for path in files.containing(quoted):
        text = files.read(path)
        if (match := pattern.search(text)) is not None:
            line = text.count(b"\n", 0, match.end()) + 1
            return Site(install="base", path=path, line=line)
    return None

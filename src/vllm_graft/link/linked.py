# The values that pass between the parts of the linker: what is linked, what is rewritten, what was found.
"""Units of donor code, rewrites, and the result of linking."""

from dataclasses import dataclass, field

from vllm_graft.link.breach import Breach
from vllm_graft.link.decide import Decisions
from vllm_graft.link.index import Found
from vllm_graft.link.resolution import Decision
from vllm_graft.link.uses import NameUse, OperatorUse, Owner, Span

# Conditions that hold on neither CUDA nor the CPU. Source: vllm/platforms/interface.py, 0.11 to 0.32.
_OTHER_PLATFORMS = (
    "is_rocm()",
    "is_tpu()",
    "is_xpu()",
    "is_hpu()",
    "is_neuron()",
    "is_out_of_tree()",
)


# Methods that a layer of vLLM runs on such a platform only. Source: dispatch_forward in custom_op.py, 0.14 to 0.31.
_FORWARDS_ELSEWHERE = frozenset({"forward_hip", "forward_tpu", "forward_xpu", "forward_oot"})


def runs_elsewhere(owner: Owner) -> bool:
    """Tell whether a unit of code is what a layer runs on platforms that are neither CUDA nor the CPU."""
    return owner.member in _FORWARDS_ELSEWHERE


def is_elsewhere(guard: str) -> bool:
    """Tell whether a condition holds only on platforms that are neither CUDA nor the CPU."""
    return any(
        condition.endswith(_OTHER_PLATFORMS) and not condition.startswith("not ")
        for condition in guard.split(" and ")
    )


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A piece of donor code that the graft contains."""

    module: str
    name: str
    member: str = ""

    @property
    def dotted(self) -> str:
        """Module, name and member."""
        return ".".join(p for p in (self.module, self.name, self.member) if p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A definition that the graft is for."""

    module: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One change to the text of a piece of donor code."""

    module: str
    span: Span
    text: str
    """``@`` stands for the expression before the last dot; empty: the argument is taken out."""
    note: str


@dataclass(slots=True)
class Linked:
    """What the linker found out; turned into a plan by link/plan.py."""

    decisions: Decisions
    names: dict[str, tuple[Found, Decision, NameUse, Unit]] = field(
        default_factory=dict[str, tuple[Found, Decision, NameUse, Unit]]
    )
    """Every donor definition used from grafted code: dotted → (definition, decision, first use, where)."""
    types: set[str] = field(default_factory=set[str])
    """Dotted donor names that grafted code names for type checkers only."""
    units: set[Unit] = field(default_factory=set[Unit])
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    breaches: list[Breach] = field(default_factory=list[Breach])
    """What no repair covers, and what was repaired in the text."""
    operators: dict[str, str] = field(default_factory=dict[str, str])
    """Custom operators that grafted code registers: donor's name → name in the grafted base."""
    native: list[tuple[OperatorUse, str]] = field(default_factory=list[tuple[OperatorUse, str]])
    """Uses of operators in binaries, and the module they stand in."""
    constructed: set[str] = field(default_factory=set[str])
    """Dotted classes that grafted code makes instances of."""
    refuses_adapters: bool = False
    """The models that were asked for do not say that they take LoRA: see exact_types.py."""

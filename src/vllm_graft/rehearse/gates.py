# Which gates there are, in which order, and how what was said inside an install decides their outcome. The control comes
# first: if what the base knows already does not pass, nothing is shown of the model, neither good nor bad; unless the
# control broke in a file that the graft put there.
"""The gates of a rehearsal."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from vllm_graft.rehearse.log_causes import diagnose_log
from vllm_graft.rehearse.signatures import Signature
from vllm_graft.values.log import LogEvent
from vllm_graft.values.rehearsal import Fault, GateOutcome, GateResult

P4 = "P4 import"
P5 = "P5 weights"
_SHOWN = 2000
"""Characters of what was said."""


_PYDANTIC = re.compile(
    r"ValidationError: 1 validation error for (?P<kind>\w+)\s+(?:Value|Assertion) error, (?P<said>.*?) \[type=",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate."""

    name: str
    code: str
    """Of what it finds."""
    shows: str
    """What it shows where it passes."""
    remedy: str
    rests_on: str = ""
    """A gate that must have passed for this one to show anything."""
    rung: str = P4


# In order of cost: what needs no vLLM first; the registry before what goes by its answers.
GATES = (
    Gate(
        name="files",
        code="E641",
        shows="what was grafted is there, and is what Python runs",
        remedy="build the image anew from its plan; if a file is mounted over it or was changed by hand, leave that out",
    ),
    Gate(
        name="flags",
        code="E642",
        shows="this image's own parser takes every planned word of `vllm serve`",
        remedy="leave out or rename what this vLLM does not know: `vllm serve --help=all` of the image lists it",
    ),
    Gate(
        name="import",
        code="E643",
        shows="every grafted module can be imported",
        remedy="plan the graft with `vllm-graft plan`: it finds what an import misses, before anything is built",
    ),
    Gate(
        name="registry",
        code="E644",
        shows="the registry's own inspection, in a process of its own, accepts the architectures",
        remedy="plan the graft with these architectures (--arch), and mtp as a feature if a draft is meant",
    ),
    Gate(
        name="caches",
        code="E645",
        shows="no answer that vLLM kept from before hides the graft",
        remedy="remove the folder modelinfos in vLLM's cache (VLLM_CACHE_ROOT), or mount another one",
    ),
    Gate(
        name="config",
        code="E646",
        shows="the model's config.json becomes vLLM's configuration of a model",
        remedy="see which of the places that name the model type is missing: `vllm-graft inspect IMAGE --model M`",
    ),
    Gate(
        name="tokenizer",
        code="E647",
        shows="tokenizer and processor load, and text survives",
        remedy="`vllm-graft plan --model M` decides about transformers; see docs/pins.md",
    ),
    Gate(
        name="parsers",
        code="E648",
        shows="each planned parser is registered, and is the grafted one",
        remedy="serve with the name that the plan says, or plan with --feature reasoning-parser=NAME or tool-parser=NAME",
    ),
    Gate(
        name="speculative",
        code="E649",
        shows="the speculative configuration resolves to the model's draft",
        remedy="plan with --feature mtp",
        rests_on="config",
    ),
    Gate(
        name="nodes",
        code="E650",
        shows="the planned way to several nodes is there",
        remedy="use the way that this image has, or an image with Ray: `vllm-graft plan --nodes N` says which route leads there",
    ),
)
# The second makes the model and has it loaded once; those after it tell what came of that.
WEIGHT_GATES = (
    Gate(
        name="checkpoint",
        code="E652",
        shows="the checkpoint's files are whole, by their own headers",
        remedy="fetch what is lacking again: hf download MODEL, or vllm-graft ship --weights MODEL NODE",
        rung=P5,
    ),
    Gate(
        name="model",
        code="E653",
        shows="the class can be made on the first and the last rank, and its loader can be run",
        remedy="see its error: the model's class asks the base for something that it does otherwise",
        rests_on="config",
        rung=P5,
    ),
    Gate(
        name="shards",
        code="E654",
        shows="the base's layers take each kind of shard that the model names",
        remedy="plan the graft anew with `vllm-graft plan`: the layer's own loader has to come from the donor too",
        rests_on="model",
        rung=P5,
    ),
    Gate(
        name="tensors",
        code="E655",
        shows="every tensor of the checkpoint lands, whole and in its own shape",
        remedy="see whether config.json and the weights are of the same release of the model; else the name map of the class is wrong",
        rests_on="model",
        rung=P5,
    ),
    Gate(
        name="parameters",
        code="E656",
        shows="every parameter of the model is filled",
        remedy="see which tensor of the checkpoint is meant for it: it is lacking, or has another name than the class expects",
        rests_on="model",
        rung=P5,
    ),
    Gate(
        name="quantisation",
        code="E657",
        shows="what the checkpoint has quantised is what the model has quantised",
        remedy="hold the ignore list of quantization_config against the names of the modules, fused ones under each of their names",
        rests_on="model",
        rung=P5,
    ),
)
IMPORTED = Gate(
    name="vllm", code="E651", shows="vLLM itself can be imported", remedy="see its error"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What is planned, as far as it decides which gates there are."""

    serve: Sequence[str] = ()
    parsers: Collection[str] = ()
    speculative: bool = False
    several_nodes: bool = False
    rungs: Collection[str] = ("P4",)


def gates_for(needs: Needs) -> tuple[Gate, ...]:
    """Give the gates to run, in their order."""
    asked = {
        "flags": bool(needs.serve),
        "parsers": bool(needs.parsers),
        "speculative": needs.speculative,
        "nodes": needs.several_nodes,
    }
    wanted = tuple(gate for gate in GATES if asked.get(gate.name, True))
    return tuple(gate for gate in wanted + WEIGHT_GATES if gate.rung[:2] in needs.rungs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said of one gate, for the control or for the model."""

    begun: bool = False
    ended: bool = False
    seconds: float = 0
    error: str = ""
    """How it ended, where not with an answer."""
    frames: tuple[str, ...] = ()
    """Files that the error came through, the innermost last."""
    faults: tuple[tuple[str, str], ...] = ()
    """What was wanted and what was found."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    text: str = ""
    """What was printed, from its end."""
    unable: str = ""
    """Why it cannot be tried here, where it cannot: nothing is shown by that."""

    @property
    def passed(self) -> bool:
        """Whether it ended and found nothing."""
        return self.ended and not self.error and not self.faults and not self.unable


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Decides outcomes; knows what was grafted and which lines mean something."""

    root: str
    """The folder that holds the grafted ``vllm/``."""
    grafted: Collection[str]
    """Paths below it that the graft added or edited."""
    signatures: Sequence[Signature]
    died: str = ""
    """How the whole process ended, where it did not come to its end."""

    def result(self, gate: Gate, control: Said, real: Said) -> GateResult:
        """Decide about one gate."""
        if not control.passed:
            guilty = self._grafted_frame(control)
            if not guilty:
                return _result(gate, control, real, why=self._why(control))
            wanted = f"what the base knows to pass ({guilty} is grafted)"
            return _result(gate, control, real, faults=(self._broken(gate, wanted, control),))
        if real.passed:
            return _result(gate, control, real)
        if not real.begun:
            return _result(gate, control, real, why=self.died or "it was not reached")
        if real.unable:
            return _result(gate, control, real, why=real.unable)
        if real.error or not real.ended:
            fault = self._broken(gate, f"that {gate.shows}", real, harmless=control)
            return _result(gate, control, real, faults=(fault,))
        told = [self._fault(gate, wanted, found) for wanted, found in real.faults]
        return _result(gate, control, real, faults=tuple(told))

    def _grafted_frame(self, said: Said) -> str:
        places = [frame.removeprefix(f"{self.root}/") for frame in said.frames]
        return next((place for place in reversed(places) if place in self.grafted), "")

    def _why(self, said: Said) -> str:
        """Say how the control ended."""
        if said.unable:
            return said.unable
        if said.error:
            return f"what the base knows does not pass: {said.error}"
        if said.faults:
            told = "; ".join(f"wanted {wanted}, found {found}" for wanted, found in said.faults)
            return f"what the base knows does not pass: {told}"
        return self.died or "it was not reached"

    def _broken(self, gate: Gate, wanted: str, said: Said, harmless: Said | None = None) -> Fault:
        """Give the fault of what ended without an answer; its cause may stand in what it printed.

        ``harmless``: what passed though it printed something; the same is not why this failed.
        """
        fault = self._fault(gate, wanted, said.error or self.died or "it ended without an answer")
        if fault.cause:
            return fault
        known = self._causes(harmless.text) if harmless else ()
        names = {each.signature for each in known}
        new = [each for each in self._causes(said.text) if each.signature not in names]
        return replace(fault, cause=new[0].cause, remedy=new[0].remedy) if new else fault

    def _fault(self, gate: Gate, wanted: str, found: str) -> Fault:
        found = _plain(found)
        first = next(iter(self._causes(found)), None)
        return Fault(
            code=gate.code,
            wanted=wanted,
            found=found[:_SHOWN],
            cause=first.cause if first else "",
            remedy=first.remedy if first else gate.remedy,
        )

    def _causes(self, text: str) -> tuple[LogEvent, ...]:
        return diagnose_log("", [text], self.signatures).causes


class Answers(Protocol):
    """What was said of each gate."""

    def of(self, gate: str, phase: str) -> Said:
        """Give what was said of a gate, for the control (``control``) or for the model (``real``)."""
        ...


def judged(gates: Sequence[Gate], answers: Answers, judge: Judge) -> tuple[GateResult, ...]:
    """Decide about all gates, in their order."""
    results: list[GateResult] = []
    for gate in gates:
        result = judge.result(gate, answers.of(gate.name, "control"), answers.of(gate.name, "real"))
        below = next((each for each in results if each.gate == gate.rests_on), None)
        if result.outcome == "failed" and below is not None and below.outcome != "passed":
            why = f"it stands on the gate {below.gate}, which did not pass"
            result = replace(result, outcome="not runnable here", why=why, faults=())
        results.append(result)
    return tuple(results)


def _plain(text: str) -> str:
    """Take pydantic's own words away from what a validator of vLLM said.

    Source: pydantic 2: "1 validation error for NAME", then "Value error, … [type=value_error, input_value=…]".
    """
    found = _PYDANTIC.match(text)
    return f"{found['kind']}: {found['said']}" if found else text


def _result(
    gate: Gate, control: Said, real: Said, *, why: str = "", faults: tuple[Fault, ...] = ()
) -> GateResult:
    outcome: GateOutcome = "failed" if faults else "not runnable here" if why else "passed"
    return GateResult(
        gate=gate.name,
        rung=gate.rung,
        shows=gate.shows,
        outcome=outcome,
        milliseconds=round(1000 * (control.seconds + real.seconds)),
        why=why[:_SHOWN],
        faults=faults,
        facts=real.facts,
    )

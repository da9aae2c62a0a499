# Rungs P4 and P5 on an install: the only verb that runs code of a source. An image runs as it will be served (its user, its settings, the
# user's variables and volumes), but without network, read-only, and by its interpreter in place of its entrypoint.
"""Rehearse: find out on the image itself what would fail."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from typing import cast

from vllm_graft.errors import RequestError
from vllm_graft.rehearse.asked import Heard, Planned, packed, parse_said, planned, program
from vllm_graft.rehearse.control import control_architecture, control_files, control_tensors
from vllm_graft.rehearse.gates import IMPORTED, Gate, Judge, Needs, Said, gates_for, judged
from vllm_graft.rehearse.grafted import Grafted
from vllm_graft.run.console import Console
from vllm_graft.run.model_files import read_description
from vllm_graft.values.command import Completed
from vllm_graft.values.environment import Environment
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.node import Node
from vllm_graft.values.rehearsal import GateResult, Rehearsal
from vllm_graft.values.source import Source
from vllm_graft.workflows.explain_log import read_signatures
from vllm_graft.workflows.open_model import open_model
from vllm_graft.workflows.read_tensors import CheckpointTensors, read_tensors
from vllm_graft.workflows.stage import Served, Stage, open_stage

_INSIDE = ("inside_checks", "inside_gates")
_OF_WEIGHTS = (
    "inside_checks",
    "inside_landing",
    "inside_loading",
    "inside_weight_checks",
    "inside_gates",
)
_RUNGS = ("P4", "P5")
_IGNORED = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")
"""Keys of a quantisation's ignore list. Source: vllm 0.14.1 to 0.31.0, layers/quantization."""
_LATE = (124, -14, 142)
"""Ended by us, or by its own alarm (SIGALRM; a container gives 128 and the signal)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearseRequest:
    """What the user asks of ``rehearse``."""

    source: Source
    model: str
    features: tuple[str, ...] = ()
    """Empty: those that the graft has."""
    serve: tuple[str, ...] = ()
    """Words of ``vllm serve``."""
    served: Served = field(default_factory=Served)
    nodes: int = 1
    trust_remote_code: bool = False
    seconds: int = 300
    """For each gate."""
    since: str = "P4"
    """The first rung to climb."""
    until: str = "P4"
    weights_on: Node | None = None
    """The machine whose checkpoint P5 reads the headers of; None is this one."""


def run_rehearse(
    request: RehearseRequest, *, environment: Environment, console: Console
) -> Rehearsal:
    """Run the gates in their order.

    Raises:
        RequestError: E202, the model; E233 to E237, what is asked cannot be asked of this install.
        SourceError: the install cannot be read, or its engine refuses.
        NodeError: E500 to E507.
        VerificationError: E640, the plan in it cannot be read.
    """
    model = open_model(request.model, environment=environment)
    if not model.architectures:
        raise RequestError(
            f"{model.location}/config.json names no architecture",
            remedy="rehearse with the folder of the model that is to be served",
            code="E233",
        )
    weights = None
    if request.until != "P4":
        weights = read_tensors(
            request.model, model.location, request.weights_on, environment=environment
        )
        console.tell(
            f"{weights.name} on {weights.where}: {len(weights.tensors)} tensors, by their headers"
        )
    with open_stage(
        request.source, request.served, environment=environment, console=console
    ) as stage:
        return _rehearse(request, model, weights, stage, console)


def _rehearse(
    request: RehearseRequest,
    model: ModelDescription,
    weights: CheckpointTensors | None,
    stage: Stage,
    console: Console,
) -> Rehearsal:
    grafted = stage.grafted
    plan = planned(
        request.serve,
        request.features or grafted.features,
        nodes=request.nodes,
        trust=request.trust_remote_code,
    )
    gates = gates_for(
        Needs(
            serve=request.serve,
            parsers=plan.parsers,
            speculative=plan.speculative is not None,
            several_nodes=bool(plan.way),
            rungs=[each for each in _RUNGS if request.since <= each <= request.until],
        )
    )
    control = control_architecture((*model.architectures, *grafted.architectures))
    asked = _asked(request, model, stage, plan)
    if weights is not None:
        asked |= _asked_of_weights(model, weights, control, plan.width)
    limit = timedelta(seconds=request.seconds * (2 * len(gates) + 1))
    asked |= {
        "gates": [gate.name for gate in gates],
        "control": packed(control_files(control, plan.width)),
        "control_architecture": control,
        "limit": int(limit.total_seconds()) + 5,
    }
    console.tell(
        f"rehearsing {model.name} in {stage.name}: {len(gates)} gates, each on {control} first"
        " (no network, read-only)"
    )
    answer = stage.run(
        program(_inside(_OF_WEIGHTS if weights is not None else _INSIDE), asked), limit
    )
    heard = parse_said(answer.stdout)
    results = _results(gates, heard, answer, grafted, stage)
    for result in results:
        console.tell(f"  {result.gate:12} {result.outcome}  {result.milliseconds / 1000:.1f} s")
    return Rehearsal(
        install=stage.name,
        model=model.name,
        architectures=model.architectures,
        grafted=grafted.known,
        control=control,
        since=request.since,
        until=request.until,
        vllm=heard.vllm.get("version", ""),
        python=heard.vllm.get("python", ""),
        platform=heard.vllm.get("platform", ""),
        milliseconds=round(answer.took.total_seconds() * 1000),
        gates=results,
    )


def _inside(names: tuple[str, ...]) -> dict[str, str]:
    folder = files("vllm_graft") / "rehearse"
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in names}


def _asked_of_weights(
    model: ModelDescription, weights: CheckpointTensors, control: str, width: int
) -> dict[str, object]:
    """Give what P5 asks beside; names and shapes travel, never a number of a weight."""
    listed = {
        "tensors.json": weights.tensors,
        "control.json": control_tensors(control, width),
    }
    return {
        "tensors": packed({name: json.dumps(each).encode() for name, each in listed.items()}),
        "problems": weights.problems,
        "no_tensors": f"{weights.name} has no safetensors files on {weights.where}: name the machine that has them, --weights-on NODE",
        "width": width,
        "ignored": _ignored(model),
    }


def _ignored(model: ModelDescription) -> tuple[str, ...]:
    told = model.config.get("quantization_config") or model.quantization.get("quantization")
    if not isinstance(told, dict):
        return ()
    listed = [cast("dict[str, object]", told).get(key) for key in _IGNORED]
    return tuple(
        str(name)
        for each in listed
        if isinstance(each, list)
        for name in cast("list[object]", each)
    )


def _asked(
    request: RehearseRequest, model: ModelDescription, stage: Stage, plan: Planned
) -> dict[str, object]:
    grafted = stage.grafted
    return {
        "model": packed(read_description(model.location)),
        "architectures": model.architectures,
        "drafts": grafted.architectures if "mtp" in grafted.features else (),
        "root": stage.root if grafted.known else "",
        "files": grafted.files,
        "before": grafted.before,
        "added": grafted.added,
        "serve": request.serve,
        "parsers": plan.parsers,
        "speculative": plan.speculative,
        "way": plan.way,
        "trust": plan.trust,
        "processors": bool(model.processors),
        "home": stage.home,
        "seconds": request.seconds,
    }


def _results(
    gates: tuple[Gate, ...], heard: Heard, answer: Completed, grafted: Grafted, stage: Stage
) -> tuple[GateResult, ...]:
    judge = Judge(
        root=heard.vllm.get("place", "") or stage.root,
        grafted=frozenset(grafted.files),
        signatures=read_signatures(),
        died="" if heard.ended else _death(heard, answer),
    )
    results = judged(gates, heard, judge)
    if heard.trouble is not None:
        # Nothing came after it: the one result says why.
        tried = [result for result in results if heard.of(result.gate, "control").begun]
        return (*tried, judge.result(IMPORTED, heard.trouble, Said()))
    return results


def _death(heard: Heard, answer: Completed) -> str:
    """Say how the process ended that did not come to its end."""
    during = f" during {heard.doing}" if heard.doing else ""
    if answer.status in _LATE:
        return f"it was not done in time{during}"
    killed = answer.status in (-9, 137)
    how = "was killed, most often for memory" if killed else f"ended with status {answer.status}"
    said = answer.last_lines(3)
    return f"the process {how}{during}{f': {said}' if said else ''}"

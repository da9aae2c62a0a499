# Two rounds: what each machine is, and then what lies between them, since nobody knows an address before. Nothing is changed
# anywhere: what is asked only reads.
"""Ask everything that would stop ``build``, ``ship`` or ``up``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_graft.cluster.compose import deployment_name
from vllm_graft.cluster.foresight import foresee, foresee_seats
from vllm_graft.cluster.launch import said
from vllm_graft.cluster.memory.budget import budget_of
from vllm_graft.cluster.memory.plan import plan_memory
from vllm_graft.cluster.memory.refusal import memory_findings
from vllm_graft.cluster.model_place import WantedModel
from vllm_graft.cluster.sizes import pipeline_stages, plan_tensor_parallel
from vllm_graft.errors import GraftError, RequestError
from vllm_graft.fleet.preflight.judge import judge, ordered, verdict_of
from vllm_graft.fleet.preflight.paths import judge_hops, trials
from vllm_graft.fleet.preflight.wanted import ALL, Seen, Wanted
from vllm_graft.run.console import Console
from vllm_graft.run.machines import Machine, machines_at, on_each
from vllm_graft.values.answered import Answered, answers
from vllm_graft.values.doctor import (
    DoctorReport,
    HopFacts,
    NodeFinding,
    NodeReport,
    PathFacts,
    Role,
)
from vllm_graft.values.environment import Environment
from vllm_graft.values.memory_plan import MemoryPlan, Topology
from vllm_graft.values.node import THIS_MACHINE, Node
from vllm_graft.values.probe import NotKnown
from vllm_graft.values.settings import ServeSettings, Settings
from vllm_graft.values.source import DockerSource, Source
from vllm_graft.workflows.ask_node import AskedNode, ask_node
from vllm_graft.workflows.plan_on_nodes import planned_budgets
from vllm_graft.workflows.try_paths import find_hops, try_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRequest:
    """The nodes, and what is to be done on them."""

    nodes: tuple[Node | None, ...]
    """Head first; None is this machine."""
    settings: Settings = field(default_factory=Settings)
    base: Source | None = None
    """In place of the settings' base."""
    image: str = ""
    """In place of the settings' image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """What was answered; every node is either in ``asked`` or in ``lost``."""

    roles: Mapping[str, Role]
    """By name, in the order in which they are told."""
    asked: Mapping[str, AskedNode]
    lost: Mapping[str, GraftError]
    paths: tuple[PathFacts, ...]
    hops: tuple[HopFacts, ...]

    @property
    def seen(self) -> tuple[Seen, ...]:
        """Give the nodes that answered."""
        return _seen(self.asked, self.roles)


def run_doctor(
    request: DoctorRequest, *, environment: Environment, console: Console
) -> DoctorReport:
    """Ask all nodes at once and judge what they said; that one is not reached is a finding."""
    gathered = _gather(request, environment.variables, console)
    serving = [node for node in gathered.seen if node.serves]
    seats, no_seats = foresee_seats(serving)
    memory = _memory(request, gathered)
    findings = [*_judged(request, gathered), *no_seats]
    if isinstance(memory, MemoryPlan):
        findings += memory_findings(memory)
    return DoctorReport(
        verdict=verdict_of(findings),
        nodes=tuple(
            NodeReport(
                name=name,
                role=role,
                facts=gathered.asked[name].facts
                if name in gathered.asked
                else NotKnown(not_known=gathered.lost[name].what),
            )
            for name, role in gathered.roles.items()
        ),
        paths=gathered.paths,
        hops=gathered.hops,
        seats=seats,
        memory=memory,
        findings=ordered(findings),
    )


def _gather(request: DoctorRequest, variables: Mapping[str, str], console: Console) -> _Gathered:
    machines, roles = _machines(request)
    console.tell("asking 1 machine" if len(machines) == 1 else f"asking {len(machines)} machines")
    with machines_at(machines, variables) as reached:
        role_of = dict[str, Role](zip((each.name for each in reached), roles, strict=True))
        told = _told(request, reached, role_of, variables)
        asked = dict(answers(told))
        serving = [
            each.value
            for each in reached
            if each.value is not None and each.name in asked and role_of[each.name] != "builder"
        ]
        to_try = trials([node for node in _seen(asked, role_of) if node.serves])
        if to_try:
            console.tell("asking what they reach of one another")
        paths = try_paths([each.node for each in serving], to_try, variables)
        hops = find_hops(serving) if len(serving) > 1 else ()
    lost = {each.name: each.error for each in (*reached, *told) if each.error is not None}
    return _Gathered(roles=role_of, asked=asked, lost=lost, paths=paths, hops=hops)


def _told(
    request: DoctorRequest,
    reached: Sequence[Answered[Machine]],
    roles: Mapping[str, Role],
    variables: Mapping[str, str],
) -> tuple[Answered[AskedNode], ...]:
    references, model = wanted_of(request).references, _model(request)

    def ask(machine: Machine) -> AskedNode:
        role = roles[machine.name]
        is_head = role in ("", "head")
        return ask_node(
            machine,
            references,
            None if role == "builder" else model,
            args=request.settings.serve.args if is_head else None,
        )

    there = [each.value.node for each in reached if each.value is not None]
    return on_each(there, ask, variables)


def _memory(request: DoctorRequest, gathered: _Gathered) -> MemoryPlan | NotKnown | None:
    """Plan the model on the nodes as ``up`` would; None: no model is named."""
    if _model(request) is None:
        return None
    serving = [node for node in gathered.seen if node.serves]
    serve, name = request.settings.serve, _deployment(request)
    if any(node.runs(name) for node in serving):
        return NotKnown(not_known=f"{name} runs already, and has its memory")
    names = [node.name for node in serving]
    budgets = planned_budgets([budget_of(node) for node in serving], names)
    if isinstance(budgets, NotKnown):
        return budgets
    planned = next((each.planned for each in gathered.asked.values() if each.planned), None)
    if planned is None or isinstance(planned, NotKnown):
        return planned or NotKnown(not_known="the head does not say what the model holds")
    try:
        counts = [each.gpus for each in budgets]
        tensor = plan_tensor_parallel(serve.tensor_parallel, serve.args, counts, names)
        stages = pipeline_stages(serve.args)
    except RequestError as error:  # told as what `up` would refuse
        return NotKnown(not_known=error.what)
    return plan_memory(planned, Topology(tensor=tensor, pipeline=stages), budgets)


def _seen(asked: Mapping[str, AskedNode], roles: Mapping[str, Role]) -> tuple[Seen, ...]:
    return tuple(
        Seen(name=name, role=roles[name], facts=each.facts, stacks=each.stacks)
        for name, each in asked.items()
    )


def _judged(request: DoctorRequest, gathered: _Gathered) -> Iterator[NodeFinding]:
    engines = {
        name: each.engine_error
        for name, each in gathered.asked.items()
        if each.engine_error is not None
    }
    yield from judge(gathered.seen, engines, gathered.paths, wanted_of(request))
    yield from judge_hops(gathered.hops)
    if (model := _model(request)) is not None:
        places = {
            name: each.place for name, each in gathered.asked.items() if each.place is not None
        }
        serving = [node for node in gathered.seen if node.serves]
        yield from foresee(model, request.settings.serve, serving, places)
    for name, error in gathered.lost.items():
        yield NodeFinding(
            code=error.code,
            severity="blocked",
            nodes=(name,),
            stops=("build",) if gathered.roles[name] == "builder" else ALL,
            wanted="a node that answers",
            found=error.what,
            remedy=error.remedy,
        )


def _machines(request: DoctorRequest) -> tuple[Sequence[Node | None], Sequence[Role]]:
    """Give the nodes that serve, head first, and the one that has the base, should it be none of them."""
    machines, roles = list(request.nodes), list[Role]()
    for number, _ in enumerate(machines):
        roles.append("" if len(machines) == 1 else "worker" if number else "head")
    base = _base(request)
    if isinstance(base, DockerSource) and base.node not in machines:
        machines.append(base.node)
        roles.append("builder")
    return machines, roles


def _base(request: DoctorRequest) -> Source | None:
    return request.base or request.settings.base.source


def _model(request: DoctorRequest) -> WantedModel | None:
    told = request.settings.model
    return WantedModel(text=told.id, revision=told.revision) if told.id else None


def wanted_of(request: DoctorRequest) -> Wanted:
    """Say what is to be done, as far as nodes are concerned."""
    base, serve = _base(request), request.settings.serve
    in_engine = base if isinstance(base, DockerSource) else None
    return Wanted(
        base=in_engine.reference if in_engine else "",
        builder=str(in_engine.node or THIS_MACHINE) if in_engine else "",
        image=request.image or request.settings.image.tag,
        host=serve.host,
        port=serve.port,
        deployment=_deployment(request),
        utilization=_utilization(serve),
        is_serving=bool(request.settings.model.id) or serve != ServeSettings(),
    )


def _deployment(request: DoctorRequest) -> str:
    model = request.settings.model.id
    try:
        return deployment_name(request.settings.serve, model) if model else ""
    except RequestError:  # told as what `up` would refuse
        return ""


def _utilization(serve: ServeSettings) -> float | None:
    try:
        return float(said(serve.args, "--gpu-memory-utilization") or "")
    except ValueError:
        return None

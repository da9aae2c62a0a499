"""Plan the memory of a deployment on the nodes that were asked."""

from collections.abc import Sequence

from vllm_graft.cluster.compose import NodeSurvey
from vllm_graft.cluster.memory.plan import plan_memory
from vllm_graft.cluster.sizes import pipeline_stages
from vllm_graft.errors import NodeError
from vllm_graft.run.machines import machine_at
from vllm_graft.values.deployment import Deployment
from vllm_graft.values.memory_plan import MemoryPlan, NodeBudget, Topology
from vllm_graft.values.probe import NotKnown
from vllm_graft.workflows.fleet_engines import FleetEngines
from vllm_graft.workflows.read_model import read_model

NO_GPU = "no node has a GPU, and only memory of GPUs is planned"


def plan_on_nodes(
    deployment: Deployment, surveys: Sequence[NodeSurvey], fleet: FleetEngines
) -> MemoryPlan | NotKnown:
    """Read the model on the head, and plan it on all nodes; or say why that cannot be done."""
    budgets = planned_budgets([each.budget for each in surveys], [each.node for each in surveys])
    if isinstance(budgets, NotKnown):
        return budgets
    try:
        with machine_at(fleet.nodes[surveys[0].node], fleet.variables) as head:
            model = read_model(head, surveys[0].model, deployment.args)
    except NodeError as error:
        return NotKnown(not_known=error.what)
    if isinstance(model, NotKnown):
        return model
    topology = Topology(
        tensor=deployment.tensor_parallel, pipeline=pipeline_stages(deployment.args)
    )
    return plan_memory(model, topology, budgets)


def planned_budgets(
    told: Sequence[NodeBudget | NotKnown], names: Sequence[str]
) -> tuple[NodeBudget, ...] | NotKnown:
    """Give the budgets of all nodes, or why there is nothing to plan."""
    found: list[NodeBudget] = []
    for each, name in zip(told, names, strict=True):
        if isinstance(each, NotKnown):
            return NotKnown(not_known=f"{name}: {each.not_known}")
        found.append(each)
    if not any(each.gpus for each in found):
        return NotKnown(not_known=NO_GPU)
    return tuple(found)

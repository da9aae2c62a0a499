# The last stage of `up`: from an image that every node has to a model that answers. What is there already decides what is left to
# do; nothing is started before all nodes have said that they can.
"""Serve a model from an image on all nodes."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from vllm_graft.cluster.compose import NodeSurvey, free_master_port, reached_host, refuse_taken
from vllm_graft.cluster.containers import remove_containers, start_container
from vllm_graft.cluster.launch import container_name, create_member, deployment_digest
from vllm_graft.cluster.ready import MODELS_PATH
from vllm_graft.cluster.standing import judge_standing
from vllm_graft.run.clock import stamp
from vllm_graft.run.console import Console
from vllm_graft.run.endpoint import Endpoint, is_reached
from vllm_graft.values.answered import all_values
from vllm_graft.values.deployment import Completion, Deployment, UpOutcome, UpReceipt
from vllm_graft.workflows.ask_api import endpoint_at
from vllm_graft.workflows.await_answer import Waiting
from vllm_graft.workflows.fleet_engines import FleetEngines
from vllm_graft.workflows.launch_members import launch_members, undone_on_failure
from vllm_graft.workflows.take_down import take_away


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeWishes:
    """How it is to be served, beside what the deployment says."""

    limit: timedelta
    """From the start of the containers to the answer."""
    logs: str = ""
    """A folder below which the logs of a start that came to nothing are kept; empty: they are not."""
    dry_run: bool = False


def serve(
    deployment: Deployment,
    surveys: Sequence[NodeSurvey],
    wishes: ServeWishes,
    fleet: FleetEngines,
    console: Console,
) -> UpReceipt:
    """Start what does not run yet, and wait for a correct answer.

    Raises:
        NodeError: E573 to E577, E579, E500 to E507.
        VerificationError: E620, E621.
    """
    standing = judge_standing(deployment, [each.containers for each in surveys])
    if standing == "running":
        return _found(deployment, fleet, wishes, console)
    refuse_taken(deployment, surveys[0])
    if wishes.dry_run:
        return _dry(deployment, fleet, surveys)
    if standing == "ended":
        console.tell(f"{deployment.name} has ended: what is left of it is taken away")
        all_values(take_away(fleet, deployment.name, at_once=True), "be cleared")
    return _started(deployment, fleet, surveys, wishes, console)


def _started(
    deployment: Deployment,
    fleet: FleetEngines,
    surveys: Sequence[NodeSurvey],
    wishes: ServeWishes,
    console: Console,
) -> UpReceipt:
    run = uuid.uuid4().hex[:12]
    logs = f"{wishes.logs}/{deployment.name}-{stamp()}" if wishes.logs else ""
    with undone_on_failure(deployment, fleet, run, logs, console):
        console.tell(f"starting {deployment.name} on {', '.join(fleet.engines)}")
        launch_members(deployment, fleet, run, free_master_port(surveys[0]))
        waiting = _waiting(deployment, fleet, wishes, console)
        completion = waiting.answer()
        seconds = waiting.clock.seconds
    return _receipt("serving", deployment, fleet, completion, seconds)


def _found(
    deployment: Deployment, fleet: FleetEngines, wishes: ServeWishes, console: Console
) -> UpReceipt:
    """See whether what runs already answers; it was another run that started it, so it is left as it is."""
    console.tell(
        f"{deployment.name} runs already, with the same image, model and settings; asking it"
    )
    completion = _waiting(deployment, fleet, wishes, console).answer()
    return _receipt("already serving", deployment, fleet, completion, 0)


def _waiting(
    deployment: Deployment, fleet: FleetEngines, wishes: ServeWishes, console: Console
) -> Waiting:
    return Waiting(
        deployment=deployment,
        fleet=fleet,
        endpoint=head_endpoint(deployment, fleet),
        limit=wishes.limit,
        console=console,
    )


def head_endpoint(deployment: Deployment, fleet: FleetEngines) -> Endpoint:
    """Give the way to the API."""
    engine = fleet.engines[deployment.head.node]
    return endpoint_at(engine, deployment.host, deployment.port, fleet.variables)


def _receipt(
    outcome: UpOutcome,
    deployment: Deployment,
    fleet: FleetEngines,
    completion: Completion,
    seconds: int,
) -> UpReceipt:
    host, is_reached_here = _address(deployment, fleet)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{deployment.port}"
    return UpReceipt(
        outcome=outcome,
        deployment=deployment,
        digest=str(deployment_digest(deployment)),
        address=address,
        reached=is_reached_here,
        seconds=seconds,
        completion=completion,
        notes=() if is_reached_here else (_not_from_here(address, host, deployment),),
    )


def _address(deployment: Deployment, fleet: FleetEngines) -> tuple[str, bool]:
    """Give the address at which clients ask, one that this machine reaches if there is one, and whether it does."""
    head = deployment.head
    host = reached_host(deployment.host)
    if fleet.nodes[head.node] is None:
        return host, True
    if host.startswith("127.") or host == "::1":
        if deployment.host == host:
            return host, False
        host = head.address
    return host, is_reached(Endpoint(host=host, port=deployment.port), MODELS_PATH)


def _not_from_here(address: str, host: str, deployment: Deployment) -> str:
    """Say how a model is asked that answers where this machine does not come."""
    head, port = deployment.head.node, deployment.port
    inside = reached_host(deployment.host)
    shown = f"[{inside}]" if ":" in inside else inside
    where = (
        f"it answers on {head} alone"
        if host == inside
        else f"{address} is not reached from here, and {head} itself had the answer"
    )
    return (
        f"{where}; from here: ssh -N -L {port}:{shown}:{port} {head}, then http://127.0.0.1:{port}"
    )


def _dry(
    deployment: Deployment,
    fleet: FleetEngines,
    surveys: Sequence[NodeSurvey],
) -> UpReceipt:
    left = [(each.node, one.id) for each in surveys for one in each.containers]
    port = free_master_port(surveys[0])
    commands = [remove_containers(fleet.engines[node], (one,)) for node, one in left]
    for member in deployment.members:
        engine = fleet.engines[member.node]
        commands.append(create_member(engine, deployment, member, run="RUN", master_port=port))
    for member in deployment.members:
        name = container_name(deployment.name, member.rank)
        commands.append(start_container(fleet.engines[member.node], name))
    return UpReceipt(
        outcome="not started",
        deployment=deployment,
        digest=str(deployment_digest(deployment)),
        address=f"http://{deployment.host}:{deployment.port}",
        reached=False,
        seconds=0,
        completion=None,
        commands=tuple(each.explained for each in commands),
    )

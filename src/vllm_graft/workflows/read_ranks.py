"""Ask every node of a deployment how its rank is and what it said."""

from vllm_graft.cluster.containers import look_at, parse_containers, parse_log, read_log
from vllm_graft.cluster.last_words import Rank, first_error
from vllm_graft.cluster.launch import container_name
from vllm_graft.image.engine import Engine
from vllm_graft.run.process import run_command
from vllm_graft.values.deployment import Deployment
from vllm_graft.workflows.explain_log import read_signatures
from vllm_graft.workflows.fleet_engines import FleetEngines


def read_ranks(deployment: Deployment, fleet: FleetEngines) -> tuple[Rank, ...]:
    """Give the ranks with the last of their logs; a node that does not answer has neither."""
    signatures = read_signatures()
    members = {member.node: member for member in deployment.members}

    def read(node: str, engine: Engine) -> Rank:
        name = container_name(deployment.name, members[node].rank)
        found = parse_containers(run_command(look_at(engine, (name,)), variables=fleet.variables))
        if not found:
            return Rank(member=members[node], found=None)
        log = parse_log(run_command(read_log(engine, name), variables=fleet.variables))
        error = first_error(log, signatures)
        return Rank(member=members[node], found=found[0], log=log, error=error)

    return tuple(
        each.value or Rank(member=members[each.name], found=None)
        for each in fleet.on_each(read)
        if each.name in members
    )

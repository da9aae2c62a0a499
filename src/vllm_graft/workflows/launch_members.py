# All containers are made before one is started: what an engine refuses is known before anything runs. What a run made is gone
# after it where it does not end well, whatever ended it; others' containers it never touches.
"""Make and start the containers of a deployment."""

import contextlib
from collections.abc import Generator
from contextlib import contextmanager

from vllm_graft.cluster.containers import (
    FoundContainer,
    look_at,
    parse_containers,
    says_nothing_of_it,
    start_container,
    unmade,
    unstarted,
)
from vllm_graft.cluster.last_words import logs_by_name
from vllm_graft.cluster.launch import container_name, create_member
from vllm_graft.errors import GraftError
from vllm_graft.image.engine import Engine
from vllm_graft.run.console import Console
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.kept_files import keep_files
from vllm_graft.run.process import run_command
from vllm_graft.values.answered import Answered, all_values
from vllm_graft.values.deployment import Deployment
from vllm_graft.workflows.fleet_engines import FleetEngines
from vllm_graft.workflows.read_ranks import read_ranks
from vllm_graft.workflows.take_down import take_away


def launch_members(deployment: Deployment, fleet: FleetEngines, run: str, master_port: int) -> None:
    """Make all containers, then start them.

    Raises:
        NodeError: E573, an engine did not make or start one; E574, another run was faster; E508, several of them.
    """
    members = {member.node: member for member in deployment.members}

    def make(node: str, engine: Engine) -> None:
        member = members[node]
        command = create_member(engine, deployment, member, run=run, master_port=master_port)
        answer = run_command(command, variables=fleet.variables)
        if not answer.passed:
            name = container_name(deployment.name, member.rank)
            there = run_command(look_at(engine, (name,)), variables=fleet.variables)
            # What is gone again was another run's.
            is_ours = says_nothing_of_it(there) or bool(parse_containers(there))
            raise unmade(answer, engine, name, is_ours=is_ours)

    def start(node: str, engine: Engine) -> None:
        name = container_name(deployment.name, members[node].rank)
        command = start_container(engine, name)
        answer = run_command(command, variables=fleet.variables)
        if not answer.passed:
            raise unstarted(answer, engine, name)

    # What is being made while its client is ended might come to be after it was looked for and not found.
    with held_interrupts():
        made = fleet.on_each(make)
    all_values(made, "make their container")
    with held_interrupts():
        started = fleet.on_each(start)
    all_values(started, "start their container")


@contextmanager
def undone_on_failure(
    deployment: Deployment, fleet: FleetEngines, run: str, logs: str, console: Console
) -> Generator[None]:
    """Take away what this run made of a deployment where the block does not end well, Ctrl-C too, and say so.

    ``logs``: a folder in which the logs of what did not end well by itself are kept; empty: they are not.
    """
    try:
        yield
    except BaseException as failure:
        # A second Ctrl-C changes nothing: this one is raised in any case.
        with contextlib.suppress(KeyboardInterrupt), held_interrupts():
            if isinstance(failure, GraftError) and logs:
                _keep_logs(deployment, fleet, logs, failure)
            console.tell("taking down what this run started")
            gone = take_away(fleet, deployment.name, lambda each: each.run == run, at_once=True)
            for note in _told(deployment.name, gone):
                failure.add_note(note)
        raise


def _keep_logs(
    deployment: Deployment, fleet: FleetEngines, folder: str, failure: BaseException
) -> None:
    files = logs_by_name(read_ranks(deployment, fleet))
    if files and keep_files(folder, files):
        failure.add_note(f"whole logs are in {folder}: {', '.join(files)}")


def _told(name: str, gone: tuple[Answered[tuple[FoundContainer, ...]], ...]) -> Generator[str]:
    lost = [(each.name, each.error) for each in gone if each.error is not None]
    if any(each.value for each in gone) and not lost:
        yield "what this run started was taken down"
    for node, error in lost:
        yield (
            f"on {node} something of {name} may still run ({error.what}); `vllm-graft down` takes it away once the"
            " node answers"
        )

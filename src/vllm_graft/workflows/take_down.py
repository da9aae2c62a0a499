# Found by labels, ended, removed, and asked for once more: what is told as gone was seen to be gone.
"""Take the containers of a deployment away."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from vllm_graft.cluster.containers import (
    FoundContainer,
    list_containers,
    look_at,
    parse_containers,
    parse_ids,
    remove_containers,
    says_nothing_of_it,
    stop_containers,
    unlisted,
    unremoved,
)
from vllm_graft.image.engine import Engine
from vllm_graft.run.process import run_command
from vllm_graft.values.answered import Answered
from vllm_graft.workflows.fleet_engines import FleetEngines


def containers_on(
    engine: Engine,
    deployment: str,
    variables: Mapping[str, str],
    patience: timedelta = timedelta(minutes=2),
) -> tuple[FoundContainer, ...]:
    """Give what a node has of a deployment, by rank; empty: of all deployments.

    Raises:
        NodeError: E570, its engine does not say; E500 to E507.
    """
    listed = run_command(list_containers(engine, deployment, patience), variables=variables)
    if not listed.passed:
        raise unlisted(listed, engine)
    ids = parse_ids(listed)
    if not ids:
        return ()
    looked = run_command(look_at(engine, ids, patience), variables=variables)
    # One that is gone since is complained of; one that is there and cannot be looked at is not gone.
    if not looked.passed and not says_nothing_of_it(looked):
        raise unlisted(looked, engine)
    return parse_containers(looked)


def _everything(_: FoundContainer) -> bool:
    return True


def take_away(
    fleet: FleetEngines,
    deployment: str,
    which: Callable[[FoundContainer], bool] = _everything,
    *,
    at_once: bool = False,
) -> tuple[Answered[tuple[FoundContainer, ...]], ...]:
    """Take the containers of a deployment away, on all nodes at the same time; gives what each node had of them.

    ``at_once``: without time to end by themselves, as what serves nobody yet. A node that does not answer is told as such,
    and keeps no other from being cleared.
    """

    def clear(_: str, engine: Engine) -> tuple[FoundContainer, ...]:
        found = tuple(filter(which, containers_on(engine, deployment, fleet.variables)))
        alive = [each.id for each in found if each.is_alive]
        if alive and not at_once:
            run_command(stop_containers(engine, alive), variables=fleet.variables)
        if found:
            _remove(engine, found, fleet.variables)
        return found

    return fleet.on_each(clear)


def _remove(
    engine: Engine, found: tuple[FoundContainer, ...], variables: Mapping[str, str]
) -> None:
    """Raise NodeError E580 where one is still there afterwards."""
    ids = [each.id for each in found]
    removed = run_command(remove_containers(engine, ids), variables=variables)
    left = [each for each in containers_on(engine, "", variables) if each.id in ids]
    if left:
        raise unremoved(removed, engine, [each.name for each in left])

# What lies between nodes is asked of the one that would use it. `ship` looks for its path in the same way when it is needed.
"""Try the ways between nodes."""

from collections.abc import Mapping, Sequence

from vllm_graft.errors import NodeError
from vllm_graft.fleet.preflight.paths import Trial
from vllm_graft.fleet.probes.path import door_probe, echo_probe, frame_probe
from vllm_graft.run.machines import Machine, on_each
from vllm_graft.run.path import find_hop
from vllm_graft.values.doctor import HopFacts, PathFacts
from vllm_graft.values.node import Node
from vllm_graft.values.probe import NotKnown


def try_paths(
    nodes: Sequence[Node | None], trials: Sequence[Trial], variables: Mapping[str, str]
) -> tuple[PathFacts, ...]:
    """Send echoes along every way, all nodes at the same time; where none comes back, knock at the receiver's sshd."""

    def from_one(machine: Machine) -> tuple[PathFacts, ...]:
        return tuple(_try(machine, trial) for trial in trials if trial.sender == machine.name)

    found: list[PathFacts] = []
    for each in on_each(nodes, from_one, variables):
        if each.value is not None:
            found += each.value
        elif each.error is not None:
            why = NotKnown(not_known=each.error.what)
            found += [_facts(trial, answered=why) for trial in trials if trial.sender == each.name]
    return tuple(found)


def find_hops(machines: Sequence[Machine]) -> tuple[HopFacts, ...]:
    """Find how the first machine would send to each other, as ``ship`` does; 4 MiB of zeros are sent to see how fast."""
    head, *others = machines
    return tuple(_hop(head, each) for each in others)


def _hop(sender: Machine, receiver: Machine) -> HopFacts:
    try:
        hop = find_hop(sender, receiver)
    except NodeError as error:
        why = NotKnown(not_known=error.what)
        return HopFacts(sender=sender.name, receiver=receiver.name, kind=why)
    return HopFacts(
        sender=sender.name,
        receiver=receiver.name,
        kind=hop.kind,
        address=hop.address,
        interface=hop.interface,
        rate=hop.rate,
    )


def _try(machine: Machine, trial: Trial) -> PathFacts:
    echo = echo_probe(trial.address)
    trip = echo.answer(machine.run(echo.command))
    if isinstance(trip, int):
        return _facts(trial, answered=True, trip=trip, whole=_whole(machine, trial))
    door = door_probe(trial.address, trial.port)
    opened = door.answer(machine.run(door.command))
    if isinstance(opened, NotKnown):
        return _facts(trial, answered=trip if isinstance(trip, NotKnown) else False)
    return _facts(trial, answered=opened)


def _whole(machine: Machine, trial: Trial) -> bool | None:
    if not trial.mtu:
        return None
    frame = frame_probe(trial.address, trial.mtu)
    passed = frame.answer(machine.run(frame.command))
    return None if isinstance(passed, NotKnown) else passed


def _facts(
    trial: Trial, *, answered: bool | NotKnown, trip: int | None = None, whole: bool | None = None
) -> PathFacts:
    return PathFacts(
        sender=trial.sender,
        receiver=trial.receiver,
        interface=trial.interface,
        address=trial.address,
        answered=answered,
        trip=trip,
        whole_frames=whole,
        mtu=trial.mtu,
    )

# From one machine to another the bytes go straight, where there is a path; this machine hears how many there were. Only
# where there is none do they come by here.
"""Sending what a command says to a command on another machine."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from vllm_graft.fleet.hop import Hop, bytes_through, hop_lost, through
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import Talking, run_fed, talking_command
from vllm_graft.values.command import Command, Completed

Heard = Callable[[int], None]
"""Is told how many bytes have gone through, again and again."""


def send(
    hop: Hop,
    machines: tuple[Machine, Machine],
    commands: tuple[Command, Command],
    heard: Heard,
) -> Completed:
    """Hand what a command says on the sender to a command on the receiver.

    ``machines`` and ``commands``: those of the sender and of the receiver. Gives how the second ended, or the first where the
    second was content; all that either said is in its ``stderr``.

    Raises:
        NodeError: E501 to E503, E507 one of them is not reached, or was lost; E551 they lost each other.
    """
    if hop.kind == "relay":
        return _relayed(machines, commands, heard)
    client = machines[0] if hop.client == hop.sender else machines[1]
    sent = client.command(through(hop, *commands))
    with talking_command(sent, variables=client.variables) as talking:
        for said in talking.pieces():
            if (count := bytes_through(said)) is not None:
                heard(count)
        answer = talking.ended()
    if (error := hop_lost(answer, hop)) is not None:
        raise error
    return answer


def _relayed(
    machines: tuple[Machine, Machine], commands: tuple[Command, Command], heard: Heard
) -> Completed:
    sender, receiver = machines
    produce, take = sender.command(commands[0]), receiver.command(commands[1])
    with talking_command(produce, variables=sender.variables) as talking:
        pieces = _counted(talking, heard)
        taken = run_fed(take, pieces, variables=receiver.variables)
        if not taken.passed:  # whoever speaks is not waited for: nobody listens any more
            return replace(taken, stdout=b"", stderr=taken.stdout + taken.stderr)
        for _ in pieces:  # what stands behind the end of what was taken
            pass
        made = talking.ended()
    return replace(made, stderr=made.stderr + taken.stdout + taken.stderr)


def _counted(talking: Talking, heard: Heard) -> Iterator[bytes]:
    count = 0
    for piece in talking.pieces():
        yield piece
        count += len(piece)
        heard(count)

# Names and shapes of a checkpoint, from the headers of its files alone, on the machine that has them.
"""Read what tensors a checkpoint has."""

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_graft.fleet.weights.safetensors import tensors_served
from vllm_graft.run.machines import machine_at
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.values.weights import ModelName
from vllm_graft.workflows.find_weights import hold_against_itself, look_at

Described = Mapping[str, tuple[tuple[int, ...], str]]
"""Name → shape, type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTensors:
    """The tensors of a checkpoint, as its own files describe them."""

    name: str
    where: str
    tensors: Described
    problems: tuple[str, ...]
    """What speaks against the files being whole; empty too where there are none at all."""


def read_tensors(
    model: str, location: str, node: Node | None, *, environment: Environment
) -> CheckpointTensors:
    """Read the headers; ``location``: the folder in which this machine has the model's description.

    Raises:
        NodeError: E500 to E503, E507, E558.
    """
    # A machine's own cache may be elsewhere and hold another revision; a folder is the same one on each.
    is_id = f"/models--{model.replace('/', '--')}/snapshots/" in location
    name = ModelName(text=model if is_id and node is not None else location)
    with machine_at(node, environment.variables) as machine:
        held = hold_against_itself(machine, look_at(machine, name, {}), name)
    tensors = tensors_served(held.shards, held.indexes)
    return CheckpointTensors(
        name=model,
        where=machine.name,
        tensors=tensors,
        problems=held.problems if held.shards or held.indexes else (),
    )

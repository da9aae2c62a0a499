# Some megabytes of headers say what a hundred gigabytes hold; they are read where the model is, and only once.
"""Read what a model on a node needs of memory."""

import json
from typing import cast

from vllm_graft.cluster.memory.budget import node_budget
from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.cluster.memory.way import PlannedModel
from vllm_graft.cluster.memory.weights import gathered
from vllm_graft.cluster.model_place import ModelPlace
from vllm_graft.errors import NodeError
from vllm_graft.fleet.probes import gpus, memory
from vllm_graft.fleet.weights.asking import ask_content, ask_headers, parse_headers
from vllm_graft.fleet.weights.tensors import INDEX, indexed_files, loaded_files, read_tensors
from vllm_graft.run.machines import Machine
from vllm_graft.values.memory_plan import NodeBudget
from vllm_graft.values.node_facts import GpuFacts
from vllm_graft.values.probe import NotKnown


def read_model(
    machine: Machine, place: ModelPlace, args: tuple[str, ...]
) -> PlannedModel | NotKnown:
    """Read config.json and the headers of the weights; or say why they cannot be read. Nothing is changed there."""
    try:
        answer = machine.run(ask_content(place.folder, "config.json"))
        value: object = json.loads(answer.stdout)
        if not answer.passed or not isinstance(value, dict):
            return NotKnown(not_known=f"config.json on {machine.name} cannot be read")
        files = _files(machine, place)
        if not files:
            return NotKnown(not_known="its weights are no safetensors files")
        shards = parse_headers(machine.run(ask_headers(place.folder, files)))
    except (NodeError, ValueError, RecursionError) as error:
        return NotKnown(
            not_known=error.what if isinstance(error, NodeError) else f"config.json: {error}"
        )
    tensors = read_tensors(shards)
    if isinstance(tensors, str):
        return NotKnown(not_known=tensors)
    return PlannedModel(
        configuration=Configuration(cast("dict[str, object]", value)),
        tensors=gathered(tensors),
        args=args,
    )


def _files(machine: Machine, place: ModelPlace) -> tuple[str, ...]:
    """Give the files that are loaded: those of the index, where there is one."""
    files = loaded_files(tuple(place.sizes))
    if INDEX not in place.sizes:
        return files
    listed = indexed_files(machine.run(ask_content(place.folder, INDEX)).stdout)
    return tuple(sorted(listed & place.sizes.keys())) or files


def ask_budget(machine: Machine, found: tuple[GpuFacts, ...] | NotKnown) -> NodeBudget | NotKnown:
    """Ask a machine what its GPUs, which it has told of, can give."""
    untold = NotKnown(not_known="nothing was asked")
    if isinstance(found, NotKnown) or not found:
        return node_budget(machine.name, found, untold, untold)
    whole = memory.MEMORY.answer(machine.run(memory.MEMORY.command))
    users = gpus.PROCESSES.answer(machine.run(gpus.PROCESSES.command))
    return node_budget(machine.name, found, whole, users)

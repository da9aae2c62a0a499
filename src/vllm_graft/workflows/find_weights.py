# Every machine is asked what it has; the first that has the model whole is taken for the truth, and each other one is compared
# with it. Nothing is fetched and nothing is written.
"""Find out which machines have a model's weights, and what the others lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vllm_graft.errors import GraftError
from vllm_graft.fleet.weights.asking import (
    Found,
    ask_content,
    ask_files,
    ask_folder,
    ask_found,
    ask_headers,
    ask_staged,
    parse_files,
    parse_found,
    parse_headers,
)
from vllm_graft.fleet.weights.deciding import (
    Arrived,
    Lack,
    arrived,
    changed,
    commit_of,
    files_of,
    indexes,
    lack_of,
    nobody_has_it,
    paths_of,
    unreadable,
)
from vllm_graft.fleet.weights.layout import folder_of, shown, stored
from vllm_graft.fleet.weights.safetensors import SUFFIX, Shard, judge
from vllm_graft.run.machines import Machine
from vllm_graft.values.weights import ModelName, Weights

Hubs = Mapping[str, str]
"""Name of a machine → folder of its Hugging Face cache; the empty name stands for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one machine has of a model that another one has whole."""

    machine: Machine
    found: Found
    lack: Lack
    had: Arrived


def look_at(machine: Machine, name: ModelName, hubs: Hubs) -> Found:
    """Ask what a machine has.

    Raises:
        NodeError: E501 to E503, E507, E558.
    """
    hub = hubs.get(machine.name, hubs.get("", ""))
    return parse_found(machine.run(ask_found(name, hub)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A model that one machine has whole."""

    machine: Machine
    found: Found
    weights: Weights
    passed_over: tuple[tuple[str, str], ...]
    """(machine, why): those before it that have something of it and not all."""


def find_whole(
    name: ModelName,
    candidates: Sequence[tuple[Machine, Found]],
    failed: Mapping[str, GraftError],
) -> Whole:
    """Give the model as the first machine has it that has it whole; ``failed``: those that could not be asked.

    Raises:
        NodeError: E555, none has.
    """
    said: list[tuple[str, str]] = []
    for machine, found in candidates:
        try:
            held = hold_against_itself(machine, found, name)
        except GraftError as error:
            said.append((machine.name, error.what))
            continue
        if not held.problems:
            return Whole(
                machine=machine, found=found, weights=held.weights, passed_over=tuple(said)
            )
        if found.is_there:
            said.append((machine.name, "; ".join(held.problems)))
    absent = [
        (machine.name, f"nothing of it in {found.root}")
        for machine, found in candidates
        if not found.is_there
    ]
    unasked = [(machine, error.what) for machine, error in failed.items()]
    raise nobody_has_it(name, (*said, *absent, *unasked))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a machine has of a model, and what speaks against that being all of it."""

    weights: Weights
    problems: tuple[str, ...]
    shards: Mapping[str, Shard] = field(default_factory=dict[str, Shard])
    """Path in the model's folder → what the file says of itself."""
    indexes: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Path in the model's folder → content, of the lists of shards."""


def hold_against_itself(machine: Machine, found: Found, name: ModelName) -> Held:
    """Give what a machine has, held against what the files say themselves.

    Raises:
        NodeError: E501 to E503, E507, E558.
    """
    commit, reference = ("", "") if name.is_folder else commit_of(found, name)
    weights = Weights(name=name, commit=commit, reference=reference, files=())
    if not found.is_there:
        return Held(weights=weights, problems=("nothing of it",))
    if not name.is_folder and not commit:
        has = ", ".join([*found.references, *found.snapshots]) or "nothing of it"
        why = f"no revision {name.revision or 'main'} in {found.root}, but {has}"
        return Held(weights=weights, problems=(why,))
    folder = f"snapshots/{commit}" if commit else "."
    described = parse_files(machine.run(ask_folder(found.root, folder)))
    files = files_of(described, commit)
    shards = [shown(file, commit) for file in files if file.path.endswith(SUFFIX)]
    headers = parse_headers(machine.run(ask_headers(found.root, shards)))
    within = f"snapshots/{commit}/" if commit else ""
    place = folder_of(found.root, commit)
    told = {path.removeprefix(within): shard for path, shard in headers.items()}
    lists = {path: machine.run(ask_content(place, path)).stdout for path in indexes(files)}
    judged = judge({file.path: file.size for file in files}, told, lists)
    notes = tuple(
        f"{path} was changed on {machine.name} after it was downloaded; it is sent as it is there"
        for path in changed(files, described, commit)
    )
    weights = replace(weights, files=files, notes=(*judged.notes, *notes))
    problems = (*unreadable(described, commit), *judged.problems)
    return Held(weights=weights, problems=problems, shards=told, indexes=lists)


def compare(machine: Machine, found: Found, weights: Weights) -> Holding:
    """Find out what a machine lacks.

    Raises:
        NodeError: E501 to E503, E507, E558.
    """
    described = parse_files(machine.run(ask_files(found.root, paths_of(weights))))
    lack = lack_of(weights, described)
    paths = [stored(file, weights.commit) for file in lack.sent]
    staged = parse_files(machine.run(ask_staged(found.root, paths)))
    return Holding(machine=machine, found=found, lack=lack, had=arrived(weights, lack, staged))


def same_place(holdings: Sequence[tuple[Machine, Found]]) -> Mapping[str, str]:
    """Give the names that stand for a machine which has another name before: name → that other one."""
    firsts: dict[tuple[str, str], str] = {}
    doubles: dict[str, str] = {}
    for machine, found in holdings:
        first = firsts.setdefault((found.machine, found.root), machine.name)
        if first != machine.name:
            doubles[machine.name] = first
    return doubles

"""All that is to be said of nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vllm_graft.errors import GraftError
from vllm_graft.fleet.preflight.engine import judge_engine, judge_images, judge_same_images
from vllm_graft.fleet.preflight.fabric import judge_fabric
from vllm_graft.fleet.preflight.gpus import (
    judge_drivers,
    judge_gpus,
    judge_same_gpus,
    judge_use,
)
from vllm_graft.fleet.preflight.machines import judge_clocks, judge_machines
from vllm_graft.fleet.preflight.memory import judge_memory, judge_same_memory
from vllm_graft.fleet.preflight.network import (
    judge_names,
    judge_networks,
    judge_ports,
    judge_ways_out,
)
from vllm_graft.fleet.preflight.paths import judge_paths
from vllm_graft.fleet.preflight.room import judge_room
from vllm_graft.fleet.preflight.wanted import ALL, Seen, Wanted
from vllm_graft.values.doctor import NodeFinding, PathFacts, Verdict
from vllm_graft.values.probe import NotKnown

_RANK = {"note": 0, "review": 1, "blocked": 2}


def judge(
    nodes: Sequence[Seen],
    errors: Mapping[str, GraftError],
    paths: Sequence[PathFacts],
    wanted: Wanted,
) -> tuple[NodeFinding, ...]:
    """Give what would stop or is doubtful: notes first, what stops last.

    ``errors``: name of a node → what a verb that needs its engine would stop with.
    """
    serving = [node for node in nodes if node.serves]
    found = [*_each(nodes, errors, wanted), *judge_same_images(nodes, wanted)]
    found += [*judge_same_gpus(serving), *judge_same_memory(serving)]
    found += [*judge_machines(serving), *judge_clocks(nodes)]
    if len(serving) > 1:
        found += judge_paths(serving, paths)
    return ordered(found)


def ordered(findings: Sequence[NodeFinding]) -> tuple[NodeFinding, ...]:
    """Say once what is the same for each of several nodes, and put what stops last."""
    names: dict[NodeFinding, tuple[str, ...]] = {}
    for finding in findings:
        between = finding.nodes if len(finding.nodes) > 1 else ()
        key = replace(finding, nodes=between)
        names[key] = between or (*names.get(key, ()), *finding.nodes)
    told = [replace(finding, nodes=nodes) for finding, nodes in names.items()]
    return tuple(sorted(told, key=lambda finding: _RANK[finding.severity]))


def verdict_of(findings: Sequence[NodeFinding]) -> Verdict:
    """Sum findings up."""
    severities = {finding.severity for finding in findings}
    return "blocked" if "blocked" in severities else "review" if "review" in severities else "ok"


def _each(
    nodes: Sequence[Seen], errors: Mapping[str, GraftError], wanted: Wanted
) -> Iterator[NodeFinding]:
    several = sum(node.serves for node in nodes) > 1
    for node in nodes:
        yield from judge_engine(node, errors.get(node.name))
        yield from judge_images(node, nodes, wanted)
        yield from judge_room(node, nodes, wanted)
        if node.serves:
            yield from _to_serve(node, wanted, several=several)
        yield from _not_known(node)


def _to_serve(node: Seen, wanted: Wanted, *, several: bool) -> Iterator[NodeFinding]:
    yield from judge_gpus(node)
    yield from judge_drivers(node)
    if node.runs(wanted.deployment):
        yield _runs_already(node, wanted)
    else:
        yield from judge_use(node)
        yield from judge_memory(node, wanted)
        yield from judge_ports(node, wanted)
    yield from judge_networks(node)
    if several:
        yield from judge_names(node)
        yield from judge_ways_out(node)
        yield from judge_fabric(node)


def _runs_already(node: Seen, wanted: Wanted) -> NodeFinding:
    return node.finding(
        "N406",
        "note",
        ("up",),
        wanted="GPU, memory and port for what is to be served",
        found=f"{wanted.deployment} runs here already, and has them",
        remedy="nothing need be done: `up` finds what it has started; `vllm-graft down` ends it",
    )


def _not_known(node: Seen) -> Iterator[NodeFinding]:
    """Say what could not be judged (N404), where no other finding says it."""
    facts = node.facts
    asked: dict[str, object] = {
        "its kernel": facts.kernel,
        "its clock": facts.clock,
        **{f"the image {name}": each for name, each in facts.images.items()},
    }
    if not isinstance(facts.engine, NotKnown):
        asked["room for images"] = facts.space
    if node.serves:
        asked |= {
            "its memory": facts.memory,
            "the ports that are taken": facts.listeners,
            "its network interfaces": facts.interfaces,
            "its default route": facts.routes,
        }
    for what, each in asked.items():
        if isinstance(each, NotKnown):
            yield node.finding(
                "N404",
                "review",
                ALL,
                wanted=f"to know {what}",
                found=each.not_known,
                remedy="see why by hand, or go on without: nothing that depends on it was checked",
            )

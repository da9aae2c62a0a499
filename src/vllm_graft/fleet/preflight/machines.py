"""Whether nodes are several, and alike."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from vllm_graft.fleet.preflight.wanted import ALL, Seen
from vllm_graft.values.doctor import NodeFinding, Verb
from vllm_graft.values.finding import Severity
from vllm_graft.values.node_facts import ClockFacts, KernelFacts
from vllm_graft.values.probe import NotKnown

_CERTIFICATES, _LOG_LINES = 300_000, 2_000
"""Milliseconds: with which certificates and tokens are refused, and lines of two logs stand in the wrong order."""


def judge_machines(nodes: Sequence[Seen]) -> Iterator[NodeFinding]:
    """Say where two names are one machine (N402), and where nodes are not alike (N401, N211, N405)."""
    for first, second in combinations(nodes, 2):
        if (finding := _one_machine(first, second)) is not None:
            yield finding
    yield from _differ(
        nodes,
        "N401",
        "blocked",
        ("ship", "up"),
        lambda node: (
            node.facts.kernel.architecture if isinstance(node.facts.kernel, KernelFacts) else ""
        ),
        "one architecture: one image is to run everywhere",
        "serve on machines of one kind",
    )
    yield from _differ(
        nodes,
        "N211",
        "note",
        ("up",),
        lambda node: (
            node.facts.kernel.release if isinstance(node.facts.kernel, KernelFacts) else ""
        ),
        "one kernel everywhere",
        "bring the nodes to one state of updates, firmware too, should they behave differently",
    )
    yield from _differ(
        nodes,
        "N405",
        "note",
        ("up",),
        lambda node: "" if isinstance(node.facts.system, NotKnown) else node.facts.system,
        "one system everywhere",
        "bring the nodes to one state of updates, should they behave differently",
    )


def _one_machine(first: Seen, second: Seen) -> NodeFinding | None:
    one, other = first.facts, second.facts
    if not _gpus(first).isdisjoint(_gpus(second)):
        return _same(first, second, "blocked", "they see the same GPU")
    if isinstance(one.machine, NotKnown) or one.machine != other.machine:
        return None
    mine, its = _addresses(first), _addresses(second)
    if mine and mine == its:
        return _same(first, second, "blocked", "one kernel with the same addresses answers to both")
    return _same(first, second, "review", "one kernel answers to both, with addresses for each")


def _same(first: Seen, second: Seen, severity: Severity, found: str) -> NodeFinding:
    return NodeFinding(
        code="N402",
        severity=severity,
        nodes=(first.name, second.name),
        stops=("up",),
        wanted="two machines",
        found=found,
        remedy="name each machine once",
    )


def _gpus(node: Seen) -> frozenset[str]:
    gpus = node.facts.gpus
    return frozenset() if isinstance(gpus, NotKnown) else frozenset(gpu.uuid for gpu in gpus)


def _addresses(node: Seen) -> frozenset[str]:
    interfaces = node.facts.interfaces
    if isinstance(interfaces, NotKnown):
        return frozenset()
    return frozenset(
        each.address
        for interface in interfaces
        for each in interface.addresses
        if not each.address.startswith(("127.", "::1"))
    )


def _differ(  # noqa: PLR0913, PLR0917 (a row of a table)
    nodes: Sequence[Seen],
    code: str,
    severity: Severity,
    stops: tuple[Verb, ...],
    of: Callable[[Seen], str],
    wanted: str,
    remedy: str,
) -> Iterator[NodeFinding]:
    told = {node.name: text for node in nodes if (text := of(node))}
    if len(set(told.values())) > 1:
        yield NodeFinding(
            code=code,
            severity=severity,
            nodes=tuple(told),
            stops=stops,
            wanted=wanted,
            found="; ".join(f"{name}: {text}" for name, text in told.items()),
            remedy=remedy,
        )


def judge_clocks(nodes: Sequence[Seen]) -> Iterator[NodeFinding]:
    """Say where a clock is not that of this machine (N403)."""
    for node in nodes:
        told = node.facts.clock
        if not isinstance(told, ClockFacts):
            continue
        sure = abs(told.ahead) - told.error
        if sure <= _LOG_LINES:
            continue
        way = "ahead" if told.ahead > 0 else "behind"
        far = sure > _CERTIFICATES
        yield node.finding(
            "N403",
            "review" if far else "note",
            ALL if far else ("up",),
            wanted="the time of this machine",
            found=f"{abs(told.ahead) / 1000:,.1f} s {way}",
            remedy="sudo timedatectl set-ntp true"
            + (
                "; certificates and tokens are refused until then"
                if far
                else "; lines of two logs cannot be put in order until then"
            ),
        )

# Nothing is remembered anywhere: what there is, the engines say by the labels of containers, where the API listens, the head's
# container says by its words, and whether it serves, the API says with a completion. So it needs nothing of what `up` knew.
"""Say what is there of deployments, and whether it serves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from vllm_graft.cluster.containers import (
    MOST_LINES,
    FoundContainer,
    parse_log,
    read_log,
)
from vllm_graft.cluster.last_words import first_error
from vllm_graft.cluster.overview import SeenRank, seen_deployments, status_of, was_never
from vllm_graft.image.engine import Engine
from vllm_graft.rehearse.log_line import harmless
from vllm_graft.rehearse.signatures import Signature
from vllm_graft.run.console import Console
from vllm_graft.run.process import run_command
from vllm_graft.values.answered import Answered, answers
from vllm_graft.values.environment import Environment
from vllm_graft.values.log import LogEvent
from vllm_graft.values.status import StatusReport, UnansweredNode
from vllm_graft.workflows.ask_api import ask_apis
from vllm_graft.workflows.explain_log import read_signatures
from vllm_graft.workflows.fleet_engines import FleetEngines, fleet_engines
from vllm_graft.workflows.read_settings import nodes_of, read_settings
from vllm_graft.workflows.take_down import containers_on

_T = TypeVar("_T")

PATIENCE = timedelta(seconds=30)
"""That an engine has to say which containers it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """What the user asks of ``status``."""

    name: str = ""
    """Of the deployment; empty: every one on these nodes."""
    settings: str = ""
    """Path of a graft.toml; empty: the one in this folder, if there is one."""
    nodes: tuple[str, ...] = ()
    """As behind ``--node``; empty: those of the settings."""


def run_status(
    request: StatusRequest, *, environment: Environment, console: Console
) -> StatusReport:
    """Ask every node at the same time, then every API; a node that does not answer is told in the report.

    Raises:
        RequestError: E213, E219, E221 to E223, the settings.
    """
    nodes = nodes_of(read_settings(request.settings), request.nodes)
    signatures = read_signatures()
    with fleet_engines(nodes, environment.variables, without_lost=True) as fleet:
        console.tell(f"asking {', '.join(fleet.engines) or 'nobody'} for containers")
        asked = fleet.on_each(
            lambda node, engine: _seen(node, engine, request.name, fleet, signatures)
        )
        told = answers(asked)
        seen = seen_deployments([rank for _, ranks in told for rank in ranks])
        unanswered = (*unanswered_by(fleet.lost), *unanswered_by(asked))
        apis = ask_apis(seen, fleet)
    answered, lost = [name for name, _ in told], [each.name for each in unanswered]
    return StatusReport(
        name=request.name,
        nodes=tuple(answered),
        unanswered=unanswered,
        deployments=tuple(
            status_of(each, api, answered, lost) for each, api in zip(seen, apis, strict=True)
        ),
    )


def unanswered_by(asked: Sequence[Answered[_T]]) -> tuple[UnansweredNode, ...]:
    """Give the nodes that did not answer, and why."""
    return tuple(
        UnansweredNode(
            name=each.name, code=each.error.code, what=each.error.what, remedy=each.error.remedy
        )
        for each in asked
        if each.error is not None
    )


def _seen(
    node: str, engine: Engine, name: str, fleet: FleetEngines, signatures: Sequence[Signature]
) -> tuple[SeenRank, ...]:
    found = containers_on(engine, name, fleet.variables, PATIENCE)
    return tuple(_heard(node, engine, each, fleet, signatures) for each in found)


def _heard(
    node: str,
    engine: Engine,
    found: FoundContainer,
    fleet: FleetEngines,
    signatures: Sequence[Signature],
) -> SeenRank:
    """Read the last of what a rank said: of one that ended all that is needed to say why."""
    has_ended = not found.is_alive
    # What it said before it was started the last time ended another life of it.
    since = "" if was_never(found.started) else found.started
    command = read_log(engine, found.id, MOST_LINES if has_ended else 1, since)
    log = parse_log(run_command(command, variables=fleet.variables))
    cause = first_error(log, signatures) if has_ended else None
    return SeenRank(
        node=node,
        found=found,
        last=next((each for each in reversed(log) if each.strip()), ""),
        cause=_harmless(cause) if cause is not None else None,
    )


def _harmless(event: LogEvent) -> LogEvent:
    return replace(
        event,
        text=harmless(event.text),
        who=harmless(event.who),
        ranks=tuple(map(harmless, event.ranks)),
        cause=harmless(event.cause),
        remedy=harmless(event.remedy),
    )

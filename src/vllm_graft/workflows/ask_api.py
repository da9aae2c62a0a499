# Every deployment's API is asked at the same time, each through its own head, and each in its own time: one that hangs keeps no
# other from being told.
"""Ask the APIs of deployments whether they serve."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from vllm_graft.cluster.compose import reached_host
from vllm_graft.cluster.overview import SeenDeployment, api_place, served_name
from vllm_graft.cluster.ready import (
    COMPLETIONS_PATH,
    HEALTH_PATH,
    MODELS_PATH,
    NotServed,
    completion_request,
    listed_models,
    read_completion,
    read_models,
)
from vllm_graft.fleet.ssh import Connection, reach_port
from vllm_graft.image.engine import Engine
from vllm_graft.rehearse.log_line import harmless
from vllm_graft.run.endpoint import UNREACHED, Asking, Endpoint
from vllm_graft.run.watching import Watch, watched
from vllm_graft.values.status import ApiStatus
from vllm_graft.workflows.fleet_engines import FleetEngines

_EVERY = timedelta(seconds=1)
_SHORT = 15.0
"""Seconds that health and list of models may take: they ask no engine."""
_LONG = 60.0
"""Seconds that a completion of eight tokens may take, among the requests of others."""

_Told = tuple[int, ApiStatus]


def endpoint_at(engine: Engine, host: str, port: int, variables: Mapping[str, str]) -> Endpoint:
    """Give the way to a port of a machine that holds wherever it listens and whatever lies between: through the machine itself."""
    reached = reached_host(host)
    over = engine.over
    through = reach_port(over, reached, port) if isinstance(over, Connection) else None
    return Endpoint(host=reached, port=port, through=through, variables=variables)


def ask_apis(seen: Sequence[SeenDeployment], fleet: FleetEngines) -> tuple[ApiStatus | None, ...]:
    """Give what the API of each deployment answers; None where its head does not run, or was not found."""
    told: dict[int, ApiStatus] = {}
    askings: list[Asking] = []
    watchers: list[Callable[[Watch[_Told]], None]] = []
    for number, each in enumerate(seen):
        head = each.head
        if head is None or head.found.status != "running":
            continue
        place = api_place(head.found)
        if place is None:
            why = "the words of the head's container do not say where it listens"
            told[number] = _silent("", why)
            continue
        asking = Asking(endpoint_at(fleet.engines[head.node], *place, fleet.variables))
        askings.append(asking)
        watchers.append(partial(_ask, number, asking, served_name(head.found)))
    wanted = len(told) + len(watchers)
    with watched(watchers) as watch:
        try:
            while len(told) < wanted:
                if (news := watch.next(_EVERY)) is not None:
                    told[news[0]] = news[1]
        finally:
            for each in askings:
                each.leave()
    return tuple(told.get(number) for number in range(len(seen)))


def _ask(number: int, asking: Asking, name: str, watch: Watch[_Told]) -> None:
    watch.say((number, _asked(asking, name)))


def _asked(asking: Asking, name: str) -> ApiStatus:
    endpoint = asking.endpoint
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    address = harmless(f"http://{host}:{endpoint.port}")
    path, patience = HEALTH_PATH, _SHORT
    health: int | None = None
    models: tuple[str, ...] = ()
    try:
        health = asking.ask(path, patience=patience).status
        path = MODELS_PATH
        listed = asking.ask(path, patience=patience)
        models = tuple(map(harmless, listed_models(listed)))
        answer = read_models(listed, name)
        if not isinstance(answer, NotServed):
            path, patience = COMPLETIONS_PATH, _LONG
            reply = asking.ask(path, completion_request(answer), patience=patience)
            answer = read_completion(reply, answer)
        why = answer.why if isinstance(answer, NotServed) else ""
    except TimeoutError:
        why = f"{path} gave no answer in {patience:g} s"
    except UNREACHED as error:
        why = f"{path} was asked, and ended without an answer ({error!r})"
        if health is None:
            why = f"nobody answers there ({error!r})"
    return ApiStatus(
        address=address, health=health, models=models, completes=not why, told=harmless(why)
    )


def _silent(address: str, why: str) -> ApiStatus:
    return ApiStatus(address=address, health=None, models=(), completes=False, told=why)

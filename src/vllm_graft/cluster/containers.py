# State is labels on containers and nothing else: what a node has of a deployment is what its engine says it has.
"""What of a deployment is on a node, and how it is started, looked at and taken away."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from vllm_graft.cluster.launch import (
    DIGEST_LABEL,
    MEMBERS_LABEL,
    RANK_LABEL,
    RUN_LABEL,
)
from vllm_graft.cluster.stamped import parse_stamped
from vllm_graft.errors import NodeError
from vllm_graft.image.engine import DEPLOYMENT_LABEL, Engine
from vllm_graft.values.command import Command, Completed

GRACE = timedelta(seconds=30)
"""That a rank has to end by itself. vLLM 0.30 took 11 s for two ranks on CPUs."""

_STOPPING = GRACE + timedelta(minutes=1)
_LOOKING = timedelta(minutes=1)
_LISTING = timedelta(minutes=2)
MOST_LINES = 20_000
"""Of a log that are read at once, the last ones."""
_ALIVE = ("running", "paused", "restarting")
_SIGNALS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundContainer:
    """A container of a deployment."""

    id: str
    name: str
    deployment: str
    digest: str
    rank: int
    run: str
    nodes: tuple[str, ...]
    """All nodes of its deployment, by rank, as they were called where it was started."""
    status: str
    """As the engine calls it: ``created``, ``running``, ``exited`` and so on."""
    code: int
    """Exit status; 0 while it runs, and often where vLLM died too."""
    finished: str
    """When it ended, as its engine writes time; what never ran has a year of 1."""
    out_of_memory: bool
    error: str
    """What the engine says of its start."""
    started: str = ""
    """When it was last started, as its engine writes time; what never ran has a year of 1."""
    image: str = ""
    """Its name, as it was given when the container was made."""
    words: tuple[str, ...] = ()
    """What its entrypoint is given."""
    mounts: tuple[tuple[str, str], ...] = ()
    """Folder of the node and where the container sees it."""

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self.status in _ALIVE

    @property
    def told(self) -> str:
        """Say how it is."""
        more = f" ({self.error})" if self.error else ""
        if self.status == "created":
            return f"was never started{more}"
        if self.is_alive:
            return f"is {self.status}"
        if self.out_of_memory:
            return f"was ended by the kernel, since memory ran out{more}"
        if self.code > _SIGNALS:
            return f"was ended by signal {self.code - _SIGNALS}{more}"
        return f"ended with status {self.code}{more}"


def list_containers(engine: Engine, deployment: str, timeout: timedelta = _LISTING) -> Command:
    """Ask for the containers of a deployment, whatever their state; empty: of all deployments."""
    label = f"{DEPLOYMENT_LABEL}={deployment}" if deployment else DEPLOYMENT_LABEL
    return engine.command(
        *("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}"),
        why="see what is there of the deployment",
        timeout=timeout,
    )


def look_at(engine: Engine, containers: Sequence[str], timeout: timedelta = _LOOKING) -> Command:
    """Ask how containers are, by name or ID."""
    return engine.command(
        "container", "inspect", *containers, why="see how the ranks are", timeout=timeout
    )


def start_container(engine: Engine, name: str) -> Command:
    """Start a container that was made."""
    return engine.command("start", name, why=f"start {name}", timeout=timedelta(minutes=5))


def stop_containers(engine: Engine, containers: Sequence[str]) -> Command:
    """Ask containers to end, and end them after :data:`GRACE`."""
    seconds = str(round(GRACE.total_seconds()))
    return engine.command(
        *("stop", "--time", seconds, *containers), why="end what runs", timeout=_STOPPING
    )


def remove_containers(engine: Engine, containers: Sequence[str]) -> Command:
    """Remove containers with the volumes that the image asked for."""
    return engine.command("rm", "--force", "--volumes", *containers, why="leave nothing behind")


def read_log(
    engine: Engine, container: str, lines: int | None = MOST_LINES, since: str = ""
) -> Command:
    """Ask for the last lines of what a container said; ``since``: not before then; None: all of them.

    Source: Docker 20.10 to 28, daemon/logger/loggerutils: of the last lines, those are given that are not before ``since``.
    """
    return engine.command(
        *("logs", "--timestamps", "--tail", "all" if lines is None else str(lines)),
        *(("--since", since) if since else ()),
        container,
        why="see what it said last",
    )


def parse_ids(answer: Completed) -> tuple[str, ...]:
    """Read the answer to :func:`list_containers`."""
    return tuple(answer.stdout.decode().split())


def parse_containers(answer: Completed) -> tuple[FoundContainer, ...]:
    """Read the answer to :func:`look_at`, by rank; one that is gone since is not among them.

    Source: Docker 20.10 to 28 and podman 4: both print those that there are, and complain of the others on stderr.
    """
    told = cast("Sequence[Mapping[str, object]]", json.loads(answer.stdout or b"[]"))
    found = [one for each in told if (one := _container(each)) is not None]
    return tuple(sorted(found, key=lambda one: one.rank))


def _container(told: Mapping[str, object]) -> FoundContainer | None:
    state = cast("Mapping[str, object]", told["State"])
    config = cast("Mapping[str, object]", told["Config"])
    labels = cast("Mapping[str, str]", config.get("Labels") or {})
    if DEPLOYMENT_LABEL not in labels:
        return None
    rank = labels.get(RANK_LABEL, "")
    return FoundContainer(
        id=str(told["Id"]),
        name=str(told["Name"]).removeprefix("/"),
        deployment=labels[DEPLOYMENT_LABEL],
        digest=labels.get(DIGEST_LABEL, ""),
        rank=int(rank) if rank.isdecimal() else 0,
        run=labels.get(RUN_LABEL, ""),
        nodes=tuple(filter(None, labels.get(MEMBERS_LABEL, "").split(","))),
        status=str(state["Status"]),
        code=int(str(state.get("ExitCode") or 0)),
        finished=str(state.get("FinishedAt") or ""),
        out_of_memory=state.get("OOMKilled") is True,
        error=str(state.get("Error") or ""),
        started=str(state.get("StartedAt") or ""),
        image=str(config.get("Image") or ""),
        words=tuple(map(str, cast("Sequence[object]", config.get("Cmd") or ()))),
        mounts=tuple(_mounts(told)),
    )


def _mounts(told: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for each in cast("Sequence[Mapping[str, object]]", told.get("Mounts") or ()):
        yield str(each.get("Source") or ""), str(each.get("Destination") or "")


def parse_log(answer: Completed) -> tuple[str, ...]:
    """Read the answer to :func:`read_log`: what went to stdout and to stderr, in the order of time."""
    return tuple(each.text for each in parse_stamped(answer))


def is_name_taken(answer: Completed) -> bool:
    """Tell whether an engine made no container since another one has its name.

    Source: Docker 20.10 to 28 "Conflict. The container name … is already in use"; podman 4 "the container name … is already in use".
    """
    return b"already in use" in answer.stderr and b"name" in answer.stderr


def unmade(answer: Completed, engine: Engine, name: str, *, is_ours: bool) -> NodeError:
    """Say why a container was not made; ``is_ours``: what has its name, if something has, is of a deployment."""
    said = answer.last_lines(3) or f"it ended with status {answer.status}"
    if is_name_taken(answer):
        if is_ours:
            return NodeError(
                f"{engine.said} has a container {name} already, which came to be while this run looked elsewhere",
                remedy="another run of `up` may be at work: wait for its end, then run this again",
                code="E574",
            )
        return NodeError(
            f"{engine.said} has a container {name} already, which is of no deployment of vllm-graft",
            remedy=f"remove or rename it there ({engine.name} rename {name} OTHER), or say another [serve] name",
            code="E573",
        )
    return NodeError(
        f"{engine.said} did not make the container {name}: {said}",
        remedy=f"run it by hand to see more: {answer.command.by_hand}",
        code="E573",
    )


def unstarted(answer: Completed, engine: Engine, name: str) -> NodeError:
    """Say why a container was not started.

    Source: Docker 20.10 to 28 and podman 4 with runc and crun: "executable file not found"; NVIDIA container toolkit 1.17 and
    Docker without it: "could not select device driver", "nvidia-container-cli".
    """
    said = answer.last_lines(3) or f"it ended with status {answer.status}"
    low = said.lower()
    remedy = f"run it by hand to see more: {answer.command.by_hand}"
    if "executable file not found" in low:
        remedy = "the image has no `vllm` on its PATH: see `docker run --rm --entrypoint vllm IMAGE --version`"
    elif "device driver" in low or "nvidia-container" in low:
        remedy = (
            "its engine cannot hand out GPUs: install the NVIDIA container toolkit there and run"
            " `sudo nvidia-ctk runtime configure --runtime=docker`, then restart the engine"
        )
    return NodeError(
        f"{engine.said} did not start the container {name}: {said}", remedy=remedy, code="E573"
    )


def says_nothing_of_it(answer: Completed) -> bool:
    """Tell whether there is no such container.

    Source: Docker 20.10 to 28 "No such container"; podman 4 "no such container", "no container with name or ID".
    """
    said = answer.stderr.decode("utf-8", "replace").lower()
    return "no such container" in said or "no container with" in said


def unlisted(answer: Completed, engine: Engine) -> NodeError:
    """Say that an engine does not tell what it has."""
    return NodeError(
        f"{engine.said} does not say which containers it has: {answer.last_lines(3) or f'status {answer.status}'}",
        remedy=f"run it by hand to see more: {answer.command.by_hand}",
        code="E570",
    )


def unremoved(answer: Completed, engine: Engine, names: Sequence[str]) -> NodeError:
    """Say that containers are still there."""
    listed = " ".join(names)
    return NodeError(
        f"{engine.said} still has {listed}: {answer.last_lines(3) or 'it says that they are gone'}",
        remedy=f"remove them by hand: {engine.name} rm --force {listed}, then run this again",
        code="E580",
    )

# Reading an image starts nothing of it. Where the user wants its interpreter to be asked, these are the words: a program of
# the image, chosen by us, in place of its entrypoint; its health check is not run either.
"""Commands that run the interpreter of an image."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from vllm_graft.errors import SourceError
from vllm_graft.image.engine import ROLE_LABEL, Engine
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.image import ImageFacts

_LIMIT = timedelta(minutes=5)
_TIMED_OUT = 124
_HOME = "/tmp"  # noqa: S108 (in the container, of its own, and gone with it)
_VARIABLES = (
    f"HOME={_HOME}",
    f"HF_HOME={_HOME}/huggingface",
    "HF_HUB_OFFLINE=1",
    "TRANSFORMERS_OFFLINE=1",
    "PYTHONDONTWRITEBYTECODE=1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A program for an interpreter of an image, and what its container gets beside the image."""

    python: str
    """The interpreter, in the image."""
    program: bytes
    """Its text."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The user's; those that keep it from the network and from other folders stand above them."""
    volumes: tuple[str, ...] = ()
    """``PLACE:PLACE IN THE CONTAINER``; it may not write there."""
    megabytes: int = 64
    """Of the one folder that it may write into; taken from memory as it fills."""
    limit: timedelta = _LIMIT


def ask_machine(engine: Engine) -> Command:
    """Ask which machine its containers run on, as Go spells it."""
    why = "see which machine its containers run on"
    if engine.name == "podman":
        return engine.command("info", "--format", "{{.Host.Arch}}", why=why)
    return engine.command("version", "--format", "{{.Server.Arch}}", why=why)


def make_asking(engine: Engine, facts: ImageFacts, name: str, question: Question) -> Command:
    """Make a container that runs an interpreter of the image and nothing else of it.

    Its working directory is an empty one: Python looks there first for what a program on stdin imports.
    """
    given = [f"{name}={value}" for name, value in question.variables.items()]
    variables = [word for each in (*given, *_VARIABLES) for word in ("--env", each)]
    volumes = [word for each in question.volumes for word in ("--volume", f"{each}:ro")]
    return engine.command(
        *("create", "--rm", "--interactive", "--name", name, "--label", f"{ROLE_LABEL}=ask"),
        *("--pull", "never", "--network", "none", "--read-only", "--log-driver", "none"),
        *("--no-healthcheck", "--security-opt", "no-new-privileges"),
        *("--tmpfs", f"{_HOME}:rw,mode=1777,size={question.megabytes}m", "--workdir", _HOME),
        *(*variables, *volumes),
        *("--entrypoint", question.python, facts.reference, "-"),
        why=f"ask the interpreter of {facts.reference} (its entrypoint is not run)",
    )


def start_asking(engine: Engine, name: str, question: Question) -> Command:
    """Run it with a program on its stdin."""
    command = engine.command(
        *("start", "--attach", "--interactive", name),
        why="have the interpreter answer",
        timeout=question.limit,
    )
    return replace(command, stdin=question.program)


def is_gone(answer: Completed) -> bool:
    """Tell whether a container is no longer there, or about to be: --rm has removed it already.

    Source: Docker 20.10 "No such container", "removal of container … is already in progress"; podman 4 "no container with".
    """
    said = answer.stderr.decode("utf-8", "replace").lower()
    words = ("no such container", "no container with", "already in progress")
    return answer.passed or any(each in said for each in words)


def unanswered(answer: Completed, by: str) -> SourceError:
    """Say that the interpreter gave no answer."""
    said = answer.last_lines() or f"it ended with status {answer.status}"
    if answer.status == _TIMED_OUT:
        said = f"it was not done within {_LIMIT}"
    return SourceError(
        f"{by} gave no answer: {said}",
        remedy="Plan without --ask-base; what was read of the base then counts.",
        code="E336",
    )

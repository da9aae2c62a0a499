# What is said to an engine, and what its answers mean. The same words are understood by Docker 20.10 to 28 and podman 4;
# where they differ, it is said.
"""Commands for a container engine."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from vllm_graft.errors import BuildError, SourceError
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts

ROLE_LABEL = "vllm-graft.role"
"""On every container that this program makes, so that what a power cut left behind can be found."""
DEPLOYMENT_LABEL = "vllm-graft.deployment"
"""On those of them that serve a model: the name of what they are a part of."""

_QUICK = timedelta(minutes=2)
_SLOW = timedelta(minutes=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A way to a container engine."""

    program: str
    """Path of ``docker`` or ``podman``."""
    before: tuple[str, ...] = ()
    """Words before it: ``sudo -n`` where only root may use it."""
    node: str = ""
    """The machine that it is on; empty: this one."""
    over: Callable[[Command], Command] | None = None
    """Makes a command of the engine one that runs it there."""

    @property
    def name(self) -> str:
        """Give ``docker`` or ``podman``."""
        return self.program.rpartition("/")[2]

    @property
    def said(self) -> str:
        """Give ``docker``, or ``docker on spark1``."""
        return f"{self.name} on {self.node}" if self.node else self.name

    def command(self, *words: str, why: str, timeout: timedelta = _QUICK) -> Command:
        """Give a command of this engine."""
        own = Command(argv=(*self.before, self.program, *words), why=why, timeout=timeout)
        return own if self.over is None else self.over(own)


def ask_image(engine: Engine, reference: str) -> Command:
    """Ask what an image is."""
    return engine.command(
        "image", "inspect", "--", reference, why=f"see what the image {reference} is"
    )


def list_images(engine: Engine) -> Command:
    """Ask for the IDs of all images."""
    return engine.command("image", "ls", "--quiet", "--no-trunc", why="see which images there are")


def ask_images(engine: Engine, references: Sequence[str]) -> Command:
    """Ask what several images are."""
    return engine.command(
        "image", "inspect", "--", *references, why="see whether one of them is the base"
    )


def make_container(engine: Engine, facts: ImageFacts, name: str) -> Command:
    """Make a container whose files can be read; it is never started.

    The words behind the image are a command that no image has: without one, an image that has none itself is refused.
    With --platform an image for another machine is taken as it is (containerd's store demands it).
    """
    return engine.command(
        "create",
        "--name",
        name,
        "--label",
        f"{ROLE_LABEL}=read",
        "--network",
        "none",
        "--pull",
        "never",
        "--platform",
        facts.platform,
        facts.reference,
        "/never-started",
        why=f"read the files of {facts.reference} (the container is never started)",
    )


def copy_out(engine: Engine, container: str, place: str) -> Command:
    """Read what is at a place of a container, as an archive on stdout."""
    return engine.command("cp", f"{container}:{place}", "-", why=f"read {place}", timeout=_SLOW)


def copy_out_all(engine: Engine, container: str) -> Command:
    """Read all files of a container, as an archive on stdout."""
    return engine.command("export", container, why="read every file", timeout=_SLOW)


def ask_endpoint(engine: Engine) -> Command:
    """Ask where the daemon is that Docker's client talks to.

    Source: Docker 20.10 to 28: the context that holds, with DOCKER_HOST and DOCKER_CONTEXT taken into account.
    """
    return engine.command(
        "context",
        "inspect",
        "--format",
        "{{.Endpoints.docker.Host}}",
        why="see whether files can be read through its socket",
    )


def remove_container(engine: Engine, name: str) -> Command:
    """Remove a container with the volumes that the image asked for."""
    return engine.command("rm", "--force", "--volumes", name, why="leave nothing behind")


def load_archive(engine: Engine, tag: str) -> Command:
    """Take an image from an archive on stdin."""
    return engine.command("load", why=f"load {tag}", timeout=_SLOW)


def save_image(engine: Engine, tag: str) -> Command:
    """Give an image as an archive on stdout; ``tag``: with what stands behind the colon, or all images of the name are given."""
    form = ("--format", "docker-archive") if engine.name == "podman" else ()
    return engine.command("save", *form, tag, why=f"read {tag}", timeout=_SLOW)


def ask_history(engine: Engine, reference: str) -> Command:
    """Ask how large each step is that an image was made in."""
    return engine.command(
        *("history", "--no-trunc", "--human=false", "--format", "{{.Size}}", reference),
        why=f"see how large the layers of {reference} are",
    )


def parse_history(answer: Completed) -> tuple[int, ...]:
    """Read the answer to :func:`ask_history`: bytes, the last step first; nothing where it is not told."""
    words = answer.stdout.decode("utf-8", "replace").split()
    if not answer.passed or not all(word.isdecimal() for word in words):
        return ()
    return tuple(map(int, words))


def unremoved(answer: Completed, name: str) -> SourceError:
    """Say that a container is still there."""
    return SourceError(
        f"the container {name} could not be removed: {answer.last_lines()}",
        remedy=f"Remove it by hand: {answer.command.by_hand}",
        code="E335",
    )


def untold(engine: Engine, reference: str) -> SourceError:
    """Say that an engine's client was run and nothing was heard of how that ended."""
    return SourceError(
        f"{engine.said} did not say what {reference} is, nor whether a container of it can be made",
        remedy=f"Run `{engine.name} image inspect {reference}` there to see more.",
        code="E334",
    )


def name_image(engine: Engine, reference: str, name: str) -> Command:
    """Give an image one name more."""
    return engine.command("tag", reference, name, why=f"keep {reference} as {name}")


def forget_name(engine: Engine, name: str) -> Command:
    """Take a name away; the image goes with its last one."""
    return engine.command("image", "rm", name, why=f"take the name {name} away")


def load_refusal(answer: Completed, engine: Engine, tag: str) -> BuildError | None:
    """Say why an engine did not take an image; None where it says that it did.

    Source: Docker 28.5 with containerd's store ends with status 0 and "Error unpacking image" where the base is absent,
    and leaves a name on an image that cannot run.
    """
    said = (answer.stdout + answer.stderr).decode("utf-8", "replace")
    if answer.passed and "error unpacking" not in said.lower():
        return None
    last = "\n".join(said.strip().splitlines()[-5:])
    remedy = f"Nothing is named {tag}. See the engine's log and its free disk space, then run this again."
    if any(
        words in said.lower() for words in ("no such file", "not found", "unpacking", "payload")
    ):
        how = f" (vllm-graft ship BASE {engine.node})" if engine.node else ""
        remedy = f"The base is not in {engine.said}: load or pull it there first{how}, then run this again."
    return BuildError(
        f"{engine.said} did not take {tag}: {last or f'it ended with status {answer.status}'}",
        remedy=remedy,
        code="E421",
    )


def is_absent(answer: Completed) -> bool:
    """Tell whether ``cp`` failed because there is nothing at this place.

    Source: Docker 20.10 "No such container:path", 23 to 28 "Could not find the file"; podman 4 "could not be found".
    """
    return says_absent(answer.stderr.decode("utf-8", "replace"))


def says_absent(said: str) -> bool:
    """Tell whether an engine says that there is nothing at a place."""
    low = said.lower()
    return any(
        words in low
        for words in (
            "no such container:path",
            "could not find the file",
            "could not be found",
            "no such file",
            "not a directory",
        )
    )


def parse_inspection(answer: Completed, engine: Engine, reference: str) -> ImageFacts:
    """Read the answer to :func:`ask_image`.

    Raises:
        SourceError: E331 to E334.
    """
    if not answer.passed:
        raise refusal(answer, engine, reference)
    try:
        (told,) = cast("Sequence[Mapping[str, object]]", json.loads(answer.stdout))
        return _facts(told, reference)
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{engine.said} told of {reference} in a form that is not known: {error}",
            remedy="Save the image (`docker save IMAGE -o FILE`) and give archive:FILE.",
            code="E334",
        ) from error


def parse_inspections(answer: Completed) -> tuple[ImageFacts, ...]:
    """Read the answer to :func:`ask_images`; what is not understood, or gone since, is left out."""
    try:
        told = cast("Sequence[Mapping[str, object]]", json.loads(answer.stdout or b"[]"))
    except ValueError:
        return ()
    found: list[ImageFacts] = []
    for each in told:
        names = cast("Sequence[str]", each.get("RepoTags") or ())
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found.append(_facts(each, names[0] if names else str(each["Id"])))
    return tuple(found)


def _facts(told: Mapping[str, object], reference: str) -> ImageFacts:
    rootfs = cast("Mapping[str, Sequence[str]]", told["RootFS"])
    return ImageFacts(
        reference=reference,
        architecture=str(told["Architecture"]),
        system=str(told["Os"]),
        variant=str(told.get("Variant") or ""),
        settings=cast("Mapping[str, object]", told.get("Config") or {}),
        layers=tuple(Digest.parse(layer) for layer in rootfs.get("Layers") or ()),
    )


def refusal(answer: Completed, engine: Engine, reference: str) -> SourceError:
    """Say why an engine did not do what it was asked.

    Source: the words of Docker 20.10 to 28 and podman 4.3.
    """
    said = answer.last_lines()
    low = said.lower()
    if answer.status == 127:  # noqa: PLR2004 (as a shell)
        return no_engine()
    if "permission denied" in low:
        return SourceError(
            f"{engine.said} may not be used by this user: {said}",
            remedy="Join the group of its socket (sudo usermod -aG docker $USER, then log in again), run this as root,"
            " or use podman.",
            code="E332",
        )
    if any(
        words in low for words in ("cannot connect", "connection refused", "is the docker daemon")
    ):
        return SourceError(
            f"{engine.said} does not answer: {said}",
            remedy="Start it (sudo systemctl start docker), or see DOCKER_HOST and `docker context ls`.",
            code="E331",
        )
    if any(words in low for words in ("no such image", "not known", "no such object", "not found")):
        there = " there" if engine.node else ""
        return SourceError(
            f"{engine.said} has no image {reference}",
            remedy=f"See `{engine.name} image ls`; fetch it with `{engine.name} pull {reference}`{there}.",
            code="E333",
        )
    return SourceError(
        f"{engine.said} refused {reference}: {said or f'it ended with status {answer.status}'}",
        remedy=f"Run it by hand to see more: {answer.command.by_hand}",
        code="E334",
    )


def no_engine() -> SourceError:
    """Say that there is neither Docker nor podman."""
    return SourceError(
        "there is neither docker nor podman on the PATH",
        remedy="Install one of them, or give the image as archive:FILE or oci:DIR.",
        code="E330",
    )

# What is said to an engine, and what its answers mean. The same words are understood by Docker 20.10 to 28 and podman 4;
# where they differ, it is said.
"""Commands for a container engine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from vllm_graft.errors import BuildError, SourceError
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts

ROLE_LABEL = "vllm-graft.role"
"""On every container that this program makes, so that what a power cut left behind can be found."""

_QUICK = timedelta(minutes=2)
_SLOW = timedelta(minutes=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A way to a container engine."""

    program: str
    """Path of ``docker`` or ``podman``."""

    @property
    def name(self) -> str:
        """Give ``docker`` or ``podman``."""
        return self.program.rpartition("/")[2]

    def command(self, *words: str, why: str, timeout: timedelta = _QUICK) -> Command:
        """Give a command of this engine."""
        return Command(argv=(self.program, *words), why=why, timeout=timeout)


def ask_image(engine: Engine, reference: str) -> Command:
    """Ask what an image is."""
    return engine.command(
        "image", "inspect", "--", reference, why=f"see what the image {reference} is"
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


def remove_container(engine: Engine, name: str) -> Command:
    """Remove a container with the volumes that the image asked for."""
    return engine.command("rm", "--force", "--volumes", name, why="leave nothing behind")


def load_archive(engine: Engine, tag: str) -> Command:
    """Take an image from an archive on stdin."""
    return engine.command("load", why=f"load {tag}", timeout=_SLOW)


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
        remedy = (
            f"The base is not in {engine.name}: load or pull it there first, then run this again."
        )
    return BuildError(
        f"{engine.name} did not take {tag}: {last or f'it ended with status {answer.status}'}",
        remedy=remedy,
        code="E421",
    )


def is_absent(answer: Completed) -> bool:
    """Tell whether ``cp`` failed because there is nothing at this place.

    Source: Docker 20.10 "No such container:path", 23 to 28 "Could not find the file"; podman 4 "could not be found".
    """
    said = answer.stderr.decode("utf-8", "replace").lower()
    return any(
        words in said
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
        rootfs = cast("Mapping[str, Sequence[str]]", told["RootFS"])
        return ImageFacts(
            reference=reference,
            architecture=str(told["Architecture"]),
            system=str(told["Os"]),
            variant=str(told.get("Variant") or ""),
            settings=cast("Mapping[str, object]", told.get("Config") or {}),
            layers=tuple(Digest.parse(layer) for layer in rootfs.get("Layers") or ()),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{engine.name} told of {reference} in a form that is not known: {error}",
            remedy="Save the image (`docker save IMAGE -o FILE`) and give archive:FILE.",
            code="E334",
        ) from error


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
            f"{engine.name} may not be used by this user: {said}",
            remedy="Join the group of its socket (sudo usermod -aG docker $USER, then log in again), run this as root,"
            " or use podman.",
            code="E332",
        )
    if any(
        words in low for words in ("cannot connect", "connection refused", "is the docker daemon")
    ):
        return SourceError(
            f"{engine.name} does not answer: {said}",
            remedy="Start it (sudo systemctl start docker), or see DOCKER_HOST and `docker context ls`.",
            code="E331",
        )
    if any(words in low for words in ("no such image", "not known", "no such object", "not found")):
        return SourceError(
            f"{engine.name} has no image {reference}",
            remedy=f"See `{engine.name} image ls`; fetch it with `{engine.name} pull {reference}`.",
            code="E333",
        )
    return SourceError(
        f"{engine.name} refused {reference}: {said or f'it ended with status {answer.status}'}",
        remedy=f"Run it by hand to see more: {' '.join(answer.command.argv)}",
        code="E334",
    )


def no_engine() -> SourceError:
    """Say that there is neither Docker nor podman."""
    return SourceError(
        "there is neither docker nor podman on the PATH",
        remedy="Install one of them, or give the image as archive:FILE or oci:DIR.",
        code="E330",
    )

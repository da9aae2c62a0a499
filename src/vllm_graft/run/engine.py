# Nothing of an image is started to read it: a container is made, its files are copied out, and it is removed, whatever
# happens in between. It is named before it is made, so that it can be removed also where nobody heard that it was made.
"""Asking a container engine."""

import shutil
import tarfile
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from vllm_graft.errors import SourceError
from vllm_graft.image.engine import (
    Engine,
    ask_image,
    copy_out,
    copy_out_all,
    forget_name,
    is_absent,
    load_archive,
    load_refusal,
    make_container,
    name_image,
    no_engine,
    parse_inspection,
    refusal,
    remove_container,
)
from vllm_graft.image.entries import LayerEntry
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.layers import damaged, scan_archive
from vllm_graft.run.process import run_command, run_fed, talking_command
from vllm_graft.values.command import Command
from vllm_graft.values.image import ImageFacts


def find_engine(variables: Mapping[str, str]) -> Engine:
    """Give Docker, or podman where there is no Docker.

    Raises:
        SourceError: E330, there is neither.
    """
    for name in ("docker", "podman"):
        if (found := shutil.which(name, path=variables.get("PATH", ""))) is not None:
            return Engine(program=found)
    raise no_engine()


def inspect_image(engine: Engine, reference: str, variables: Mapping[str, str]) -> ImageFacts:
    """Ask what an image is.

    Raises:
        SourceError: E331 to E334.
    """
    answer = run_command(ask_image(engine, reference), variables=variables)
    return parse_inspection(answer, engine, reference)


def find_image(engine: Engine, reference: str, variables: Mapping[str, str]) -> ImageFacts | None:
    """Ask what an image is; None where there is none of this name.

    Raises:
        SourceError: E331, E332, E334.
    """
    try:
        return inspect_image(engine, reference, variables)
    except SourceError as error:
        if error.code == "E333":
            return None
        raise


def load_image(
    engine: Engine, tag: str, pieces: Iterable[bytes], variables: Mapping[str, str]
) -> None:
    """Hand an engine an archive.

    Raises:
        BuildError: E421, it did not take it.
    """
    answer = run_fed(load_archive(engine, tag), pieces, variables=variables)
    if (error := load_refusal(answer, engine, tag)) is not None:
        raise error


def give_name(engine: Engine, reference: str, name: str, variables: Mapping[str, str]) -> None:
    """Give an image one name more.

    Raises:
        SourceError: E331 to E334.
    """
    answer = run_command(name_image(engine, reference, name), variables=variables)
    if not answer.passed:
        raise refusal(answer, engine, reference)


def take_name(engine: Engine, name: str, variables: Mapping[str, str]) -> None:
    """Take a name away, if it is there."""
    run_command(forget_name(engine, name), variables=variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFiles:
    """The files of a container, part by part: a :class:`vllm_graft.image.tree.Supply`."""

    engine: Engine
    name: str
    variables: Mapping[str, str]

    def one(self, place: str) -> Iterable[LayerEntry]:
        """Give what is at this place, without what is in it; nothing where nothing is.

        Raises:
            SourceError: E334, the engine refused.
        """
        return self._read(copy_out(self.engine, self.name, place), place, most=1)

    def all(self, place: str) -> Iterable[LayerEntry]:
        """Give this folder with everything in it.

        Raises:
            SourceError: E334, the engine refused.
        """
        if place == "/":
            return self._read(copy_out_all(self.engine, self.name), "/", most=None)
        return self._read(copy_out(self.engine, self.name, place), place, most=None)

    def _read(self, command: Command, place: str, *, most: int | None) -> tuple[LayerEntry, ...]:
        extra: frozenset[str] = frozenset()
        while True:
            found, missing = self._read_once(command, place, most, extra)
            if not missing:
                return found
            extra |= missing

    def _read_once(
        self, command: Command, place: str, most: int | None, extra: frozenset[str]
    ) -> tuple[tuple[LayerEntry, ...], frozenset[str]]:
        where = f"{place} in {self.name}"
        with talking_command(command, variables=self.variables) as talking:
            try:
                found = scan_archive(
                    talking.stdout,
                    where=where,
                    extra=extra,
                    below=place.rpartition("/")[0].lstrip("/"),
                    most=most,
                )
            except tarfile.TarError as error:
                answer = talking.ended()
                if is_absent(answer):
                    return (), frozenset()
                if answer.passed:
                    raise damaged(where, error) from error
                raise refusal(answer, self.engine, where) from error
            if most is None and not (answer := talking.ended()).passed:
                raise refusal(answer, self.engine, where)
            return found


@contextmanager
def container_files(
    engine: Engine, facts: ImageFacts, variables: Mapping[str, str]
) -> Generator[ContainerFiles]:
    """Make a container of an image, and leave nothing of it behind, also after Ctrl-C.

    Raises:
        SourceError: E331 to E334.
    """
    name = f"vllm-graft-read-{uuid.uuid4().hex[:12]}"
    made = False
    try:
        with held_interrupts():
            answer = run_command(make_container(engine, facts, name), variables=variables)
            made = answer.passed
        if not answer.passed:
            raise refusal(answer, engine, facts.reference)
        yield ContainerFiles(engine=engine, name=name, variables=variables)
    finally:
        with held_interrupts():
            gone = run_command(remove_container(engine, name), variables=variables)
        if made and not gone.passed:
            raise SourceError(
                f"the container {name} could not be removed: {gone.last_lines()}",
                remedy=f"Remove it by hand: {' '.join(gone.command.argv)}",
                code="E335",
            )

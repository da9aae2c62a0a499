# Nothing of an image is started to read it: a container is made, its files are copied out, and it is removed, whatever
# happens in between. It is named before it is made, so that it can be removed also where nobody heard that it was made.
"""Asking a container engine."""

import contextlib
import shutil
import tarfile
import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from http.client import HTTPException

from vllm_graft.errors import NodeError, SourceError
from vllm_graft.fleet.engine import (
    ask_whether_usable,
    is_for_root_only,
    no_engine_there,
    unusable_there,
)
from vllm_graft.fleet.ssh import Connection
from vllm_graft.fleet.together import parse_together, together
from vllm_graft.image.asking import Question, is_gone, make_asking, start_asking
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
    unremoved,
    untold,
)
from vllm_graft.image.entries import LayerEntry
from vllm_graft.run.clock import Stopwatch, wait
from vllm_graft.run.compression import PIECE, Readable
from vllm_graft.run.connection import connected
from vllm_graft.run.engine_socket import EngineSocket, engine_socket
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.layers import damaged, scan_archive, scan_some
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import run_command, run_fed, talking_command
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node import Node

_NOT_FOUND = 127
"""What a shell gives where the program does not exist."""

_STARTING, _BETWEEN = timedelta(seconds=45), timedelta(seconds=0.5)
"""How long an engine that does not answer is waited for, and how often it is asked."""

_SOME = 1 << 29
"""Bytes of a working directory that are read for the names in it: one may hold the weights of a model."""


def find_engine(variables: Mapping[str, str]) -> Engine:
    """Give Docker, or podman where there is no Docker.

    Raises:
        SourceError: E330, there is neither.
    """
    for name in ("docker", "podman"):
        if (found := shutil.which(name, path=variables.get("PATH", ""))) is not None:
            return Engine(program=found)
    raise no_engine()


@contextlib.contextmanager
def engine_at(node: Node | None, variables: Mapping[str, str]) -> Generator[Engine]:
    """Give the engine of this machine, or that of a node, for as long as the block.

    Raises:
        SourceError: E330, there is none here.
        NodeError: E500 to E507.
    """
    if node is None:
        yield find_engine(variables)
        return
    with connected(node, variables) as connection:
        yield _find_engine_there(connection, variables)


def engine_of(machine: Machine) -> Engine:
    """Give the engine of a machine.

    Raises:
        SourceError: E330, there is none here.
        NodeError: E500 to E507.
    """
    if machine.connection is None:
        return find_engine(machine.variables)
    return _find_engine_there(machine.connection, machine.variables)


def _find_engine_there(connection: Connection, variables: Mapping[str, str]) -> Engine:
    for name in ("docker", "podman"):
        engine = Engine(program=name, node=connection.node.name, over=connection)
        answer = run_command(ask_whether_usable(engine), variables=variables)
        if answer.passed:
            return engine
        if is_for_root_only(answer):
            by_root = replace(engine, before=("sudo", "-n"))
            again = run_command(ask_whether_usable(by_root), variables=variables)
            if again.passed:
                return by_root
        if answer.status != _NOT_FOUND:
            raise unusable_there(answer, engine)
    raise no_engine_there(connection.node.name)


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


def give_back_name(engine: Engine, kept: str, name: str, variables: Mapping[str, str]) -> None:
    """Give an image, which is kept under another name, the one back that it had; whatever has that name loses it.

    An engine that does not answer may be on its way up again, which is why this has to be done: it is waited for.

    Raises:
        SourceError: E331 to E334.
        NodeError: E501 to E503, E507.
    """
    begun = Stopwatch()
    while True:
        try:
            give_name(engine, kept, name, variables)
        except SourceError as error:
            # What an engine says that goes down in the middle of an answer, is not in words of its own: E334.
            if error.code not in ("E331", "E334") or begun.passed > _STARTING:
                raise
        else:
            break
        wait(_BETWEEN)
    take_name(engine, kept, variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFiles:
    """The files of a container, part by part: a :class:`vllm_graft.image.tree.Supply`."""

    engine: Engine
    name: str
    variables: Mapping[str, str]
    socket: EngineSocket | None = None
    """A shorter way to the same files; None: there is none."""

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

    def some(self, place: str) -> tuple[Iterable[LayerEntry], bool]:
        """Give what of this folder comes within :data:`_SOME` bytes, and whether that is all.

        Raises:
            SourceError: E334, the engine refused.
        """
        if place == "/":
            return (), False
        command = copy_out(self.engine, self.name, place)
        where = f"{place} in {self.name}"
        with talking_command(command, variables=self.variables) as talking:
            try:
                entries, is_all = scan_some(
                    talking.stdout,
                    where=where,
                    below=place.rpartition("/")[0].lstrip("/"),
                    limit=_SOME,
                )
            except tarfile.TarError as error:
                raise refusal(talking.ended(), self.engine, where) from error
            if is_all and not (answer := talking.ended()).passed:
                raise refusal(answer, self.engine, where)
            return entries, is_all

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
        if self.socket is not None and place != "/":
            try:
                with self.socket.archive(self.name, place) as stream:
                    found = _scan(stream, place, where, most, extra)
                    while most is None and stream.read(PIECE):
                        pass  # what broke off says so at its end
                    return found
            except FileNotFoundError:
                return (), frozenset()
            except (OSError, HTTPException, tarfile.TarError):
                pass  # the client is asked, and says what is wrong
        with talking_command(command, variables=self.variables) as talking:
            try:
                found = _scan(talking.stdout, place, where, most, extra)
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


def try_image(
    engine: Engine, wanted: ImageFacts, machine: Machine
) -> tuple[ImageFacts | None, SourceError | None]:
    """Ask a machine's engine for an image, and for a container of it, which is not started and removed again.

    Gives what the image is, None where there is none of this name; and why no container of it can be made.

    Raises:
        SourceError: E331, E332, E334, the engine does not answer; E335, the container is still there.
    """
    name = f"vllm-graft-try-{uuid.uuid4().hex[:12]}"
    there = replace(engine, over=None)
    asked = (
        ask_image(there, wanted.reference),
        make_container(there, wanted, name),
        remove_container(there, name),
    )
    command = together(asked, why=f"see that {wanted.reference} is there and can be used")
    with held_interrupts():
        try:
            answers = parse_together(machine.run(command), asked)
        except NodeError:
            with contextlib.suppress(NodeError):
                run_command(remove_container(engine, name), variables=machine.variables)
            raise
    if not answers:
        run_command(remove_container(engine, name), variables=machine.variables)
        raise untold(engine, wanted.reference)
    inspected, made, gone = answers
    if made.passed and not gone.passed:
        raise unremoved(gone, name)
    try:
        found = parse_inspection(inspected, engine, wanted.reference)
    except SourceError as error:
        if error.code == "E333":
            return None, None
        raise
    return found, None if made.passed else refusal(made, engine, wanted.reference)


def run_inside(
    engine: Engine, facts: ImageFacts, question: Question, variables: Mapping[str, str]
) -> Completed:
    """Run a program by an interpreter of an image; nothing of the container is left behind, also after Ctrl-C.

    Raises:
        SourceError: E331 to E335.
    """
    name = f"vllm-graft-ask-{uuid.uuid4().hex[:12]}"
    # Made and started apart: what is being made while its client is ended might come to be after it was removed.
    making = make_asking(engine, facts, name, question)
    with _made_container(engine, facts, name, making, variables):
        return run_command(start_asking(engine, name, question), variables=variables)


@contextlib.contextmanager
def _made_container(
    engine: Engine, facts: ImageFacts, name: str, making: Command, variables: Mapping[str, str]
) -> Generator[None]:
    """Make a container, and remove it whatever happens."""
    made = False
    try:
        with held_interrupts():
            answer = run_command(making, variables=variables)
            made = answer.passed
        if not made:
            raise refusal(answer, engine, facts.reference)
        yield
    finally:
        with held_interrupts():
            gone = run_command(remove_container(engine, name), variables=variables)
        # One that the engine removes by itself once it has ended may be gone already.
        is_removed = is_gone(gone) if "--rm" in making.argv else gone.passed
        if made and not is_removed:
            raise unremoved(gone, name)


def _scan(
    stream: Readable, place: str, where: str, most: int | None, extra: frozenset[str]
) -> tuple[tuple[LayerEntry, ...], frozenset[str]]:
    below = place.rpartition("/")[0].lstrip("/")
    return scan_archive(stream, where=where, extra=extra, below=below, most=most)


@contextlib.contextmanager
def container_files(
    engine: Engine, facts: ImageFacts, variables: Mapping[str, str]
) -> Generator[ContainerFiles]:
    """Make a container of an image, and leave nothing of it behind, also after Ctrl-C.

    Raises:
        SourceError: E331 to E334.
    """
    name = f"vllm-graft-read-{uuid.uuid4().hex[:12]}"
    making = make_container(engine, facts, name)
    with _made_container(engine, facts, name, making, variables):
        yield ContainerFiles(
            engine=engine,
            name=name,
            variables=variables,
            socket=engine_socket(engine, tuple(sorted(variables.items()))),
        )

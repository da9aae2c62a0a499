# The only importer of subprocess. A child gets its own session, so that Ctrl-C and time-outs can end it together with its
# own children. What is run on a node does not end with the ssh that started it: it has a name there, and is ended by that.
# Nor do its pipes, which that ssh has handed to the one that holds the connection: who waits for them waits for the node.
"""Running one command."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import BufferedReader
from typing import IO, BinaryIO, cast

from vllm_graft.fleet.ssh import asking_nobody, end_all, end_named, named
from vllm_graft.fleet.unreached import never_began, was_lost
from vllm_graft.run.compression import PIECE
from vllm_graft.run.interrupts import held_interrupts, is_held, obey_interrupt
from vllm_graft.values.command import Command, Completed

_TIMED_OUT = 124
"""What coreutils' ``timeout`` gives."""
_NOT_FOUND = 127
"""What a shell gives where the program does not exist."""
_A_MOMENT = 1.0
"""Seconds in which a program on a node notices that nobody reads it any more."""

_Process = subprocess.Popen[bytes]


class _NotStartedError(OSError):
    """There is no such program, or it may not be run."""


@dataclass(slots=True)
class _Running:
    """A command that was started."""

    command: Command
    child: _Process
    variables: Mapping[str, str]
    name: str
    """Which it has on its node."""
    is_ended: bool = False
    ending: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> None:
        """End it, here and on its node, or wait until another thread has."""
        with held_interrupts(), self.ending:
            if self.is_ended or self.child.returncode is not None:
                return
            self.is_ended = True
            _kill(self.child)
            # A node that does not even do this is given up. It ends itself what was begun there: see fleet/ssh.py.
            if self.command.node and not self._passes(end_named(self.command, self.name)):
                self._passes(end_all(self.command))

    def _passes(self, command: Command) -> bool:
        assert command.timeout is not None, "Ctrl-C waits for it"
        try:
            ended = subprocess.run(
                command.argv,
                env=dict(self.variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=command.timeout.total_seconds(),
                start_new_session=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return ended.returncode == 0


_ENDABLE: dict[int, _Running] = {}
"""Process ID → what Ctrl-C ends: not what undoes something."""
_CHANGING = threading.Lock()


def end_children() -> None:
    """End everything that runs, also what other threads wait for: these then hear of Ctrl-C, where it was passed on."""
    with _CHANGING:
        found = tuple(_ENDABLE.values())
    with ThreadPoolExecutor(max(len(found), 1)) as pool:
        for _ in pool.map(_Running.end, found):
            pass


@contextlib.contextmanager
def _running(
    command: Command,
    variables: Mapping[str, str],
    *,
    stdin: int = subprocess.PIPE,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Generator[_Running]:
    """Start a command; it is ended where the block is left by an exception.

    Raises:
        OSError: there is no such program.
    """
    name = f"vllm-graft-{uuid.uuid4().hex}"
    sent = named(command, name) if command.node else command
    obey_interrupt()
    running: _Running | None = None
    try:
        with held_interrupts():
            try:
                child = subprocess.Popen(
                    sent.argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    env=dict(asking_nobody(command, variables)),
                    start_new_session=True,
                )
            except OSError as error:
                raise _NotStartedError(error.errno, error.strerror) from error
            running = _Running(command, child, variables, name)
        if not is_held():
            with _CHANGING:
                _ENDABLE[running.child.pid] = running
        obey_interrupt()  # it may have come before this child was known
        yield running
        obey_interrupt()  # it may be why this child has ended
    except BaseException:
        if running is not None:
            running.end()
            running.child.wait()
        raise
    finally:
        if running is not None:
            with _CHANGING:
                _ENDABLE.pop(running.child.pid, None)
            for stream in (running.child.stdin, running.child.stdout, running.child.stderr):
                with contextlib.suppress(OSError):
                    if stream is not None:
                        stream.close()


def run_command(command: Command, *, variables: Mapping[str, str]) -> Completed:
    """Run it to its end and give what it said; never raises for a failing command.

    Raises:
        NodeError: E500 to E503, E507, the node that it is for was not reached, or was lost.
    """
    started = time.monotonic()
    limit = command.timeout.total_seconds() if command.timeout else None
    try:
        with _running(command, variables) as running:
            try:
                stdout, stderr = running.child.communicate(command.stdin, timeout=limit)
                status = running.child.returncode
            except subprocess.TimeoutExpired:
                running.end()
                stdout, stderr = running.child.communicate()
                stderr += _too_slow(command)
                status = _TIMED_OUT
    except _NotStartedError as error:
        stdout, stderr, status = b"", _no_program(command, error), _NOT_FOUND
    took = timedelta(seconds=time.monotonic() - started)
    return _on_its_node(
        Completed(command=command, status=status, stdout=stdout, stderr=stderr, took=took)
    )


@dataclass(slots=True)
class Talking:
    """A command whose output is read while it runs."""

    command: Command
    stdout: BinaryIO
    _running: _Running
    _complaints: BinaryIO
    _patience: "_Patience"

    def pieces(self) -> Iterator[bytes]:
        """Give what is said as soon as it is said; its time counts from the last word."""
        said = cast("BufferedReader", self.stdout)
        while piece := said.read1(PIECE):
            self._patience.last = time.monotonic()
            yield piece

    def ended(self) -> Completed:
        """Wait for its end; what it said on stdout is not repeated.

        Raises:
            NodeError: E507, its node was lost.
        """
        status = self._running.child.wait()
        obey_interrupt()
        if self._patience.is_over:
            self._complaints.write(_too_slow(self.command))
            status = _TIMED_OUT
        self._complaints.seek(0)
        answer = Completed(
            command=self.command,
            status=status,
            stdout=b"",
            stderr=self._complaints.read(),
            took=timedelta(),
        )
        if (error := was_lost(answer)) is not None:
            raise error
        return answer


@contextlib.contextmanager
def talking_command(command: Command, *, variables: Mapping[str, str]) -> Generator[Talking]:
    """Run a command and hand over what it says as it says it; it is ended with the block, and when its time is over.

    Its time counts from its beginning, or from the last of its :meth:`Talking.pieces`.

    Raises:
        OSError: there is no such program.
        NodeError: E500 to E503, the node that it is for was not reached.
    """
    with (
        tempfile.TemporaryFile() as complaints,
        _running(command, variables, stdin=subprocess.DEVNULL, stderr=complaints) as running,
        _patience(running) as patience,
    ):
        stdout = running.child.stdout
        assert stdout is not None, "it was asked for"
        talking = Talking(
            command, cast("BinaryIO", stdout), running, cast("BinaryIO", complaints), patience
        )
        _pass_over(talking)
        yield talking
        stdout.close()
        _leave(running)


def _leave(running: _Running) -> None:
    """End what nobody reads any more."""
    if running.command.node:
        # What it writes next ends it there; only where it says nothing it has to be told.
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.child.wait(_A_MOMENT)
    if running.child.poll() is None:
        running.end()
        running.child.wait()


@contextlib.contextmanager
def stream_through(command: Command, *, variables: Mapping[str, str]) -> Generator[socket.socket]:
    """Run a command and give its stdin and stdout as one socket; both are ended with the block.

    Raises:
        OSError: there is no such program.
    """
    here, there = socket.socketpair()
    end, none = there.fileno(), subprocess.DEVNULL
    with (
        here,
        there,
        _running(command, variables, stdin=end, stdout=end, stderr=none) as running,
    ):
        there.close()
        yield here
        running.end()
        running.child.wait()


def _pass_over(talking: Talking) -> None:
    """Read up to where the command itself begins to speak.

    Raises:
        NodeError: E500 to E503, E507, it never does.
    """
    marker = talking.command.marker
    if not marker:
        return
    for line in talking.stdout:
        if line.endswith(marker):
            return
    raise never_began(talking.ended())


def _on_its_node(answer: Completed) -> Completed:
    """Give what the command itself said.

    Raises:
        NodeError: E500 to E503, E507, the node that it is for was not reached, or was lost.
    """
    if not answer.command.marker:
        return answer
    _, reached, stdout = answer.stdout.partition(answer.command.marker)
    if not reached:
        raise never_began(answer)
    answer = replace(answer, stdout=stdout)
    if (error := was_lost(answer)) is not None:
        raise error
    return answer


def run_fed(
    command: Command, pieces: Iterable[bytes], *, variables: Mapping[str, str]
) -> Completed:
    """Run a command and hand it its input piece by piece; never raises for a failing command.

    Its time is over where so much has passed since it took the last piece.

    Raises:
        NodeError: as for :func:`run_command`.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
        try:
            with (
                _running(command, variables, stdout=said, stderr=complaints) as running,
                _patience(running) as patience,
            ):
                _feed(running.child, pieces, patience)
                status = running.child.wait()
        except _NotStartedError as error:
            complaints.write(_no_program(command, error))
            status = _NOT_FOUND
        else:
            if patience.is_over:
                complaints.write(_too_slow(command))
                status = _TIMED_OUT
        said.seek(0)
        complaints.seek(0)
        return _on_its_node(
            Completed(
                command=command,
                status=status,
                stdout=said.read(),
                stderr=complaints.read(),
                took=timedelta(seconds=time.monotonic() - started),
            )
        )


def _feed(child: _Process, pieces: Iterable[bytes], patience: "_Patience") -> None:
    assert child.stdin is not None, "it was asked for"
    try:
        for piece in pieces:
            child.stdin.write(piece)
            patience.last = time.monotonic()
            obey_interrupt()
        child.stdin.close()
    except BrokenPipeError:  # it ended early, and says itself why
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


@dataclass(slots=True)
class _Patience:
    """How long a command may go on without a sign of life."""

    last: float
    is_over: bool = False


@contextlib.contextmanager
def _patience(running: _Running) -> Generator[_Patience]:
    """End a command whose time is over while this thread waits for it."""
    patience = _Patience(time.monotonic())
    if running.command.timeout is None:
        yield patience
        return
    limit = running.command.timeout.total_seconds()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(max(patience.last + limit - time.monotonic(), 0)):
            if time.monotonic() - patience.last >= limit:
                patience.is_over = True
                running.end()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield patience
    finally:
        done.set()
        watcher.join()


def _no_program(command: Command, error: _NotStartedError) -> bytes:
    return f"{command.argv[0]}: {error.strerror}".encode()


def _too_slow(command: Command) -> bytes:
    assert command.timeout is not None, "it is over"
    return f"it did not end within {command.timeout.total_seconds():g} seconds, and was ended\n".encode()


def _kill(child: _Process) -> None:
    if child.returncode is not None:  # its number may be another's by now
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)

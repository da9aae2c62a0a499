# The only importer of subprocess. A child gets its own session, so that Ctrl-C and time-outs can end it
# together with its own children.
"""Running one command."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import BinaryIO, cast

from vllm_graft.values.command import Command, Completed

_TIMED_OUT = 124
"""What coreutils' ``timeout`` gives."""
_NOT_FOUND = 127
"""What a shell gives where the program does not exist."""


def run_command(command: Command, *, variables: Mapping[str, str]) -> Completed:
    """Run it to its end and give what it said; never raises for a failing command."""
    started = time.monotonic()

    def ended(status: int, stdout: bytes, stderr: bytes) -> Completed:
        took = timedelta(seconds=time.monotonic() - started)
        return Completed(command=command, status=status, stdout=stdout, stderr=stderr, took=took)

    try:
        child = subprocess.Popen(
            command.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(variables),
            start_new_session=True,
        )
    except OSError as error:
        return ended(_NOT_FOUND, b"", f"{command.argv[0]}: {error.strerror}".encode())
    limit = command.timeout.total_seconds() if command.timeout else None
    try:
        stdout, stderr = child.communicate(command.stdin, timeout=limit)
    except subprocess.TimeoutExpired:
        _end(child)
        stdout, stderr = child.communicate()
        return ended(_TIMED_OUT, stdout, stderr)
    except BaseException:
        _end(child)
        child.wait()
        raise
    return ended(child.returncode, stdout, stderr)


@dataclass(slots=True)
class Talking:
    """A command whose output is read while it runs."""

    command: Command
    stdout: BinaryIO
    _child: "subprocess.Popen[bytes]"
    _complaints: BinaryIO

    def ended(self) -> Completed:
        """Wait for its end; what it said on stdout is not repeated."""
        status = self._child.wait()
        self._complaints.seek(0)
        return Completed(
            command=self.command,
            status=status,
            stdout=b"",
            stderr=self._complaints.read(),
            took=timedelta(),
        )


@contextlib.contextmanager
def talking_command(command: Command, *, variables: Mapping[str, str]) -> Generator[Talking]:
    """Run a command and hand over what it says as it says it; it is ended with the block.

    Raises:
        OSError: there is no such program.
    """
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=dict(variables),
            start_new_session=True,
        )
        assert child.stdout is not None, "it was asked for"
        try:
            yield Talking(
                command, cast("BinaryIO", child.stdout), child, cast("BinaryIO", complaints)
            )
        finally:
            _end(child)
            child.stdout.close()
            child.wait()


def run_fed(
    command: Command, pieces: Iterable[bytes], *, variables: Mapping[str, str]
) -> Completed:
    """Run a command and hand it its input piece by piece; never raises for a failing command."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=complaints,
                env=dict(variables),
                start_new_session=True,
            )
        except OSError as error:
            text = f"{command.argv[0]}: {error.strerror}".encode()
            return Completed(
                command=command, status=_NOT_FOUND, stdout=b"", stderr=text, took=timedelta()
            )
        try:
            _feed(child, pieces)
            status = child.wait()
        except BaseException:
            _end(child)
            child.wait()
            raise
        said.seek(0)
        complaints.seek(0)
        return Completed(
            command=command,
            status=status,
            stdout=said.read(),
            stderr=complaints.read(),
            took=timedelta(seconds=time.monotonic() - started),
        )


def _feed(child: "subprocess.Popen[bytes]", pieces: Iterable[bytes]) -> None:
    assert child.stdin is not None, "it was asked for"
    try:
        for piece in pieces:
            child.stdin.write(piece)
        child.stdin.close()
    except BrokenPipeError:  # it ended early, and says itself why
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


def _end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)

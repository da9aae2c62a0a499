# The only importer of subprocess. A child gets its own session, so that Ctrl-C and time-outs can end it
# together with its own children.
"""Running one command."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta

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


def _end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)

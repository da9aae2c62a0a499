# `python -m vllm_graft` and the console script. Imports nothing heavy, so that --help is fast.
"""Run the command line."""

import gc
import io
import os
import sys
from typing import TextIO


def main() -> int:
    """Run with this process's arguments and environment; gives the exit status."""
    # One verb, then the end of the process: no search for reference cycles pays for itself, and the interpreter's last
    # one would look at every syntax tree once more before all is given back anyway.
    gc.disable()
    try:
        from vllm_graft.cli.main import run
        from vllm_graft.run.interrupts import end_as_interrupted

        end_as_interrupted()
        status = run(tuple(sys.argv[1:]), os.environ, _open(sys.stdout), _open(sys.stderr))
    except KeyboardInterrupt:  # while the program itself was still read
        _open(sys.stderr).write("\ninterrupted; nothing was left half written\n")
        status = 130
    gc.freeze()
    return status


def _open(stream: TextIO | None) -> TextIO:
    """Give a stream that takes any text: nothing is lost where the locale is ASCII or a name is no text."""
    if stream is None:  # closed by the shell: `>&-`
        return io.StringIO()
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


if __name__ == "__main__":
    sys.exit(main())

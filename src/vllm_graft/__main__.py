# `python -m vllm_graft` and the console script. Imports nothing heavy, so that --help is fast.
"""Run the command line."""

import gc
import os
import sys

from vllm_graft.cli.main import run


def main() -> int:
    """Run with this process's arguments and environment; gives the exit status."""
    # One verb, then the end of the process: no search for reference cycles pays for itself, and the interpreter's last
    # one would look at every syntax tree once more before all is given back anyway.
    gc.disable()
    status = run(tuple(sys.argv[1:]), os.environ, sys.stdout, sys.stderr)
    gc.freeze()
    return status


if __name__ == "__main__":
    sys.exit(main())

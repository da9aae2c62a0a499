# `python -m vllm_graft` and the console script. Imports nothing heavy, so that --help is fast.
"""Run the command line."""

import gc
import os
import sys


def main() -> int:
    """Run with this process's arguments and environment; gives the exit status."""
    # One verb, then the end of the process: no search for reference cycles pays for itself, and the interpreter's last
    # one would look at every syntax tree once more before all is given back anyway.
    gc.disable()
    try:
        from vllm_graft.cli.main import run

        status = run(tuple(sys.argv[1:]), os.environ, sys.stdout, sys.stderr)
    except KeyboardInterrupt:  # while the program itself was still read
        sys.stderr.write("\ninterrupted; nothing was left half written\n")
        status = 130
    gc.freeze()
    return status


if __name__ == "__main__":
    sys.exit(main())

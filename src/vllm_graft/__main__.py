# `python -m vllm_graft` and the console script. Imports nothing heavy, so that --help is fast.
"""Run the command line."""

import os
import sys

from vllm_graft.cli.main import run


def main() -> int:
    """Run with this process's arguments and environment; gives the exit status."""
    return run(tuple(sys.argv[1:]), os.environ, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

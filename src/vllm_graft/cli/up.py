# The words of `up` and `down`, and what becomes of them.
"""``vllm-graft up`` and ``vllm-graft down``."""

import argparse
from datetime import timedelta

from vllm_graft.cli.setting import Result, Setting

_LIMIT = 60
"""Minutes: a first start with a new network or a new GPU compiled and tuned for 36 in the field."""


def add_up(verb: argparse.ArgumentParser) -> None:
    """Add the words of ``up``."""
    _add_where(verb, "the nodes, the head first")
    verb.add_argument(
        "--time-limit",
        metavar="MINUTES",
        type=_minutes,
        default=timedelta(minutes=_LIMIT),
        help=f"from the start of the containers to the first correct answer (default: {_LIMIT})",
    )
    verb.add_argument(
        "--force",
        action="store_true",
        help="take the name of another image where one is built or sent; that one stays under a dated name",
    )
    verb.add_argument(
        "--dry-run",
        action="store_true",
        help="ask the nodes, print every command that would be run with its node and reason, and start nothing",
    )


def add_down(verb: argparse.ArgumentParser) -> None:
    """Add the words of ``down``."""
    _add_where(verb, "the nodes that are cleared")
    verb.add_argument(
        "--name",
        metavar="NAME",
        default="",
        help="of the deployment (default: [serve] name, or after the model)",
    )
    verb.add_argument(
        "--all",
        dest="everything",
        action="store_true",
        help="every deployment on these nodes, whatever its name",
    )
    verb.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be taken down, and take nothing down",
    )


def _add_where(verb: argparse.ArgumentParser, what: str) -> None:
    verb.add_argument(
        "settings",
        metavar="FILE",
        nargs="?",
        default="",
        help="a graft.toml (default: the one in this folder)",
    )
    verb.add_argument(
        "--node",
        metavar="NODE",
        dest="nodes",
        action="append",
        default=[],
        help=f"{what}, as behind ssh, or localhost; may be repeated (default: [nodes] of the settings, else this machine)",
    )


def _minutes(text: str) -> timedelta:
    try:
        found = timedelta(minutes=float(text))
    except (ValueError, OverflowError):
        found = timedelta()
    if found <= timedelta():
        message = f"not a number of minutes: {text!r}"
        raise argparse.ArgumentTypeError(message)
    return found


def up(words: argparse.Namespace, setting: Setting) -> Result:
    """Serve, and say where."""
    from vllm_graft.report.up import render_up
    from vllm_graft.workflows.up import UpRequest, run_up

    receipt = run_up(
        UpRequest(
            settings=words.settings,
            nodes=tuple(words.nodes),
            limit=words.time_limit,
            force=words.force,
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    return render_up(receipt, setting.form), 0


def down(words: argparse.Namespace, setting: Setting) -> Result:
    """Take down, and say what."""
    from vllm_graft.report.up import render_down
    from vllm_graft.workflows.down import DownRequest, run_down

    receipt = run_down(
        DownRequest(
            settings=words.settings,
            nodes=tuple(words.nodes),
            name=words.name,
            everything=words.everything,
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    return render_down(receipt, setting.form), 0

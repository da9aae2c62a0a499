# The words of `doctor`, and what becomes of them.
"""``vllm-graft doctor``."""

import argparse
from dataclasses import replace

from vllm_graft.cli.setting import Result, Setting

_WOULD_STOP = 5


def add_doctor(verb: argparse.ArgumentParser) -> None:
    """Add the words of ``doctor``."""
    verb.add_argument(
        "nodes",
        metavar="NODE",
        nargs="*",
        help="machines, the head first, as behind ssh, or localhost (default: [nodes] of the settings, else this machine)",
    )
    verb.add_argument(
        "--config",
        metavar="FILE",
        default="",
        help="a graft.toml (default: the one in this folder, if there is one)",
    )
    verb.add_argument(
        "--base",
        metavar="SOURCE",
        default="",
        help="the base, such as docker:IMAGE or docker:IMAGE@NODE (default: that of the settings)",
    )
    verb.add_argument(
        "--image",
        metavar="IMAGE",
        default="",
        help="the image that is to be sent and served (default: [image] tag of the settings)",
    )
    verb.add_argument(
        "--model",
        metavar="MODEL",
        default="",
        help="the model that is to be served: a Hugging Face id, or its folder on the nodes (default: [model] id of the settings)",
    )


def doctor(words: argparse.Namespace, setting: Setting) -> Result:
    """Ask the nodes; exit status 5 if something would stop a verb."""
    from vllm_graft.report.doctor import render_doctor
    from vllm_graft.report.ink import Ink
    from vllm_graft.values.settings import ModelSettings
    from vllm_graft.values.source import parse_source
    from vllm_graft.workflows.doctor import DoctorRequest, run_doctor
    from vllm_graft.workflows.read_settings import nodes_of, read_settings

    settings = read_settings(words.config)
    if words.model:
        settings = replace(settings, model=ModelSettings(id=words.model))
    report = run_doctor(
        DoctorRequest(
            nodes=nodes_of(settings, words.nodes),
            settings=settings,
            base=parse_source(words.base) if words.base else None,
            image=words.image,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    ink = Ink(colour=setting.colour, width=setting.width)
    status = _WOULD_STOP if report.verdict == "blocked" else 0
    return render_doctor(report, setting.form, ink), status

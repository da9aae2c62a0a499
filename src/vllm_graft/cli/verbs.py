# One function a verb: parsed words → request value → workflow → (what goes to stdout, exit status).
"""The verbs."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace

from vllm_graft.cli.doctor import doctor
from vllm_graft.cli.rehearse import rehearse
from vllm_graft.cli.setting import Result, Setting
from vllm_graft.cli.ship import ship
from vllm_graft.cli.status import status
from vllm_graft.cli.up import down, up
from vllm_graft.errors import RequestError
from vllm_graft.values.source import SourceOptions, parse_platform, parse_python, parse_source
from vllm_graft.values.stated import parse_stated


def _inspect(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.inspection import render_inspection
    from vllm_graft.workflows.ask_graft import ask_graft
    from vllm_graft.workflows.inspect import InspectRequest, inspect_install
    from vllm_graft.workflows.open_model import open_model
    from vllm_graft.workflows.open_source import open_install

    environment = setting.environment
    source = parse_source(words.source)
    request = InspectRequest(
        architectures=tuple(words.architectures),
        model=open_model(words.model, environment=environment) if words.model else None,
    )
    install = open_install(
        source, options=_options(words), environment=environment, console=setting.console
    )
    inspection = replace(
        inspect_install(install, request),
        graft=ask_graft(
            install, against=words.against, environment=environment, console=setting.console
        ),
    )
    return render_inspection(inspection, setting.form, Ink(colour=setting.colour)), 0


def _explain(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.workflows.explain import explain, explain_in_plan

    if words.log:
        _refuse_idle(words, ("code", "plan"), "a log: it is read as a whole")
        return _explain_log(words, setting)
    if not words.plan:
        return explain(words.code, setting.form), 0
    ink = Ink(colour=setting.colour, width=setting.width)
    return explain_in_plan(words.code, words.plan, setting.form, ink), 0


def _explain_log(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.log import render_log
    from vllm_graft.workflows.explain_log import explain_log

    diagnosis = explain_log(words.log)
    ink = Ink(colour=setting.colour, width=setting.width)
    return render_log(diagnosis, setting.form, ink), int(diagnosis.failed)


def _plan(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.plan import render_nothing_to_do, render_plan
    from vllm_graft.workflows.explain import read_rules
    from vllm_graft.workflows.judge_route import RouteWishes
    from vllm_graft.workflows.plan import (
        PlanOutputs,
        PlanRequest,
        refuse_outputs,
        run_plan,
        write_outputs,
    )

    outputs = PlanOutputs(
        plan=words.output, diff=words.diff, report=words.report, overlay=words.overlay
    )
    refuse_outputs(outputs)
    planned = run_plan(
        PlanRequest(
            base=parse_source(words.base),
            donor=parse_source(words.donor),
            architectures=tuple(words.architectures),
            model=words.model,
            features=tuple(words.features),
            options=_options(words),
            stated=parse_stated(words.stated) if words.stated else None,
            accepted=tuple(words.accepted),
            wishes=RouteWishes(route=words.route, nodes=words.nodes),
            ask_base=words.ask_base,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    written = write_outputs(planned, outputs) if planned.written is not None else ()
    for name in outputs.names:
        done = name in written
        setting.console.tell(
            f"wrote {name}" if done else f"{name} is not written: there is nothing to graft"
        )
    if planned.is_served_by_base:
        return render_nothing_to_do(planned.nothing_to_do, setting.form), 0
    fails = ("blocked",) if words.fail_on == "blocked" else ("review", "blocked")
    result = render_plan(
        planned.told, read_rules(), setting.form, Ink(colour=setting.colour, width=setting.width)
    )
    return result, int(planned.fails(fails))


def _apply(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.receipt import render_receipt
    from vllm_graft.workflows.apply import ApplyRequest, run_apply

    receipt = run_apply(
        ApplyRequest(
            plan_file=words.plan,
            directory=words.directory,
            revert=words.revert,
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    return render_receipt(receipt, setting.form), 0


def _build(words: argparse.Namespace, setting: Setting) -> Result:
    if words.to.startswith("plugin:"):
        return _build_plugin(words, setting)
    _refuse_idle(
        words, ("platform", "python"), "an image: they choose a wheel, for --to plugin:DIR"
    )
    from vllm_graft.report.build import render_build
    from vllm_graft.workflows.build import BuildRequest, run_build

    receipt = run_build(
        BuildRequest(
            plan_file=words.plan,
            tag=words.tag,
            base=words.base,
            donor=words.donor,
            to=words.to,
            lock=words.lock,
            locked=words.locked,
            force=words.force,
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    return render_build(receipt, setting.form), 0


def _build_plugin(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.plugin import render_plugin
    from vllm_graft.workflows.build_plugin import PREFIX, PluginRequest, run_build_plugin

    _refuse_idle(
        words, ("tag", "donor", "lock", "locked", "force"), "a plugin: they are about images"
    )
    receipt = run_build_plugin(
        PluginRequest(
            plan_file=words.plan,
            place=words.to.removeprefix(PREFIX),
            base=words.base,
            options=_options(words),
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )
    return render_plugin(receipt, setting.form), 0


def _refuse_idle(words: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    """Refuse words that would say nothing here: who writes them expects something of them.

    Raises:
        RequestError: E200.
    """
    idle = [f"--{name}" if name != "code" else words.code for name in names if getattr(words, name)]
    if idle:
        raise RequestError(
            f"{', '.join(idle)} say nothing of {why}", remedy=f"leave out {' and '.join(idle)}"
        )


def _options(words: argparse.Namespace) -> SourceOptions:
    return SourceOptions(
        platform=parse_platform(words.platform) if words.platform else None,
        python=parse_python(words.python) if words.python else None,
    )


VERBS: Mapping[str, Callable[[argparse.Namespace, Setting], Result]] = {
    "inspect": _inspect,
    "plan": _plan,
    "apply": _apply,
    "build": _build,
    "ship": ship,
    "doctor": doctor,
    "up": up,
    "down": down,
    "status": status,
    "rehearse": rehearse,
    "explain": _explain,
}

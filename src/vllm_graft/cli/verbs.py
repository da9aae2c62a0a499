# One function a verb: parsed words → request value → workflow → (what goes to stdout, exit status).
"""The verbs."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from vllm_graft.report.form import Form
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.source import SourceOptions, parse_platform, parse_python, parse_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for every verb."""

    form: Form
    quiet: bool
    colour: bool
    width: int
    """Of a line on stdout."""
    variables: Mapping[str, str]
    err: TextIO

    @property
    def console(self) -> Console:
        """Give where the story goes."""
        return Console(stream=self.err, quiet=self.quiet)

    @property
    def environment(self) -> Environment:
        """Give the surroundings as the workflows take them."""
        try:
            home = str(Path.home())
        except RuntimeError:  # no HOME and no entry in the user database, as in some containers
            home = ""
        return Environment(variables=self.variables, home=home, python=sys.executable)


Result = tuple[str, int]


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
        graft=ask_graft(install, environment=environment, console=setting.console),
    )
    return render_inspection(inspection, setting.form, Ink(colour=setting.colour)), 0


def _explain(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.workflows.explain import explain, explain_in_plan

    if not words.plan:
        return explain(words.code, setting.form), 0
    ink = Ink(colour=setting.colour, width=setting.width)
    return explain_in_plan(words.code, words.plan, setting.form, ink), 0


def _plan(words: argparse.Namespace, setting: Setting) -> Result:
    from vllm_graft.report.ink import Ink
    from vllm_graft.report.plan import render_nothing_to_do, render_plan
    from vllm_graft.workflows.explain import read_rules
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
        ),
        environment=setting.environment,
        console=setting.console,
    )
    if planned.plan is None:
        for name in outputs.names:
            setting.console.tell(f"{name} is not written: there is nothing to graft")
        return render_nothing_to_do(planned.nothing_to_do, setting.form), 0
    for name in write_outputs(planned, outputs):
        setting.console.tell(f"wrote {name}")
    fails = ("blocked",) if words.fail_on == "blocked" else ("review", "blocked")
    result = render_plan(
        planned.plan, read_rules(), setting.form, Ink(colour=setting.colour, width=setting.width)
    )
    return result, int(planned.plan.verdict in fails)


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
    from vllm_graft.report.build import render_build
    from vllm_graft.workflows.build import BuildRequest, run_build

    receipt = run_build(
        BuildRequest(
            plan_file=words.plan,
            tag=words.tag,
            base=words.base,
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
    "explain": _explain,
}

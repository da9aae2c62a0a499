# Gather (two installs, perhaps a config.json), decide (link/), and hand back the plan. Writing it down is the caller's
# second step, so that a plan can be looked at without leaving a file.
"""Plan a graft."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vllm_graft.errors import RequestError
from vllm_graft.link.plan import LinkRequest, LinkSession
from vllm_graft.run.collector import paused_collector
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.source import Source, SourceOptions
from vllm_graft.workflows.open_model import open_model
from vllm_graft.workflows.open_source import open_install


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What the user asks of ``plan``."""

    base: Source
    donor: Source
    architectures: tuple[str, ...] = ()
    model: str = ""
    """A folder with a config.json, that file, or a cached Hugging Face id; empty: only architectures."""
    features: tuple[str, ...] = ()
    """``mtp``, ``reasoning-parser=NAME``, ``tool-parser=NAME``."""
    options: SourceOptions = field(default_factory=SourceOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutputs:
    """Which files to write; an empty name writes none."""

    plan: str = ""
    diff: str = ""
    report: str = ""
    """HTML, or Markdown where the name ends in ``.md``."""
    overlay: str = ""
    """Folder that gets the files themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, or why there is nothing to plan."""

    base: Install
    donor: Install
    architectures: tuple[str, ...]
    plan: GraftPlan | None
    present: tuple[str, ...] = ()
    """Where the base has all of it already: one sentence each."""


def run_plan(request: PlanRequest, *, environment: Environment, console: Console) -> Planned:
    """Open both installs and link.

    Raises:
        RequestError: nothing is asked for, or the donor does not have it.
        SourceError: one of the installs cannot be read.
    """
    config: Mapping[str, object] | None = None
    architectures = request.architectures
    if request.model:
        model = open_model(request.model, environment=environment)
        config = model.config
        architectures = tuple(dict.fromkeys((*architectures, *model.architectures)))
    if not architectures:
        raise _nothing_named(request.model)
    options = request.options
    base = open_install(request.base, options=options, environment=environment, console=console)
    donor = open_install(request.donor, options=options, environment=environment, console=console)
    features = tuple(dict.fromkeys(request.features))
    asked = LinkRequest(architectures=architectures, config=config, features=features)
    with paused_collector():
        session = LinkSession(base, donor)
        present = _present(session, asked)
        if not present:
            asked = _without_known(session, asked, console)
            console.tell(f"linking vLLM {donor.version} into {base.version}")
        plan = None if present else session.plan(asked)
    return Planned(base=base, donor=donor, architectures=architectures, plan=plan, present=present)


def _nothing_named(model: str) -> RequestError:
    if not model:
        return RequestError(
            "no model was named",
            remedy="name the architecture with --arch, or a model with --model",
        )
    return RequestError(
        f"the config.json of {model} names no architecture",
        remedy="name it with --arch beside --model",
        code="E202",
    )


def _without_known(session: LinkSession, asked: LinkRequest, console: Console) -> LinkRequest:
    """Leave out what the base has already, as long as something is left: it is not to be grafted again."""
    known = session.base_layout.by_architecture
    lacking = tuple(name for name in asked.architectures if name not in known)
    if not lacking:
        return asked
    for name in dict.fromkeys(asked.architectures):
        if name in known:
            console.tell(f"{name} is left as it is: vLLM {session.base.version} has it already")
    return replace(asked, architectures=lacking)


def write_outputs(planned: Planned, outputs: PlanOutputs) -> tuple[str, ...]:
    """Write what was asked for; gives the names written.

    Raises:
        RequestError: E213, one cannot be written.
    """
    from vllm_graft.image.overlay import build_overlay, render_overlay_diff
    from vllm_graft.run.folder import write_folder
    from vllm_graft.values.codec import encode_plan

    plan = planned.plan
    assert plan is not None, "there is nothing to write where nothing is to be done"
    written: list[str] = []
    if outputs.plan:
        written.append(_write(outputs.plan, encode_plan(plan)))
    if outputs.diff:
        written.append(_write(outputs.diff, render_overlay_diff(plan).encode()))
    if outputs.report:
        written.append(_write(outputs.report, _report(plan, outputs.report).encode()))
    if outputs.overlay:
        overlay = build_overlay(plan, planned.base.files)
        contents = {file.path: file.content for file in overlay}
        write_folder(outputs.overlay, contents)
        written.append(outputs.overlay)
    return tuple(written)


def _report(plan: GraftPlan, name: str) -> str:
    from vllm_graft.report.plan_view import view_plan
    from vllm_graft.workflows.explain import read_rules

    view = view_plan(plan, read_rules())
    if name.endswith(".md"):
        from vllm_graft.report.plan_markdown import render_plan_markdown

        return render_plan_markdown(view)
    from importlib.resources import files

    from vllm_graft.report.plan_html import render_plan_html
    from vllm_graft.values.codec import plan_digest

    style = (files("vllm_graft") / "data" / "report.css").read_text(encoding="utf-8")
    return render_plan_html(view, plan_digest(plan), style)


def _write(name: str, content: bytes) -> str:
    from vllm_graft.run.files import write_atomically

    try:
        write_atomically(name, content)
    except OSError as failure:
        raise RequestError(
            f"{name} cannot be written: {failure.strerror}",
            remedy="see that its folder exists and that you may write there",
            code="E213",
        ) from failure
    return name


def _present(session: LinkSession, asked: LinkRequest) -> tuple[str, ...]:
    """Say where the base has everything asked for; nothing as soon as one part is missing."""
    base_layout = session.base_layout
    if not set(asked.architectures) <= set(base_layout.by_architecture):
        return ()
    found = [base_layout.by_architecture[name] for name in asked.architectures]
    told = [f"{entry.architecture} is {entry.module}.{entry.class_name}" for entry in found]
    if not asked.features:
        return tuple(told)
    roots = session.roots(asked)
    for model in roots.models:
        entry = base_layout.by_architecture.get(model.architecture)
        if entry is None:
            return ()
        told.append(f"{entry.architecture} is {entry.module}.{entry.class_name}")
    for part in roots.parts:
        known = base_layout.lookup(part.role, part.name)
        if known is None:
            return ()
        told.append(f"{part.role} {part.name} is {known.module}.{known.symbol}")
    return tuple(dict.fromkeys(told))

# Gather (two installs, perhaps a config.json), decide (link/), and hand back the plan. Writing it down is the caller's
# second step, so that a plan can be looked at without leaving a file.
"""Plan a graft."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from vllm_graft.errors import RequestError, SourceError
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.overlay import JOURNAL, syntax_complaint
from vllm_graft.image.route import ray_wanted
from vllm_graft.link.plan import LinkRequest, LinkSession
from vllm_graft.run.collector import paused_collector
from vllm_graft.run.console import Console
from vllm_graft.run.journal import unfinished_plans
from vllm_graft.run.tree import resolved_folder
from vllm_graft.values.build import EarlierGraft
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan, PlanSource
from vllm_graft.values.receipt import NothingToDo
from vllm_graft.values.route import NOT_COMPARED, RouteDecision
from vllm_graft.values.source import DockerSource, Source, SourceOptions
from vllm_graft.values.stated import StatedDistribution
from vllm_graft.workflows.accept_wheels import Acceptance, refuse_without_image, with_accepted
from vllm_graft.workflows.ask_base import (
    AskBase,
    askable_base,
    grafted_unasked,
    refuse_unaskable,
)
from vllm_graft.workflows.below_graft import open_base_install, refuse_lost, replanned
from vllm_graft.workflows.judge_pins import with_asked_pins, with_pins, with_stated
from vllm_graft.workflows.judge_route import RouteWishes, judge_route
from vllm_graft.workflows.lock_wheels import lock_wheels
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
    stated: StatedDistribution | None = None
    """What a base without an environment, such as a wheel, will be run with."""
    accepted: tuple[str, ...] = ()
    """Distributions that the plan proposes and that go into the image, by name or as a requirement."""
    wishes: RouteWishes = field(default_factory=RouteWishes)
    ask_base: bool = False
    """Whether the base image's own interpreter is asked what was read of its transformers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutputs:
    """Which files to write; an empty name writes none."""

    plan: str = ""
    diff: str = ""
    report: str = ""
    """HTML, or Markdown where the name ends in ``.md``."""
    overlay: str = ""
    """Folder that gets the files themselves."""

    @property
    def names(self) -> tuple[str, ...]:
        """Give what is to be written, in the order of writing."""
        return tuple(filter(None, (self.plan, self.diff, self.report, self.overlay)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan of the graft, or why there is nothing to graft; and the route."""

    base: Install
    donor: Install
    architectures: tuple[str, ...]
    plan: GraftPlan | None
    present: tuple[str, ...] = ()
    """Where the base has all of it already: one sentence each."""
    route: RouteDecision = NOT_COMPARED
    without_graft: GraftPlan | None = None
    """Where there is nothing to graft: a plan that says so."""

    @property
    def is_served_by_base(self) -> bool:
        """Whether nothing has to be done."""
        return self.plan is None and (
            not self.route.candidates or self.route.chosen == "base-as-is"
        )

    @property
    def written(self) -> GraftPlan | None:
        """Give what plan.json holds; None where there is nothing to write: no graft, and no image to build."""
        return self.plan or (self.without_graft if self.base.image is not None else None)

    @property
    def told(self) -> GraftPlan:
        """Give what is reported."""
        found = self.plan or self.without_graft
        assert found is not None, "there is one or the other"
        return found

    def fails(self, verdicts: Collection[str]) -> bool:
        """Whether this is no success where such verdicts of the graft are none.

        A route that the user named instead of the graft is one: its verdict is then only told.
        """
        if self.route.chosen == "rebuild":
            return True
        if self.route.asked and self.route.chosen != "graft":
            return False
        return self.told.verdict in verdicts

    @property
    def nothing_to_do(self) -> NothingToDo:
        """Give what is told where there is no plan."""
        base = PlanSource(
            source=self.base.source, version=self.base.version, digest=self.base.digest
        )
        return NothingToDo(base=base, present=self.present, route=self.route)


def run_plan(request: PlanRequest, *, environment: Environment, console: Console) -> Planned:
    """Open both installs and link.

    Raises:
        RequestError: nothing is asked for, or the donor does not have it; E203, what is said of the
            base's environment cannot be; E204, what is accepted cannot be; E205, the base cannot be asked; E220, the route that was wished for is
            not possible.
        SourceError: one of the installs cannot be read, or E307 has a layout that is not known, or
            E308 was left half written.
        BuildError: E423, E428, what a grafted base was made of cannot be told, or would be lost.
    """
    config: Mapping[str, object] | None = None
    model: ModelDescription | None = None
    architectures = request.architectures
    if request.model:
        model = open_model(request.model, environment=environment)
        config = model.config
        architectures = tuple(dict.fromkeys((*architectures, *model.architectures)))
    if not architectures:
        raise _nothing_named(request.model)
    options = request.options
    base, earlier, ask = _open_base(request, environment, console)
    if request.stated is not None:
        with_stated(base, request.stated)  # refused before anything is linked
    donor = open_install(request.donor, options=options, environment=environment, console=console)
    for install in (base, donor):
        _refuse_unfinished(install)
    features = tuple(dict.fromkeys(request.features))
    asked = LinkRequest(architectures=architectures, config=config, features=features)
    together = _together(asked, earlier, donor, console)
    if earlier is not None and together is None:
        told = (f"{earlier.image} has all of it, grafted from vLLM {donor.version}",)
        return Planned(base=base, donor=donor, architectures=architectures, plan=None, present=told)
    asked = together or asked
    named = asked.architectures
    session = LinkSession(base, donor)
    try:
        with paused_collector():
            session.refuse_unknown_layout()
            present = _present(session, asked)
            if not present:
                asked = _without_known(session, asked, console)
                console.tell(f"linking vLLM {donor.version} into {base.version}")
            plan = None if present and not _names_parser(asked) else session.plan(asked)
            if present and plan is not None:
                plan, present = _without_equal(plan, present)
            if plan is not None:
                acceptance = Acceptance(
                    session=session, linked=plan, words=request.accepted, model=model
                )
                plan = _with_pins(session, plan, ask, request, model)
                plan = with_accepted(plan, acceptance, environment=environment, console=console)
                refuse_lost(plan, earlier)
            wanted = replace(asked, architectures=named)
            route = judge_route(session, plan, wanted, model=model, wishes=request.wishes)
            routed = replace(plan or session.nothing(wanted), route=route)
            routed = _with_images(routed, base, donor)
            routed = _with_ray(routed, session, environment, console)
    except SourceError as error:
        _note_install(error, session)
        raise
    return Planned(
        base=base,
        donor=donor,
        architectures=named,
        plan=routed if plan is not None else None,
        present=present,
        route=route,
        without_graft=routed if plan is None else None,
    )


def _open_base(
    request: PlanRequest, environment: Environment, console: Console
) -> tuple[Install, EarlierGraft | None, AskBase | None]:
    """Read the base, and see that it can be asked what it is to be asked.

    Raises:
        RequestError: E204, E205.
    """
    asked: DockerSource | None = None
    if request.ask_base:
        is_stated = request.stated is not None
        asked = refuse_unaskable(request.base, request.accepted, is_stated=is_stated)
    base, earlier = open_base_install(
        request.base, options=request.options, environment=environment, console=console
    )
    refuse_without_image(base, request.accepted)
    if asked is None:
        return base, earlier, None
    if earlier is not None:
        raise grafted_unasked(asked, earlier.base_source)
    return base, earlier, askable_base(asked, environment=environment, console=console)


def _with_pins(
    session: LinkSession,
    plan: GraftPlan,
    ask: AskBase | None,
    request: PlanRequest,
    model: ModelDescription | None,
) -> GraftPlan:
    if ask is not None:
        return with_asked_pins(session, plan, ask, model=model)
    return with_pins(session, plan, model=model, stated=request.stated)


def _with_images(plan: GraftPlan, base: Install, donor: Install) -> GraftPlan:
    """Note of both which image it is."""

    def noted(told: PlanSource, image: ImageFacts | None) -> PlanSource:
        return told if image is None else replace(told, image=str(canonical_digest(image)))

    return replace(plan, base=noted(plan.base, base.image), donor=noted(plan.donor, donor.image))


def _with_ray(
    plan: GraftPlan, session: LinkSession, environment: Environment, console: Console
) -> GraftPlan:
    """Choose the wheels that the route ``donor+ray`` adds, to the last one.

    Raises:
        SourceError: E312, E313, E316, E317, there are none for this image.
    """
    donor = session.donor
    if plan.route.chosen != "donor+ray" or donor.image is None:
        return plan
    wanted = ray_wanted(session.base, donor)
    console.tell(f"choosing wheels of {wanted} for {donor.source}")
    try:
        wheels = lock_wheels(donor.image, donor, (wanted,), environment=environment)
    except SourceError as error:
        error.add_note("the route donor+ray needs them; --route graft or --nodes 1 may do without")
        raise
    return replace(plan, wheels=wheels)


def _together(
    asked: LinkRequest, earlier: EarlierGraft | None, donor: Install, console: Console
) -> LinkRequest | None:
    """Give what is planned together with what was grafted before; None where that is all of it already."""
    if earlier is None:
        return asked
    together = replanned(earlier, asked, donor)
    if together is None:
        return None
    grafted = ", ".join((*earlier.architectures, *earlier.features))
    other = str(donor.digest) != earlier.donor_vllm
    origin = f", now from vLLM {donor.version} (before: {earlier.donor_version})" if other else ""
    console.tell(
        f"{earlier.image} is grafted ({grafted}): this is planned anew with the rest, onto its base,"
        f" {earlier.base_source}{origin}"
    )
    return together


def _note_install(error: SourceError, session: LinkSession) -> None:
    """Say which of the two has the file that is no valid Python; the message begins with its path."""
    path = error.what.partition(" ")[0]
    for install in (session.base, session.donor):
        if (
            error.code == "E305"
            and path in install.files
            and syntax_complaint(path, install.files.read(path))
        ):
            error.add_note(f"it lies in {install.location} ({install.source})")


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


def _refuse_unfinished(install: Install) -> None:
    """Refuse a folder in which an apply was killed: what lies there is neither the install nor the graft."""
    if install.image is not None:
        return  # a layer is whole, or the image is not there
    root = resolved_folder(install.location)
    for plan in unfinished_plans(root):
        raise SourceError(
            f"a graft was ended in the middle of being written into {root}",
            remedy="undo it first: vllm-graft apply --revert"
            f" {root}/{JOURNAL}/{plan.hex[:16]}/plan.json {root}",
            code="E308",
        )


def _names_parser(asked: LinkRequest) -> bool:
    return any("=" in feature for feature in asked.features)


def _without_equal(
    plan: GraftPlan, present: tuple[str, ...]
) -> tuple[GraftPlan | None, tuple[str, ...]]:
    """Keep a plan only where a parser that was asked for is not what the base has under its name."""
    if plan.edits:
        return plan, ()
    compared = (
        f"{site.identifier}: {site.reason}"
        for site in plan.sites
        if site.kind == "parser-registry" and site.decision == "present"
    )
    return None, tuple(dict.fromkeys((*present, *compared)))


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


def refuse_outputs(outputs: PlanOutputs) -> None:
    """Refuse, before any work is done, what could not be written after it.

    Raises:
        RequestError: E213.
    """
    from vllm_graft.run.directory import real_path
    from vllm_graft.run.files import refuse_unwritable
    from vllm_graft.run.folder import refuse_foreign

    if outputs.overlay:
        refuse_foreign(outputs.overlay)
    seen: dict[str, str] = {}
    for name in outputs.names:
        if name != outputs.overlay:
            refuse_unwritable(name)
        place = PurePosixPath(real_path(name))
        for other, known in seen.items():
            if place.is_relative_to(other) or PurePosixPath(other).is_relative_to(place):
                raise RequestError(
                    f"{known} and {name} cannot both be written: one would take the other's place",
                    remedy="give each a place of its own",
                    code="E213",
                )
        seen[str(place)] = name


def write_outputs(planned: Planned, outputs: PlanOutputs) -> tuple[str, ...]:
    """Write what was asked for; gives the names written.

    Raises:
        RequestError: E213, one cannot be written.
    """
    from vllm_graft.image.overlay import build_overlay, render_overlay_diff
    from vllm_graft.run.files import write_for_user
    from vllm_graft.run.folder import write_folder
    from vllm_graft.values.codec import encode_plan

    plan = planned.written
    assert plan is not None, "there is nothing to write where nothing is to be done"
    if planned.plan is None:
        outputs = replace(outputs, diff="", overlay="")
    if outputs.plan:
        write_for_user(outputs.plan, encode_plan(plan))
    if outputs.diff:
        write_for_user(outputs.diff, render_overlay_diff(plan).encode())
    if outputs.report:
        write_for_user(outputs.report, _report(plan, outputs.report).encode())
    if outputs.overlay:
        overlay = build_overlay(plan, planned.base.files)
        write_folder(outputs.overlay, {file.path: file.content for file in overlay})
    return outputs.names


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

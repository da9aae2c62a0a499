# `plan` and `build` as stages of `up`. Both are done each time, since both are quick where nothing has changed: what was read of
# images is kept, and an image that is there already is not made again.
"""Make the image that settings ask for."""

from dataclasses import dataclass
from datetime import timedelta

from vllm_graft.cluster.model_place import DESCRIPTIONS, ModelPlace
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.run.clock import Stopwatch
from vllm_graft.run.console import Console
from vllm_graft.run.kept_files import keep_files
from vllm_graft.run.machines import Machine
from vllm_graft.run.workspace import put_file, workspace
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.command import Command
from vllm_graft.values.deployment import UpStage
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.settings import Settings
from vllm_graft.values.source import DockerSource
from vllm_graft.workflows.build import BuildRequest, run_build
from vllm_graft.workflows.judge_route import RouteWishes
from vllm_graft.workflows.plan import PlanRequest, run_plan

_PLAN = "plan.json"
_READING = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeImage:
    """The image that is to be served from, in one engine."""

    reference: str
    node: Node | None
    """The machine whose engine has it; None is this one."""
    content: str = ""
    """Canonical digest of it; empty: it was not made here, and is what the nodes have."""
    stages: tuple[UpStage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWishes:
    """What is to be made, and for which model."""

    settings: Settings
    nodes: int
    model: ModelPlace
    """Where the head has it."""
    keep: str
    """A folder in which the plan is kept; empty: it is not."""
    force: bool = False
    dry_run: bool = False


def make_image(
    wishes: ImageWishes, head: Machine, *, environment: Environment, console: Console
) -> MadeImage:
    """Plan and build where a donor is named; else give the image that is named.

    Raises:
        RequestError: E222, it is not said which image; those of ``plan`` and ``build``.
        SourceError, BuildError, VerificationError: as ``plan`` and ``build``.
        NodeError: E578, the head does not give what describes the model.
    """
    settings = wishes.settings
    base = settings.base.source
    if settings.donor.source is None:
        return MadeImage(
            reference=named_image(settings),
            node=base.node if isinstance(base, DockerSource) else None,
        )
    if not isinstance(base, DockerSource) or not settings.image.tag:
        lacking = "[image] tag" if isinstance(base, DockerSource) else "an image as [base] source"
        raise RequestError(
            f"a donor is named, and not what is to be built: {lacking} is missing",
            remedy='say [base] source = "docker:IMAGE" or "docker:IMAGE@NODE", and [image] tag',
            code="E222",
        )
    clock = Stopwatch()
    with workspace() as folder:
        plan = _planned(wishes, head, folder, environment=environment, console=console)
        planned = UpStage(name="plan", told=_told(plan, wishes.keep), seconds=clock.seconds)
        if plan is None:
            return MadeImage(reference=base.reference, node=base.node, stages=(planned,))
        content = encode_plan(plan)
        plan_file = f"{wishes.keep}/{_PLAN}"
        if not wishes.keep or not keep_files(wishes.keep, {_PLAN: content}):
            plan_file = put_file(folder, _PLAN, content)
        console.tell(f"building {settings.image.tag}")
        clock = Stopwatch()
        receipt = run_build(
            BuildRequest(
                plan_file=plan_file,
                tag=settings.image.tag,
                force=wishes.force,
                dry_run=wishes.dry_run,
            ),
            environment=environment,
            console=console,
        )
    built = UpStage(name="build", told=_built(receipt), seconds=clock.seconds)
    return MadeImage(
        reference=receipt.tag,
        node=base.node,
        content=str(receipt.config),
        stages=(planned, built),
    )


def named_image(settings: Settings) -> str:
    """Give the name of the image that is served from.

    Raises:
        RequestError: E222, there is none.
    """
    if settings.image.tag:
        return settings.image.tag
    if isinstance(settings.base.source, DockerSource):
        return settings.base.source.reference
    raise RequestError(
        "no image is named",
        remedy='say [image] tag, or [base] source = "docker:IMAGE"',
        code="E222",
    )


def _planned(
    wishes: ImageWishes,
    head: Machine,
    folder: str,
    *,
    environment: Environment,
    console: Console,
) -> GraftPlan | None:
    """Plan; None where the base has everything and there is nothing to build."""
    settings = wishes.settings
    assert settings.base.source is not None, "looked at before"
    assert settings.donor.source is not None, "looked at before"
    planned = run_plan(
        PlanRequest(
            base=settings.base.source,
            donor=settings.donor.source,
            model=_description(head, wishes.model, folder),
            features=settings.model.features,
            wishes=RouteWishes.of_deployment(wishes.nodes),
        ),
        environment=environment,
        console=console,
    )
    return planned.written


def _description(head: Machine, place: ModelPlace, folder: str) -> str:
    """Give a folder of this machine with what describes the model, as the head has it; weights stay where they are.

    Raises:
        NodeError: E578.
    """
    if head.node is None:
        return place.folder
    for name in DESCRIPTIONS:
        if name not in place.sizes:
            continue
        path = f"{place.folder}/{name}"
        answer = head.run(
            Command(argv=("cat", "--", path), why="read what describes the model", timeout=_READING)
        )
        if not answer.passed:
            raise NodeError(
                f"{path} on {head.name} cannot be read: {answer.last_lines(2)}",
                remedy=f"see who may read it on {head.name}",
                code="E578",
            )
        put_file(folder, name, answer.stdout)
    return folder


def _told(plan: GraftPlan | None, keep: str) -> str:
    if plan is None:
        return "the base has everything"
    number = len(plan.findings)
    findings = f", {number} finding{'s' * (number != 1)}" if number else ""
    kept = f" ({keep}/{_PLAN})" if keep else ""
    return f"{plan.route.chosen}, {plan.verdict}{findings}{kept}"


def _built(receipt: BuildReceipt) -> str:
    outcome = {"not written": "would be built"}.get(receipt.outcome, receipt.outcome)
    layer = f", {receipt.layer_size:,} bytes on top of {receipt.base}" if receipt.layer else ""
    return f"{receipt.target} {outcome}{layer}"

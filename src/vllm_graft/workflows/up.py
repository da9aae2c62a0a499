# The stages one after the other, each from what the one before left: nothing is kept beside what images, engines and labels
# say, so that a run that was ended goes on where it was by running it again.
"""From settings to a model that answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from vllm_graft.cluster.compose import (
    NodeSurvey,
    compose,
    deployment_name,
    refuse_taken,
    refuse_words,
)
from vllm_graft.cluster.memory.refusal import refuse_too_large
from vllm_graft.cluster.model_place import WantedModel
from vllm_graft.errors import RequestError
from vllm_graft.report.memory import told_memory
from vllm_graft.run.console import Console
from vllm_graft.run.machines import machine_at
from vllm_graft.values.deployment import UpReceipt, UpStage
from vllm_graft.values.environment import Environment
from vllm_graft.values.memory_plan import MemoryPlan
from vllm_graft.values.probe import NotKnown
from vllm_graft.values.settings import Settings
from vllm_graft.workflows.fleet_engines import FleetEngines, fleet_engines
from vllm_graft.workflows.make_image import ImageWishes, MadeImage, make_image, named_image
from vllm_graft.workflows.plan_on_nodes import plan_on_nodes
from vllm_graft.workflows.read_settings import nodes_of, read_settings
from vllm_graft.workflows.serve import ServeWishes, serve
from vllm_graft.workflows.share_image import share_image
from vllm_graft.workflows.survey_nodes import survey_images, survey_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """What the user asks of ``up``."""

    settings: str = ""
    """Path of a graft.toml; empty: the one in this folder."""
    nodes: tuple[str, ...] = ()
    """As behind ``--node``, the head first; empty: those of the settings."""
    limit: timedelta = timedelta(minutes=60)
    """From the start of the containers to the first correct answer."""
    force: bool = False
    """Whether the name of another image may be taken, which stays under a dated one."""
    dry_run: bool = False


def run_up(request: UpRequest, *, environment: Environment, console: Console) -> UpReceipt:
    """Do what is left to do until the model answers.

    Raises:
        RequestError: E213, E219, E221 to E223, the settings; those of ``plan`` and ``build``.
        SourceError, BuildError: as ``plan``, ``build`` and ``ship``.
        NodeError: E500 to E507, E570 to E579, E581, E583.
        VerificationError: E602 to E604, E620, E621.
    """
    settings = read_settings(request.settings)
    nodes = nodes_of(settings, request.nodes)
    refuse_words(settings.serve)
    up = _Up(
        request=request,
        settings=settings,
        image=named_image(settings),
        model=_model(settings),
        environment=environment,
        console=console,
    )
    with fleet_engines(nodes, environment.variables) as fleet:
        return up.run(fleet)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Up:
    request: UpRequest
    settings: Settings
    image: str
    model: WantedModel
    environment: Environment
    console: Console

    def run(self, fleet: FleetEngines) -> UpReceipt:
        self.console.tell(f"asking {', '.join(fleet.engines)} for image, model and network")
        surveys = survey_nodes(fleet, image=self.image, wanted=self.model, deployment=self.name)
        memory = self._refuse_early(fleet, surveys)
        made = self._made(fleet, surveys)
        shipped: tuple[UpStage, ...] = ()
        if not self.request.dry_run and not _is_everywhere(made, surveys):
            shipped = share_image(
                made,
                fleet.nodes,
                force=self.request.force,
                environment=self.environment,
                console=self.console,
            )
            surveys = survey_images(fleet, surveys, made.reference)
        if self.request.dry_run:
            surveys = _as_if_shipped(made, surveys)
        deployment = compose(made.reference, self.model, self.settings.serve, surveys)
        wishes = ServeWishes(
            limit=self.request.limit, logs=self._kept("logs"), dry_run=self.request.dry_run
        )
        receipt = serve(deployment, surveys, wishes, fleet, self.console)
        return replace(receipt, stages=(*made.stages, *shipped), memory=memory)

    @property
    def name(self) -> str:
        return deployment_name(self.settings.serve, self.model.text)

    def _refuse_early(
        self, fleet: FleetEngines, surveys: Sequence[NodeSurvey]
    ) -> MemoryPlan | NotKnown:
        """Refuse what would stop the last stage before the first one begins; give what is known of memory."""
        anyhow = [replace(each, content="any") for each in surveys]
        deployment = compose(self.image, self.model, self.settings.serve, anyhow)
        if not any(each.containers for each in surveys):
            refuse_taken(deployment, surveys[0])
        if any(one.is_alive for each in surveys for one in each.containers):
            return NotKnown(not_known=f"{self.name} runs already, and has its memory")
        plan = plan_on_nodes(deployment, surveys, fleet)
        if isinstance(plan, MemoryPlan):
            self.console.tell(told_memory(plan))
            refuse_too_large(plan, self.model.text)
        else:
            self.console.tell(f"memory is not planned: {plan.not_known}")
        return plan

    def _made(self, fleet: FleetEngines, surveys: Sequence[NodeSurvey]) -> MadeImage:
        head = next(iter(fleet.nodes.values()))
        wishes = ImageWishes(
            settings=self.settings,
            nodes=len(surveys),
            model=surveys[0].model,
            keep=self._kept(f"up/{self.name}"),
            force=self.request.force,
            dry_run=self.request.dry_run,
        )
        with machine_at(head, self.environment.variables) as machine:
            made = make_image(wishes, machine, environment=self.environment, console=self.console)
        having = [fleet.nodes[each.node] for each in surveys if each.content]
        if made.content or not having:
            return made
        # It was not made here: from a node that has it, the head before others.
        return replace(made, node=having[0])

    def _kept(self, name: str) -> str:
        place = self.environment.cache_directory
        return f"{place}/{name}" if place else ""


def _is_everywhere(made: MadeImage, surveys: Sequence[NodeSurvey]) -> bool:
    contents = {each.content for each in surveys}
    return len(contents) == 1 and contents <= {made.content or surveys[0].content} - {""}


def _as_if_shipped(made: MadeImage, surveys: Sequence[NodeSurvey]) -> tuple[NodeSurvey, ...]:
    """Give the nodes as they would be: for a dry run, which sends nothing."""
    had = next((each.content for each in surveys if each.content), "")
    return tuple(replace(each, content=made.content or each.content or had) for each in surveys)


def _model(settings: Settings) -> WantedModel:
    if not settings.model.id:
        raise RequestError(
            "no model is named",
            remedy="say [model] id: a Hugging Face id, or the folder of the model, the same on every node",
            code="E222",
        )
    return WantedModel(text=settings.model.id, revision=settings.model.revision)

# The only place where anything of an image is run, and only where the user asks for it: the image's own interpreter, never
# its entrypoint, without network, on a file system that cannot be written. It imports as the processes of the image do,
# so it gets the image's environment and not -I: PYTHONPATH may lead to the very transformers that is meant.
"""Ask the base's own interpreter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from vllm_graft.deps.asked import Asked, parse_answers, program, questions
from vllm_graft.deps.needs import Need
from vllm_graft.errors import RequestError
from vllm_graft.image.asking import Question, ask_machine, unanswered
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.run.engine import engine_at, inspect_image, run_inside
from vllm_graft.run.process import run_command
from vllm_graft.values.environment import Environment
from vllm_graft.values.source import DockerSource, Source
from vllm_graft.workflows.open_image import EngineImage, open_in_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBase:
    """An image of the local engine, whose interpreter may be asked."""

    source: DockerSource
    python: str
    image: EngineImage
    environment: Environment
    console: Console

    def __call__(self, needs: Sequence[Need], config: Mapping[str, object] | None) -> Asked:
        """Put needs and a config.json to it.

        Raises:
            SourceError: E336, it gave no answer; E335, its container could not be removed.
        """
        facts = self.image.facts
        self.console.tell(f"asking {self.python} in {facts.reference} (no network, read-only)")
        script = files("vllm_graft") / "deps" / "inside_transformers.py"
        text = program(script.read_text(encoding="utf-8"), questions(needs, config))
        question = Question(python=self.python, program=text)
        answer = run_inside(self.image.engine, facts, question, self.image.variables)
        by = f"{self.python} in {facts.reference}"
        asked = parse_answers(answer.stdout, needs, by=by) if answer.passed else None
        if asked is None:
            raise unanswered(answer, by)
        return asked


def refuse_unaskable(source: Source, accepted: Sequence[str], *, is_stated: bool) -> DockerSource:
    """Refuse early to ask what cannot be asked.

    Raises:
        RequestError: E205.
    """
    if not isinstance(source, DockerSource) or source.node is not None:
        raise RequestError(
            f"--ask-base runs the interpreter of an image of this machine's engine, and {source} is none",
            remedy="give the base as docker:IMAGE (on the machine that has it), or leave --ask-base away",
            code="E205",
        )
    if accepted or is_stated:
        word = "--accept" if accepted else "--with"
        raise RequestError(
            f"--ask-base asks the image as it is, and {word} speaks of what it will be",
            remedy=f"plan once with --ask-base, and again with {word} without it",
            code="E205",
        )
    return source


def askable_base(source: DockerSource, *, environment: Environment, console: Console) -> AskBase:
    """See that the image has an interpreter that its engine can run; it was read before, so that this is quick.

    Raises:
        RequestError: E205, it has none, or it is for another machine.
        SourceError: E330 to E335, the engine does not give it.
    """
    variables = environment.variables
    with engine_at(None, variables) as engine:
        facts = inspect_image(engine, source.reference, variables)
        machine = run_command(ask_machine(engine), variables=variables)
        told = machine.stdout.decode("utf-8", "replace").strip()
        if not machine.passed or told != facts.architecture:
            raise RequestError(
                f"--ask-base runs the interpreter of {facts.reference}, which is for {facts.platform}, and"
                f" {engine.said} runs on {told or machine.last_lines()}",
                remedy="plan on a machine of that architecture, or leave --ask-base away",
                code="E205",
            )
        image = EngineImage(engine=engine, facts=facts, variables=variables)
        cache = Cache.at(environment.cache_directory, console)
        opened = open_in_engine(source, image, cache)
    if not opened.placement.python:
        raise RequestError(
            f"--ask-base: no interpreter was found in {facts.reference} that imports from {opened.placement.root}",
            remedy="leave --ask-base away",
            code="E205",
        )
    return AskBase(
        source=source,
        python=opened.placement.python,
        image=image,
        environment=environment,
        console=console,
    )


def grafted_unasked(source: DockerSource, base: str) -> RequestError:
    """Say why a grafted image is not asked: what is planned goes onto the image below it."""
    return RequestError(
        f"--ask-base: {source.reference} is grafted, and what is planned goes onto its base, {base}",
        remedy="leave --ask-base away, or give that base",
        code="E205",
    )

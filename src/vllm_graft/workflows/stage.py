# Where a rehearsal takes place: a container of an image, or the interpreter of a folder. Both take a program on stdin and leave
# nothing behind.
"""A place in which code of an install may be run."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from vllm_graft.errors import RequestError, SourceError, VerificationError
from vllm_graft.image.asking import Question, ask_machine
from vllm_graft.image.overlay import JOURNAL
from vllm_graft.image.provenance import PYTHONPATH_LABEL, plan_place, read_provenance
from vllm_graft.rehearse.grafted import NOTHING_KNOWN, Grafted, read_grafted
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.run.directory import exists, names, read_file
from vllm_graft.run.engine import container_files, engine_at, inspect_image, run_inside
from vllm_graft.run.interpreter import run_by_interpreter
from vllm_graft.run.process import run_command
from vllm_graft.values.codec import written_plan_digest
from vllm_graft.values.command import Completed
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.source import DockerSource, PathSource, Source
from vllm_graft.workflows.image_layers import at_home
from vllm_graft.workflows.open_image import EngineImage, open_in_engine
from vllm_graft.workflows.open_source import open_install

_MEGABYTES = 1024
"""Of the folder that a container may write into: the model's description, vLLM's and torch's caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An install that can be asked."""

    name: str
    root: str
    """The folder that holds its ``vllm/``."""
    grafted: Grafted
    home: str
    """Home directory of the process that will serve; empty: of the user that it runs as."""
    answer: Callable[[bytes, timedelta], Completed]

    def run(self, text: bytes, limit: timedelta) -> Completed:
        """Run a program in it.

        Raises:
            SourceError: E331 to E335, its engine refuses.
        """
        return self.answer(text, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How an install will be served, as far as it is not in it."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    volumes: tuple[str, ...] = ()
    """Of an image: ``PLACE:PLACE IN THE CONTAINER``."""
    python: str = ""
    """Of a folder: its interpreter; empty: the one of the environment that it is in."""


@contextmanager
def open_stage(
    source: Source, served: Served, *, environment: Environment, console: Console
) -> Generator[Stage]:
    """Read an install and see that it can be run.

    Raises:
        RequestError: E234 to E237, it cannot.
        SourceError: it cannot be read.
        NodeError: E500 to E507.
        VerificationError: E640, what it says of its graft cannot be read.
    """
    match source:
        case DockerSource():
            if served.python:
                raise RequestError(
                    "--python names the interpreter of a folder, and an image has its own",
                    remedy="leave --python out",
                    code="E235",
                )
            with _image(source, served, environment, console) as stage:
                yield stage
        case PathSource(path=path):
            if served.volumes:
                raise RequestError(
                    "--volume mounts something into a container, and a folder is run without one",
                    remedy="leave --volume out, or build an image of the folder",
                    code="E235",
                )
            yield _folder(at_home(path, environment), served, environment)
        case _:
            raise RequestError(
                f"{source} cannot be run: only an image of an engine (docker:IMAGE) or a folder (path:DIR) can",
                remedy="load the image into an engine first: docker load, docker pull, or `vllm-graft build --to docker`",
                code="E234",
            )


@contextmanager
def _image(
    source: DockerSource, served: Served, environment: Environment, console: Console
) -> Generator[Stage]:
    variables = environment.variables
    cache = Cache.at(environment.cache_directory, console)
    with engine_at(source.node, variables) as engine:
        facts = inspect_image(engine, source.reference, variables)
        machine = run_command(ask_machine(engine), variables=variables)
        told = machine.stdout.decode("utf-8", "replace").strip()
        if machine.passed and told != facts.architecture:
            raise RequestError(
                f"{facts.reference} is for {facts.platform}, and {engine.said} runs on {told}",
                remedy=f"rehearse on a machine of that architecture: docker:{source.reference}@NODE",
                code="E236",
            )
        opened = open_in_engine(
            source, EngineImage(engine=engine, facts=facts, variables=variables), cache
        )
        python = opened.placement.python
        if not python:
            raise RequestError(
                f"no interpreter was found in {facts.reference} that imports from {opened.placement.root}",
                remedy="name the place of its environment: docker:IMAGE#/path/of/it",
                code="E237",
            )
        root = opened.placement.root
        provenance = read_provenance(facts)
        grafted = NOTHING_KNOWN
        if provenance is not None and provenance.route == "graft":
            with container_files(engine, facts, variables) as supply:
                place = plan_place(root, provenance)
                content = next((each.content for each in supply.one(place)), None)
            if content is None or str(written_plan_digest(content)) != provenance.plan:
                raise VerificationError(
                    f"{facts.reference} says that it is grafted, and does not hold the plan that its labels name",
                    remedy="build it anew from its plan",
                    code="E640",
                )
            grafted = read_grafted([content], where=facts.reference)
        path = facts.labels.get(PYTHONPATH_LABEL, "")
        given = {**({"PYTHONPATH": path} if path else {}), **served.variables}

        def answer(text: bytes, limit: timedelta) -> Completed:
            question = Question(
                python=python,
                program=text,
                variables=given,
                volumes=served.volumes,
                megabytes=_MEGABYTES,
                limit=limit,
            )
            return run_inside(engine, facts, question, variables)

        yield Stage(
            name=str(source), root=root, grafted=grafted, home=_home(facts, given), answer=answer
        )


def _home(facts: ImageFacts, given: Mapping[str, str]) -> str:
    return given.get("HOME") or facts.variables.get("HOME", "")


def _folder(path: str, served: Served, environment: Environment) -> Stage:
    install = open_install(PathSource(path=path), environment=environment)
    root = install.location
    given = served.variables
    chosen = served.python or _interpreter(root)
    if not chosen or not exists(chosen):
        raise RequestError(
            f"no interpreter is known for {path}"
            if not chosen
            else f"no such interpreter: {chosen}",
            remedy="name it: --python /path/to/venv/bin/python",
            code="E237",
        )
    places = [f"{root}/{JOURNAL}/{name}/plan.json" for name in _names(f"{root}/{JOURNAL}")]
    plans = [read_file(place) for place in places if exists(place)]
    kept = ":".join(filter(None, (root, given.get("PYTHONPATH", ""))))
    run = partial(
        run_by_interpreter,
        chosen,
        given={**given, "PYTHONPATH": kept},
        variables=environment.variables,
    )
    return Stage(
        name=f"path:{path}",
        root=root,
        grafted=read_grafted(plans, where=path),
        home=given.get("HOME") or environment.home,
        answer=lambda text, limit: run(program=text, limit=limit),
    )


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in names(folder) if "." not in name)
    except SourceError:
        return []


def _interpreter(root: str) -> str:
    """Give the interpreter of the environment that a site directory is in; empty where there is none."""
    for steps in range(1, 4):
        above = root.split("/")[: -steps or None]
        if exists(found := "/".join((*above, "bin/python"))):
            return found
    return f"{root}/bin/python" if exists(f"{root}/bin/python") else ""

# Where distributions are put into an image, files matter that nobody asks about else. So it is read once more, where they go.
"""The whole file system of an image."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from vllm_graft.image.tree import ImageTree
from vllm_graft.run.engine import container_files, engine_at, inspect_image
from vllm_graft.run.lower_image import lower_image
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.source import DockerSource, ImageSource, Platform
from vllm_graft.workflows.image_layers import read_layers
from vllm_graft.workflows.open_image import lay_layers

_MACHINES = {"amd64": "x86_64"}
"""Go's spelling → that of the command line."""


@contextmanager
def whole_tree(
    source: ImageSource, facts: ImageFacts, *, environment: Environment
) -> Generator[ImageTree]:
    """Give an image with the name of every file: of an engine, part by part as it is asked for.

    ``facts`` may be those of what lies below a graft in the source.

    Raises:
        SourceError: as :func:`vllm_graft.workflows.open_image.open_image`.
    """
    if not isinstance(source, DockerSource):
        machine = _MACHINES.get(facts.architecture, facts.architecture)
        platform = Platform(system=facts.system, machine=machine)
        layered = read_layers(source, platform, environment)
        yield lay_layers(replace(layered, facts=facts), everything=True)
        return
    variables = environment.variables
    with ExitStack() as stack:
        engine = stack.enter_context(engine_at(source.node, variables))
        if inspect_image(engine, source.reference, variables).layers != facts.layers:
            name = stack.enter_context(lower_image(engine, facts, variables))
            facts = replace(facts, reference=name)
        supply = stack.enter_context(container_files(engine, facts, variables))
        yield ImageTree(supply=supply, everything=True)

# From the words of the user to an Install. What was fetched or read once is kept in the cache in the form that
# the linker reads; the wheel itself is not kept.
"""Open a source."""

from typing import assert_never

from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.source import (
    ArchiveSource,
    DockerSource,
    OciSource,
    PathSource,
    PyPISource,
    RegistrySource,
    Source,
    SourceOptions,
    WheelSource,
)
from vllm_graft.workflows.image_layers import at_home
from vllm_graft.workflows.open_folder import open_folder
from vllm_graft.workflows.open_image import open_image
from vllm_graft.workflows.open_release import open_release
from vllm_graft.workflows.open_wheel import open_wheel


def open_install(
    source: Source,
    *,
    options: SourceOptions | None = None,
    environment: Environment,
    console: Console | None = None,
) -> Install:
    """Read what is in a source; nothing of it is run.

    Raises:
        SourceError: it cannot be read, or holds no vLLM.
    """
    console = console or Console()
    cache = Cache.at(environment.cache_directory, console)
    match source:
        case PyPISource():
            return open_release(
                source, options=options or SourceOptions(), environment=environment, cache=cache
            )
        case WheelSource(path=path):
            return open_wheel(at_home(path, environment), source=str(source), cache=cache)
        case PathSource(path=path):
            return open_folder(at_home(path, environment), source=str(source), cache=cache)
        case DockerSource() | RegistrySource() | OciSource() | ArchiveSource():
            platform = options.platform if options else None
            return open_image(
                source, platform=platform, environment=environment, cache=cache
            ).install
        case _:
            assert_never(source)

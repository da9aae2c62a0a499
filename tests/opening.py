"""Opening sources in tests: a cache of their own, and what was told on the way."""

import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.source import SourceOptions, parse_source
from vllm_graft.workflows.open_source import open_install


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens sources with a cache of its own, and keeps what was told on the way."""

    cache: Path
    stream: io.StringIO
    variables: Mapping[str, str]

    def open(
        self,
        text: str,
        options: SourceOptions | None = None,
        *,
        variables: Mapping[str, str] | None = None,
    ) -> Install:
        return open_install(
            parse_source(text),
            options=options,
            environment=Environment(
                variables={**self.variables, **(variables or {})},
                home=str(Path.home()),
                python=sys.executable,
            ),
            console=Console(stream=self.stream),
        )

    @property
    def told(self) -> str:
        return self.stream.getvalue()


def opener_at(cache: Path, **variables: str) -> Opener:
    environment = {**os.environ, "VLLM_GRAFT_CACHE": str(cache), **variables}
    return Opener(cache=cache, stream=io.StringIO(), variables=environment)

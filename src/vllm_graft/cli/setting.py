"""What holds for every verb."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from vllm_graft.report.form import Form
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a verb is called, and in which form it is to answer."""

    form: Form
    quiet: bool
    colour: bool
    width: int
    """Of a line on stdout."""
    variables: Mapping[str, str]
    err: TextIO

    @property
    def console(self) -> Console:
        """Give where the story goes."""
        return Console(stream=self.err, quiet=self.quiet)

    @property
    def environment(self) -> Environment:
        """Give the surroundings as the workflows take them."""
        try:
            home = str(Path.home())
        except RuntimeError:  # no HOME and no entry in the user database, as in some containers
            home = ""
        return Environment(variables=self.variables, home=home, python=sys.executable)


Result = tuple[str, int]
"""What goes to stdout, and the exit status."""

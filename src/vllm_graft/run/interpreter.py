# An interpreter of this machine, given a program on its stdin: in a folder of its own, with an environment of its own, so that
# it neither sees nor changes what the user has lying around.
"""Running a program by an interpreter of this machine."""

from collections.abc import Mapping
from datetime import timedelta

from vllm_graft.run.process import run_command
from vllm_graft.run.workspace import workspace
from vllm_graft.values.command import Command, Completed

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""Of the user's own variables: where programs and libraries are, and how text is encoded."""


def run_by_interpreter(
    python: str,
    program: bytes,
    given: Mapping[str, str],
    variables: Mapping[str, str],
    limit: timedelta,
) -> Completed:
    """Run it; nothing that it writes is left.

    ``given``: variables for it; of ``variables``, the user's, it gets the few that every process needs.
    """
    with workspace() as folder:
        own = {name: variables[name] for name in _KEPT if name in variables}
        places = {"HOME": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = Command(
            argv=(python, "-"), why="have the interpreter answer", stdin=program, timeout=limit
        )
        return run_command(command, variables={**own, **given, **places})

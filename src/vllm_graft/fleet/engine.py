# The engine of another machine is asked the same things as this one's. What differs is how it is found, and what is to be
# done where it is not: that is said for the machine that it is about.
"""The engine of a node."""

from vllm_graft.errors import NodeError
from vllm_graft.image.engine import Engine
from vllm_graft.values.command import Command, Completed

_TIMED_OUT = 124
"""As for Completed."""


def ask_whether_usable(engine: Engine) -> Command:
    """Ask for containers: an engine that answers may be used by this user."""
    return engine.command("ps", "--quiet", why=f"see whether {engine.said} can be used")


def is_for_root_only(answer: Completed) -> bool:
    """Tell whether an engine is there, and this user may not use it."""
    return b"permission denied" in answer.stderr.lower()


def unusable_there(answer: Completed, engine: Engine) -> NodeError:
    """Say why the engine of a node cannot be used."""
    said = answer.last_lines(2)
    if is_for_root_only(answer):
        return NodeError(
            f"{engine.said} may not be used by the user that ssh logs in as, and not through sudo without a password: {said}",
            remedy=f"on {engine.node}: sudo usermod -aG docker USER, then log in again; or let sudo run {engine.name}"
            " without a password (NOPASSWD)",
            code="E505",
        )
    hangs = answer.status == _TIMED_OUT
    remedy = f"see what it is busy with (ssh {engine.node} sudo journalctl -n 50 -u docker), and restart it there if it hangs"
    return NodeError(
        f"{engine.said} does not answer: {said or f'it ended with status {answer.status}'}",
        remedy=remedy
        if hangs
        else f"start it there (ssh {engine.node} sudo systemctl start docker)",
        code="E506",
    )


def no_engine_there(node: str) -> NodeError:
    """Say that a node has no engine."""
    return NodeError(
        f"there is neither docker nor podman on {node}",
        remedy=f"install one of them there; if it is in an unusual place, put that on the PATH which `ssh {node} env` shows",
        code="E504",
    )

# ssh says with one status that it could not do its part, and with words why. What the words mean for a user is said here.
"""Why a node was not reached, or was lost."""

from vllm_graft.errors import NodeError
from vllm_graft.values.command import Completed, visible

_BY_SSH, _OUT_OF_TIME, _NO_PROGRAM = 255, 124, 127
"""Source: ssh(1), EXIT STATUS: 255 if an error occurred, else that of the remote command; the others as for Completed."""

_CUT = "kex_exchange_identification:"
"""Of whom nobody answered: with other words before it, a host on the way said those."""


def never_began(answer: Completed) -> NodeError:
    """Say why a command never began on its node.

    Source: the words of OpenSSH 8.2 to 9.9, sshconnect.c, sshconnect2.c and ssh.c.
    """
    node, said = answer.command.node, answer.last_lines()
    if answer.status == _NO_PROGRAM and said.startswith("ssh:"):
        return NodeError(
            "there is no ssh on this machine",
            remedy="install OpenSSH's client (apt install openssh-client)",
            code="E500",
        )
    if answer.status == _OUT_OF_TIME:
        return NodeError(
            f"{node} did not answer in time: {said}",
            remedy=f"see that `ssh {node} true` works and what the machine is busy with; then run this again",
            code="E501",
        )
    if 0 <= answer.status < _BY_SSH:
        return _runs_nothing(answer)
    return _not_connected(answer)


def _not_connected(answer: Completed) -> NodeError:
    node = answer.command.node
    lines = answer.last_lines(6).splitlines()
    others = [line for line in lines if not line.startswith(_CUT)]
    is_on_the_way = bool(others) and len(others) < len(lines)
    who = f"a host on the way to {node}" if is_on_the_way else node
    said = "\n".join(others if is_on_the_way else lines)
    low = said.lower()
    if "host key" in low or "remote host identification has changed" in low:
        return NodeError(
            f"the host key of {who} is not known, or is another than before: {said}",
            remedy=f"connect once by hand (ssh {node}) and compare the fingerprint; if the machine was set up anew,"
            f" remove the old key with ssh-keygen -R",
            code="E502",
        )
    if "permission denied" in low or "too many authentication failures" in low:
        return NodeError(
            f"{who} does not let you in: {said}",
            remedy=f"see that `ssh {node} true` works without being asked for anything: a key in the agent"
            " (ssh-add), or one that ~/.ssh/config names",
            code="E503",
        )
    return NodeError(
        f"{who} cannot be reached: {said or f'ssh ended with status {answer.status}'}",
        remedy=f"see that `ssh {node} true` works; names, ports and jump hosts are those of ~/.ssh/config"
        + _no_port(node) * ("resolve hostname" in low),
        code="E501",
    )


def _no_port(node: str) -> str:
    name, colon, port = node.rpartition(":")
    if not colon or not port.isdecimal() or ":" in name:
        return ""
    return f" (ssh takes no port behind a colon: give {name} a Host of its own there, with `Port {port}`)"


def _runs_nothing(answer: Completed) -> NodeError:
    node = answer.command.node
    said = visible(
        "\n".join(
            text.decode("utf-8", "replace").strip()[-300:]
            for text in (answer.stdout, answer.stderr)
        ).strip()
    )
    return NodeError(
        f"{node} lets you in, but the shell there ended with status {answer.status} before the command began"
        + f": {said}" * bool(said),
        remedy=f"see that `ssh {node} /bin/sh -c id` says who you are there: the user needs a shell, its startup files must"
        " not leave (exit, exec), and no command may be forced upon the key",
        code="E510",
    )


def says_nothing(error: NodeError) -> bool:
    """Tell whether all that is known is that nobody answered: it may have been a host on the way."""
    return error.code == "E501" and _CUT in error.what


def was_lost(answer: Completed) -> NodeError | None:
    """Say that the way to the node was lost while a command ran; None where it was not."""
    if not answer.command.node or answer.status != _BY_SSH:
        return None
    return NodeError(
        f"the connection to {answer.command.node} was lost while {answer.command.inner[0]} ran:"
        f" {answer.last_lines() or 'ssh ended with status 255'}",
        remedy="see that the machine is up and run this again; what was begun there ends with the connection",
        code="E507",
    )

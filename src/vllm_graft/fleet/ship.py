# What is decided before anything is sent, and what the answers mean afterwards. Nothing here asks or sends.
"""Shipping an image: who lacks what, who hands on to whom, and what went wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_graft.errors import GraftError, NodeError, VerificationError
from vllm_graft.fleet.relay import LONGEST
from vllm_graft.image.engine import Engine
from vllm_graft.image.oci import Descriptor
from vllm_graft.values.amount import size
from vllm_graft.values.command import Completed
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node_facts import EngineFacts, SpaceFacts

_TWICE = 2
"""An engine writes the archive to its disk and then the layers. Seen with Docker 20.10 and 28.5."""

_SHORT = 1.5
"""Seconds that a link takes: in that time no path between two nodes is found, tried and measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What of an image a node has."""

    layers: int
    """How many, from the lowest on."""
    stored: tuple[Descriptor, ...] = ()
    """Those, as its store names them; empty where that is by their diff ids, or is not known."""


NOTHING = Held(layers=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that are sent the same."""

    held: Held
    names: tuple[str, ...]


def groups(held: Mapping[str, Held]) -> tuple[Group, ...]:
    """Give nodes by what they have, by their names: those that lack the least come first."""
    found: dict[Held, list[str]] = {}
    for name, each in held.items():
        found.setdefault(each, []).append(name)
    ordered = sorted(found.items(), key=lambda item: -item[0].layers)
    return tuple(Group(held=each, names=tuple(names)) for each, names in ordered)


def is_worth_chaining(lacking: int, rate: int) -> bool:
    """Tell whether nodes should hand on to each other what they lack, or each get it from the sender.

    ``lacking``: bytes, 0 is not known; ``rate``: bytes a second of the sender's link, 0 is not known.
    """
    return not lacking or not rate or lacking / rate > _SHORT


def runs(names: Sequence[str], reaches: Mapping[str, bool]) -> tuple[tuple[str, ...], ...]:
    """Give the chains: nodes in their order, each behind the one before it where that one can connect to it.

    ``reaches``: name of a node → whether the one before it can. The first of each chain gets it from the sender itself.
    """
    found: list[list[str]] = []
    for name in names:
        if found and reaches.get(name) and len(found[-1]) < LONGEST:
            found[-1].append(name)
        else:
            found.append([name])
    return tuple(map(tuple, found))


def refuse_architecture(image: ImageFacts, engine: Engine, facts: EngineFacts) -> None:
    """Refuse a node that could not run the image.

    Raises:
        NodeError: E531.
    """
    if facts.architecture != image.architecture:
        raise NodeError(
            f"{image.reference} is for {image.platform}, and {engine.said} runs containers for {facts.architecture}",
            remedy="nothing was sent or started there; build the image on a base for that platform, or leave this node out",
            code="E531",
        )


def refuse_small_disk(lacking: int, space: SpaceFacts, engine: Engine) -> None:
    """Refuse a node whose disk is too small; ``lacking``: bytes of the layers that it has not.

    Raises:
        NodeError: E532.
    """
    needed = _TWICE * lacking
    if space.free < needed:
        raise NodeError(
            f"{engine.said} has {size(space.free)} left in {space.place}, and needs {size(needed)}: the layers, and the"
            " archive that they come in for as long as it unpacks them",
            remedy=f"nothing was sent there; make room ({engine.name} image ls, {engine.name} system df), then run this again",
            code="E532",
        )


def refuse_other_image(tag: str, engine: Engine) -> NodeError:
    """Say that the name is taken."""
    return NodeError(
        f"{engine.said} has another image of the name {tag}",
        remedy="nothing was sent there; with --force the new one takes the name, and the old image stays reachable under a"
        " dated one",
        code="E533",
    )


_CAUSES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("no space left on device", "disk quota exceeded"), "E534"),
    (
        (
            "error during connect",
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "connection reset by peer",
            "broken pipe",
        ),
        "E536",
    ),
    (
        ("error unpacking", "no such file or directory", "not found", "payload does not match"),
        "E535",
    ),
)
"""Words → code; the first that fits. Source: Docker 20.10 and 28.5, podman 4.3, in the tests and in docs/ship.md."""


def not_taken(answer: Completed, engine: Engine, tag: str) -> NodeError | None:
    """Say why an engine did not take an image; None where it says that it did.

    E535 is where it lacks what it was thought to have. Source: as for image/engine.py, load_refusal.
    """
    said = (answer.stdout + answer.stderr).decode("utf-8", "replace").strip()
    low = said.lower()
    if answer.passed and "error unpacking" not in low:
        return None
    code = next((code for words, code in _CAUSES if any(word in low for word in words)), "E530")
    remedies = {
        "E534": "make room where the engine keeps images, then run this again: what the engine had begun with it has removed",
        "E535": "it is sent whole; run this again",
        "E536": "see that the engine runs (systemctl status docker), then run this again",
        "E530": "see the engine's log, then run this again",
    }
    last = "\n".join(said.splitlines()[-3:])
    return NodeError(
        f"{engine.said} did not take {tag}: {last or f'it ended with status {answer.status}'}",
        remedy=remedies[code],
        code=code,
    )


LACKING = 4
"""Status of image/inside_save.py where the engine has not all bytes of an image."""


def not_given(status: int, said: str, source: str, tag: str) -> NodeError:
    """Say why the engine that has the image did not give it; ``status``: of image/inside_save.py."""
    if status == LACKING:
        return NodeError(
            f"the engine of {source} has {tag}, but not all of its bytes: {said}",
            remedy="it was loaded there by layers alone into containerd's store, which keeps no archive of the others. Ship from a"
            " machine that has it whole, or build it there again",
            code="E537",
        )
    return NodeError(
        f"the engine of {source} did not give {tag}: {said or f'it ended with status {status}'}",
        remedy=f"see `docker save {tag} | wc -c` there, and its free disk space: some engines write the image to it first",
        code="E538",
    )


def was_cut_off(name: str, before: str, said: str) -> NodeError:
    """Say that a node was not reached by the one before it, or was lost."""
    return NodeError(
        f"{name} did not get all that {before} sent: {said or 'the connection ended'}",
        remedy="see that both machines are up and the network holds, then run this again",
        code="E539",
    )


def is_other_now(engine: Engine, tag: str, wanted: str, found: str) -> VerificationError:
    """Say that a node has something else than what was sent."""
    return VerificationError(
        f"what {engine.said} has as {tag} is not what was sent: wanted {wanted}, found {found}",
        remedy="the name was taken back; see the engine's version and log, and report it with both",
        code="E603",
    )


def makes_no_container(engine: Engine, tag: str, error: GraftError) -> VerificationError:
    """Say that a node's engine took an image in and cannot use it."""
    return VerificationError(
        f"{engine.said} took {tag} in and makes no container of it: {error.what}",
        remedy="the name was taken back; see the engine's log, free disk space and version",
        code="E604",
    )

# What the user accepted of what a plan proposes. The wheels are known by then, so what they break is no forecast any more, as
# far as METADATA tells it: if no pin of the image that holds now is broken, they take the place of the image's own; else they lie
# beside them, and only the process that serves this model sees them.
"""Accepted distributions: where they go, and what is decided about each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from vllm_graft.deps.environment import Demand, ModelledEnvironment
from vllm_graft.errors import RequestError
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.install import Distribution, Install
from vllm_graft.values.plan import DependencyDecision
from vllm_graft.values.wheels import LockedWheel, WheelPlace

COMES_WITH = "comes with "
"""How the reason of a decision begins that nobody named."""


def accepted_requirement(word: str, dependencies: Iterable[DependencyDecision]) -> str:
    """Give what is to be installed for one ``--accept``: the plan's own proposal for a bare name, else the words themselves.

    Raises:
        RequestError: E204, it is no requirement, or nothing is proposed for that name.
    """
    try:
        read = Requirement(word)
    except InvalidRequirement as error:
        raise _refusal(word, "it is neither a name nor a requirement") from error
    if read.url or read.marker:
        raise _refusal(word, "an address or a marker cannot be accepted")
    if read.specifier or read.extras:
        return str(read)
    name = canonicalize_name(read.name)
    known = {each.name: each for each in dependencies}
    found = known.get(name)
    if found is not None and found.proposed:
        return found.proposed
    decided = f"the plan says {found.decision}: {found.reason}" if found else "it is in no decision"
    raise _refusal(word, f"nothing is proposed for it ({decided})")


def _refusal(word: str, why: str) -> RequestError:
    return RequestError(
        f"--accept {word} cannot be followed: {why}",
        remedy="name a distribution that the plan proposes, as its Dependencies tell; or say which version you want, such as"
        " --accept transformers==5.4.0",
        code="E204",
    )


def broken_pins(
    environment: ModelledEnvironment, wheels: Iterable[LockedWheel]
) -> tuple[Demand, ...]:
    """Give the pins that hold now and would not with these versions; those of what is replaced itself do not count."""
    versions = {each.name: each.version for each in wheels}
    return tuple(
        demand
        for demand in environment.demands
        if demand.name in versions
        and demand.by not in versions
        and demand not in environment.violated
        and demand.allows(versions[demand.name]) is False
    )


def placed(wheels: Sequence[LockedWheel], broken: Sequence[Demand]) -> tuple[LockedWheel, ...]:
    """Say of each wheel where it goes: all in place, or none."""
    place: WheelPlace = "side by side" if broken else "in place"
    return tuple(replace(each, place=place) for each in wheels)


def with_wheels(
    install: Install, wheels: Sequence[LockedWheel], requires: Mapping[str, tuple[str, ...]]
) -> Install:
    """Give an install as a process with these wheels sees it.

    ``requires``: requirement → what it asks for, where that is known; uv has seen to it that all of it is there.
    """
    changed = {
        each.name: Distribution(
            name=each.name, version=each.version, requires=requires.get(each.requirement, ())
        )
        for each in wheels
    }
    kept = {each.name: each for each in install.distributions}
    everything = kept | changed
    return replace(
        install,
        distributions=tuple(everything[name] for name in sorted(everything)),
        beside={},  # read off what is replaced
    )


def accepted_decisions(
    dependencies: Iterable[DependencyDecision],
    wheels: Sequence[LockedWheel],
    broken: Sequence[Demand],
    requirements: Sequence[str],
) -> tuple[DependencyDecision, ...]:
    """Give the decisions with one for each wheel, sorted by name."""
    decided = {each.name: each for each in dependencies}
    shown = " and ".join(requirements)
    names = {canonicalize_name(Requirement(each).name) for each in requirements}
    for wheel in wheels:
        before = decided.get(wheel.name)
        why = f"accepted: {shown}" if wheel.name in names else f"{COMES_WITH}{shown}"
        decided[wheel.name] = DependencyDecision(
            name=wheel.name,
            decision=_word(wheel),
            found=wheel.replaces,
            wanted=before.wanted if before else "",
            reason="; ".join(_reasons(wheel, why, before, broken)),
            proposed=wheel.requirement,
        )
    return tuple(decided[name] for name in sorted(decided))


def _word(wheel: LockedWheel) -> Literal["upgrade", "side by side", "add"]:
    if wheel.place == "side by side":
        return "side by side"
    return "upgrade" if wheel.replaces else "add"


def _reasons(
    wheel: LockedWheel, why: str, before: DependencyDecision | None, broken: Sequence[Demand]
) -> Iterator[str]:
    yield why
    if before is not None and before.proposed:
        yield before.reason
    known = before.reason if before is not None else ""
    for demand in broken:
        if demand.name == wheel.name and demand.sentence not in known:
            yield f"in place it would break {demand.sentence}"


def news(broken: Iterable[Demand], wheels: Iterable[LockedWheel]) -> Iterator[Finding]:
    """Tell the pins that the process which serves this model will see broken, and that hold in the image."""
    versions = {each.name: each for each in wheels}
    for demand in broken:
        wheel = versions[demand.name]
        yield Finding(
            code="G407",
            severity="review",
            site=Site(install="base", path=f"{demand.by}-{demand.by_version}.dist-info", line=0),
            wanted=demand.sentence,
            found=f"{wheel.requirement} beside the base's {wheel.replaces or 'none'}, for this model's process alone",
            remedy="METADATA tells no more; run the model in the built image before you rely on it",
        )

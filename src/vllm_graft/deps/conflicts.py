# What would follow if one distribution of the base had another version: which pins that breaks, and which other
# distributions would have to change with it, each with who asks. It is a forecast from METADATA: whether a broken pin is
# benign only running shows. A pin that the base violates already is no news, and is left out.
"""The chain of a change: who asks for what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from vllm_graft.deps.environment import Demand, ModelledEnvironment
from vllm_graft.values.install import Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What one change would bring about."""

    change: str
    """Such as ``transformers==5.5.4``."""
    breaks: tuple[str, ...]
    """Pins that hold now and would not hold then, one sentence each."""
    follows: tuple[str, ...]
    """Distributions that would have to change too, one sentence each."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Give all of it, the broken pins first."""
        return (*self.breaks, *self.follows)


def forecast_change(environment: ModelledEnvironment, candidate: Distribution) -> Forecast:
    """Work out what follows if the environment had this release of a distribution."""
    known = environment.violated
    breaks = [
        f"{demand.sentence}, which {candidate.version} is not"
        for demand in environment.asking(candidate.name)
        if demand.allows(candidate.version) is False and demand not in known
    ]
    follows: list[str] = []
    for demand in environment.demands_of(candidate):
        for sentence, is_broken in _consequences(environment, demand):
            (breaks if is_broken else follows).append(sentence)
    return Forecast(
        change=f"{candidate.name}=={candidate.version}",
        breaks=tuple(dict.fromkeys(breaks)),
        follows=tuple(dict.fromkeys(follows)),
    )


def _consequences(environment: ModelledEnvironment, demand: Demand) -> Iterator[tuple[str, bool]]:
    """Give what a demand of the new release means here: a sentence, and whether it is a broken pin."""
    version = environment.version(demand.name)
    if version and demand.allows(version) is not False:
        return
    if version:
        yield f"{demand.sentence}; the base has {version}", False
    elif not environment.alone:
        yield f"{demand.sentence}, which the base has not", False
    for other in environment.asking(demand.name):
        is_replaced = (
            other.by == demand.by
        )  # what it asks for is asked for no more, but shows what is there
        if other in environment.violated or (is_replaced and version):
            continue
        if are_disjoint(other.specifier, demand.specifier):
            yield f"{other.sentence}, but {demand.sentence}", not is_replaced


def are_disjoint(one: str, other: str) -> bool:
    """Tell whether no version can satisfy both specifiers.

    Tried are the versions that they name and those right behind and before them, which is where a set of
    specifiers begins or ends.
    """
    try:
        both = SpecifierSet(",".join(filter(None, (one, other))))
    except InvalidSpecifier:
        return False
    return not any(both.contains(each, prereleases=True) for each in _edges(both))


def _edges(specifiers: SpecifierSet) -> Iterator[Version]:
    yield Version("0")
    for specifier in specifiers:
        try:
            named = Version(specifier.version.removesuffix(".*"))
        except InvalidVersion:
            continue
        release = named.release
        yield named
        yield Version(f"{named}.post0") if not named.is_postrelease else named
        for place in range(len(release)):
            more = (*release[:place], release[place] + 1)
            yield Version(".".join(map(str, more)))
            if release[place]:
                less = (*release[:place], release[place] - 1, 999_999)
                yield Version(".".join(map(str, less)))
        yield Version(".".join(map(str, (*release, 1))))


def with_pinned(
    environment: ModelledEnvironment, published: Mapping[str, Distribution]
) -> ModelledEnvironment:
    """Add the distributions that are pinned to one exact version and whose METADATA is known.

    What an install without an environment pins exactly would be in any.
    """
    added = {
        found.name: found
        for demand in environment.demands
        if demand.specifier.startswith("==")
        and (found := published.get(f"{demand.name}{demand.specifier}")) is not None
        and found.name not in environment.distributions
    }
    return replace(environment, distributions={**environment.distributions, **added})

# The environment of an install as its METADATA tells it: who is there, and who asks for what. Markers are judged by the
# interpreter and platform of the install, extras by who asks for them. Nothing is resolved and nothing fetched.
"""The environment of an install, modelled from METADATA alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from vllm_graft.install.pins import OWN_NAMES, marker_environment
from vllm_graft.values.install import Distribution, Install


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one distribution asks of another."""

    by: str
    """Who asks: its name."""
    by_version: str
    name: str
    """Of whom."""
    specifier: str
    """As packaging writes it; empty where any version will do."""
    extra: str = ""
    """The extra of the asking distribution that the demand belongs to."""

    @property
    def sentence(self) -> str:
        """Give ``vllm 0.14.1 requires transformers<5,>=4.56.0``."""
        whole = f"{self.by}[{self.extra}]" if self.extra else self.by
        return f"{whole} {self.by_version} requires {self.name}{self.specifier or ' (any version)'}"

    def allows(self, version: str) -> bool | None:
        """Tell whether a version will do; a pre-release counts as itself. None where it is no version."""
        try:
            return SpecifierSet(self.specifier).contains(version, prereleases=True)
        except InvalidVersion:
            return None


@dataclass(frozen=True, kw_only=True)
class ModelledEnvironment:
    """Distributions, and the demands among them."""

    distributions: Mapping[str, Distribution]
    markers: Mapping[str, str]
    """What environment markers are judged by."""
    alone: bool
    """Whether this is vLLM without an environment: then what is not here says nothing."""

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """Everything that is asked for here, sorted by who asks, then of whom."""
        extras = self._extras()
        found = {
            demand
            for distribution in self.distributions.values()
            for demand in self.demands_of(distribution, extras.get(distribution.name, frozenset()))
        }
        return tuple(sorted(found, key=lambda d: (d.by, d.name, d.specifier, d.extra)))

    @cached_property
    def violated(self) -> tuple[Demand, ...]:
        """Demands that this environment does not meet as it is: the control of every other statement about pins."""
        return tuple(
            demand
            for demand in self.demands
            if (version := self.version(demand.name)) and demand.allows(version) is False
        )

    def version(self, name: str) -> str:
        """Give the version of a distribution; empty where it is not here."""
        found = self.distributions.get(name)
        return found.version if found is not None else ""

    def asking(self, name: str) -> tuple[Demand, ...]:
        """Give who asks for a distribution."""
        return tuple(demand for demand in self.demands if demand.name == name)

    def demands_of(
        self, distribution: Distribution, extras: frozenset[str] = frozenset()
    ) -> Iterator[Demand]:
        """Give what a distribution would ask for here, itself and with extras."""
        for requirement in _requirements(distribution):
            for extra in ("", *sorted(extras)):
                holds = requirement.marker is None or requirement.marker.evaluate(
                    {**self.markers, "extra": extra}
                )
                if holds:
                    yield Demand(
                        by=distribution.name,
                        by_version=distribution.version,
                        name=canonicalize_name(requirement.name),
                        specifier=str(requirement.specifier),
                        extra=extra,
                    )
                    break

    def _extras(self) -> Mapping[str, frozenset[str]]:
        """Find the extras that are asked for, to a fixed point: an extra may ask for another's."""
        asked: dict[str, frozenset[str]] = {}
        while True:
            found: dict[str, set[str]] = {name: set(each) for name, each in asked.items()}
            for distribution in self.distributions.values():
                own = asked.get(distribution.name, frozenset())
                for requirement in _requirements(distribution):
                    holds = requirement.marker is None or any(
                        requirement.marker.evaluate({**self.markers, "extra": extra})
                        for extra in ("", *own)
                    )
                    if holds and requirement.extras:
                        name = canonicalize_name(requirement.name)
                        found.setdefault(name, set()).update(requirement.extras)
            now = {name: frozenset(each) for name, each in found.items()}
            if now == asked:
                return asked
            asked = now


def model_environment(install: Install) -> ModelledEnvironment:
    """Model the environment of an install."""
    distributions = {each.name: each for each in install.distributions}
    return ModelledEnvironment(
        distributions=distributions,
        markers=marker_environment(install),
        alone=set(distributions) <= set(OWN_NAMES),
    )


def _requirements(distribution: Distribution) -> Iterator[Requirement]:
    for line in distribution.requires:
        try:
            yield Requirement(line)
        except InvalidRequirement:  # written before the form was settled; pip reads past it too
            continue

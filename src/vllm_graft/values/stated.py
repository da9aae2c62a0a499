"""What the user says of a base that cannot tell it itself: a wheel has no transformers beside it."""

from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from vllm_graft.errors import RequestError

STATED_NAME = "transformers"
"""The one distribution of which the releases are known, so that a version of it says something."""
_FORM = f"{STATED_NAME}==VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDistribution:
    """A distribution that the base will be run with, by the user's word."""

    name: str
    version: str
    """As PEP 440 normalises it."""

    def __str__(self) -> str:
        """Give the form that :func:`parse_stated` reads."""
        return f"{self.name}=={self.version}"


def parse_stated(text: str) -> StatedDistribution:
    """Read ``transformers==5.16.1``.

    Raises:
        RequestError: E203, it is another distribution, or no exact version.
    """
    try:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        version = str(Version(specifier.version))
    except (InvalidRequirement, InvalidVersion, ValueError):
        raise _refusal(text, "it is not one exact version") from None
    if specifier.operator != "==" or requirement.extras or requirement.marker or requirement.url:
        raise _refusal(text, "it is not one exact version")
    if canonicalize_name(requirement.name) != STATED_NAME:
        raise _refusal(text, f"of {requirement.name} no releases are known")
    return StatedDistribution(name=STATED_NAME, version=version)


def _refusal(text: str, why: str) -> RequestError:
    return RequestError(
        f"--with {text} says nothing that a plan could go by: {why}; wanted {_FORM}",
        remedy=f"write {_FORM}, such as {STATED_NAME}==5.16.1",
        code="E203",
    )

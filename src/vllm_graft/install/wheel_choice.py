# Which of a release's wheels is read. The machine that asks does not matter: a Mac with Python 3.14 reads a
# wheel for Linux on arm64, since nothing of it is run. What is not said is chosen the same way everywhere.
"""Choosing among the wheels that a release publishes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from vllm_graft.errors import SourceError
from vllm_graft.values.source import Platform, PyPISource, SourceOptions

_LINKED_WHEEL = re.compile(r"[^\s/\\'\"()<>]+\.whl(?=$|[\s#?'\"()<>,])")
_CPYTHON = re.compile(r"cp3(\d+)")
_PREFERRED_PYTHON = (3, 12)
"""The interpreter of the images that most people run (vLLM's own Dockerfile, 0.11 to 0.33)."""
_PREFERRED_PLATFORMS = ("linux/x86_64", "linux/arm64")
_MACHINE_OF_TAG = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
_NEAR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWheel:
    """One wheel of a release."""

    file: str
    version: Version
    build: tuple[int, str] | tuple[()]
    interpreter: str
    abi: str
    platform_tags: tuple[str, ...]

    def platforms(self) -> tuple[Platform | None, ...]:
        """Give what it is built for; None stands for any."""
        return tuple(dict.fromkeys(_platform(tag) for tag in self.platform_tags))

    def runs_on(self, python: tuple[int, int]) -> bool:
        """Tell whether this CPython may import it."""
        if self.abi == "none":
            return True
        found = _CPYTHON.fullmatch(self.interpreter)
        if found is None:
            return False
        minor = int(found.group(1))
        if self.abi == "abi3":
            return minor <= python[1]
        return self.abi == self.interpreter and minor == python[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The wheel to fetch, and for whom."""

    wheel: PublishedWheel
    platform: Platform | None
    python: tuple[int, int]
    told: str
    """What was chosen without being asked for, as a sentence; empty if nothing was."""


def parse_published(text: str, name: str) -> tuple[PublishedWheel, ...]:
    """Find the wheels of a distribution in anything that mentions their addresses."""
    wheels: dict[str, PublishedWheel] = {}
    for file in dict.fromkeys(unquote(found) for found in _LINKED_WHEEL.findall(text)):
        try:
            distribution, version, build, tags = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        if distribution == name:
            wheels[file] = _wheel(file, version, build, tags)
    return tuple(wheels[file] for file in sorted(wheels))


def _wheel(
    file: str, version: Version, build: tuple[int, str] | tuple[()], tags: frozenset[Tag]
) -> PublishedWheel:
    ordered = sorted(tags, key=str)
    return PublishedWheel(
        file=file,
        version=version,
        build=build,
        interpreter=ordered[0].interpreter,
        abi=ordered[0].abi,
        platform_tags=tuple(dict.fromkeys(tag.platform for tag in ordered)),
    )


def choose_wheel(
    published: Sequence[PublishedWheel], source: PyPISource, options: SourceOptions
) -> Choice:
    """Choose.

    Order: platform asked for, else linux/x86_64, linux/arm64, others by name; Python asked for, else the
    highest up to 3.12, else the lowest above; the oldest C library; the highest build number.

    Raises:
        SourceError: E311 there is no such version (near ones are named); E312 no wheel is for this platform
            or Python (those that are published are named).
    """
    wanted = Version(source.version)
    release = [wheel for wheel in published if wheel.version == wanted]
    if not release:
        raise _no_such_version(published, source)
    fits = [(wheel, platform) for wheel in release for platform in wheel.platforms()]
    if options.platform is not None:
        fits = [(wheel, found) for wheel, found in fits if found in {options.platform, None}]
    if options.python is not None:
        fits = [(wheel, found) for wheel, found in fits if wheel.runs_on(options.python)]
    if not fits:
        raise SourceError(
            f"{source} has no wheel for {_asked(options)}",
            remedy=f"It publishes: {_published(release)}.",
            code="E312",
        )
    wheel, platform = min(fits, key=lambda fit: _rank(fit[0], fit[1], options))
    python = options.python or _python(wheel)
    told = _told(fits, Choice(wheel=wheel, platform=platform, python=python, told=""), options)
    return Choice(wheel=wheel, platform=platform, python=python, told=told)


def equal_choices(
    published: Sequence[PublishedWheel], source: PyPISource, choice: Choice
) -> Iterator[tuple[SourceOptions, Choice]]:
    """Give the other ways to ask that lead to the same wheel, each with the choice it leads to."""
    for platform in dict.fromkeys((choice.platform, None)):
        for python in (choice.python, None):
            options = SourceOptions(platform=platform, python=python)
            same = choose_wheel(published, source, options)
            if same.wheel == choice.wheel:
                yield options, same


def _platform(tag: str) -> Platform | None:
    """Read a platform tag.

    Source: PEP 600 (``manylinux_2_28_x86_64``), PEP 656 (musllinux), PEP 425 (macOS).
    """
    if tag == "any":
        return None
    system = "macos" if tag.startswith("macosx") else "linux" if "linux" in tag else tag
    for ending, machine in _MACHINE_OF_TAG.items():
        if tag.endswith(f"_{ending}"):
            return Platform(system=system, machine=machine)
    return Platform(system=system, machine=tag.rsplit("_", 1)[-1])


def _python(wheel: PublishedWheel) -> tuple[int, int]:
    found = _CPYTHON.fullmatch(wheel.interpreter)
    if found is None or wheel.abi == "none":
        return _PREFERRED_PYTHON
    minor = int(found.group(1))
    return (3, max(minor, _PREFERRED_PYTHON[1])) if wheel.abi == "abi3" else (3, minor)


def _rank(
    wheel: PublishedWheel, platform: Platform | None, options: SourceOptions
) -> tuple[object, ...]:
    shown = str(platform) if platform else ""
    known = shown in _PREFERRED_PLATFORMS
    minor = _python(wheel)[1]
    too_new = options.python is None and minor > _PREFERRED_PYTHON[1]
    build = wheel.build or (0, "")
    return (
        _PREFERRED_PLATFORMS.index(shown) if known else len(_PREFERRED_PLATFORMS),
        shown,
        any("musllinux" in tag for tag in wheel.platform_tags),
        wheel.abi.endswith("t"),
        too_new,
        minor if too_new else -minor,
        min(_c_library(tag) for tag in wheel.platform_tags),
        (-build[0], build[1]),
        wheel.file,
    )


def _c_library(tag: str) -> tuple[int, int]:
    found = re.match(r"(?:many|musl)linux_(\d+)_(\d+)_", tag)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _told(
    fits: Iterable[tuple[PublishedWheel, Platform | None]], chosen: Choice, options: SourceOptions
) -> str:
    said: list[str] = []
    others = list(fits)
    platforms = sorted({str(platform) for _, platform in others if platform})
    if options.platform is None and len(platforms) > 1:
        said.append(f"{chosen.platform} (published: {', '.join(platforms)}; --platform chooses)")
    pythons = sorted({_python(wheel) for wheel, platform in others if platform == chosen.platform})
    if options.python is None and len(pythons) > 1:
        shown = ", ".join(_dotted(each) for each in pythons)
        said.append(f"Python {_dotted(chosen.python)} (published: {shown}; --python chooses)")
    return " and ".join(said)


def _dotted(python: tuple[int, int]) -> str:
    return f"{python[0]}.{python[1]}"


def _asked(options: SourceOptions) -> str:
    words = [str(options.platform)] if options.platform else []
    if options.python:
        words.append(f"Python {_dotted(options.python)}")
    return " and ".join(words) or "any platform"


def _published(release: Iterable[PublishedWheel]) -> str:
    shown = {
        f"{platform or 'any platform'} ({wheel.interpreter}-{wheel.abi})"
        for wheel in release
        for platform in wheel.platforms()
    }
    return ", ".join(sorted(shown))


def _no_such_version(published: Sequence[PublishedWheel], source: PyPISource) -> SourceError:
    wanted = Version(source.version)
    versions = sorted({wheel.version for wheel in published})
    if not versions:
        return SourceError(
            f"your package index has no wheel of {source.name}",
            remedy="See what `pip config list` says; the name is right.",
            code="E310",
        )
    below = [version for version in versions if version < wanted][-(_NEAR // 2) :]
    above = [version for version in versions if version > wanted][: _NEAR // 2]
    near = ", ".join(dict.fromkeys(str(version) for version in (*below, *above)))
    return SourceError(
        f"{source.name} {source.version} is not published as a wheel",
        remedy=f"Near it: {near}; the newest is {versions[-1]}.",
        code="E311",
    )

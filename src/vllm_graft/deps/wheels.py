# Which wheels an image would need for a requirement. uv is asked, for the platform and interpreter of the image, on whatever
# machine this runs. What the image has is shown to uv as wheels without content, so that it is kept wherever it fits, also where no
# index has it (a torch of the image's own build); and what is bound to the image's CUDA may not change at all.
"""The questions to uv, and its answers."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from vllm_graft.errors import BuildError, RequestError, SourceError
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.install import Distribution, Install
from vllm_graft.values.wheels import LockedWheel, WheelTarget

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_CPYTHON = re.compile(r"cp3(\d+)")
_C_LIBRARY = 28
"""manylinux_2_28: what uv takes for Linux, and every image that vLLM is published for can run.

Source: uv 0.13 ``--help``, ``--python-platform``; glibc is 2.31 in Debian 11, 2.35 in Ubuntu 22.04.
"""
_OLDER = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""Source: PEP 600, "Legacy manylinux tags"."""
_BOUND = re.compile(
    r"(vllm|torch|torchvision|torchaudio|triton|pytorch-triton|xformers)"
    r"|(vllm|nvidia|cuda|cupy|flashinfer|flash-attn|pytorch-triton|torch)-.+"
)
"""Made for the CUDA and the torch of the image, or their parts: another release is another image."""
_TIMEOUT = timedelta(minutes=10)
_ADDRESS = re.compile(r"\b(?:https?|file)://\S+")
_UNREACHABLE = ("error sending request", "Request failed", "tcp connect error", "dns error")
"""Source: uv 0.13, what it says with no network or a wrong proxy."""


def target_of(facts: ImageFacts, install: Install) -> WheelTarget:
    """Tell for whom an image's wheels must be.

    Raises:
        SourceError: E312, nothing tells its interpreter, or there are no wheels for such a machine.
    """
    machine = _MACHINES.get(facts.architecture) if facts.system == "linux" else None
    if machine is None:
        raise SourceError(
            f"no wheels are looked for {facts.platform}, the platform of {facts.reference}",
            remedy="Wheels can be chosen for linux/amd64 and linux/arm64.",
            code="E312",
        )
    found = _CPYTHON.fullmatch(install.interpreter or "")
    if found is None:
        raise SourceError(
            f"nothing tells which Python {facts.reference} has",
            remedy="Its packages lie in no folder that names a version, such as lib/python3.12/site-packages.",
            code="E312",
        )
    return WheelTarget(machine=machine, python=(3, int(found[1])))


def platform_tags(target: WheelTarget) -> tuple[str, ...]:
    """Give the platform tags of wheels that run there, the best first."""
    found: list[str] = []
    for minor in range(_C_LIBRARY, 4, -1):
        found.append(f"manylinux_2_{minor}_{target.machine}")
        if minor in _OLDER:
            found.append(f"{_OLDER[minor]}_{target.machine}")
    return (*found, f"linux_{target.machine}")


def parse_requirements(lines: Iterable[str]) -> tuple[str, ...]:
    """Read requirements as a user writes them: ``ray``, ``ray[default]>=2.40``.

    Raises:
        RequestError: E200, one is none, or leads to a file or an address.
    """
    found: list[str] = []
    for line in lines:
        try:
            read = Requirement(line)
        except InvalidRequirement as error:
            raise _no_requirement(line, "it is not of the form NAME or NAME==VERSION") from error
        if read.url:
            raise _no_requirement(line, "it names an address")
        found.append(str(read))
    return tuple(found)


def _no_requirement(line: str, why: str) -> RequestError:
    return RequestError(
        f"{line!r} is no requirement that wheels can be chosen for: {why}",
        remedy="write the name of a distribution, with a version if it matters: transformers==5.4.0",
    )


# --- what the image has, for uv ------------------------------------------------------------------------------------


def is_bound(distribution: Distribution, asked: frozenset[str]) -> bool:
    """Tell whether a distribution of the image may not be replaced.

    That is what holds code made for its CUDA, and what is of the image's own build, unless it is asked for.
    """
    if _BOUND.fullmatch(distribution.name):
        return True
    return "+" in distribution.version and distribution.name not in asked


def names_of(requirements: Iterable[str]) -> frozenset[str]:
    """Give the normalised names of requirements."""
    return frozenset(canonicalize_name(Requirement(each).name) for each in requirements)


def kept_versions(distributions: Iterable[Distribution]) -> str:
    """Give what uv keeps where it fits, as the file of an earlier answer."""
    return "".join(f"{d.name}=={d.version}\n" for d in _valid(distributions))


def bound_versions(distributions: Iterable[Distribution], asked: frozenset[str]) -> str:
    """Give what may not change, as a file of constraints."""
    return "".join(f"{d.name}=={d.version}\n" for d in _valid(distributions) if is_bound(d, asked))


def stand_ins(distributions: Iterable[Distribution]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Give each distribution of the image as a wheel with metadata alone: its file name, and its members.

    What it asks for is left out, since it stays as it is and so brings nothing; but what its extras ask for is not: a
    new distribution may want one.
    """
    for each in _valid(distributions):
        version = str(Version(each.version))
        stem = f"{each.name.replace('-', '_')}-{version}"
        extras = sorted(_extras(each))
        lines = [f"Metadata-Version: 2.1\nName: {each.name}\nVersion: {version}\n"]
        lines += [f"Provides-Extra: {extra}\n" for extra in extras]
        lines += [f"Requires-Dist: {line}\n" for line in _optional(each)]
        yield (
            f"{stem}-py3-none-any.whl",
            {
                f"{stem}.dist-info/METADATA": "".join(lines),
                f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                f"{stem}.dist-info/RECORD": "",
            },
        )


def _valid(distributions: Iterable[Distribution]) -> Iterator[Distribution]:
    for each in distributions:
        try:
            Version(each.version)
        except InvalidVersion:
            continue
        yield each


def _optional(distribution: Distribution) -> Iterator[str]:
    for line in distribution.requires:
        try:
            marker = Requirement(line).marker
        except InvalidRequirement:
            continue
        if marker is not None and "extra" in str(marker):
            yield line


def _extras(distribution: Distribution) -> set[str]:
    return {
        name
        for line in _optional(distribution)
        for name in re.findall(r"""extra\s*==\s*['"]([^'"]+)""", line)
    }


# --- the questions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How uv is asked."""

    uv: str
    target: WheelTarget
    folder: str
    """Holds ``image/`` (the stand-ins), ``bound.txt`` and ``versions.txt``: what the image has."""
    python: str
    """An interpreter of this machine, which uv wants even where it is not asked about it; empty: it finds one."""
    no_index: bool
    """Whether no index is to be asked, which uv takes as a flag alone."""


def ask_versions(asking: Asking, requirements: Sequence[str]) -> Command:
    """Ask which versions would do.

    The answer takes the place of ``versions.txt``: uv keeps what an earlier answer says wherever it fits.
    """
    return Command(
        argv=(
            asking.uv, "pip", "compile", "-", *_common(asking),
            "--output-file", f"{asking.folder}/versions.txt", "--quiet",
        ),
        why=f"choose versions for {' '.join(requirements)} that the image can take",
        stdin="".join(f"{each}\n" for each in requirements).encode(),
        timeout=_TIMEOUT,
    )  # fmt: skip


def ask_wheels(asking: Asking, versions: str) -> Command:
    """Ask for the wheels of these versions, with their digests; the answer is on stdout."""
    return Command(
        argv=(
            asking.uv, "pip", "compile", "-", *_common(asking), "--no-deps",
            "--format", "pylock.toml", "--quiet",
        ),
        why="learn the digests of their wheels",
        stdin=versions.encode(),
        timeout=_TIMEOUT,
    )  # fmt: skip


def _common(asking: Asking) -> tuple[str, ...]:
    # No interpreter of the image's version is needed here, and none is fetched.
    target, folder = asking.target, asking.folder
    return (
        "--python-platform", f"{target.machine}-manylinux_2_{_C_LIBRARY}",
        "--python-version", f"{target.python[0]}.{target.python[1]}",
        "--only-binary", ":all:", "--no-header", "--no-annotate", "--no-python-downloads",
        *(("--python", asking.python) if asking.python else ()),
        *(("--no-index",) if asking.no_index else ()),
        "--constraints", f"{folder}/bound.txt",
        "--color", "never", "--no-progress",
        "--directory", folder,  # else uv reads the settings of the project that it is started in
    )  # fmt: skip


def with_image(variables: Mapping[str, str], folder: str) -> dict[str, str]:
    """Give the variables that show uv the stand-ins beside what the user has told it.

    Not as a flag: a flag would take the place of the user's variable, and theirs may hold a password.
    """
    places = (f"{folder}/image", variables.get("UV_FIND_LINKS", ""))
    return {**variables, "UV_FIND_LINKS": ",".join(filter(None, places))}


# --- the answers ---------------------------------------------------------------------------------------------------


def refuse_answer(
    answer: Completed, requirements: Sequence[str], where: str, *, bound: str = ""
) -> None:
    """Refuse where uv found nothing, in its own words; ``bound``: the constraints that it had.

    Raises:
        SourceError: E313, no index can be reached; E316, uv failed; E317, no set of wheels will do.
    """
    if answer.passed:
        return
    said = hide_addresses(answer.stderr.decode("utf-8", "replace").strip())
    shown = " ".join(requirements)
    if any(sign in said for sign in _UNREACHABLE):
        raise SourceError(
            f"the package index cannot be reached to choose wheels for {shown}",
            remedy="Connect, or see `pip config list` and uv.toml for index, proxy and certificate.",
            code="E313",
        )
    if "No solution found" in said:
        own = [each.replace("==", " ") for each in bound.splitlines() if each in said]
        if own:
            said += f"\n{' and '.join(own)}: the image's own, made for its GPU, which stays"
        raise SourceError(
            f"no wheels of {shown} can go into {where}:\n{said}",
            remedy="Ask for another version, or use an image that has it. What the image has with code for its GPU (torch"
            " and the like) is never replaced.",
            code="E317",
        )
    raise SourceError(
        f"uv could not choose wheels for {shown} (exit status {answer.status}):\n{said}",
        remedy=f"See what this says: {' '.join(answer.command.argv)}",
        code="E316",
    )


def hide_addresses(text: str) -> str:
    """Take addresses out of what a tool said: they are the user's own affair, and may hold a password."""
    return _ADDRESS.sub("(address)", text)


def refuse_bound(
    wheels: Iterable[LockedWheel], distributions: Iterable[Distribution], asked: frozenset[str]
) -> None:
    """Refuse what would replace or add code that is made for one CUDA, whoever proposed it.

    Raises:
        SourceError: E317.
    """
    bound = {each.name: each.version for each in distributions if is_bound(each, asked)}
    for wheel in wheels:
        if wheel.name in bound or _BOUND.fullmatch(wheel.name):
            have = bound.get(wheel.name)
            what = f"replace {wheel.name} {have} of the image" if have else "be new in the image"
            raise SourceError(
                f"{wheel.requirement} would {what}: it is made for one CUDA and one torch, and nothing tells that they are"
                " those of the image",
                remedy="Use an image that has it.",
                code="E317",
            )


def changed_versions(text: str, distributions: Iterable[Distribution]) -> str:
    """Give the lines of an answer that are not what the image has."""
    have = {each.name: Version(each.version) for each in _valid(distributions)}
    changed: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "--")):
            continue
        read = Requirement(line)
        version = next(iter(read.specifier)).version
        name = canonicalize_name(read.name)
        if have.get(name) != Version(version):
            changed.append(f"{name}=={version}\n")
    return "".join(changed)


def parse_wheels(
    content: bytes, target: WheelTarget, distributions: Iterable[Distribution]
) -> tuple[LockedWheel, ...]:
    """Choose of each package the wheel that fits best, sorted by name.

    Source: PEP 751 (pylock.toml): ``packages`` with ``name``, ``version`` and ``wheels``, each with ``hashes``.

    Raises:
        SourceError: E316, the answer is not of that form; E317, one has no wheel that fits.
    """
    have = {each.name: each.version for each in distributions}
    ranks = _ranks(target)
    found: list[LockedWheel] = []
    try:
        answer = tomllib.loads(content.decode())
        packages = cast("list[dict[str, object]]", answer.get("packages", []))
        for package in packages:
            name, version = str(package["name"]), str(package["version"])
            wheels = cast("list[dict[str, object]]", package.get("wheels", []))
            file, digest = _best(wheels, ranks) or _refuse_lacking(name, version, target)
            found.append(
                LockedWheel(
                    name=canonicalize_name(name),
                    version=version,
                    file=file,
                    digest=digest,
                    replaces=have.get(canonicalize_name(name), ""),
                )
            )
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise SourceError(
            f"uv gave an answer that is not understood: {error}",
            remedy="Use the uv that vllm-graft was installed with, and report this.",
            code="E316",
        ) from error
    return tuple(sorted(found, key=lambda each: each.name))


def _ranks(target: WheelTarget) -> Mapping[Tag, int]:
    platforms = platform_tags(target)
    abi = f"cp{target.python[0]}{target.python[1]}"
    ordered = (
        *cpython_tags(target.python, [abi], platforms),
        *compatible_tags(target.python, abi, platforms),
    )
    return {tag: rank for rank, tag in reversed(list(enumerate(ordered)))}


def _best(
    wheels: Iterable[Mapping[str, object]], ranks: Mapping[Tag, int]
) -> tuple[str, Digest] | None:
    fitting: list[tuple[int, str, Digest]] = []
    for wheel in wheels:
        place = str(wheel.get("name") or wheel.get("url") or wheel.get("path") or "")
        file = place.rpartition("/")[2].partition("#")[0].replace("%2B", "+").replace("%2b", "+")
        digest = cast("Mapping[str, str]", wheel.get("hashes") or {}).get("sha256", "")
        try:
            tags = parse_wheel_filename(file)[3]
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in tags if tag in ranks), default=None)
        if rank is not None and digest:
            fitting.append((rank, file, Digest.parse(f"sha256:{digest}")))
    return min(fitting, key=lambda each: each[:2])[1:] if fitting else None


def _refuse_lacking(name: str, version: str, target: WheelTarget) -> tuple[str, Digest]:
    python = f"{target.python[0]}.{target.python[1]}"
    raise SourceError(
        f"{name}=={version} has no wheel with a digest for linux on {target.machine} and Python {python}",
        remedy="Ask for another version of what needs it, or use an image that has it.",
        code="E317",
    )


def refuse_forged(wheels: Iterable[LockedWheel]) -> None:
    """Refuse what no answer of uv can have been: a plan may come from anywhere, and these words are handed to pip.

    Raises:
        BuildError: E430.
    """
    for wheel in wheels:
        try:
            name, version, _, _ = parse_wheel_filename(wheel.file)
            is_same = (name, version) == (wheel.name, Version(wheel.version))
        except (InvalidWheelFilename, InvalidVersion):
            is_same = False
        if not is_same or str(Version(wheel.version)) != wheel.version:
            raise BuildError(
                f"the plan names no wheel with {wheel.requirement!r} and {wheel.file!r}",
                remedy="make the plan again; a plan is not to be edited by hand",
                code="E430",
            )


def hash_lines(wheels: Iterable[LockedWheel]) -> str:
    """Give requirements that only these very files satisfy."""
    return "".join(f"{each.requirement} --hash={_hash(each.digest)}\n" for each in wheels)


def _hash(digest: Digest) -> str:
    return f"sha256:{digest.hex}"

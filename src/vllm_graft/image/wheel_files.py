# A wheel as the files that an installer makes of it, without an installer: the image is not run, and may be for another machine.
# The same wheel gives the same bytes. Bytecode is not made: Python makes it if it may, and an image without it is as right.
"""The content of a wheel, placed."""

import base64
import configparser
import csv
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from vllm_graft.errors import BuildError
from vllm_graft.values.wheels import LockedWheel

INSTALLER = b"vllm-graft\n"
_EXECUTABLE = 0o111
_SCRIPT = """\
#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({call}())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Where an interpreter wants what is in a wheel; all absolute."""

    site: str
    scripts: str
    data: str
    """The prefix, for what a wheel calls data."""
    python: str
    """The interpreter that scripts name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """One file of a wheel, where it belongs."""

    place: str
    content: bytes
    executable: bool


def place_wheel(content: bytes, wheel: LockedWheel, scheme: Scheme) -> tuple[WheelFile, ...]:
    """Give the files that installing a wheel makes, in the order of their places.

    Scripts of its entry points are written as installers write them; headers are left out. RECORD and INSTALLER are those of an
    installer, so that pip can remove it.

    Source: packaging.python.org, "Binary distribution format": ``*.data`` and its keys, ``#!python``, RECORD; "Entry points".

    Raises:
        BuildError: E430, it is no wheel, or a path in it leads out of its place.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
            files = [
                (each.filename, archive.read(each), bool(each.external_attr >> 16 & _EXECUTABLE))
                for each in members
            ]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise _no_wheel(wheel, str(error)) from error
    folder = _dist_info((name for name, _, _ in files), wheel)
    placed: dict[str, WheelFile] = {}
    for name, text, executable in files:
        if name == f"{folder}/RECORD" or name.startswith(f"{folder}/RECORD."):
            continue  # .jws and .p7s are signatures of the wheel as it was
        if (found := _placed(name, text, wheel, scheme)) is not None:
            placed[found.place] = (
                found if found.executable else _with_mode(found, executable=executable)
            )
    texts = {name: text for name, text, _ in files}
    for script in _scripts(texts.get(f"{folder}/entry_points.txt", b""), scheme):
        placed[script.place] = script
    _add(placed, f"{scheme.site}/{folder}/INSTALLER", INSTALLER)
    record = f"{scheme.site}/{folder}/RECORD"
    _add(placed, record, _record(placed, record, scheme.site))
    return tuple(placed[place] for place in sorted(placed))


def _dist_info(names: Iterator[str], wheel: LockedWheel) -> str:
    found = {name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise _no_wheel(wheel, f"it has {len(found)} folders of metadata")
    return found.pop()


def _placed(name: str, text: bytes, wheel: LockedWheel, scheme: Scheme) -> WheelFile | None:
    steps = name.split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or {"", ".", ".."} & set(steps):
        raise _no_wheel(wheel, f"a path in it leads out of its place: {name!r}")
    if "__pycache__" in steps or name.endswith(".pyc"):
        return None
    if not steps[0].endswith(".data"):
        return WheelFile(place=f"{scheme.site}/{name}", content=text, executable=False)
    key, rest = steps[1], "/".join(steps[2:])
    match key:
        case "purelib" | "platlib":
            return WheelFile(place=f"{scheme.site}/{rest}", content=text, executable=False)
        case "scripts":
            place = f"{scheme.scripts}/{rest}"
            return WheelFile(place=place, content=_named(text, scheme.python), executable=True)
        case "data":
            return WheelFile(place=f"{scheme.data}/{rest}", content=text, executable=False)
        case _:
            return None


def _named(text: bytes, python: str) -> bytes:
    first, newline, rest = text.partition(b"\n")
    if first.rstrip() in (b"#!python", b"#!pythonw"):
        return f"#!{python}".encode() + newline + rest
    return text


def _with_mode(file: WheelFile, *, executable: bool) -> WheelFile:
    return WheelFile(place=file.place, content=file.content, executable=executable)


def _scripts(text: bytes, scheme: Scheme) -> Iterator[WheelFile]:
    read = configparser.RawConfigParser(delimiters=("=",), strict=False)
    read.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] names keep their case
    try:
        read.read_string(text.decode("utf-8", "replace"))
    except configparser.Error:
        return
    for section in ("console_scripts", "gui_scripts"):
        if not read.has_section(section):
            continue
        for name, target in read.items(section):
            module, _, attribute = target.partition("[")[0].strip().partition(":")
            if not module or not attribute or "/" in name:
                continue
            script = _SCRIPT.format(
                python=scheme.python,
                module=module.strip(),
                first=attribute.strip().split(".")[0],
                call=attribute.strip(),
            )
            place = f"{scheme.scripts}/{name.strip()}"
            yield WheelFile(place=place, content=script.encode(), executable=True)


def _add(placed: dict[str, WheelFile], place: str, content: bytes) -> None:
    placed[place] = WheelFile(place=place, content=content, executable=False)


def _record(placed: Mapping[str, WheelFile], own: str, site: str) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for place in sorted(placed):
        content = placed[place].content
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow((_relative(place, site), f"sha256={digest}", len(content)))
    writer.writerow((_relative(own, site), "", ""))
    return stream.getvalue().encode()


def _relative(place: str, site: str) -> str:
    """Give a place as RECORD names it: from the site directory on, upwards where it lies elsewhere."""
    steps, above = PurePosixPath(place).parts, PurePosixPath(site).parts
    shared = 0
    while shared < len(above) and steps[shared] == above[shared]:
        shared += 1
    return "/".join((*("..",) * (len(above) - shared), *steps[shared:]))


def _no_wheel(wheel: LockedWheel, why: str) -> BuildError:
    return BuildError(
        f"{wheel.file} cannot be put into an image: {why}",
        remedy="Do not use this wheel; ask for another version.",
        code="E430",
    )

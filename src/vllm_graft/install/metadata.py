"""What the files of a ``*.dist-info`` say."""

import csv
import json
from collections.abc import Mapping
from email.parser import BytesHeaderParser
from typing import cast
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from vllm_graft.values.install import Distribution


def parse_metadata(content: bytes) -> Distribution | None:
    """Read METADATA or PKG-INFO; None where it names no distribution.

    Source: packaging.python.org, "Core metadata specifications": RFC 822 headers, then a description.
    """
    head = content.replace(b"\r\n", b"\n").split(b"\n\n", 1)[0]
    headers = BytesHeaderParser().parsebytes(head + b"\n\n")
    name = headers.get("Name")
    if not name:
        return None
    requires: list[str] = headers.get_all("Requires-Dist") or []
    return Distribution(
        name=canonicalize_name(name),
        version=str(headers.get("Version") or ""),
        requires=tuple(str(line) for line in requires),
    )


def parse_record(content: bytes) -> dict[str, str]:
    """Read RECORD: path → ``sha256=…``; lines without a hash (RECORD itself) are left out.

    Source: packaging.python.org, "Recording installed projects": CSV of path, hash and size.
    """
    rows = csv.reader(content.decode("utf-8", "replace").splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[1].startswith("sha256=")}


def parse_record_paths(content: bytes) -> tuple[str, ...]:
    """Read every path that RECORD names, in its order."""
    rows = csv.reader(content.decode("utf-8", "replace").splitlines())
    return tuple(row[0] for row in rows if row and row[0])


def parse_wheel_interpreter(content: bytes) -> str | None:
    """Read the interpreter tag out of a WHEEL file: ``cp312``, ``abi3``, or None for pure Python."""
    tags = BytesHeaderParser().parsebytes(content).get_all("Tag") or []
    for tag in tags:
        if (found := interpreter_of_tag(str(tag).strip())) is not None:
            return found
    return None


def interpreter_of_tag(tag: str) -> str | None:
    """Give the interpreter that a tag such as ``cp38-abi3-linux_x86_64`` is bound to."""
    parts = tag.split("-")
    if len(parts) != 3:  # noqa: PLR2004 (PEP 425: interpreter, ABI, platform)
        return None
    interpreter, abi, _ = parts
    if abi == "none":
        return None
    return "abi3" if abi == "abi3" else interpreter


def parse_editable_target(content: bytes) -> str | None:
    """Read the folder out of a direct_url.json of an editable install; None where it is another.

    Source: PEP 610: ``dir_info.editable`` beside a ``file://`` URL.
    """
    try:
        value: object = json.loads(content)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    facts = cast("dict[str, object]", value)
    folder = facts.get("dir_info")
    editable = isinstance(folder, dict) and cast("Mapping[str, object]", folder).get("editable")
    url = urlsplit(str(facts.get("url", "")))
    if editable is not True or url.scheme != "file":
        return None
    return unquote(url.path)


def parse_wheel_platform(content: bytes) -> str:
    """Read the first platform tag out of a WHEEL file; empty where there is none."""
    tags = BytesHeaderParser().parsebytes(content).get_all("Tag") or []
    return str(tags[0]).strip().rsplit("-", 1)[-1] if tags else ""

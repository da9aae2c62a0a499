# pip does the fetching, but some people have told only uv where their packages come from. What uv knows is handed
# to pip in pip's own variables, and only where pip itself was told nothing.
"""An index that was configured for uv, in the words of pip."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlsplit

_TOLD_PIP = re.compile(
    r"^\s*(?:index[-_]url|extra[-_]index[-_]url|no[-_]index)\s*[=:]", re.MULTILINE
)
_PIP_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexes:
    first: str = ""
    others: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


def variables_for_pip(
    variables: Mapping[str, str], *, pip_files: Iterable[str], uv_files: Sequence[str]
) -> dict[str, str]:
    """Give the variables that pip should run with.

    ``pip_files`` and ``uv_files`` are the texts of the configuration files that exist; of uv's, the first that
    names an index counts. An address may hold a password: the result is for a child's environment alone.

    Source: uv 0.9 documentation, "Configuration files" and "Environment variables".
    """
    result = dict(variables)
    if any(variables.get(name) for name in _PIP_VARIABLES) or any(map(_TOLD_PIP.search, pip_files)):
        return result
    candidates = (_of_variables(variables), *(_of_file(text, variables) for text in uv_files))
    known = next((each for each in candidates if each != _Indexes()), _Indexes())
    if known.first:
        result["PIP_INDEX_URL"] = known.first
    if known.others:
        result["PIP_EXTRA_INDEX_URL"] = " ".join(known.others)
    if known.find_links and not variables.get("PIP_FIND_LINKS"):
        result["PIP_FIND_LINKS"] = " ".join(known.find_links)
    return result


def _of_variables(variables: Mapping[str, str]) -> _Indexes:
    first = variables.get("UV_DEFAULT_INDEX") or variables.get("UV_INDEX_URL", "")
    others = f"{variables.get('UV_INDEX', '')} {variables.get('UV_EXTRA_INDEX_URL', '')}".split()
    return _Indexes(
        first=_address(first, variables),
        others=tuple(_address(each, variables) for each in others),
        find_links=tuple(variables.get("UV_FIND_LINKS", "").split()),
    )


def _of_file(text: str, variables: Mapping[str, str]) -> _Indexes:
    try:
        value: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return _Indexes()
    section = value.get("pip")
    told = {**value, **(cast("dict[str, object]", section) if isinstance(section, dict) else {})}
    first = _text(told.get("index-url"))
    others = list(_texts(told.get("extra-index-url")))
    for entry in cast("list[object]", told.get("index") or []):
        if isinstance(entry, dict):
            fields = cast("dict[str, object]", entry)
            named = f"{_text(fields.get('name'))}={_text(fields.get('url'))}".removeprefix("=")
            address = _address(named, variables)
            if fields.get("default") is True:
                first = address
            else:
                others.append(address)
    return _Indexes(
        first=first, others=tuple(others), find_links=tuple(_texts(told.get("find-links")))
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def _address(text: str, variables: Mapping[str, str]) -> str:
    """Give the address of ``name=address``, with the credentials that uv keeps in variables."""
    name, equals, address = text.partition("=")
    if not equals or "/" in name or ":" in name:
        return text
    key = re.sub(r"[^A-Z0-9]", "_", name.upper())
    user = variables.get(f"UV_INDEX_{key}_USERNAME", "")
    word = variables.get(f"UV_INDEX_{key}_PASSWORD", "")
    parts = urlsplit(address)
    if not (user or word) or "@" in parts.netloc:
        return address
    return parts._replace(
        netloc=f"{quote(user, safe='')}:{quote(word, safe='')}@{parts.netloc}"
    ).geturl()

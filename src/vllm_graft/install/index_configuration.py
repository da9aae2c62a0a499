# pip does the fetching and uv the choosing, but most people have told only one of them where their packages come from. What
# one knows is handed to the other in its own variables, and only where that one was told nothing.
"""An index that was configured for uv, in the words of pip, and the other way round."""

import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlsplit

_TOLD_PIP = re.compile(
    r"^\s*(?:index[-_]url|extra[-_]index[-_]url|no[-_]index)\s*[=:]", re.MULTILINE
)
_YES = ("1", "true", "yes", "on", "y", "t")
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


def variables_for_uv(
    variables: Mapping[str, str], *, pip_files: Sequence[str], uv_files: Sequence[str]
) -> dict[str, str]:
    """Give the variables that uv should run with: pip's configuration in uv's words, where uv was told nothing itself.

    ``pip_files``: the texts of the configuration files that exist, the one that counts least first.

    Source: pip 25.3 and uv 0.13 documentation, "Configuration"; uv looks at one index after the other unless it is told to
    take the best match of all, as pip does.
    """
    result = dict(variables)
    told = (_of_variables(variables), *(_of_file(text, variables) for text in uv_files))
    pip = _of_pip(variables, pip_files)
    if pip["cert"] and not variables.get("SSL_CERT_FILE"):
        result["SSL_CERT_FILE"] = pip["cert"]
    if any(each != _Indexes() for each in told):
        return result
    if pip["index-url"]:
        result["UV_DEFAULT_INDEX"] = pip["index-url"]
    if pip["extra-index-url"]:
        result["UV_EXTRA_INDEX_URL"] = " ".join(pip["extra-index-url"].split())
        result.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if pip["find-links"]:
        result["UV_FIND_LINKS"] = ",".join(pip["find-links"].split())
    if pip["no-index"].lower() in _YES:
        result["UV_NO_INDEX"] = "1"
    if pip["trusted-host"]:
        result.setdefault("UV_INSECURE_HOST", " ".join(pip["trusted-host"].split()))
    return result


def uses_no_index(variables: Mapping[str, str]) -> bool:
    """Tell whether no index is to be asked, only folders."""
    return variables.get("UV_NO_INDEX", "").lower() in _YES


def _of_pip(variables: Mapping[str, str], files: Iterable[str]) -> dict[str, str]:
    found = dict.fromkeys(
        ("index-url", "extra-index-url", "find-links", "no-index", "cert", "trusted-host"), ""
    )
    for text in files:
        read = configparser.RawConfigParser(strict=False)
        try:
            read.read_string(text)
        except configparser.Error:
            continue
        for section in ("global", "download"):
            if read.has_section(section):
                said = {key.replace("_", "-"): value for key, value in read.items(section)}
                found |= {key: said[key] for key in found if said.get(key)}
    said = {key: variables.get(f"PIP_{key.upper().replace('-', '_')}", "") for key in found}
    return found | {key: value for key, value in said.items() if value}


def _of_variables(variables: Mapping[str, str]) -> _Indexes:
    first = variables.get("UV_DEFAULT_INDEX") or variables.get("UV_INDEX_URL", "")
    others = f"{variables.get('UV_INDEX', '')} {variables.get('UV_EXTRA_INDEX_URL', '')}".split()
    return _Indexes(
        first=_address(first, variables),
        others=tuple(_address(each, variables) for each in others),
        find_links=tuple(variables.get("UV_FIND_LINKS", "").replace(",", " ").split()),
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

# TOML → Settings, told all at once with the line of each problem. tomllib tells no lines. A key stands on the line from
# which on the file has it: so ever more of the file is read until it does, and nothing but the parser has to know TOML.
"""Read graft.toml."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import PurePosixPath
from typing import TypeVar, cast, get_type_hints

from cattrs import Converter

from vllm_graft.errors import RequestError
from vllm_graft.values.deployment import DEPLOYMENT_NAME
from vllm_graft.values.image import IMAGE_NAME
from vllm_graft.values.node import Node, named_twice, parse_machine
from vllm_graft.values.settings import InstallSettings, Settings
from vllm_graft.values.source import (
    ArchiveSource,
    OciSource,
    PathSource,
    Source,
    WheelSource,
    parse_source,
)
from vllm_graft.values.strict import (
    Problem,
    exactly,
    kind_of,
    problems_of,
    shown,
    strict_converter,
    told_together,
    unknown_key,
)

_MOST_LINES = 300
"""Of a file in which lines are looked for: at each one the file up to there is parsed."""

_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "host": ("--host",),
    "port": ("--port",),
    "tensor_parallel": ("--tensor-parallel-size", "-tp"),
}
"""Key of [serve] → the arguments of ``vllm serve`` that say the same. Source: vLLM 0.17.1, engine/arg_utils.py and
entrypoints/openai/cli_args.py; ``_`` is taken for ``-`` (utils/argparse_utils.py)."""

_FORMS: Mapping[tuple[str, str], tuple[re.Pattern[str], str]] = {
    ("image", "tag"): (IMAGE_NAME, "NAME or NAME:TAG, the name in lower case"),
    ("serve", "name"): (
        DEPLOYMENT_NAME,
        "up to 63 of a-z, 0-9, '_', '.', '-', a letter or digit first",
    ),
    ("serve", "host"): (
        re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*", re.ASCII),
        "an address or name of the head",
    ),
}
"""Section and key → the form of its value, and that in words; an empty one counts as absent."""

_T = TypeVar("_T")


def decode_settings(content: bytes, *, where: str) -> Settings:
    """Read graft.toml; ``where`` is its path, and places in it are below its folder.

    Raises:
        RequestError: E221 it is no TOML; E222 keys or values are not those of settings, each named with line and path.
    """
    table = _parse(content, where)
    problems = [*_no_sections(table), *_said_elsewhere(table), *_misshapen(table)]
    known = {name: table[name] for name in _SECTIONS if isinstance(table.get(name), dict)}
    try:
        settings = _converter().structure(known, Settings)
    except Exception as failure:  # cattrs raises groups of many kinds; each leaf is told
        found = problems_of(failure)
        if not found:
            raise
        raise _refused([*problems, *found], content, where) from failure
    problems += [
        Problem(".nodes", f"{name} is named twice")
        for name in named_twice((settings.nodes.head, *settings.nodes.workers))
    ]
    if problems:
        raise _refused(problems, content, where)
    return _below(settings, PurePosixPath(where).parent)


_SECTIONS = tuple(item.name for item in fields(Settings))


def _parse(content: bytes, where: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as failure:
        raise RequestError(
            f"{where} is no TOML: {failure}",
            remedy="mend it there; docs/settings.md shows a whole file",
            code="E221",
        ) from failure


def _no_sections(table: Mapping[str, object]) -> Iterator[Problem]:
    for name, value in table.items():
        if name not in _SECTIONS:
            yield unknown_key("", name, Settings)
        elif not isinstance(value, dict):
            key = next(iter(get_type_hints(get_type_hints(Settings)[name])))
            said = f"wanted a section, found {kind_of(value)} (did you mean [{name}] and {key} = … below it?)"
            yield Problem(f".{name}", said)


def _said_elsewhere(table: Mapping[str, object]) -> Iterator[Problem]:
    serve = table.get("serve")
    args = cast("dict[str, object]", serve).get("args") if isinstance(serve, dict) else None
    for number, word in enumerate(cast("list[object]", args) if isinstance(args, list) else ()):
        name = word.partition("=")[0].replace("_", "-") if isinstance(word, str) else ""
        for key, words in _ELSEWHERE.items():
            if name in words:
                yield Problem(f".serve.args[{number}]", f"{word!r} is said by serve.{key}")


def _misshapen(table: Mapping[str, object]) -> Iterator[Problem]:
    for (section, key), (form, wanted) in _FORMS.items():
        found = table.get(section)
        value = cast("dict[str, object]", found).get(key) if isinstance(found, dict) else None
        if isinstance(value, str) and value and form.fullmatch(value) is None:
            yield Problem(f".{section}.{key}", f"wanted {wanted}, found {shown(value)}")


@cache
def _converter() -> Converter:
    converter = strict_converter()
    converter.register_structure_hook_func(lambda hint: hint == Node | None, _read(parse_machine))
    converter.register_structure_hook_func(
        lambda hint: hint == Source | None, _read(lambda text, _: parse_source(text))
    )
    return converter


def _read(parse: Callable[[str, str], _T]) -> Callable[[object, object], _T]:
    def read(value: object, _: object) -> _T:
        text = exactly(value, str)
        try:
            return parse(text, text)
        except RequestError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from error

    return read


def _refused(problems: list[Problem], content: bytes, where: str) -> RequestError:
    line_of = _Lines.of(content)
    told = sorted((line_of(f"{each.path}.{each.key}"), each) for each in problems)
    lines = [
        ": ".join(filter(None, (f"line {line}" * bool(line), each.path[1:], each.said)))
        for line, each in told
    ]
    return RequestError(
        f"{where} does not say what can be done:{told_together(lines)}",
        remedy="mend it there; docs/settings.md says what each key means",
        code="E222",
    )


@dataclass(frozen=True, slots=True)
class _Lines:
    """What the beginning of a file holds, for each line with which a whole text ends."""

    beginnings: tuple[tuple[int, Mapping[str, object]], ...]

    @classmethod
    def of(cls, content: bytes) -> "_Lines":
        lines = content.decode("utf-8-sig").split("\n")
        found: list[tuple[int, Mapping[str, object]]] = [(0, {})]
        for number in range(1, len(lines) + 1 if len(lines) <= _MOST_LINES else 1):
            try:
                found.append((number, tomllib.loads("\n".join(lines[:number]))))
            except tomllib.TOMLDecodeError:  # in the middle of a value
                continue
        return cls(tuple(found))

    def __call__(self, path: str) -> int:
        """Give the line on which this key, or the nearest one around it, begins; 0 where none is known."""
        keys = [key for key in path.partition("[")[0].split(".") if key]
        before = 0
        for number, table in self.beginnings:
            if _has(table, keys):
                return before + 1
            before = number
        return self(path.rpartition(".")[0]) if len(keys) > 1 else 0


def _has(table: Mapping[str, object], keys: list[str]) -> bool:
    for key in keys:
        if key not in table:
            return False
        inner = table[key]
        table = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    return True


def _below(settings: Settings, folder: PurePosixPath) -> Settings:
    model = settings.model
    if model.id.startswith(("./", "../")):
        model = replace(model, id=str(folder / model.id))
    return replace(
        settings,
        base=_install_below(settings.base, folder),
        donor=_install_below(settings.donor, folder),
        model=model,
    )


def _install_below(install: InstallSettings, folder: PurePosixPath) -> InstallSettings:
    source = install.source
    if not isinstance(source, PathSource | WheelSource | OciSource | ArchiveSource):
        return install
    return replace(install, source=replace(source, path=str(folder / source.path)))

# An install that is only a wheel has no transformers beside it: its pins allow a range. What the releases in the range
# have is in a table that is shipped, so that a plan asks no index and is the same on every day. The table holds what
# vLLM's own releases import, every model type and every tokenizer and processor; of anything else it says nothing.
"""The table of published releases of transformers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from vllm_graft.values.install import Distribution

ALWAYS = "all"
_GENERIC_TOKENIZERS = frozenset({"PreTrainedTokenizer", "PreTrainedTokenizerFast"})


def render_interval(held: Sequence[bool], releases: Sequence[str]) -> str:
    """Say in which releases something holds: ``all``, or parts such as ``4.57.1-5.1.0, 5.5.3-``."""
    if all(held):
        return ALWAYS
    parts: list[str] = []
    start: int | None = None
    for place, holds in enumerate((*held, False)):
        if holds and start is None:
            start = place
        elif not holds and start is not None:
            last = "" if place == len(releases) else releases[place - 1]
            alone = place == start + 1 and last
            parts.append(last if alone else f"{releases[start]}-{last}")
            start = None
    return ", ".join(parts)


def parse_interval(text: str, releases: Sequence[str]) -> frozenset[str]:
    """Read what :func:`render_interval` wrote.

    Raises:
        ValueError: a release that the table does not have.
    """
    if text == ALWAYS:
        return frozenset(releases)
    found: set[str] = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dash, last = part.partition("-")
        start = releases.index(first)
        end = releases.index(last or (releases[-1] if dash else first))
        found.update(releases[start : end + 1])
    return frozenset(found)


@dataclass(frozen=True, kw_only=True)
class PublishedReleases:
    """Releases of transformers, oldest first, and what each has."""

    versions: tuple[str, ...]
    names: Mapping[str, frozenset[str]]
    """``module:name`` → the releases that have it."""
    untold: Mapping[str, frozenset[str]]
    """``module:name`` → the releases whose text does not tell."""
    model_types: Mapping[str, frozenset[str]]
    """``model_type:ConfigClass`` → releases."""
    classes: Mapping[str, frozenset[str]]
    """Tokenizer and processor classes."""
    architectures: Mapping[str, frozenset[str]]
    """``Class:model_type`` → releases."""
    config_members: Mapping[str, frozenset[str]]
    set_arguments: Mapping[str, frozenset[str]]
    layer_types: Mapping[str, frozenset[str]]
    signatures: Mapping[str, frozenset[str]]
    """``module:name(parameters)`` → releases."""
    requires: Mapping[str, frozenset[str]]
    """Requires-Dist line → releases."""
    others: Mapping[str, Distribution]
    """``name==version`` → that release of another distribution that vLLM pins exactly."""

    def release(self, version: str) -> "PublishedTransformers | None":
        """Give one release; None where the table has it not."""
        return (
            PublishedTransformers(table=self, version=version) if version in self.versions else None
        )

    def allowed(self, specifiers: Iterable[str]) -> tuple["PublishedTransformers", ...]:
        """Give the releases that all of these specifiers allow, oldest first."""
        try:
            wanted = SpecifierSet(",".join(filter(None, specifiers)))
        except InvalidSpecifier:
            return ()
        return tuple(
            PublishedTransformers(table=self, version=version)
            for version in self.versions
            if wanted.contains(version)
        )

    def every(self) -> tuple["PublishedTransformers", ...]:
        """Give all of them, oldest first."""
        return self.allowed(())

    @cached_property
    def types_of(self) -> Mapping[str, tuple[tuple[str, frozenset[str]], ...]]:
        """Model type → its config classes, each with its releases."""
        return _grouped(self.model_types)

    @cached_property
    def config_classes(self) -> Mapping[str, frozenset[str]]:
        """Config class → the releases in which a model type leads to it."""
        found: dict[str, frozenset[str]] = {}
        for key, held in self.model_types.items():
            name = key.partition(":")[2]
            found[name] = found.get(name, frozenset()) | held
        return found

    @cached_property
    def types_of_architectures(self) -> Mapping[str, tuple[tuple[str, frozenset[str]], ...]]:
        """Model class → its model types, each with its releases."""
        return _grouped(self.architectures)

    @cached_property
    def parameters(self) -> Mapping[str, tuple[tuple[str, frozenset[str]], ...]]:
        """``module:name`` → its parameters, each with its releases."""
        found: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for key, held in self.signatures.items():
            name, _, rest = key.partition("(")
            found.setdefault(name, []).append((rest.removesuffix(")"), held))
        return {name: tuple(each) for name, each in found.items()}


def _grouped(
    table: Mapping[str, frozenset[str]],
) -> Mapping[str, tuple[tuple[str, frozenset[str]], ...]]:
    found: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for key, held in table.items():
        first, _, second = key.partition(":")
        found.setdefault(first, []).append((second, held))
    return {name: tuple(each) for name, each in found.items()}


@dataclass(frozen=True, kw_only=True)
class PublishedTransformers:
    """One published release, as the table has it."""

    table: PublishedReleases
    version: str

    @property
    def told_by(self) -> str:
        """Say that the table told."""
        return f"the table of published releases ({self.version})"

    @property
    def requires(self) -> tuple[str, ...]:
        """Give its Requires-Dist lines, those of extras left out."""
        return tuple(line for line, held in self.table.requires.items() if self.version in held)

    def binds(self, module: str, name: str) -> bool | None:
        """Tell whether ``from module import name`` finds something; None where the table does not tell."""
        key = f"{module}:{name}"
        if self.version in self.table.untold.get(key, frozenset()):
            return None
        if key in self.table.names:
            return self.version in self.table.names[key]
        # Every config class is exported at the top; that one is not in a map does not say that it is not there.
        held = self.table.config_classes.get(name, frozenset()) if module == "transformers" else ()
        return True if self.version in held else None

    def knows_model_type(self, model_type: str) -> bool | None:
        """Tell whether ``AutoConfig`` has a class for a model type."""
        return any(self.version in held for _, held in self.table.types_of.get(model_type, ()))

    def knows_class(self, name: str) -> bool | None:
        """Tell whether a tokenizer or processor class is found, slow or fast."""
        stem = name.removesuffix("Fast")
        return name in _GENERIC_TOKENIZERS or any(
            self.version in self.table.classes.get(each, frozenset())
            for each in (name, stem, f"{stem}Fast")
        )

    def has_config_member(self, name: str) -> bool | None:
        """Tell whether the parent of all config classes has a member."""
        return self.version in self.table.config_members.get(name, frozenset())

    def wants_set(self, argument: str) -> bool:
        """Tell whether a config keyword is joined with a set."""
        return self.version in self.table.set_arguments.get(argument, frozenset())

    def allows_layer_type(self, name: str) -> bool | None:
        """Tell whether a config class that checks its ``layer_types`` takes one of this name."""
        return self.version in self.table.layer_types.get(name, frozenset())

    def signature(self, module: str, name: str) -> str | None:
        """Give the parameters of a function; None where the table has none of it."""
        for parameters, held in self.table.parameters.get(f"{module}:{name}", ()):
            if self.version in held:
                return parameters
        return None

    def model_type_of(self, architecture: str) -> str:
        """Give the model type of its own model class of this name; empty where it has none."""
        for model_type, held in self.table.types_of_architectures.get(architecture, ()):
            if self.version in held:
                return model_type
        return ""


def parse_releases(table: Mapping[str, object]) -> PublishedReleases:
    """Read the shipped table (data/transformers.toml)."""
    versions = tuple(cast("list[str]", table["releases"]))

    def section(name: str) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        read = _remembered(versions)
        for interval, keys in cast("Mapping[str, list[str]]", table.get(name, {})).items():
            for key in keys:
                found[key] = found.get(key, frozenset()) | read(interval)
        return found

    others = cast("Mapping[str, list[str]]", table.get("others", {}))
    return PublishedReleases(
        versions=versions,
        names=section("names"),
        untold=section("untold"),
        model_types=section("model-types"),
        classes=section("classes"),
        architectures=section("architectures"),
        config_members=section("config-members"),
        set_arguments=section("set-arguments"),
        layer_types=section("layer-types"),
        signatures=section("signatures"),
        requires=section("requires"),
        others={
            key: Distribution(
                name=key.partition("==")[0], version=key.partition("==")[2], requires=tuple(lines)
            )
            for key, lines in others.items()
        },
    )


def _remembered(versions: Sequence[str]) -> Callable[[str], frozenset[str]]:
    known: dict[str, frozenset[str]] = {}

    def read(text: str) -> frozenset[str]:
        if text not in known:
            known[text] = parse_interval(text, versions)
        return known[text]

    return read


def render_versions(versions: Iterable[str], among: Sequence[str]) -> str:
    """Say in words which of these releases: ``4.57.1 to 4.57.6, and 5.5.3``."""
    chosen = set(versions)
    parts: list[str] = []
    run: list[str] = []
    for version in (*among, ""):
        if version in chosen:
            run.append(version)
        elif run:
            parts.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}")
            run = []
    return (
        ", ".join(parts[:-1]) + (" and " if parts[:-1] else "") + (parts[-1] if parts else "none")
    )


def is_newer(one: str, other: str) -> bool:
    """Tell whether one version comes after another; False where one is no version."""
    try:
        return Version(one) > Version(other)
    except InvalidVersion:
        return False

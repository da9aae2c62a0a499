# Gathers what P3 decides on: the base's METADATA, the text of its own transformers where the source is a folder, the
# shipped table of published releases where it is not. Nothing is imported, run or
# fetched here; where the base's own interpreter is to be asked, somebody else does that.
"""Judge the pins and config classes of a plan."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from vllm_graft.deps.asked import Asked, AskedTransformers
from vllm_graft.deps.between import place_between
from vllm_graft.deps.checkpoint import needs_of_architectures, needs_of_checkpoint
from vllm_graft.deps.decide import Situation
from vllm_graft.deps.environment import ModelledEnvironment, model_environment
from vllm_graft.deps.library import Library
from vllm_graft.deps.needs import PACKAGE, Need, needs_of_modules
from vllm_graft.deps.releases import PublishedReleases, parse_releases
from vllm_graft.deps.rung import DOUBT, Judgement, judge_pins, needs_of_judgement
from vllm_graft.deps.transformers_facts import ReadTransformers, TransformersFacts
from vllm_graft.errors import RequestError
from vllm_graft.install.transformers_names import TransformersNames, parse_transformers
from vllm_graft.link.plan import LinkSession
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.directory import exists, names, read_file
from vllm_graft.values.install import Distribution, Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.stated import StatedDistribution

Ask = Callable[[Sequence[Need], Mapping[str, object] | None], Asked]
"""Puts needs, and the model's config.json if there is one, to the base's own interpreter."""


@cache
def published_releases() -> PublishedReleases:
    """Read the table that is shipped in the package."""
    text = (files("vllm_graft") / "data" / "transformers.toml").read_text(encoding="utf-8")
    return parse_releases(tomllib.loads(text))


def with_pins(
    session: LinkSession,
    plan: GraftPlan,
    *,
    model: ModelDescription | None = None,
    stated: StatedDistribution | None = None,
    changed: Install | None = None,
) -> GraftPlan:
    """Give a plan of this session with P3 decided.

    ``stated``: what a base without an environment is run with; ``changed``: the base with what is put into it.

    Raises:
        RequestError: E203, the base has that distribution itself, or nothing is known of this version.
    """
    base = session.base if stated is None else with_stated(session.base, stated)
    base = changed or base
    is_stated = stated is not None and base is not session.base
    judgement = replace(
        _judgement(session, plan, base, model),
        control=model_environment(session.base) if changed is not None else None,
    )
    situation = replace(judgement.situation, is_stated=is_stated)
    return judge_pins(plan, replace(judgement, situation=situation))


def with_asked_pins(
    session: LinkSession, plan: GraftPlan, ask: Ask, *, model: ModelDescription | None = None
) -> GraftPlan:
    """Give a plan of this session with P3 decided by what the base's own interpreter says.

    Raises:
        SourceError: E336, it gave no answer.
    """
    judgement = _judgement(session, plan, session.base, model)
    needs = needs_of_judgement(plan, judgement)
    if not needs:
        return judge_pins(plan, judgement)
    asked = ask(needs, model.config if model is not None else None)
    situation = judgement.situation
    read = situation.installed
    version = situation.environment.version(PACKAGE)
    if version and not asked.error:
        requires = situation.environment.distributions[PACKAGE].requires
        told = AskedTransformers(asked=asked, read=read, version=version, requires=requires)
        situation = replace(situation, installed=told)
    return judge_pins(plan, replace(judgement, situation=situation, asked=asked, read=read))


def _judgement(
    session: LinkSession, plan: GraftPlan, base: Install, model: ModelDescription | None
) -> Judgement:
    published = published_releases()
    environment = model_environment(base)
    situation = Situation(
        environment=environment,
        donor=model_environment(session.donor),
        installed=_installed(base, environment, published),
        published=published,
    )
    return Judgement(
        situation=situation,
        checkpoint=_checkpoint(session, plan, situation, model),
        libraries=dict(_libraries(session.base, plan)),
    )


def with_stated(base: Install, stated: StatedDistribution) -> Install:
    """Give a base with what the user says that it is run with; the base itself where it has that anyway.

    Raises:
        RequestError: E203, the base has another version of its own, or nothing is known of this one.
    """
    own = model_environment(base).version(stated.name)
    if own == stated.version:
        return base
    if own:
        raise RequestError(
            f"--with {stated} is not what the base has: {base.source} has {stated.name} {own} of its own",
            remedy="leave --with away; to plan for another version, change the base and plan again",
            code="E203",
        )
    published = published_releases()
    facts = published.release(stated.version) or place_between(stated.version, published)
    if facts is None:
        first, last = published.versions[0], published.versions[-1]
        raise RequestError(
            f"--with {stated} cannot be planned with: nothing is known of that release; known are {first} to {last}",
            remedy="name a published release in that range",
            code="E203",
        )
    added = Distribution(name=stated.name, version=stated.version, requires=facts.requires)
    return replace(base, distributions=(*base.distributions, added))


class _SiteText:
    """The text files of the folders that an install imports from; the first folder that has a path wins."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = sites

    def read(self, path: str) -> str | None:
        place = next((f"{site}/{path}" for site in self._sites if exists(f"{site}/{path}")), None)
        return None if place is None else read_file(place).decode("utf-8", "replace")

    def names(self, folder: str) -> Sequence[str]:
        return sorted(
            {
                name
                for site in self._sites
                if exists(f"{site}/{folder}")
                for name in names(f"{site}/{folder}")
            }
        )


def _installed(
    base: Install, environment: ModelledEnvironment, published: PublishedReleases
) -> TransformersFacts | None:
    version = environment.version(PACKAGE)
    if not version:
        return None
    text = _SiteText(base.sites)
    if base.sites and text.read(f"{PACKAGE}/__init__.py") is not None:
        requires = environment.distributions[PACKAGE].requires
        return ReadTransformers(text=text, version=version, requires=requires)
    found = published.release(version)
    if found is not None:
        return found
    return place_between(version, published, names=_beside(base, version))


def _beside(base: Install, version: str) -> TransformersNames | None:
    folder = f"{PACKAGE}/models/auto/"
    texts = {
        path.removeprefix(folder): content.decode("utf-8", "replace")
        for path, content in base.beside.items()
        if path.startswith(folder)
    }
    return parse_transformers(texts, version)


def _checkpoint(
    session: LinkSession,
    plan: GraftPlan,
    situation: Situation,
    model: ModelDescription | None,
) -> tuple[Need, ...]:
    if model is not None:
        layouts = (
            (session.base_layout, SourceTrees(session.base.files)),
            (session.donor_layout, SourceTrees(session.donor.files)),
        )
        return tuple(
            needs_of_checkpoint(
                model, layouts=layouts, checks_layer_types=_checks_layer_types(plan, situation)
            )
        )
    return tuple(
        needs_of_architectures(
            plan,
            donor=session.donor_layout,
            base=session.base_layout,
            published=situation.published,
            donor_allows=situation.donors,
        )
    )


def _checks_layer_types(plan: GraftPlan, situation: Situation) -> bool:
    """Whether config classes of vLLM have their layer types checked.

    Source: transformers 5.4 checks those of every class that is derived from its own; before, a class calls
    ``layer_type_validation`` if it wants that.
    """
    checked = [each.has_config_member("validate_layer_type") for each in situation.candidates]
    calling = {"layer_type_validation", "validate_layer_type"}
    called = any(need.name in calling for need in needs_of_modules(plan.modules))
    return called or (bool(checked) and all(checked))


def _libraries(base: Install, plan: GraftPlan) -> Iterator[tuple[str, tuple[str, Library]]]:
    """Give the distributions that the linker doubts and that can be read: name → import name, text."""
    doubted = {
        each.wanted.partition(" with ")[0]
        for each in plan.findings
        if each.code == DOUBT and base.sites
    }
    for name in sorted(doubted - {PACKAGE}):
        package = name.replace("-", "_")
        text = _SiteText(base.sites)
        if text.names(package):
            yield name, (package, Library(text))

# Gathers what P3 decides on: the base's METADATA, the text of its own transformers where the source is a folder, the
# shipped table of published releases where it is not. Nothing is imported, run or fetched.
"""Judge the pins and config classes of a plan."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from vllm_graft.deps.between import place_between
from vllm_graft.deps.checkpoint import needs_of_architectures, needs_of_checkpoint
from vllm_graft.deps.decide import Situation
from vllm_graft.deps.environment import ModelledEnvironment, model_environment
from vllm_graft.deps.library import Library
from vllm_graft.deps.needs import PACKAGE, Need, needs_of_modules
from vllm_graft.deps.releases import PublishedReleases, parse_releases
from vllm_graft.deps.rung import DOUBT, Judgement, judge_pins
from vllm_graft.deps.transformers_facts import ReadTransformers, TransformersFacts
from vllm_graft.install.transformers_names import TransformersNames, parse_transformers
from vllm_graft.link.plan import LinkSession
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.directory import exists, names, read_file
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan


@cache
def published_releases() -> PublishedReleases:
    """Read the table that is shipped in the package."""
    text = (files("vllm_graft") / "data" / "transformers.toml").read_text(encoding="utf-8")
    return parse_releases(tomllib.loads(text))


def with_pins(
    session: LinkSession, plan: GraftPlan, *, model: ModelDescription | None = None
) -> GraftPlan:
    """Give a plan of this session with P3 decided."""
    published = published_releases()
    environment = model_environment(session.base)
    situation = Situation(
        environment=environment,
        donor=model_environment(session.donor),
        installed=_installed(session.base, environment, published),
        published=published,
    )
    judgement = Judgement(
        situation=situation,
        checkpoint=_checkpoint(session, plan, situation, model),
        libraries=dict(_libraries(session.base, plan)),
    )
    return judge_pins(plan, judgement)


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

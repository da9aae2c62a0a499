# What a model's own files ask of transformers: that AutoConfig knows its model type, and that the classes which its
# tokenizer and processor files name are there. What vLLM has itself (or the graft brings), or the model's folder has as
# remote code, is not asked of transformers.
"""What a checkpoint needs of transformers."""

from collections.abc import Iterator, Sequence
from typing import cast

from vllm_graft.deps.needs import CONFIG_FILE, Need
from vllm_graft.deps.releases import PublishedReleases
from vllm_graft.link.layout import Layout
from vllm_graft.link.model_question import answer_model
from vllm_graft.link.tables import SourceTrees
from vllm_graft.values.finding import Site
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan

_FILES = {"config": CONFIG_FILE, "tokenizer": "tokenizer_config.json"}


def needs_of_checkpoint(
    model: ModelDescription,
    *,
    layouts: Sequence[tuple[Layout, SourceTrees]],
    checks_layer_types: bool,
) -> Iterator[Need]:
    """Give what the model's files ask of transformers, given the layouts that may answer before it does.

    Layer types are asked for where vLLM's config class has them checked, or the class is transformers' own.
    """
    answers = [
        answer_model(layout, trees, architectures=(), model=model, transformers=None).classes
        for layout, trees in layouts
    ]
    for told in zip(*answers, strict=True):
        if any(each.known in {"vllm", "remote code"} for each in told):
            continue
        asked = told[0]
        checks_layer_types = checks_layer_types or asked.role == "config"
        yield Need(
            kind="model type" if asked.role == "config" else "class",
            site=Site(
                install="donor", path=_FILES.get(asked.role, "preprocessor_config.json"), line=0
            ),
            name=asked.asked,
        )

    if checks_layer_types:
        yield from _layer_types(model)


def _layer_types(model: ModelDescription) -> Iterator[Need]:
    for part in model.parts():
        named = part.get("layer_types")
        items = cast("list[object]", named) if isinstance(named, list) else []
        for name in dict.fromkeys(item for item in items if isinstance(item, str)):
            site = Site(install="donor", path=CONFIG_FILE, line=0)
            yield Need(kind="layer type", site=site, name=name)


def needs_of_architectures(
    plan: GraftPlan,
    *,
    donor: Layout,
    base: Layout,
    published: PublishedReleases,
    donor_allows: frozenset[str],
) -> Iterator[Need]:
    """Give the model types that transformers must know, where the architecture is all that is known of a model.

    They are those of transformers' own model class of that name, unless vLLM has a config class of its own for it,
    or no transformers that the donor allows knows it either: then the checkpoint brings its code.
    """
    for architecture in plan.architectures:
        entry = donor.by_architecture.get(architecture)
        types = {
            model_type
            for model_type, held in published.types_of_architectures.get(architecture, ())
            if held & donor_allows
            and donor.lookup("config-registry", model_type) is None
            and base.lookup("config-registry", model_type) is None
        }
        if entry is None:
            continue
        for model_type in sorted(types):
            path = f"{entry.module.replace('.', '/')}.py"
            yield Need(
                kind="model type", site=Site(install="donor", path=path, line=0), name=model_type
            )

# What a grafted image says of itself. The labels name inputs by content, so that they are the same wherever the image is
# built; the whole plan lies in the image beside them.
"""Labels of a grafted image."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from vllm_graft.errors import BuildError
from vllm_graft.image.configuration import CONFIG_LABEL, canonical_digest, kept_settings
from vllm_graft.image.layer import metadata_folder, spell_version
from vllm_graft.values.build import EarlierGraft, Provenance
from vllm_graft.values.codec import plan_digest, written_plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.plan import GraftPlan

_OURS = "vllm-graft."
PLAN_LABEL = f"{_OURS}plan"
_BASE = "vllm-graft.base"
_DONOR = "vllm-graft.donor"
LAYER_LABEL = "vllm-graft.layer"
PYTHONPATH_LABEL = "vllm-graft.pythonpath"
"""What PYTHONPATH must be for the process that serves the grafted model, where distributions lie beside the image's own."""
_ROUTE = "vllm-graft.route"
_ARCHITECTURES = "vllm-graft.architectures"
_FEATURES = "vllm-graft.features"


def provenance_labels(plan: GraftPlan, below: Digest, layer: Digest | None) -> dict[str, str]:
    """Give the labels; ``below``: canonical digest of the image that is built on, ``layer``: diff id of the new one."""
    role = _DONOR if plan.route.on_donor else _BASE
    own = {LAYER_LABEL: str(layer)} if layer is not None else {}
    features = {_FEATURES: " ".join(plan.features)} if plan.features else {}
    return {
        _ROUTE: plan.route.chosen,
        f"{role}.config": str(below),
        **own,
        PLAN_LABEL: str(plan_digest(plan)),
        f"{_BASE}.vllm": plan.base.version,
        f"{_BASE}.source": plan.base.source,
        f"{_DONOR}.digest": str(plan.donor.digest),
        f"{_DONOR}.vllm": plan.donor.version,
        f"{_DONOR}.source": plan.donor.source,
        _ARCHITECTURES: " ".join(plan.architectures),
        **features,
    }


def read_provenance(facts: ImageFacts) -> Provenance | None:
    """Read the labels back; None where this image is not grafted."""
    labels: Mapping[str, str] = facts.labels
    if PLAN_LABEL not in labels:
        return None
    return Provenance(
        plan=labels[PLAN_LABEL],
        route=labels.get(_ROUTE, "graft"),
        base_source=labels.get(f"{_BASE}.source", ""),
        base_version=labels.get(f"{_BASE}.vllm", ""),
        base_config=labels.get(f"{_BASE}.config", ""),
        donor_source=labels.get(f"{_DONOR}.source", ""),
        donor_config=labels.get(f"{_DONOR}.config", ""),
        donor_version=labels.get(f"{_DONOR}.vllm", ""),
        architectures=tuple(labels.get(_ARCHITECTURES, "").split()),
        features=tuple(labels.get(_FEATURES, "").split()),
        layer=labels.get(LAYER_LABEL, ""),
        config=labels.get(CONFIG_LABEL, ""),
    )


def below_graft(facts: ImageFacts, provenance: Provenance) -> ImageFacts:
    """Give the base of a grafted image: what is left without the graft's layer and labels.

    Its canonical digest is held against the one that stands in the labels, so that this is the base and no guess.

    Raises:
        BuildError: E423, the image was changed after it was built.
    """
    base = replace(
        without_own_labels(facts),
        reference=f"what lies below the graft in {facts.reference}",
        layers=facts.layers[:-1],
    )
    if str(canonical_digest(base)) != provenance.base_config:
        raise _unclear(
            facts,
            provenance,
            "was changed after it was built: without its last layer and the labels of the graft it is not the base"
            " that they name",
        )
    return base


def without_own_labels(facts: ImageFacts) -> ImageFacts:
    """Give an image without what this program says of it: what it was before."""
    if not any(name.startswith(_OURS) for name in facts.labels):
        return facts
    kept = {name: text for name, text in facts.labels.items() if not name.startswith(_OURS)}
    settings = {**kept_settings(facts.settings), "Labels": kept}
    return replace(facts, settings=kept_settings(settings))


def plan_place(root: str, provenance: Provenance) -> str:
    """Give where the plan lies in a grafted image; ``root``: the folder that holds ``vllm/``."""
    version = spell_version(
        provenance.base_version, provenance.donor_version, Digest.parse(provenance.plan)
    )
    return f"{root}/{metadata_folder(version)}/plan.json"


def read_earlier(content: bytes | None, facts: ImageFacts, provenance: Provenance) -> EarlierGraft:
    """Read the plan that lies in a grafted image, of whatever version; ``content``: None where there is none.

    Raises:
        BuildError: E423, it is not the one that the labels name.
    """
    try:
        if content is None or str(written_plan_digest(content)) != provenance.plan:
            raise _unclear(facts, provenance, "does not hold the plan that its labels name")
        told = cast("Mapping[str, object]", json.loads(content))
        base, donor = (cast("Mapping[str, str]", told[name]) for name in ("base", "donor"))
        modules, edits = (
            frozenset(each["path"] for each in cast("list[Mapping[str, str]]", told[name]))
            for name in ("modules", "edits")
        )
        decided = cast("list[Mapping[str, str]]", told["dependencies"])
        return EarlierGraft(
            image=facts.reference,
            base_source=base["source"],
            base_vllm=base["digest"],
            donor_version=donor["version"],
            donor_vllm=donor["digest"],
            architectures=tuple(cast("list[str]", told["architectures"])),
            features=tuple(cast("list[str]", told["features"])),
            modules=modules,
            edits=edits,
            dependencies=frozenset(
                (each["name"], each["decision"])
                for each in decided
                if each["decision"] not in ("keep", "missing")
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        why = f"holds a plan in a form that is not known ({error!r})"
        raise _unclear(facts, provenance, why) from error


def _unclear(facts: ImageFacts, provenance: Provenance, why: str) -> BuildError:
    return BuildError(
        f"{facts.reference} is grafted (plan {provenance.plan[:19]}, from {provenance.base_source}), and {why}",
        remedy=f"plan all architectures at once onto its base: --base {provenance.base_source}"
        f" --arch {' --arch '.join(provenance.architectures)}; then make later changes again",
        code="E423",
    )

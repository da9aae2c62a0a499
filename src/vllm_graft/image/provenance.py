# What a grafted image says of itself. The labels name inputs by content, so that they are the same wherever the image is
# built; the whole plan lies in the image beside them.
"""Labels of a grafted image."""

from collections.abc import Mapping

from vllm_graft.image.configuration import CONFIG_LABEL
from vllm_graft.values.build import Provenance
from vllm_graft.values.codec import plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.plan import GraftPlan

PLAN_LABEL = "vllm-graft.plan"
_BASE = "vllm-graft.base"
_DONOR = "vllm-graft.donor"
LAYER_LABEL = "vllm-graft.layer"
_ARCHITECTURES = "vllm-graft.architectures"


def provenance_labels(plan: GraftPlan, base: Digest, layer: Digest) -> dict[str, str]:
    """Give the labels; ``base``: canonical digest of the base image, ``layer``: diff id of the new one."""
    return {
        PLAN_LABEL: str(plan_digest(plan)),
        f"{_BASE}.config": str(base),
        f"{_BASE}.vllm": plan.base.version,
        f"{_BASE}.source": plan.base.source,
        f"{_DONOR}.digest": str(plan.donor.digest),
        f"{_DONOR}.vllm": plan.donor.version,
        f"{_DONOR}.source": plan.donor.source,
        LAYER_LABEL: str(layer),
        _ARCHITECTURES: " ".join(plan.architectures),
    }


def read_provenance(facts: ImageFacts) -> Provenance | None:
    """Read the labels back; None where this image is not grafted."""
    labels: Mapping[str, str] = facts.labels
    if PLAN_LABEL not in labels:
        return None
    return Provenance(
        plan=labels[PLAN_LABEL],
        base_source=labels.get(f"{_BASE}.source", ""),
        base_version=labels.get(f"{_BASE}.vllm", ""),
        base_config=labels.get(f"{_BASE}.config", ""),
        donor_source=labels.get(f"{_DONOR}.source", ""),
        donor_version=labels.get(f"{_DONOR}.vllm", ""),
        architectures=tuple(labels.get(_ARCHITECTURES, "").split()),
        layer=labels.get(LAYER_LABEL, ""),
        config=labels.get(CONFIG_LABEL, ""),
    )

# Routes without a graft: an image that is there already, under a new name, with labels that say why, and Ray in a layer where
# that is the route. Of a donor's image the entrypoint is taken away, since it starts what its maker thought of.
"""Build the routes that graft nothing."""

from collections.abc import Mapping
from dataclasses import replace

from vllm_graft.image.archive import Tag
from vllm_graft.image.configuration import (
    canonical_digest,
    kept_settings,
    labelled,
    without_entrypoint,
)
from vllm_graft.image.layer import NO_LAYER, encode_layer, with_wheels
from vllm_graft.image.provenance import LAYER_LABEL, provenance_labels, without_own_labels
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.lock import GraftLock
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.source import ImageSource
from vllm_graft.workflows.open_image import OpenedImage
from vllm_graft.workflows.place_image import BuiltImage, receipt_of
from vllm_graft.workflows.place_wheels import PlacedWheels


def build_as_is(
    plan: GraftPlan, source: ImageSource, opened: OpenedImage, placed: PlacedWheels, tag: Tag
) -> BuiltImage:
    """Make the image of ``base-as-is``, ``donor-as-is`` or ``donor+ray``; ``opened`` is the base's or the donor's."""
    own = without_own_labels(opened.facts)
    settings: Mapping[str, object] = (
        without_entrypoint(own.settings) if plan.route.on_donor else kept_settings(own.settings)
    )
    planned, layer = None, None
    if placed.files:
        planned = with_wheels(NO_LAYER, placed.files, placed.surroundings)
        layer = encode_layer(planned)
    diff_id = None if layer is None else Digest.of(layer)
    labels = provenance_labels(plan, canonical_digest(own), diff_id)
    facts = labelled(own, labels, str(tag), layer=diff_id, settings=settings)
    cleared = tuple(name for name in kept_settings(own.settings) if name not in settings)
    receipt = replace(
        receipt_of(plan, own, facts, planned, layer),
        cleared=cleared,
        notes=(*opened.install.notes, *placed.notes),
    )
    return BuiltImage(
        facts=facts,
        layer=layer,
        planned=planned,
        lock=_lock(plan, opened, receipt),
        receipt=receipt,
        source=source,
        stored=opened.stored,
        labels={name: text for name, text in labels.items() if name != LAYER_LABEL},
    )


def _lock(plan: GraftPlan, opened: OpenedImage, receipt: BuildReceipt) -> GraftLock:
    role = "donor" if plan.route.on_donor else "base"
    layers = enumerate(opened.facts.layers, 1)
    inputs = {
        "plan": str(plan_digest(plan)),
        "route": plan.route.chosen,
        f"{role} vllm": str(opened.install.digest),
        f"{role} config": str(canonical_digest(opened.facts)),
        **{f"{role} layer {number}": str(each) for number, each in layers},
        **{f"wheel {each.file}": str(each.digest) for each in receipt.wheels},
    }
    results = {"config": str(receipt.config)}
    if receipt.layer is not None:
        results["layer"] = str(receipt.layer)
    names = {"base": plan.base.source, "donor": plan.donor.source}
    return GraftLock(inputs=inputs, results=results, names=names)

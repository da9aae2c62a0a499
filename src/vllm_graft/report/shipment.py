"""The result of ``ship`` on stdout."""

import json
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.ship import image_value, render_failures, render_ship
from vllm_graft.report.weights import render_weights, render_weights_failures
from vllm_graft.values.ship import SHIP_SCHEMA
from vllm_graft.values.shipment import Shipment


def render_shipment(shipment: Shipment, form: Form) -> str:
    """Say for each node how it came to have the image and the weights, or why it has not."""
    image, weights = shipment.image, shipment.weights
    if form == "json":
        value = {
            "schema": SHIP_SCHEMA,
            "image": image_value(image) if image else None,
            "weights": asdict(weights) if weights else None,
        }
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    parts = [render_ship(image, form)] if image else []
    parts += [render_weights(weights, form)] if weights else []
    return "\n".join(parts)


def render_shipment_failures(shipment: Shipment) -> str:
    """Say for stderr what is wrong on each node that failed, and what to do about it."""
    image = render_failures(shipment.image) if shipment.image else ""
    return image + (render_weights_failures(shipment.weights) if shipment.weights else "")

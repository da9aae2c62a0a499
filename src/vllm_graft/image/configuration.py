# The configuration of the new image: the base's, and one layer more. It is made from what every engine prints of an
# image, so that neither the base's own blob is needed (which only `docker save` gives) nor the engine's version matters.
"""Configurations of images, as canonical JSON."""

import json
from collections.abc import Mapping

from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts

CONFIG_LABEL = "vllm-graft.config"
"""The label that holds the canonical digest; not part of what is digested."""

_SETTINGS = (
    "ArgsEscaped",
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "OnBuild",
    "Shell",
    "StopSignal",
    "StopTimeout",
    "User",
    "Volumes",
    "WorkingDir",
)
"""What is said of a container that is started from the image.

Source: OCI image specification 1.1, config.md, and Docker's four beyond it (Healthcheck, OnBuild, Shell,
StopTimeout: docker/api 1.41 to 1.51, ``container.Config``). What else Docker 20.10 prints (Hostname, Tty, Image, …) is of
the container that the image was once committed from.
"""

_CREATED = "1980-01-01T00:00:00Z"
"""Fixed: the same image on any day. The first date that every archive format can hold."""


def canonical_json(value: object) -> bytes:
    """Give the one form of a JSON value."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def kept_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Give what a container of the image is started with; what is empty or null is the same as not said."""
    return {name: settings[name] for name in _SETTINGS if settings.get(name)}


def canonical_digest(facts: ImageFacts) -> Digest:
    """Digest what an image is, the same for every engine and version: platform, settings, layers."""
    settings = kept_settings(facts.settings)
    labels = {name: text for name, text in facts.labels.items() if name != CONFIG_LABEL}
    settings.pop("Labels", None)
    if labels:
        settings["Labels"] = labels
    return Digest.of(canonical_json({**_platform(facts), "config": settings, **_rootfs(facts)}))


def grafted(
    base: ImageFacts, layer: Digest, labels: Mapping[str, str], reference: str
) -> ImageFacts:
    """Give the base with one layer more; its canonical digest stands in a label of its own."""

    def labelled(more: Mapping[str, str]) -> ImageFacts:
        return ImageFacts(
            reference=reference,
            architecture=base.architecture,
            system=base.system,
            variant=base.variant,
            settings={**kept_settings(base.settings), "Labels": {**base.labels, **more}},
            layers=(*base.layers, layer),
        )

    digest = canonical_digest(labelled(labels))
    return labelled({**labels, CONFIG_LABEL: str(digest)})


def encode_configuration(facts: ImageFacts) -> bytes:
    """Give an image configuration.

    Source: OCI image specification 1.1, config.md. The history of the base is not known to the engine's client in this form;
    one entry a layer is what loading demands.
    """
    history = [
        {"created": _CREATED, "created_by": text}
        for text in (
            *(f"layer {number + 1} of the base" for number in range(len(facts.layers) - 1)),
            "vllm-graft build",
        )
    ]
    value = {
        **_platform(facts),
        "config": kept_settings(facts.settings),
        "created": _CREATED,
        "history": history,
        **_rootfs(facts),
    }
    return canonical_json(value)


def _platform(facts: ImageFacts) -> dict[str, object]:
    told = {"architecture": facts.architecture, "os": facts.system}
    return {**told, "variant": facts.variant} if facts.variant else {**told}


def _rootfs(facts: ImageFacts) -> dict[str, object]:
    return {"rootfs": {"type": "layers", "diff_ids": [str(layer) for layer in facts.layers]}}

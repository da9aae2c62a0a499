# The configuration of the new image: the base's, and one layer more. It is made from what every engine prints of an
# image, so that neither the base's own blob is needed (which only `docker save` gives) nor the engine's version matters.
"""Configurations of images, as canonical JSON."""

from collections.abc import Mapping

from vllm_graft.image.inside_archive import canonical_json
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


def without_entrypoint(settings: Mapping[str, object]) -> dict[str, object]:
    """Give settings in which nothing is started by itself; the command, which was the entrypoint's, goes with it."""
    kept = kept_settings(settings)
    if kept.pop("Entrypoint", None):
        kept.pop("Cmd", None)
    return kept


def labelled(
    base: ImageFacts,
    labels: Mapping[str, str],
    reference: str,
    *,
    layer: Digest | None = None,
    settings: Mapping[str, object] | None = None,
) -> ImageFacts:
    """Give the base with labels, its canonical digest in one of its own.

    ``layer``: one more, on top; ``settings``: instead of the base's.
    """
    kept = kept_settings(base.settings if settings is None else settings)

    def of(more: Mapping[str, str]) -> ImageFacts:
        return ImageFacts(
            reference=reference,
            architecture=base.architecture,
            system=base.system,
            variant=base.variant,
            settings={**kept, "Labels": {**base.labels, **more}},
            layers=base.layers if layer is None else (*base.layers, layer),
        )

    digest = canonical_digest(of(labels))
    return of({**labels, CONFIG_LABEL: str(digest)})


def encode_configuration(facts: ImageFacts, *, is_layered: bool = True) -> bytes:
    """Give an image configuration; ``is_layered``: whether the last layer is this program's.

    Source: OCI image specification 1.1, config.md. The history of the base is not known to the engine's client in this form;
    one entry a layer is what loading demands.
    """
    below = facts.layers[:-1] if is_layered else facts.layers
    history: list[dict[str, object]] = [
        {"created": _CREATED, "created_by": f"layer {number} of the base"}
        for number, _ in enumerate(below, 1)
    ]
    own: dict[str, object] = {"created": _CREATED, "created_by": "vllm-graft build"}
    history.append(own if is_layered else {**own, "empty_layer": True})
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

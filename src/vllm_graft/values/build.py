"""What a build makes, and what a grafted image says of itself."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest
from vllm_graft.values.route import RouteName
from vllm_graft.values.wheels import LockedWheel

BUILD_SCHEMA = "vllm-graft/build/2"

BuildOutcome = Literal["loaded", "already there", "written", "not written"]
"""``not written``: a dry run, which computes everything and writes nothing."""


BuildForm = Literal["docker", "archive", "oci", "dockerfile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a grafted image comes from, as its labels say."""

    plan: str
    """Digest of the plan; where something was grafted, it lies whole in the image, in the ``*.dist-info`` of
    vllm-graft-overlay."""
    route: str
    """``graft``, ``donor-as-is`` and so on."""
    base_source: str
    """As the user wrote it where the plan was made."""
    base_version: str
    base_config: str
    """Canonical digest of the base image's configuration; empty where the image stands on the donor's."""
    donor_source: str
    donor_version: str
    donor_config: str
    """Canonical digest of the donor image's configuration, where the image stands on it; else empty."""
    architectures: tuple[str, ...]
    features: tuple[str, ...]
    layer: str
    """Diff id of the layer that was added; empty where there is none."""
    config: str
    """Canonical digest of the image's own configuration."""

    @property
    def stands_on(self) -> tuple[str, str]:
        """Give the source of the image that this one was built on, and the digest of its configuration."""
        if self.donor_config:
            return self.donor_source, self.donor_config
        return self.base_source, self.base_config


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierGraft:
    """What was grafted onto an image before, as the plan that lies in it says."""

    image: str
    """A name of the grafted image, for messages."""
    base_source: str
    base_vllm: str
    """Digest of the base's vLLM."""
    donor_version: str
    donor_vllm: str
    architectures: tuple[str, ...]
    features: tuple[str, ...]
    modules: frozenset[str]
    """Paths of the files that it added."""
    edits: frozenset[str]
    """Paths of those that it edited."""
    dependencies: frozenset[tuple[str, str]]
    """Name and decision of each that it did not keep as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReceipt:
    """What was built, and where it is."""

    outcome: BuildOutcome
    form: BuildForm
    route: RouteName
    tag: str
    """Name of the new image."""
    target: str
    """Where it is: that name in the engine, or the file or folder."""
    base: str
    """Name of the image that it is built on: the base, or for the routes of the donor, the donor."""
    platform: str
    layer: Digest | None
    """Diff id of the new layer; None: there is none."""
    layer_size: int
    """Bytes, uncompressed; 0 without a layer."""
    config: Digest
    """Canonical digest of the configuration: the same on every machine and engine."""
    image_id: Digest
    """Digest of the configuration as it was written: the ID of the image in engines with a classic store."""
    added: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    """Bytecode of files that were edited or added, and what wheels replace: files, and folders that it was all of."""
    cleared: tuple[str, ...]
    """Settings of the donor's image that were taken away, such as ``Entrypoint``."""
    whole: bool
    """Whether what was written holds the base's layers too; if not, it loads where the base is."""
    wheels: tuple[LockedWheel, ...] = ()
    """What was put in of other distributions."""
    python_path: str = ""
    """What PYTHONPATH must be for the process that serves the model; empty: nothing has to be set."""
    replaced: str = ""
    """The name under which the image that had this tag before is still there."""
    notes: tuple[str, ...] = ()

"""What a build makes, and what a grafted image says of itself."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest

BUILD_SCHEMA = "vllm-graft/build/1"

BuildOutcome = Literal["loaded", "already there", "written", "not written"]
"""``not written``: a dry run, which computes everything and writes nothing."""


BuildForm = Literal["docker", "archive", "oci", "dockerfile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a grafted image comes from, as its labels say."""

    plan: str
    """Digest of the plan, which lies whole in the image, in the ``*.dist-info`` of vllm-graft-overlay."""
    base_source: str
    """As the user wrote it where the plan was made."""
    base_version: str
    base_config: str
    """Canonical digest of the base image's configuration."""
    donor_source: str
    donor_version: str
    architectures: tuple[str, ...]
    layer: str
    """Diff id of the layer of the graft."""
    config: str
    """Canonical digest of the image's own configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReceipt:
    """What was built, and where it is."""

    outcome: BuildOutcome
    form: BuildForm
    tag: str
    """Name of the new image."""
    target: str
    """Where it is: that name in the engine, or the file or folder."""
    base: str
    """Name of the base image."""
    platform: str
    layer: Digest
    """Diff id of the new layer."""
    layer_size: int
    """Bytes, uncompressed."""
    config: Digest
    """Canonical digest of the configuration: the same on every machine and engine."""
    image_id: Digest
    """Digest of the configuration as it was written: the ID of the image in engines with a classic store."""
    added: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    """Bytecode of files that were edited or added."""
    whole: bool
    """Whether what was written holds the base's layers too; if not, it loads where the base is."""
    replaced: str = ""
    """The name under which the image that had this tag before is still there."""
    notes: tuple[str, ...] = ()

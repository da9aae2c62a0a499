# All figures are bytes, counts or milliseconds as whole numbers: units are the report's business.
"""What was shipped, node by node."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest

SHIP_SCHEMA = "vllm-graft/ship/1"

ShipOutcome = Literal["already there", "named", "sent", "would be sent", "failed"]
"""``named``: the same image was there under another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedNode:
    """One node, and how it came to have the image, or why it has not."""

    node: str
    outcome: ShipOutcome
    held: int = 0
    """How many layers of the image it had, from the lowest on."""
    layers: tuple[Digest, ...] = ()
    """Diff ids of those that were sent, lowest first."""
    sent: int = 0
    """Bytes that went to it, as they went: of a compressed stream, compressed. With ``would be sent``, as they lie in the
    engine, by what that says of them."""
    path: str = ""
    """Where they came from and on which way: ``spark1, over 192.168.100.11 (enp1s0f1np1)``."""
    took: int = 0
    """Milliseconds until the engine there had taken the image in."""
    verified: bool = False
    """Whether the engine there was asked back: the same content, and a container of it could be made."""
    replaced: str = ""
    """The name under which the image that had this one's name before is still there."""
    code: str = ""
    """Of what went wrong; empty where nothing did."""
    failure: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipReceipt:
    """An image on several nodes."""

    image: str
    """Its name, the same everywhere."""
    source: str
    """The machine whose engine had it."""
    platform: str
    config: Digest
    """Canonical digest of platform, settings and layers: the same on every node, engine and store."""
    layers: int
    size: int
    """Bytes of all layers, as the engine of the source counts them."""
    nodes: tuple[ShippedNode, ...]
    dry_run: bool = False
    commands: tuple[str, ...] = ()
    """With ``dry_run``: what would be run, and where."""

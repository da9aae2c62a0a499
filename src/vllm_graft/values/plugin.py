"""What a build of a plugin makes."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.digest import Digest

PLUGIN_SCHEMA = "vllm-graft/plugin/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReceipt:
    """A wheel that registers the graft with vLLM, and where it is."""

    outcome: Literal["written", "not written"]
    target: str
    """The wheel."""
    distribution: str
    """Its name, as ``pip list`` shows it."""
    version: str
    vllm: str
    """The one version of vLLM that it registers with."""
    wheel: Digest
    """Of the file: the same on any machine and day."""
    size: int
    registers: tuple[str, ...]
    """Architectures, model types, parsers."""
    modules: tuple[str, ...]
    """Dotted names in its package."""
    requires: tuple[str, ...]
    """Requirements beside vLLM."""

"""What ``inspect`` tells about an install."""

from dataclasses import dataclass
from typing import Literal

from vllm_graft.values.build import Provenance
from vllm_graft.values.digest import Digest
from vllm_graft.values.finding import Finding

PinState = Literal["met", "violated", "missing", "not told"]
"""``missing``: wanted and not installed; ``not told``: the source has no environment to look in."""

Known = Literal["vllm", "transformers", "remote code", "missing", "not told"]
"""Who has a class: ``missing`` is nobody; ``not told``: it would be transformers, which the source lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one distribution wants of another."""

    of: str
    name: str
    specifier: str
    found: str
    """Installed version; empty where there is none."""
    state: PinState


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """How vLLM's files differ from what its RECORD says was installed."""

    recorded: bool
    """Whether RECORD lists vLLM's files at all; a checkout or editable install has no such list."""
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.changed or self.added or self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiNode:
    """The ways in which this install can serve on several nodes."""

    ray: PinState
    """``met``: Ray is installed; ``missing``: it is not; ``not told``: a wheel has no environment."""
    ray_version: str
    ray_required: bool
    """Whether vLLM itself asks for Ray, so that installing it brings Ray."""
    native: bool
    """Whether ``--nnodes`` and ``--node-rank`` are arguments of the engine."""
    headless: bool
    """Whether ``vllm serve --headless`` exists, which the other nodes of the native mode run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureAnswer:
    """Whether this install knows one architecture."""

    architecture: str
    registered: bool
    table: str = ""
    module: str = ""
    class_name: str = ""
    has_module: bool = False
    """Whether the file that the registry names is there."""
    remark: str = ""
    """Why it is not: the last release with it, a plugin that has it, or names near to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAnswer:
    """Whether this install can resolve one class that the model's files name."""

    asked: str
    """Such as ``qwen3_5_moe`` or ``Qwen2TokenizerFast``."""
    role: str
    """``config``, ``tokenizer``, ``processor``, ``image processor``, ``video processor``."""
    known: Known
    where: str = ""
    """Dotted module and class, or the distribution with its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpAnswer:
    """Whether the model brings layers that predict further tokens, and whether this install can use them."""

    layers: int | None
    """As config.json says; None where it says nothing of it."""
    layers_field: str
    drafts: tuple[str, ...]
    """Registered architectures that this install would draft with."""
    draft_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationAnswer:
    """Whether this install knows the model's quantisation method."""

    method: str
    """Empty for a model that is not quantised."""
    known: bool
    source: str
    """The file and field that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What this install says to one model or architecture."""

    asked: str
    location: str
    architectures: tuple[ArchitectureAnswer, ...]
    classes: tuple[ClassAnswer, ...]
    mtp: MtpAnswer | None
    """None where only an architecture was asked for and it is not registered."""
    reasoning_parsers: tuple[str, ...]
    """Those named like the family."""
    tool_parsers: tuple[str, ...]
    quantization: QuantizationAnswer | None
    remote_code: tuple[str, ...]
    config_read: bool
    """Whether a config.json was read; an architecture alone has none."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Name each part that the model needs and this install lacks, or that nobody told."""
        lacking = (
            [] if self.architectures else ["an architecture in config.json (name it with --arch)"]
        )
        lacking += [
            f"architecture {each.architecture}"
            for each in self.architectures
            if not (each.registered and each.has_module)
        ]
        lacking += [f"{each.role} {each.asked}" for each in self.classes if each.known == "missing"]
        if (
            self.quantization is not None
            and self.quantization.method
            and not self.quantization.known
        ):
            lacking.append(f"quantisation method {self.quantization.method}")
        if self.mtp is not None and self.mtp.layers and not self.mtp.drafts:
            lacking.append("MTP draft model")
        return tuple(lacking)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftAnswer:
    """Where a grafted image comes from, and whether its graft is still needed."""

    provenance: Provenance
    intact: bool
    """Whether its configuration and layers are those that its labels name."""
    base_now: Literal["unchanged", "changed", "not found"]
    """What is at ``base_now_source`` today; ``not found``: nothing that can be read from here."""
    base_now_source: str
    """The image or install that was looked at: ``provenance.base_source``, or the one that was named."""
    base_now_version: str = ""
    """Of a base that has changed: its vLLM."""
    base_now_lacks: tuple[str, ...] = ()
    """Of a base that has changed: what was grafted and it does not have by itself, architectures and features. None: no
    graft is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is in an install."""

    source: str
    location: str
    version: str
    development: bool
    """Whether the version is a development, local or unknown one: then only the layout places it."""
    layout: str
    """Range of releases that are laid out like this, or ``unknown``."""
    traits: tuple[str, ...]
    digest: Digest
    interpreter: str | None
    files: int
    extensions: tuple[str, ...]
    operators: int
    distributions: int
    own_pins: tuple[Pin, ...]
    """What vLLM itself wants, for the distributions that decide whether a model runs."""
    violated_pins: tuple[Pin, ...]
    """Of all distributions of the environment."""
    pins_checked: int
    patches: Patches
    architectures: int
    architecture_names: tuple[str, ...]
    """Sorted; of the same number."""
    multi_node: MultiNode
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    """About parts of the layout that are not recognised."""
    model: ModelAnswer | None = None
    graft: GraftAnswer | None = None
    """Only of an image that ``build`` made."""

# Every key may be absent: `doctor` needs the nodes alone, `plan` needs none. What a verb cannot do without, it says itself.
"""What a user wants, as graft.toml says it."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from vllm_graft.values.node import Node
from vllm_graft.values.source import Source
from vllm_graft.values.strict import Range

SETTINGS_FILE = "graft.toml"
"""Where settings are, in the folder in which the program is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSettings:
    """``[base]`` and ``[donor]``."""

    source: Source | None = None
    """As on the command line, such as ``docker:vllm-node``. What is a place on this machine and does not begin with ``/`` is
    one in the folder of graft.toml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """``[model]``."""

    id: str = ""
    """A Hugging Face id, or a folder with config.json. One that begins with ``./`` or ``../`` is in the folder of graft.toml."""
    revision: str = ""
    """Commit, branch or tag of the Hugging Face id; empty: what the cache has as ``main``."""
    features: tuple[str, ...] = ()
    """As behind ``plan --feature``: ``mtp``, ``reasoning-parser=NAME``, ``tool-parser=NAME``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """``[image]``."""

    tag: str = ""
    """Of the image that is built: NAME or NAME:TAG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """``[nodes]``. Without it, everything is done on this machine."""

    head: Node | None = None
    """The machine of rank 0, as behind ``ssh``; None (absent, or ``localhost``): this machine."""
    workers: tuple[Node | None, ...] = ()
    """The others, in the order of their ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """``[serve]``."""

    launcher: Literal["auto", "native", "ray"] = "auto"
    """What starts the ranks: vLLM itself or Ray; ``auto``: what image and model allow, vLLM itself first."""
    tensor_parallel: Annotated[int, Range(1)] | None = None
    """Over how many GPUs each layer is split; None: all of the nodes."""
    name: str = ""
    """Of the deployment, by which ``up`` and ``down`` find it; empty: after the model."""
    host: str = "127.0.0.1"
    """Address of the head at which the model answers: by default the head alone can ask it. ``0.0.0.0`` opens it to whoever
    reaches the head; it asks for no key."""
    port: Annotated[int, Range(1, 65_535)] = 8000
    """Of the head, where the model answers. Source of the default: vLLM's own (0.11 to 0.17, ``vllm serve``)."""
    args: tuple[str, ...] = ()
    """More words for ``vllm serve``, each as one argument; none that another key of this section says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of graft.toml."""

    base: InstallSettings = field(default_factory=InstallSettings)
    donor: InstallSettings = field(default_factory=InstallSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    image: ImageSettings = field(default_factory=ImageSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)

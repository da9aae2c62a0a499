# All figures are bytes, counts or milliseconds as whole numbers: units are the report's business.
"""What is known of a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vllm_graft.values.digest import Digest
from vllm_graft.values.probe import NotKnown


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """The kernel that runs there."""

    system: str
    """As ``uname -s`` says it: ``Linux``, ``Darwin``."""
    release: str
    """Such as ``6.17.0-1014-nvidia``."""
    architecture: str
    """As images spell it: ``arm64``, ``amd64``; else as ``uname -m`` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorFacts:
    """The CPUs."""

    count: int
    """Of logical ones that are online."""
    models: tuple[str, ...]
    """One or several, as where fast and slow cores are in one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """The container engine, as this program uses it there."""

    name: Literal["docker", "podman"]
    program: str
    """Path of it, or its name where it is on the PATH."""
    through_sudo: bool
    version: str
    """Of the server."""
    store: str
    """What keeps the images, such as ``overlay2`` or ``overlayfs``."""
    is_containerd_store: bool
    """Whether images lie in containerd's store, not in Docker's own: such an image has another ID there."""
    root: str
    """Where the engine keeps what it has."""
    architecture: str
    """As images spell it."""
    runtimes: tuple[str, ...]
    """What starts containers; ``nvidia`` may be lacking although containers can be given GPUs."""
    devices: tuple[str, ...] = ()
    """Those that the engine itself offers through CDI, where its version says so."""
    containerd: str = ""
    """Address of the containerd that it uses, where its version says so."""
    rootless: bool = False
    id: str = ""
    """What it calls its machine and itself; empty where it has no name for itself. A copy of its disk may have the same."""
    kernel: str = ""
    """Release of the kernel that its containers run on: another than the machine's own where it runs elsewhere, as with Docker Desktop
    or a context of another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFacts:
    """Room in a file system."""

    place: str
    """A folder in it."""
    free: int
    """Bytes that an ordinary user may still write."""
    size: int
    free_files: int | None
    """How many more files it takes; None where it has no such limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePresence:
    """An image in the engine of a node."""

    reference: str
    config: Digest
    """Of platform, settings and layers: the same for every engine and store, unlike its ID."""
    platform: str
    layers: tuple[Digest, ...]
    """Diff ids, lowest first."""
    size: int
    """Bytes, as the engine counts them: containerd's store may count less than the layers are."""
    cuda: str
    """CUDA version that it was made with (``CUDA_VERSION``); empty where it says none."""
    requires: str
    """What it requires of the driver (``NVIDIA_REQUIRE_CUDA``); empty where it says nothing."""
    driver: str
    """The driver that it was made for (``CUDA_DRIVER_VERSION``); empty where it says none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU."""

    index: int
    uuid: str
    name: str
    bus: str
    """Such as ``0000000F:01:00.0``."""
    driver: str
    capability: str
    """Compute capability, such as ``12.1``; empty where the driver does not say."""
    memory: int | None
    """Bytes of its own; None where it has none, but shares the machine's (unified memory)."""
    free: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int
    name: str
    memory: int | None
    """Bytes; None where the driver does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFacts:
    """What of the PCI bus matters here, also where a driver is lacking."""

    nvidia_gpus: int
    other_gpus: int
    """Accelerators and display controllers of AMD and Intel."""
    mellanox: int
    """Functions of NVIDIA's (Mellanox) network cards; a ConnectX-7 of a DGX Spark has four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitFacts:
    """What lets containers have NVIDIA GPUs."""

    programs: tuple[str, ...]
    """Those of the container toolkit that are there."""
    specifications: tuple[str, ...]
    """Files of the container device interface (CDI)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """The memory of the machine, in bytes."""

    total: int
    available: int
    """What a new process may have: what is free, and what the kernel can give back."""
    free: int
    """What nobody has; older programs on a GPU with unified memory see only this."""
    cached: int
    """Page cache and buffers: files that were read."""
    swap: int
    swap_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who listens on a TCP port."""

    address: str
    """``0.0.0.0``, ``*``, ``[::]`` or one address."""
    port: int
    process: str
    """Name of it, where that may be seen; else empty."""
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """A container that runs."""

    name: str
    image: str
    ports: tuple[int, ...]
    """Of the machine, that it has for itself."""
    role: str
    """As this program labelled it; empty where it is none of its own."""
    deployment: str = ""
    """Name of what it is a part of; empty where it is none of this program's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """The clock of a node against this machine's."""

    ahead: int
    """Milliseconds; negative where it is behind."""
    error: int
    """Milliseconds by which that may be wrong: half of what the question took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An IP address of an interface."""

    address: str
    prefix: int
    """Length of its network's prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network interface."""

    name: str
    is_up: bool
    """Whether it is switched on and has a carrier."""
    mtu: int
    addresses: tuple[Address, ...] = ()
    """Without those that hold on the link alone in IPv6 (``fe80::``)."""
    speed: int | None = None
    """Megabits a second; None where it does not tell. Each twin of a DGX Spark's port tells the speed of both."""
    port: str = ""
    """Port of the card (``phys_port_name``), such as ``p0``: two interfaces of one port are two ways to one cage."""
    driver: str = ""
    """Empty for what is no device."""
    slot: str = ""
    """PCI address."""
    kind: str = ""
    """As the kernel calls what is no ordinary one: ``wlan``, ``bridge``, ``vlan``, ``bond``; else empty."""

    @property
    def is_wireless(self) -> bool:
        """Whether there is no cable."""
        return self.kind == "wlan"

    @property
    def is_outward(self) -> bool:
        """Whether it may lead to other machines, and not to containers or to this machine alone."""
        return self.is_up and self.kind != "bridge" and self.name != "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A default route."""

    interface: str
    gateway: str
    source: str
    """Address that packets get; empty where the route says none."""
    metric: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """An entry of the table by which RoCE addresses a port."""

    index: int
    address: str
    """IPv4 where it stands for one, else IPv6."""
    version: str
    """``RoCE v2``, ``IB/RoCE v1``."""
    interface: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """A port that does RDMA."""

    device: str
    """Such as ``rocep1s0f0`` or ``mlx5_0``."""
    port: int
    interface: str
    """The network interface that it is; empty where none is."""
    is_active: bool
    rate: str = ""
    """As the kernel says it: ``200 Gb/sec (4X HDR)``."""
    link_layer: str = ""
    """``Ethernet`` (RoCE) or ``InfiniBand``."""
    firmware: str = ""
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model, where a node has it."""

    folder: str
    """Absolute, links resolved; of one in a Hugging Face cache, its snapshot."""
    files: int
    """That are loaded: weights, configuration, tokenizer."""
    size: int
    """Bytes of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallFacts:
    """Firewalls that are switched on, as far as an ordinary user sees."""

    active: tuple[str, ...]
    """``ufw``, ``firewalld``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """All that was asked of one node."""

    machine: str | NotKnown
    """What tells one running kernel from every other."""
    host_name: str | NotKnown
    host_addresses: tuple[str, ...] | NotKnown
    """What that name leads to on the node itself."""
    user: str | NotKnown
    ssh_port: int | NotKnown
    """Of the sshd that was asked through."""
    system: str | NotKnown
    """Such as ``Ubuntu 24.04.4 LTS``."""
    kernel: KernelFacts | NotKnown
    processors: ProcessorFacts | NotKnown
    memory: MemoryFacts | NotKnown
    engine: EngineFacts | NotKnown
    space: SpaceFacts | NotKnown
    """Where the engine keeps images."""
    images: Mapping[str, ImagePresence | NotKnown] = field(
        default_factory=dict[str, ImagePresence | NotKnown]
    )
    """Of those that were asked for, what is there; an absent one has no entry."""
    model: ModelFacts | NotKnown | None = None
    """The one that is to be served; None: none was asked for."""
    containers: tuple[ContainerFacts, ...] | NotKnown
    gpus: tuple[GpuFacts, ...] | NotKnown
    cuda: str | NotKnown
    """Newest CUDA version that the driver takes."""
    gpu_processes: tuple[GpuProcess, ...] | NotKnown
    pci: PciFacts | NotKnown
    toolkit: ToolkitFacts | NotKnown
    listeners: tuple[Listener, ...] | NotKnown
    firewall: FirewallFacts | NotKnown
    clock: ClockFacts | NotKnown
    interfaces: tuple[Interface, ...] | NotKnown
    routes: tuple[Route, ...] | NotKnown
    """Default routes, the one that is taken first."""
    rdma: tuple[RdmaPort, ...] | NotKnown
    rdma_files: tuple[str, ...] | NotKnown
    """What is in /dev/infiniband: containers need it for RDMA."""

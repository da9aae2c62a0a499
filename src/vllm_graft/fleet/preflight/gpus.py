"""Whether GPUs are there, and containers can have them."""

from collections.abc import Iterator, Sequence

from vllm_graft.fleet.preflight.driver import is_met, newer_major
from vllm_graft.fleet.preflight.wanted import Seen
from vllm_graft.values.amount import memory
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.finding import Severity
from vllm_graft.values.node_facts import (
    EngineFacts,
    GpuProcess,
    ImagePresence,
    PciFacts,
    ToolkitFacts,
)
from vllm_graft.values.probe import NotKnown

_HOOKS = ("nvidia-container-runtime-hook",)


def judge_gpus(node: Seen) -> Iterator[NodeFinding]:
    """Say that no GPU is seen (N201), or that containers get none (N202)."""
    if isinstance(node.facts.gpus, NotKnown):
        yield from _no_gpu(node, node.facts.gpus)
    else:
        yield from _container_gpus(node)


def judge_use(node: Seen) -> Iterator[NodeFinding]:
    """Say that something else computes on the GPUs (N206)."""
    processes = node.facts.gpu_processes
    if not isinstance(processes, NotKnown) and processes:
        yield node.finding(
            "N206",
            "review",
            ("up",),
            wanted="GPUs that nobody else uses",
            found="; ".join(map(told_process, processes)),
            remedy="stop what is not needed, or give vLLM a smaller --gpu-memory-utilization",
        )


def told_process(process: GpuProcess) -> str:
    """Give ``VLLM::EngineCore (pid 6008) has 55.2 GiB``."""
    has = "" if process.memory is None else f" has {memory(process.memory)}"
    return f"{process.name} (pid {process.pid}){has}"


def _no_gpu(node: Seen, why: NotKnown) -> Iterator[NodeFinding]:
    pci = node.facts.pci
    cards = pci.nvidia_gpus if isinstance(pci, PciFacts) else 0
    needs = next(
        (
            image.reference
            for image in node.facts.images.values()
            if isinstance(image, ImagePresence) and image.cuda
        ),
        "",
    )
    if cards:
        found = f"an NVIDIA card is in the machine, but: {why.not_known}"
        remedy = "install the driver, or see what it says (nvidia-smi; dmesg | grep NVRM); after an update of it, restart the machine"
    else:
        found = why.not_known
        if isinstance(pci, PciFacts):
            found += ", and no NVIDIA card on its bus"
        remedy = "serve on a machine with a GPU; only NVIDIA's are looked for"
    yield node.finding(
        "N201",
        "blocked" if cards or needs else "review",
        ("up",),
        wanted=f"a GPU for {needs}" if needs else "a GPU",
        found=found,
        remedy=remedy,
    )


def _container_gpus(node: Seen) -> Iterator[NodeFinding]:
    engine, toolkit = node.facts.engine, node.facts.toolkit
    if not isinstance(engine, EngineFacts) or not isinstance(toolkit, ToolkitFacts):
        return
    has_hook = any(program.endswith(_HOOKS) for program in toolkit.programs)
    offered = "nvidia" in engine.runtimes or any("nvidia.com" in each for each in engine.devices)
    if has_hook or offered or toolkit.specifications:
        return
    configure = (
        "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        if engine.name == "docker"
        else "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    )
    yield node.finding(
        "N202",
        "blocked",
        ("up",),
        wanted=f"NVIDIA's container toolkit, so that {engine.name} can give containers a GPU",
        found="neither its hook nor a device specification (CDI) nor a runtime of the name nvidia",
        remedy=f"install the package nvidia-container-toolkit, then: {configure}",
    )


def judge_drivers(node: Seen) -> Iterator[NodeFinding]:
    """Say where an image asks for a newer driver (N203)."""
    gpus, cuda = node.facts.gpus, node.facts.cuda
    if isinstance(gpus, NotKnown) or isinstance(cuda, NotKnown):
        return
    driver = gpus[0].driver
    for image in node.facts.images.values():
        if not isinstance(image, ImagePresence):
            continue
        severity: Severity = "review"
        if is_met(image.requires, cuda, driver) is False:
            severity, asked = "blocked", image.requires
        elif newer_major(image.cuda, cuda):
            asked = f"CUDA {image.cuda}"
        elif newer_major(image.driver, driver):
            asked = f"driver {image.driver}"
        else:
            continue
        yield node.finding(
            "N203",
            severity,
            ("up",),
            wanted=f"a driver for {image.reference}, which asks for {asked}",
            found=f"driver {driver}, which takes CUDA up to {cuda}",
            remedy="update the driver of this machine, or use an image that was made for an older one",
        )


def judge_same_gpus(nodes: Sequence[Seen]) -> Iterator[NodeFinding]:
    """Say where GPUs (N205) or drivers (N204) differ."""
    told = {
        node.name: node.facts.gpus for node in nodes if not isinstance(node.facts.gpus, NotKnown)
    }
    kinds = {name: f"{len(gpus)} of {gpus[0].name}" for name, gpus in told.items()}
    if len(set(kinds.values())) > 1:
        yield _differ(
            "N205",
            "review",
            kinds,
            "the same GPUs on each node",
            "one rank a GPU is what every node must be able to give: set sizes by the weakest node",
        )
    drivers = {name: gpus[0].driver for name, gpus in told.items()}
    if len(set(drivers.values())) > 1:
        yield _differ(
            "N204",
            "review",
            drivers,
            "one driver everywhere",
            "bring the nodes to one driver; two that differ have been seen to hang or to be slow together",
        )


def _differ(
    code: str, severity: Severity, told: dict[str, str], wanted: str, remedy: str
) -> NodeFinding:
    return NodeFinding(
        code=code,
        severity=severity,
        nodes=tuple(told),
        stops=("up",),
        wanted=wanted,
        found="; ".join(f"{name}: {text}" for name, text in told.items()),
        remedy=remedy,
    )

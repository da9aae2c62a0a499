# A GPU that shares the machine's memory has none of its own: the driver says [N/A], and /proc/meminfo is asked instead. That
# the driver is absent or broken is another thing, and stays a reason.
"""GPUs, and what lets containers have them."""

import re

from vllm_graft.fleet.probes.sysfs import read_sysfs, sysfs_argv
from vllm_graft.values.node_facts import GpuFacts, GpuProcess, PciFacts, ToolkitFacts
from vllm_graft.values.probe import Probe

_MIB = 1 << 20
_UNTOLD = ("[N/A]", "[Not Supported]", "N/A", "Not Supported", "[Insufficient Permissions]", "")

_ASKED = "index,uuid,name,pci.bus_id,driver_version,compute_cap,memory.total,memory.free"  # in this order


def _rows(text: str, fields: int) -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()
    ]
    for row in rows:
        if len(row) != fields:
            raise ValueError(f"wanted {fields} fields in a line, found {len(row)}")
    return rows


def _mebibytes(text: str) -> int | None:
    return None if text in _UNTOLD else int(text.removesuffix("MiB").strip()) * _MIB


def _gpus(text: str) -> tuple[GpuFacts, ...]:
    rows = _rows(text, len(_ASKED.split(",")))
    if not rows:
        raise ValueError("it lists no GPU and no reason")
    return tuple(
        GpuFacts(
            index=int(index),
            uuid=uuid,
            name=name,
            bus=bus,
            driver=driver,
            capability="" if capability in _UNTOLD else capability,
            memory=_mebibytes(total),
            free=_mebibytes(free),
        )
        for index, uuid, name, bus, driver, capability, total, free in rows
    )


GPUS = Probe(
    asks="its GPUs",
    argv=("nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv,noheader,nounits"),
    read=_gpus,
)
"""Source: nvidia-smi of driver 580 (`nvidia-smi --help-query-gpu`); memory is in MiB, and [N/A] on a GB10."""

_CUDA = re.compile(r"CUDA (?:UMD )?Version *: *(\d+\.\d+)")


def _cuda(text: str) -> str:
    found = _CUDA.search(text)
    if found is None:
        raise ValueError("it names no CUDA version")
    return found[1]


CUDA = Probe(asks="the newest CUDA that its driver takes", argv=("nvidia-smi",), read=_cuda)
"""Source: the head of what nvidia-smi 450 to 610 prints."""


def _processes(text: str) -> tuple[GpuProcess, ...]:
    found: list[GpuProcess] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        pid, _, rest = line.partition(",")
        name, _, memory = rest.rpartition(",")  # a name may have a comma in it
        found.append(GpuProcess(pid=int(pid), name=name.strip(), memory=_mebibytes(memory.strip())))
    return tuple(found)


PROCESSES = Probe(
    asks="what computes on its GPUs",
    argv=(
        "nvidia-smi",
        "--query-compute-apps=pid,process_name,used_memory",
        "--format=csv,noheader,nounits",
    ),
    read=_processes,
)

_DISPLAY, _ACCELERATOR = "0x03", "0x12"
_NVIDIA, _AMD, _INTEL, _MELLANOX = "0x10de", "0x1002", "0x8086", "0x15b3"
"""Source: the PCI ID repository; classes 03 (display controllers) and 12 (processing accelerators)."""


def _pci(text: str) -> PciFacts:
    vendors = {
        path.removesuffix("/vendor"): value
        for path, value in read_sysfs(text).items()
        if path.endswith("/vendor")
    }
    kinds = {
        path.removesuffix("/class"): value
        for path, value in read_sysfs(text).items()
        if path.endswith("/class")
    }
    gpus = [
        vendor
        for device, vendor in vendors.items()
        if kinds.get(device, "").startswith((_DISPLAY, _ACCELERATOR))
    ]
    return PciFacts(
        nvidia_gpus=gpus.count(_NVIDIA),
        other_gpus=gpus.count(_AMD) + gpus.count(_INTEL),
        mellanox=list(vendors.values()).count(_MELLANOX),
    )


PCI = Probe(
    asks="which cards it has",
    argv=sysfs_argv("/sys/bus/pci/devices/*/vendor", "/sys/bus/pci/devices/*/class"),
    read=_pci,
)


def _toolkit(text: str) -> ToolkitFacts:
    lines = text.split()
    return ToolkitFacts(
        programs=tuple(line for line in lines if not line.endswith((".yaml", ".json"))),
        specifications=tuple(line for line in lines if line.endswith((".yaml", ".json"))),
    )


_LOOK = (
    "for each in nvidia-container-runtime-hook nvidia-container-runtime nvidia-ctk; do command -v $each; done;"
    " ls -d /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json 2>/dev/null; true"
)

TOOLKIT = Probe(
    asks="whether containers can be given its GPUs", argv=("sh", "-c", _LOOK), read=_toolkit
)
"""Source: moby 20.10 to 28, daemon/nvidia_linux.go: `--gpus` works where dockerd finds nvidia-container-runtime-hook on its
PATH; Container Device Interface 0.6 to 1.0: specifications are files of these two folders."""

# Who the machine is and what runs on it: nothing here needs root or a program beyond coreutils, util-linux and glibc's.
"""Kernel, system, processors, names."""

import ipaddress

from vllm_graft.values.node_facts import KernelFacts, ProcessorFacts
from vllm_graft.values.probe import Probe

_QUOTES = "\"'"

ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
"""As the kernel spells it → as images do. Source: Go's GOARCH, which OCI image specification 1.1 goes by."""


def _kernel(text: str) -> KernelFacts:
    system, release, machine = text.split()
    return KernelFacts(
        system=system, release=release, architecture=ARCHITECTURES.get(machine, machine)
    )


KERNEL = Probe(asks="its kernel", argv=("uname", "-s", "-r", "-m"), read=_kernel)


def _system(text: str) -> str:
    # Of a key that is there several times the last one holds: a DGX writes each update below the one before.
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    name = pairs["PRETTY_NAME"].strip(_QUOTES)
    release = pairs.get("DGX_OTA_VERSION", pairs.get("DGX_SWBUILD_VERSION", "")).strip(_QUOTES)
    return f"{name}, {pairs['DGX_NAME'].strip(_QUOTES)} {release}" if release else name


SYSTEM = Probe(
    asks="its system",
    argv=("sh", "-c", "cat /etc/os-release && { cat /etc/dgx-release 2>/dev/null; true; }"),
    read=_system,
)
"""Source: os-release(5); /etc/dgx-release of DGX OS 7."""


def _processors(text: str) -> ProcessorFacts:
    count, models = 0, list[str]()
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "CPU(s)":
            count = int(value)
        elif name == "Model name" and value not in models:
            models.append(value)
    if not count:
        raise ValueError("it names no number of CPUs")
    return ProcessorFacts(count=count, models=tuple(models))


PROCESSORS = Probe(
    # Its words are translated where they can be.
    asks="its processors",
    argv=("env", "LC_ALL=C", "lscpu"),
    read=_processors,
)
"""Source: util-linux 2.38 to 2.40: one "Model name" for each kind of core."""


def _one_word(text: str) -> str:
    (word,) = text.split()
    return word


HOST_NAME = Probe(asks="its name", argv=("uname", "-n"), read=_one_word)
USER = Probe(asks="as whom commands are run", argv=("id", "-un"), read=_one_word)


def _ssh_port(text: str) -> int:
    return int(text.split()[3])


SSH_PORT = Probe(
    asks="through which sshd it is asked",
    argv=("sh", "-c", 'echo "$SSH_CONNECTION"'),
    read=_ssh_port,
)
"""Source: ssh(1), ENVIRONMENT: client address, client port, server address, server port."""

MACHINE = Probe(
    asks="which machine it is", argv=("cat", "/proc/sys/kernel/random/boot_id"), read=_one_word
)
"""New at each start of a kernel, so that two names of one machine show. Not /etc/machine-id, which copies of a disk share."""


def _addresses(text: str) -> tuple[str, ...]:
    found = dict.fromkeys(line.split()[0] for line in text.splitlines() if line.strip())
    for each in found:
        ipaddress.ip_address(each.partition("%")[0])  # raises ValueError
    if not found:
        raise ValueError("it names no address")
    return tuple(found)


HOST_ADDRESSES = Probe(
    asks="where its own name leads",
    argv=("sh", "-c", 'exec getent ahosts "$(uname -n)"'),
    read=_addresses,
)
"""Source: getent(1) of glibc: an address, a socket type and maybe the name a line; status 2 where the name leads nowhere."""

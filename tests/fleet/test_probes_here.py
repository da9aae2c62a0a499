# Every probe run for real on this machine, its answer held against another source; and every parser with answers that nobody gives.
import json
import os
import platform
import shutil
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes import nodes
from sparks import answered, said
from vllm_graft.fleet.probes import clock, engine, gpus, memory, network, path, rdma, system
from vllm_graft.image.engine import Engine
from vllm_graft.run.machines import Machine, on_each
from vllm_graft.run.process import run_command
from vllm_graft.values.command import Completed
from vllm_graft.values.node import Node
from vllm_graft.values.probe import NotKnown, Probe

DOCKER, PODMAN = Engine(program="docker"), Engine(program="podman")

PROBES: Mapping[str, Probe[Any]] = {
    "kernel": system.KERNEL,
    "system": system.SYSTEM,
    "processors": system.PROCESSORS,
    "host name": system.HOST_NAME,
    "host addresses": system.HOST_ADDRESSES,
    "user": system.USER,
    "machine": system.MACHINE,
    "ssh port": system.SSH_PORT,
    "memory": memory.MEMORY,
    "GPUs": gpus.GPUS,
    "CUDA": gpus.CUDA,
    "GPU processes": gpus.PROCESSES,
    "PCI": gpus.PCI,
    "toolkit": gpus.TOOLKIT,
    "links": network.LINKS,
    "devices": network.DEVICES,
    "routes": network.ROUTES,
    "listeners": network.LISTENERS,
    "firewall": network.FIREWALL,
    "RDMA ports": rdma.PORTS,
    "RDMA links": rdma.LINKS,
    "RDMA pairs": rdma.PAIRS,
    "RDMA files": rdma.FILES,
    "clock": clock.CLOCK,
    "docker": engine.engine_probe(DOCKER),
    "podman": engine.engine_probe(PODMAN),
    "containers": engine.containers_probe(DOCKER),
    "containerd": engine.CONTAINERD_ROOT,
    "space": engine.space_probe("/"),
    "echo": path.echo_probe("127.0.0.1"),
    "frames": path.frame_probe("127.0.0.1", 1500),
    "door": path.door_probe("127.0.0.1", 22),
}
READING = (
    "cat date docker env ibdev2netdev id ip nvidia-smi ping podman rdma sed sh ss ssh-keyscan uname"
)


def here(probe: Probe[Any]) -> Any:
    found = probe.answer(run_command(probe.command, variables=os.environ))
    assert not isinstance(found, NotKnown), found
    return found


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_runs_a_program_that_reads_and_says_what_it_wants_to_see(name: str) -> None:
    probe = PROBES[name]
    assert probe.argv[0] in READING.split()
    words = " ".join(probe.argv)
    assert not {" rm ", " mkdir ", " touch ", " tee ", "sudo"} & {
        f" {each} " for each in words.split()
    }
    assert ">" not in words.replace("2>/dev/null", "").replace("2>&1", "").replace(">&2", "")
    assert probe.command.why.startswith("see ")


ODD = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.,:/[]{}\"' \nabcxUPLOWER_-=()%", max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
        ),
        max_leaves=12,
    ).map(json.dumps),
)


@given(name=st.sampled_from(list(PROBES)), text=ODD, status=st.sampled_from((0, 0, 1, 2, 127, 124)))
@settings(max_examples=700)
def test_whatever_a_machine_says_is_a_value_or_a_reason(name: str, text: str, status: int) -> None:
    probe = PROBES[name]
    found = probe.answer(
        Completed(
            command=probe.command,
            status=status,
            stdout=text.encode("utf-8", "replace"),
            stderr=b"",
            took=timedelta(),
        )
    )
    if status in (127, 124) or (status and not probe.any_status):
        assert isinstance(found, NotKnown)
        assert found.not_known


RECORDED: Mapping[str, Probe[Any]] = {
    "ip-addr.json": network.LINKS,
    "ip-route.json": network.ROUTES,
    "rdma-link.json": rdma.LINKS,
    "sysfs-infiniband.txt": rdma.PORTS,
    "sysfs-net.txt": network.DEVICES,
    "nvidia-smi-query.txt": gpus.GPUS,
    "meminfo-serving.txt": memory.MEMORY,
    "ss.txt": network.LISTENERS,
}


@given(name=st.sampled_from(list(RECORDED)), part=st.floats(0, 1))
@settings(max_examples=300)
def test_an_answer_that_broke_off_is_a_value_or_a_reason(name: str, part: float) -> None:
    text = said(name)
    answered(RECORDED[name], text[: round(part * len(text))])


def test_the_machine_is_the_one_that_python_sees() -> None:
    kernel = here(system.KERNEL)
    assert (kernel.system, kernel.release) == (platform.system(), platform.release())
    assert here(system.HOST_NAME) == platform.node()
    assert here(system.PROCESSORS).count == os.cpu_count()
    assert here(memory.MEMORY).total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    links = {each.name for each in here(network.LINKS)}
    assert links == {each.name for each in Path("/sys/class/net").iterdir() if each.is_dir()}
    assert links >= set(here(network.DEVICES))
    room = here(engine.space_probe("/"))
    seen = os.statvfs("/")
    assert room.size == seen.f_blocks * seen.f_frsize
    assert abs(room.free - seen.f_bavail * seen.f_frsize) < 1 << 30


def test_room_of_a_folder_that_is_not_there_is_that_of_the_one_above() -> None:
    assert here(engine.space_probe("/no/such/folder/at/all")).place == "/"
    assert here(engine.space_probe("/etc/no such folder")).place == "/etc"


def test_a_port_at_which_somebody_listens_is_seen_with_his_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (found,) = (each for each in here(network.LISTENERS) if each.port == port)
    assert (found.address, found.pid) == ("127.0.0.1", os.getpid())
    assert found.process


def test_the_clock_of_this_machine_is_its_own() -> None:
    before = time.time()
    shown = here(clock.CLOCK).timestamp()
    assert before - 0.001 <= shown <= time.time() + 0.001


def test_an_echo_of_this_machine_comes_back_whole() -> None:
    if shutil.which("ping") is None:
        _lacking("ping")
    assert here(path.echo_probe("127.0.0.1")) > 0
    assert here(path.frame_probe("127.0.0.1", 9000)) is True
    assert here(path.frame_probe("127.0.0.1", 100_000)) is False  # more than its MTU of 65536
    assert here(path.echo_probe("198.18.255.254")) is None


def _lacking(program: str) -> None:
    if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
        pytest.fail(f"no {program}")
    pytest.skip(f"no {program} on this machine")


def test_podman_says_what_docker_says(tmp_path: Path) -> None:
    if shutil.which("podman") is None or os.getuid() != 0:
        _lacking("podman, or no root")
    own = {
        **os.environ,
        "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf"),
    }
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/root"\nrunroot = "{tmp_path}/run"\n'
    )
    probe = engine.engine_probe(PODMAN)
    found = probe.answer(run_command(probe.command, variables=own))
    assert not isinstance(found, NotKnown), found
    assert (found.name, found.store, found.root) == ("podman", "vfs", f"{tmp_path}/root")
    assert found.architecture == here(system.KERNEL).architecture
    running = engine.containers_probe(PODMAN)
    assert running.answer(run_command(running.command, variables=own)) == ()


def test_over_ssh_a_machine_answers_the_same_in_every_login_shell() -> None:
    same: Mapping[str, Probe[Any]] = {
        name: PROBES[name]
        for name in (
            "kernel",
            "system",
            "processors",
            "machine",
            "links",
            "devices",
            "PCI",
            "toolkit",
        )
    }

    def ask(machine: Machine) -> Mapping[str, object]:
        return {name: probe.answer(machine.run(probe.command)) for name, probe in same.items()}

    with nodes() as made:
        asked = [Node(name=f"node-{shell}") for shell in made.users]
        told = on_each((None, *asked), ask, made.variables)
    assert len(told) > 2
    assert all(each.value == told[0].value for each in told), told

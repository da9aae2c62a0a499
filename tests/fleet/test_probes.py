# What machines answered, recorded: see spark/README.md.
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sparks import answered, known, said
from vllm_graft.fleet.probes import clock, engine, gpus, memory, network, rdma, system
from vllm_graft.fleet.probes.images import image_presence
from vllm_graft.image.engine import Engine, ask_image
from vllm_graft.values.command import Completed
from vllm_graft.values.node_facts import EngineFacts, GpuFacts, ImagePresence, Interface
from vllm_graft.values.probe import NotKnown


def test_the_gpu_of_a_spark_has_no_memory_of_its_own() -> None:
    assert known(gpus.GPUS, said("nvidia-smi-query.txt")) == (
        GpuFacts(
            index=0,
            uuid="GPU-00000000-0000-0000-0000-000000000001",
            name="NVIDIA GB10",
            bus="0000000F:01:00.0",
            driver="580.142",
            capability="12.1",
            memory=None,
            free=None,
        ),
    )
    assert known(gpus.CUDA, said("nvidia-smi.txt")) == "13.0"


def test_a_gpu_with_memory_of_its_own_tells_it_in_mebibytes() -> None:
    line = "0, GPU-1, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 550.54.15, 9.0, 81559, 81008\n"
    (gpu,) = known(gpus.GPUS, line)
    assert (gpu.memory, gpu.free) == (81559 << 20, 81008 << 20)


@pytest.mark.parametrize(
    ("status", "text", "complaint", "why"),
    [
        (127, "", "sh: 1: nvidia-smi: not found", "there is no nvidia-smi"),
        (6, "No devices were found\n", "", "nvidia-smi: No devices were found"),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "",
            "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        ),
        (124, "", "", "nvidia-smi did not answer within 20 s"),
    ],
)
def test_a_gpu_that_is_not_told_stays_unknown_with_the_reason(
    status: int, text: str, complaint: str, why: str
) -> None:
    assert answered(gpus.GPUS, text, status=status, complaint=complaint) == NotKnown(not_known=why)


@pytest.mark.parametrize("text", ["", "\n", "0, GPU-1, NVIDIA GB10\n", "what is this"])
def test_an_answer_of_another_form_is_no_value(text: str) -> None:
    assert isinstance(answered(gpus.GPUS, text), NotKnown)


def test_what_computes_on_a_gpu_is_told_with_its_memory() -> None:
    first, second = known(gpus.PROCESSES, said("nvidia-smi-apps.txt"))
    assert (first.pid, first.name, first.memory) == (6008, "VLLM::EngineCore", 56501 << 20)
    assert second.pid == 44757
    (odd,) = known(gpus.PROCESSES, "7, python, with a comma, [N/A]\n")
    assert (odd.name, odd.memory) == ("python, with a comma", None)
    assert known(gpus.PROCESSES, "") == ()


def test_cards_are_counted_without_a_driver() -> None:
    bus = "/sys/bus/pci/devices"
    cards = {
        "000f:01:00.0": ("0x10de", "0x030200"),
        "0000:01:00.0": ("0x15b3", "0x020000"),
        "0000:01:00.1": ("0x15b3", "0x020000"),
        "0007:01:00.0": ("0x10ec", "0x020000"),
    }
    text = "".join(f"{bus}/{at}/vendor:{vendor}\n" for at, (vendor, _) in cards.items())
    text += "".join(f"{bus}/{at}/class:{kind}\n" for at, (_, kind) in cards.items())
    found = known(gpus.PCI, text)
    assert (found.nvidia_gpus, found.other_gpus, found.mellanox) == (1, 0, 2)


def test_what_gives_containers_gpus_is_found_as_program_or_specification() -> None:
    found = known(gpus.TOOLKIT, "/usr/bin/nvidia-ctk\n/etc/cdi/nvidia.yaml\n")
    assert (found.programs, found.specifications) == (
        ("/usr/bin/nvidia-ctk",),
        ("/etc/cdi/nvidia.yaml",),
    )


def test_memory_is_what_can_be_had_and_the_page_cache_is_part_of_it() -> None:
    serving = known(memory.MEMORY, said("meminfo-serving.txt"))
    assert (serving.total, serving.available) == (127601228 << 10, 25516700 << 10)
    assert (serving.free, serving.cached) == (1908496 << 10, (3217616 + 19830636) << 10)
    assert (serving.swap, serving.swap_used) == (0, 0)
    cached = known(memory.MEMORY, said("meminfo-cached.txt"))
    assert cached.free < cached.available
    assert cached.swap_used == (16777212 - 16445180) << 10


@pytest.mark.parametrize("lost", ["MemTotal", "MemAvailable", "MemFree"])
def test_memory_without_one_of_its_figures_is_not_known(lost: str) -> None:
    text = "".join(
        line + "\n" for line in said("meminfo-serving.txt").splitlines() if lost not in line
    )
    assert isinstance(answered(memory.MEMORY, text), NotKnown)


def test_both_kinds_of_cores_are_told() -> None:
    found = known(system.PROCESSORS, said("lscpu.txt"))
    assert (found.count, found.models) == (20, ("Cortex-X925", "Cortex-A725"))
    unindented = "\n".join(line.strip() for line in said("lscpu.txt").splitlines())
    assert known(system.PROCESSORS, unindented) == found


def test_architectures_are_spelled_as_images_spell_them() -> None:
    spark = known(system.KERNEL, "Linux 6.17.0-1014-nvidia aarch64\n")
    assert (spark.release, spark.architecture) == ("6.17.0-1014-nvidia", "arm64")
    assert known(system.KERNEL, "Linux 6.1.0 x86_64\n").architecture == "amd64"
    assert known(system.KERNEL, "Linux 6.1.0 riscv64\n").architecture == "riscv64"


def test_a_dgx_tells_its_last_update() -> None:
    plain = said("os-release.txt")
    assert known(system.SYSTEM, plain) == "Ubuntu 24.04.4 LTS"
    told = known(system.SYSTEM, plain + said("dgx-release.txt"))
    assert told == "Ubuntu 24.04.4 LTS, DGX Spark 7.4.0"


@pytest.fixture
def interfaces() -> dict[str, Interface]:
    links = known(network.LINKS, said("ip-addr.json"))
    devices = known(network.DEVICES, said("sysfs-net.txt"))
    return {each.name: each for each in network.with_devices(links, devices)}


def test_interfaces_of_a_spark_are_known_with_port_rate_and_addresses(
    interfaces: dict[str, Interface],
) -> None:
    cabled, twin = interfaces["enp1s0f1np1"], interfaces["enP2p1s0f1np1"]
    assert (cabled.is_up, cabled.mtu, cabled.speed, cabled.port) == (True, 9000, 200_000, "p1")
    assert (cabled.driver, twin.port) == ("mlx5_core", "p1")
    assert [each.address for each in cabled.addresses] == ["192.168.100.10"]  # without fe80::
    dark = interfaces["enp1s0f0np0"]
    assert (dark.is_up, dark.speed, dark.addresses) == (False, None, ())
    assert interfaces["wlP9s9"].is_wireless
    assert not interfaces["docker0"].is_outward
    assert not interfaces["lo"].is_outward
    assert cabled.is_outward


def test_an_address_that_holds_on_the_link_alone_counts_in_ipv4_where_a_spark_uses_it() -> None:
    text = (
        '[{"ifname":"a","flags":["UP","LOWER_UP"],"mtu":1500,"addr_info":['
        '{"family":"inet","local":"169.254.1.2","prefixlen":16,"scope":"link"},'
        '{"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"}]},{}]'
    )
    (link,) = known(network.LINKS, text)
    assert [each.address for each in link.addresses] == ["169.254.1.2"]


def test_the_default_route_with_the_lowest_metric_comes_first() -> None:
    (route,) = known(network.ROUTES, said("ip-route.json"))
    assert (route.interface, route.source) == ("enP7s7", "192.168.1.21")
    two = (
        '[{"dst":"default","gateway":"10.0.0.1","dev":"wlP9s9","metric":600,"flags":[]},'
        '{"dst":"default","gateway":"10.0.0.1","dev":"enP7s7","metric":100,"flags":[]}]'
    )
    assert [each.interface for each in known(network.ROUTES, two)] == ["enP7s7", "wlP9s9"]
    assert known(network.ROUTES, "[ ]") == ()


def test_ports_that_are_taken_are_told_with_who_has_them() -> None:
    fresh = known(network.LISTENERS, said("ss.txt"))
    assert [each.port for each in fresh] == [11000, 22, 631, 53, 53, 22]
    assert (fresh[4].address, fresh[5].address) == ("127.0.0.53%lo", "[::]")
    line = 'LISTEN 0 4096 *:8000 *:* users:(("open-webui",pid=77,fd=9),("b",pid=78,fd=9))\n'
    (taken,) = known(network.LISTENERS, line)
    assert (taken.port, taken.process, taken.pid) == (8000, "open-webui", 77)


def test_rdma_devices_are_read_with_their_gids_from_the_kernels_files() -> None:
    ports = {each.device: each for each in known(rdma.PORTS, said("sysfs-infiniband.txt"))}
    up, down = ports["rocep1s0f0"], ports["rocep1s0f1"]
    assert (up.is_active, up.interface, up.link_layer) == (True, "enp1s0f0np0", "Ethernet")
    assert (down.is_active, down.interface, len(down.gids)) == (False, "enp1s0f1np1", 2)
    assert up.rate == "200 Gb/sec (4X HDR)"
    wanted = [gid for gid in up.gids if gid.version == "RoCE v2" and "." in gid.address]
    assert [(gid.index, gid.address) for gid in wanted] == [(3, "192.168.100.10")]
    assert known(rdma.PORTS, "") == ()


ACTIVE = {
    "rdma-link-cage-0.txt": {"enp1s0f0np0", "enP2p1s0f0np0"},
    "rdma-link-cage-1.txt": {"enp1s0f1np1", "enP2p1s0f1np1"},
    "rdma-link.json": {"enp1s0f1np1", "enP2p1s0f1np1"},
    "ibdev2netdev-cage-0.txt": {"enp1s0f0np0", "enP2p1s0f0np0"},
    "ibdev2netdev-cage-1.txt": {"enp1s0f1np1", "enP2p1s0f1np1"},
    "ibdev2netdev-both.txt": {"enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"},
    "ibdev2netdev-mlx5.txt": {"enp1s0f0np0", "enP2p1s0f0np0"},
}


@pytest.mark.parametrize("name", ACTIVE)
def test_every_way_of_telling_the_cabling_is_read(name: str) -> None:
    probe = rdma.PAIRS if name.startswith("ibdev") else rdma.LINKS
    ports = known(probe, said(name))
    assert len(ports) == 4
    assert {each.interface for each in ports if each.is_active} == ACTIVE[name]
    if "mlx5" in name:
        assert ports[2].device == "mlx5_2"


def test_the_port_may_be_glued_to_the_name() -> None:
    text = '[{"ifname":"mlx5_0/1","state":"ACTIVE","netdev":"enp1s0f0np0"}]'
    (port,) = known(rdma.LINKS, text)
    assert (port.device, port.port, port.is_active) == ("mlx5_0", 1, True)


def test_without_rdma_the_tools_say_so_and_nothing_is_made_up() -> None:
    refused = "Failed to open NETLINK_RDMA socket"
    found = answered(rdma.LINKS, "", status=1, complaint=refused)
    assert found == NotKnown(not_known=f"rdma: {refused}")
    assert answered(rdma.PAIRS, "", status=127) == NotKnown(not_known="there is no ibdev2netdev")
    assert known(rdma.PAIRS, "") == ()  # a Spark without a cable since it was started


DOCKER = Engine(program="/usr/bin/docker")


def inspected(text: str, *, status: int = 0, complaint: str = "") -> Any:
    answer = Completed(
        command=ask_image(DOCKER, "x"),
        status=status,
        stdout=text.encode(),
        stderr=complaint.encode(),
        took=timedelta(),
    )
    return image_presence(answer, DOCKER, "x")


def test_an_image_is_known_by_its_content_and_what_it_wants_of_the_driver() -> None:
    found = inspected(said("image-inspect.json"))
    assert isinstance(found, ImagePresence)
    assert (found.platform, found.size, found.cuda) == ("linux/arm64", 24010766350, "13.0.2")
    assert len(found.layers) == 1
    other = inspected(said("image-inspect.json").replace("5f55c2af", "00000000"))
    assert other == found  # its ID is the store's business


def test_an_image_that_is_absent_is_known_to_be() -> None:
    assert inspected("[]", status=1, complaint="Error: No such image: x") is None
    refused = inspected("", status=1, complaint="Cannot connect to the Docker daemon")
    assert isinstance(refused, NotKnown)


def docker_info(**more: object) -> str:
    told = {
        "ServerVersion": "29.2.1",
        "Driver": "overlay2",
        "DriverStatus": [["Backing Filesystem", "extfs"]],
        "DockerRootDir": "/var/lib/docker",
        "Architecture": "aarch64",
        "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
    }
    return json.dumps({**told, **more})


def engine_facts(**more: object) -> EngineFacts:
    return known(engine.engine_probe(DOCKER), docker_info(**more))


def test_both_stores_of_docker_are_told_apart_and_their_places_known() -> None:
    # As Docker 28.5.2 answers, with the containerd of the system and with one that it started itself.
    classic = engine_facts()
    assert (classic.store, classic.is_containerd_store) == ("overlay2", False)
    assert (classic.architecture, classic.runtimes) == ("arm64", ("io.containerd.runc.v2", "runc"))
    assert engine.image_folder(classic, "/elsewhere") == "/var/lib/docker"
    status = [["driver-type", "io.containerd.snapshotter.v1"]]
    system = engine_facts(
        Driver="overlayfs",
        DriverStatus=status,
        Containerd={"Address": "/run/containerd/containerd.sock"},
    )
    assert system.is_containerd_store
    assert engine.image_folder(system, "/elsewhere") == "/elsewhere"
    own = engine_facts(
        DriverStatus=status, Containerd={"Address": "/var/run/docker/containerd/containerd.sock"}
    )
    assert engine.image_folder(own, "/elsewhere") == "/var/lib/docker/containerd"


def test_an_engine_that_runs_elsewhere_is_known_by_its_kernel() -> None:
    here = known(system.KERNEL, "Linux 6.17.0-1014-nvidia aarch64\n")
    assert not engine.is_elsewhere(engine_facts(KernelVersion="6.17.0-1014-nvidia"), here)
    assert engine.is_elsewhere(engine_facts(KernelVersion="6.12.54-linuxkit"), here)
    assert not engine.is_elsewhere(engine_facts(), here)


def test_an_engine_that_answers_with_an_error_is_not_known() -> None:
    probe = engine.engine_probe(DOCKER)
    text = docker_info(ServerErrors=["Cannot connect to the Docker daemon"], ServerVersion="")
    found = answered(probe, text)
    assert isinstance(found, NotKnown)
    assert "Cannot connect to the Docker daemon" in found.not_known


def test_the_folder_of_containerd_is_the_configured_one() -> None:
    assert known(engine.CONTAINERD_ROOT, '"/data/containerd"\n') == "/data/containerd"
    assert known(engine.CONTAINERD_ROOT, "") == "/var/lib/containerd"


def test_room_is_counted_in_bytes_and_files() -> None:
    probe = engine.space_probe("/var/lib/docker")
    found = known(probe, "/var/lib 4096 1000 10 500 20\n")
    assert (found.place, found.free, found.size, found.free_files) == (
        "/var/lib",
        40960,
        4096000,
        20,
    )
    assert known(probe, "/a b 4096 1000 10 0 0\n").free_files is None  # btrfs


def test_ports_of_containers_are_those_of_the_machine() -> None:
    probe = engine.containers_probe(DOCKER)
    text = (
        '{"Names":"open-webui","Image":"webui:1","Labels":"a=b,vllm-graft.role=worker,vllm-graft.deployment=tiny",'
        '"Ports":"0.0.0.0:8080->80/tcp, :::8080->80/tcp, 0.0.0.0:9000-9001->9000-9001/tcp, 443/tcp"}\n'
        '{"Names":"host","Image":"x","Labels":"","Ports":""}\n'
    )
    webui, host = known(probe, text)
    assert (webui.name, webui.ports, webui.role) == ("open-webui", (8080, 9000, 9001), "worker")
    assert (webui.deployment, host.deployment) == ("tiny", "")
    assert host.ports == ()
    podman = (
        '[{"Names":["a"],"Image":"x","Labels":{"vllm-graft.role":"head"},'
        '"Ports":[{"host_ip":"","container_port":80,"host_port":8080,"range":2}]},'
        '{"Names":["b"],"Image":"x","Labels":null,"Ports":null}]'
    )
    first, second = known(probe, podman)
    assert (first.ports, first.role, second.ports) == ((8080, 8081), "head", ())
    assert known(probe, "[]\n") == ()
    assert known(probe, "") == ()


def test_the_port_of_sshd_is_the_one_that_was_come_in_by() -> None:
    assert known(system.SSH_PORT, "192.168.1.9 51122 192.168.1.21 2222\n") == 2222
    assert isinstance(answered(system.SSH_PORT, "\n"), NotKnown)  # this machine is asked without


def test_a_clock_is_held_against_the_time_between_question_and_answer() -> None:
    shown = known(clock.CLOCK, "1764528000.250000000\n")
    asked = datetime.fromtimestamp(1764528000, UTC)
    found = clock.clock_facts(shown, asked, asked + timedelta(seconds=0.1))
    assert (found.ahead, found.error) == (200, 50)
    behind = clock.clock_facts(shown, asked + timedelta(hours=1), asked + timedelta(hours=1))
    assert behind.ahead == -3599750

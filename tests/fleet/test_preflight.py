# What is said of two DGX Sparks, one thing wrong with them at a time: facts as recorded, changed in one place.
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparks import GB, GIB, address, image, interfaces, known, said, spark, with_interface, worker
from vllm_graft.errors import NodeError
from vllm_graft.fleet.preflight.driver import is_met, newer_major
from vllm_graft.fleet.preflight.judge import judge, ordered, verdict_of
from vllm_graft.fleet.preflight.network import meets
from vllm_graft.fleet.preflight.paths import judge_hops, main_address, trials
from vllm_graft.fleet.preflight.wanted import Seen, Wanted
from vllm_graft.fleet.probes import gpus, memory
from vllm_graft.values.doctor import HopFacts, NodeFinding, PathFacts
from vllm_graft.values.node_facts import (
    ClockFacts,
    ContainerFacts,
    EngineFacts,
    FirewallFacts,
    KernelFacts,
    Listener,
    MemoryFacts,
    NodeFacts,
    PciFacts,
    SpaceFacts,
    ToolkitFacts,
)
from vllm_graft.values.probe import NotKnown

NOWHERE = NotKnown(not_known="there is no such program")


def paths(*nodes: Seen, **other: Any) -> tuple[PathFacts, ...]:
    """Everything that is tried answers, unless said otherwise."""
    return tuple(
        replace(
            PathFacts(
                sender=each.sender,
                receiver=each.receiver,
                interface=each.interface,
                address=each.address,
                answered=True,
                trip=280,
                whole_frames=True if each.mtu else None,
                mtu=each.mtu,
            ),
            **other,
        )
        for each in trials(nodes)
    )


def found(
    *nodes: Seen, wanted: Wanted | None = None, tried: Sequence[PathFacts] | None = None
) -> tuple[NodeFinding, ...]:
    told = paths(*nodes) if tried is None else tried
    return judge(nodes, {}, told, wanted or Wanted())


def only(findings: Sequence[NodeFinding], code: str) -> NodeFinding:
    """What is wrong in one place gives one finding, and no other."""
    (finding,) = findings
    assert finding.code == code, findings
    return finding


def test_of_two_sparks_that_are_well_nothing_is_said() -> None:
    assert found(spark(), worker()) == ()
    assert found(spark(role="")) == ()


def test_an_engine_that_cannot_be_used_has_the_code_of_the_verb_that_would_stop() -> None:
    error = NodeError("docker may not be used", remedy="join the group", code="E505")
    (finding,) = judge([spark(role="", engine=NOWHERE)], {"spark-a": error}, (), Wanted())
    assert (finding.code, finding.severity) == ("E505", "blocked")
    assert finding.stops == ("build", "ship", "up")
    assert (finding.found, finding.remedy) == (error.what, error.remedy)


def engine(**other: Any) -> EngineFacts:
    told = spark().facts.engine
    assert isinstance(told, EngineFacts)
    return replace(told, **other)


def test_an_engine_from_a_snap_is_doubtful() -> None:
    snap = engine(program="/snap/bin/docker", root="/var/snap/docker/common/var-lib-docker")
    assert only(found(spark(role="", engine=snap)), "N108").severity == "review"


HAS_BASE = {"vllm-node": image()}
BASE = Wanted(base="vllm-node", builder="spark-a")


def test_a_base_that_is_not_where_it_is_read_stops_build_alone() -> None:
    finding = only(found(spark(role=""), wanted=BASE), "N101")
    assert (finding.severity, finding.stops) == ("blocked", ("build",))
    elsewhere = Wanted(base="vllm-node", builder="laptop")
    assert found(spark(role=""), wanted=elsewhere) == ()


def test_an_image_for_another_architecture_stops_up() -> None:
    other = {"vllm-node": image(platform="linux/amd64")}
    finding = only(found(spark(role="", images=other), wanted=BASE), "N102")
    assert "linux/amd64" in finding.found
    assert finding.stops == ("ship", "up")


def test_an_image_may_be_built_where_it_does_not_run_but_not_sent_where_it_does_not() -> None:
    on_laptop = Wanted(base="vllm-node", builder="laptop")
    laptop = spark("laptop", 9, "builder", images=HAS_BASE, engine=engine(architecture="amd64"))
    for_spark = found(spark(role=""), laptop, wanted=on_laptop, tried=())
    assert [each.code for each in for_spark] == ["N104"]
    for_laptop = replace(laptop.facts, images={"vllm-node": image(platform="linux/amd64")})
    told = found(spark(role=""), replace(laptop, facts=for_laptop), wanted=on_laptop, tried=())
    assert [(each.code, each.nodes) for each in told] == [
        ("N104", ("spark-a",)),
        ("N102", ("spark-a",)),
    ]


def test_of_a_machine_that_only_builds_nothing_is_asked_that_only_serving_needs() -> None:
    mac: dict[str, Any] = {
        "memory": NOWHERE,
        "interfaces": NOWHERE,
        "routes": NOWHERE,
        "listeners": NOWHERE,
        "gpus": NOWHERE,
        "pci": NOWHERE,
        "clock": NOWHERE,
    }
    told = found(spark(role=""), spark("laptop", 9, "builder", **mac), tried=())
    assert only(told, "N404").wanted == "to know its clock"


def test_an_image_of_one_name_and_two_contents_is_told_with_both() -> None:
    other = {"vllm-node": image(config=image("other").config)}  # the same layers, set otherwise
    finding = only(found(spark(images=HAS_BASE), worker(images=other), wanted=BASE), "N103")
    assert finding.nodes == ("spark-a", "spark-b")
    assert finding.severity == "review"
    assert len(set(re.findall(r"sha256:\w+", finding.found))) == 2
    served = Wanted(image="vllm-node")
    told = only(found(spark(images=HAS_BASE), worker(images=other), wanted=served), "N103")
    assert told.severity == "blocked"  # ship takes no name that another image has
    assert "--force" in told.remedy


def test_the_same_content_in_two_kinds_of_stores_is_the_same_image() -> None:
    containerd = engine(store="overlayfs", is_containerd_store=True)
    findings = found(
        spark(images=HAS_BASE), worker(images=HAS_BASE, engine=containerd), wanted=BASE
    )
    assert only(findings, "N106").severity == "note"


def test_engines_of_two_versions_are_a_note() -> None:
    assert (
        only(found(spark(), worker(engine=engine(version="20.10.24"))), "N107").severity == "note"
    )


def test_a_node_without_the_base_gets_it_whole() -> None:
    finding = only(found(spark(images=HAS_BASE), worker(), wanted=BASE), "N104")
    assert (finding.nodes, finding.severity) == (("spark-b",), "note")


def test_the_base_counts_under_any_name_and_below_any_other_image() -> None:
    (layers,) = spark(images=HAS_BASE).stacks
    second = replace(worker(), stacks=((*layers, image("graft").config),))
    assert found(spark(images=HAS_BASE), second, wanted=BASE) == ()
    none = replace(worker(), stacks=((image("other").config,),))
    assert only(found(spark(images=HAS_BASE), none, wanted=BASE), "N104").nodes == ("spark-b",)


def room(free: int, files: int | None = None) -> SpaceFacts:
    return SpaceFacts(place="/var/lib/docker", free=free, size=916 * GB, free_files=files)


@pytest.mark.parametrize(
    ("free", "has_base", "severity"),
    [
        (100 * GB, False, None),
        (47 * GB, False, "blocked"),  # loading takes 24 GB twice
        (23 * GB, True, None),
        (GB // 2, True, "blocked"),
    ],
)
def test_room_is_held_against_what_must_come(
    free: int, *, has_base: bool, severity: str | None
) -> None:
    second = worker(space=room(free), images=HAS_BASE if has_base else {})
    findings = found(spark(images=HAS_BASE), second, wanted=BASE)
    told = [each for each in findings if each.code == "N105"]
    assert [each.severity for each in told] == ([severity] if severity else [])
    if told:
        assert told[0].nodes == ("spark-b",)
        assert told[0].stops == ("ship", "up")


def test_a_part_of_the_layers_makes_room_a_doubt() -> None:
    two = {"vllm-node": image(layers=(image("one").config, image("two").config))}
    part = replace(worker(space=room(30 * GB)), stacks=((image("one").config,),))
    assert only(found(spark(images=two), part, wanted=BASE), "N105").severity == "review"


@pytest.mark.parametrize(
    ("free", "severity"), [(50 * GB, None), (39 * GB, "review"), (GB // 10, "blocked")]
)
def test_without_an_image_room_is_held_against_what_images_of_vllm_usually_are(
    free: int, severity: str | None
) -> None:
    findings = found(spark(role="", space=room(free)))
    assert [(each.code, each.severity) for each in findings] == (
        [("N105", severity)] if severity else []
    )


def test_a_file_system_without_room_for_files_is_told_although_it_has_bytes() -> None:
    finding = only(found(spark(role="", space=room(500 * GB, files=900))), "N105")
    assert "900" in finding.found


NO_DRIVER: dict[str, Any] = {"gpus": NOWHERE, "cuda": NOWHERE, "gpu_processes": NOWHERE}
NO_CARD = PciFacts(nvidia_gpus=0, other_gpus=1, mellanox=0)


def test_a_card_without_a_driver_stops_and_no_card_at_all_is_a_doubt() -> None:
    broken = only(found(spark(role="", **NO_DRIVER)), "N201")
    assert broken.severity == "blocked"
    assert NOWHERE.not_known in broken.found
    none = only(found(spark(role="", **NO_DRIVER, pci=NO_CARD)), "N201")
    assert none.severity == "review"
    for_cuda = found(spark(role="", **NO_DRIVER, pci=NO_CARD, images=HAS_BASE), wanted=BASE)
    assert only(for_cuda, "N201").severity == "blocked"


NO_TOOLKIT = ToolkitFacts(programs=(), specifications=())


def test_containers_get_no_gpu_without_hook_specification_or_runtime() -> None:
    assert only(found(spark(role="", toolkit=NO_TOOLKIT)), "N202").severity == "blocked"
    others: tuple[dict[str, Any], ...] = (
        {"engine": engine(runtimes=("nvidia", "runc"))},
        {"engine": engine(devices=("nvidia.com/gpu=all",))},
        {"toolkit": ToolkitFacts(programs=(), specifications=("/etc/cdi/nvidia.yaml",))},
    )
    without: dict[str, Any] = {"toolkit": NO_TOOLKIT}
    for other in others:
        assert found(spark(role="", **(without | other))) == ()


@pytest.mark.parametrize(
    ("asked", "severity"),
    [
        ({"cuda": "13.2.0"}, None),  # a newer toolkit of the same major version runs
        ({"cuda": "14.0.0"}, "review"),
        ({"requires": "cuda>=13.0"}, None),
        ({"requires": "cuda>=13.1"}, "blocked"),
        ({"requires": "cuda>=13.1 brand=tesla,driver>=580,driver<581"}, None),
        ({"requires": "cuda>=13.1 brand=tesla,driver>=535,driver<536"}, "blocked"),
        ({"driver": "590.48"}, "review"),
        ({"driver": "580.95"}, None),
    ],
)
def test_what_an_image_asks_of_the_driver_is_held_against_it(
    asked: dict[str, str], severity: str | None
) -> None:
    one = {"vllm-node": image(**asked)}
    findings = found(spark(role="", images=one), wanted=BASE)
    assert [(each.code, each.severity) for each in findings] == (
        [("N203", severity)] if severity else []
    )


def test_a_requirement_that_is_not_understood_is_neither_met_nor_broken() -> None:
    assert is_met("", "13.0", "580.1") is None
    assert is_met("arch>=9.0", "13.0", "580.1") is None
    assert is_met("nonsense", "13.0", "580.1") is None
    assert is_met("cuda>=12.4,driver>=550", "13.0", "580.1") is True
    assert not newer_major("", "580.1")


def gpu(**other: Any) -> Any:
    told = spark().facts.gpus
    assert not isinstance(told, NotKnown)
    return (replace(told[0], **other),)


def test_drivers_and_gpus_that_differ_are_doubtful() -> None:
    other = gpu(uuid="GPU-2", driver="595.84")
    assert only(found(spark(), worker(gpus=other)), "N204").severity == "review"
    kind = gpu(uuid="GPU-2", name="NVIDIA H100", memory=80 * GIB, free=80 * GIB)
    codes = [each.code for each in found(spark(), worker(gpus=kind))]
    assert codes == ["N210", "N205"]


def test_what_computes_on_a_gpu_is_named_with_its_memory() -> None:
    processes = known(gpus.PROCESSES, said("nvidia-smi-apps.txt"))
    finding = only(found(spark(role="", gpu_processes=processes)), "N206")
    assert "VLLM::EngineCore (pid 6008) has 55.2 GiB" in finding.found


SERVING = known(memory.MEMORY, said("meminfo-serving.txt"))
CACHED = known(memory.MEMORY, said("meminfo-cached.txt"))


def test_memory_that_something_else_has_stops_what_is_to_be_served() -> None:
    doubt = only(found(spark(role="", memory=SERVING)), "N207")
    assert doubt.severity == "review"
    stop = only(found(spark(role="", memory=SERVING), wanted=Wanted(is_serving=True)), "N207")
    assert stop.severity == "blocked"
    assert "24.3 GiB can be had" in stop.found
    assert "--gpu-memory-utilization 0.19 at most" in stop.remedy
    small = Wanted(is_serving=True, utilization=0.15)
    assert [each.code for each in found(spark(role="", memory=SERVING), wanted=small)] == ["N208"]


def test_cached_files_are_a_note_since_the_kernel_gives_them_back() -> None:
    finding = only(found(spark(role="", memory=CACHED)), "N208")
    assert finding.severity == "note"
    assert "drop_caches" in finding.remedy


def test_a_gpu_with_memory_of_its_own_is_judged_by_that() -> None:
    free = gpu(memory=80 * GIB, free=79 * GIB)
    assert found(spark(role="", gpus=free, memory=SERVING)) == ()
    used = gpu(memory=80 * GIB, free=40 * GIB)
    assert "0.5 at most" in only(found(spark(role="", gpus=used)), "N207").remedy


def whole(**other: Any) -> MemoryFacts:
    told = spark().facts.memory
    assert isinstance(told, MemoryFacts)
    return replace(told, **other)


def test_swap_in_use_is_a_note() -> None:
    swapped = whole(swap=16 * GIB, swap_used=8 * GIB)
    assert only(found(spark(role="", memory=swapped)), "N209").severity == "note"


def test_memory_as_two_sparks_differ_by_is_not_told_but_more_is() -> None:
    usual = whole(total=128452014080)
    assert found(spark(), worker(memory=usual)) == ()
    half = whole(total=64 * GIB, available=63 * GIB, free=63 * GIB)
    assert only(found(spark(), worker(memory=half)), "N210").severity == "note"


TAKEN = (Listener(address="*", port=8000, process="", pid=None),)


def test_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    webui = ContainerFacts(name="open-webui", image="webui:1", ports=(8000,), role="")
    by_container = only(found(spark(role="", listeners=TAKEN, containers=(webui,))), "N301")
    assert "the container open-webui (webui:1)" in by_container.found
    assert by_container.severity == "review"  # nobody has said that it is needed
    by_process = (replace(TAKEN[0], process="python", pid=77),)
    serving = Wanted(is_serving=True)
    told = only(found(spark(role="", listeners=by_process), wanted=serving), "N301")
    assert told.severity == "blocked"
    assert "python (pid 77)" in told.found
    assert "another user" in only(found(spark(role="", listeners=TAKEN)), "N301").found


def test_what_up_has_started_itself_does_not_stand_in_its_way() -> None:
    own = ContainerFacts(name="x", image="y", ports=(), role="head", deployment="tiny")
    used: dict[str, Any] = {
        "listeners": TAKEN,
        "containers": (own,),
        "memory": SERVING,
        "gpu_processes": known(gpus.PROCESSES, said("nvidia-smi-apps.txt")),
    }
    again = Wanted(deployment="tiny", is_serving=True)
    assert only(found(spark(role="", **used), wanted=again), "N406").severity == "note"
    other = Wanted(deployment="other", is_serving=True)
    codes = {each.code for each in found(spark(role="", **used), wanted=other)}
    assert codes == {"N206", "N207", "N301"}


def test_another_port_another_address_and_a_worker_are_no_matter() -> None:
    assert found(spark(role="", listeners=TAKEN), wanted=Wanted(port=8001)) == ()
    assert found(spark(), worker(listeners=TAKEN)) == ()
    local = (Listener(address="127.0.0.53%lo", port=8000, process=""),)
    assert found(spark(role="", listeners=local), wanted=Wanted(host="127.0.0.1")) == ()


EVERYWHERE = "0.0.0.0"


@pytest.mark.parametrize("listening", ["*", EVERYWHERE, "[::]", "127.0.0.1", "[::ffff:127.0.0.1]"])
def test_an_address_meets_itself_and_everywhere(listening: str) -> None:
    assert meets(listening, EVERYWHERE)
    assert meets(listening, "")
    assert meets(listening, "127.0.0.1")


def test_two_addresses_do_not_meet() -> None:
    assert not meets("192.168.1.21", "127.0.0.1")
    assert not meets("127.0.0.53%lo", "127.0.0.1")


@pytest.mark.parametrize(
    "addresses",
    [("127.0.1.1",), ("127.0.0.1", "::1"), NotKnown(not_known="it ended with status 2")],
)
def test_a_name_that_leads_to_loopback_is_told_where_there_are_several_nodes(
    addresses: Any,
) -> None:
    assert only(found(spark(host_addresses=addresses), worker()), "N303").nodes == ("spark-a",)
    assert found(spark(role="", host_addresses=addresses)) == ()


def test_a_default_route_over_wifi_is_doubtful() -> None:
    told = spark().facts.routes
    assert not isinstance(told, NotKnown)
    wireless = (replace(told[0], interface="wlP9s9", source=""),)
    assert only(found(spark(routes=wireless), worker()), "N304").severity == "review"


def test_a_firewall_is_doubtful_with_how_to_let_the_nodes_through() -> None:
    finding = only(found(spark(firewall=FirewallFacts(active=("ufw",))), worker()), "N302")
    assert "ufw allow from" in finding.remedy


def test_two_interfaces_in_one_network_are_doubtful() -> None:
    twins = with_interface(spark(), "enP2p1s0f1np1", addresses=address("192.168.100.14"))
    codes = [each.code for each in found(spark(interfaces=twins), worker())]
    assert "N308" in codes


def test_a_bridge_of_the_engine_is_no_second_network() -> None:
    bridge = with_interface(spark(), "docker0", is_up=True)
    again = with_interface(worker(), "docker0", is_up=True)
    first, second = spark(interfaces=bridge), worker(interfaces=again)
    assert found(first, second) == ()
    assert not any(each.address.startswith("172.17") for each in trials([first, second]))


def test_a_twin_without_an_address_is_told() -> None:
    bare = with_interface(spark(), "enP2p1s0f1np1", addresses=())
    finding = only(found(spark(interfaces=bare), worker()), "N309")
    assert "enP2p1s0f1np1 has none" in finding.found


def test_twins_with_two_sizes_of_packets_are_told() -> None:
    other = with_interface(spark(), "enP2p1s0f1np1", mtu=1500)
    told = [each for each in found(spark(interfaces=other), worker()) if each.code == "N307"]
    assert "enP2p1s0f1np1: 1500" in told[0].found


def test_a_link_that_is_down_asleep_or_without_its_module_is_told() -> None:
    ports = spark().facts.rdma
    assert not isinstance(ports, NotKnown)
    down = tuple(replace(each, is_active=False) for each in ports)
    assert "none of" in only(found(spark(rdma=down), worker()), "N310").found
    no_module = only(found(spark(rdma=()), worker()), "N310")
    assert "no RDMA device" in no_module.found
    asleep = PciFacts(nvidia_gpus=1, other_gpus=0, mellanox=0)
    assert "restart" in only(found(spark(rdma=(), pci=asleep), worker()), "N310").remedy
    elsewhere = gpu(uuid="GPU-2", name="NVIDIA H100 PCIe", memory=None)
    codes = [each.code for each in found(spark(rdma=(), pci=asleep, gpus=elsewhere), worker())]
    assert "N310" not in codes
    assert found(spark(role="", rdma=down)) == ()  # one node needs none


def test_an_address_that_is_not_in_the_gid_table_is_told() -> None:
    other = with_interface(spark(), "enp1s0f1np1", addresses=address("192.168.100.99"))
    codes = [each.code for each in found(spark(interfaces=other), worker())]
    assert codes == ["N311"]


def test_without_uverbs_containers_do_no_rdma() -> None:
    assert only(found(spark(rdma_files=()), worker()), "N312").severity == "review"
    assert "rdma_cm" in only(found(spark(rdma_files=("rdma_cm",)), worker()), "N312").found


def test_an_address_drawn_by_lot_is_a_note() -> None:
    ports = spark().facts.rdma
    assert not isinstance(ports, NotKnown)
    other = with_interface(spark(), "enp1s0f1np1", addresses=address("169.254.127.30", 16))
    bare = tuple(replace(each, gids=()) for each in ports)
    finding = only(found(spark(interfaces=other, rdma=bare), worker()), "N313")
    assert finding.severity == "note"


def test_a_kernel_with_which_rdma_fails_is_told() -> None:
    bad = KernelFacts(system="Linux", release="7.0.0-1019-nvidia", architecture="arm64")
    codes = [each.code for each in found(spark(kernel=bad), worker())]
    assert codes == ["N211", "N314"]


def test_machines_of_two_architectures_stop_ship_and_up() -> None:
    x86 = KernelFacts(system="Linux", release="6.17.0-1014-nvidia", architecture="amd64")
    finding = only(found(spark(), worker(kernel=x86)), "N401")
    assert (finding.severity, finding.stops) == ("blocked", ("ship", "up"))


def test_one_machine_under_two_names_stops_up() -> None:
    same_gpu = only(found(spark(), worker(gpus=spark().facts.gpus)), "N402")
    assert same_gpu.severity == "blocked"
    no_gpu: dict[str, Any] = {**NO_DRIVER, "pci": NO_CARD, "machine": "boot"}
    twice = found(spark(**no_gpu), spark("alias", 10, "worker", **no_gpu), tried=())
    assert ("N402", "blocked") in [(each.code, each.severity) for each in twice]
    namespaces = found(spark(**no_gpu), worker(**no_gpu))
    assert ("N402", "review") in [(each.code, each.severity) for each in namespaces]


@pytest.mark.parametrize(
    ("ahead", "error", "severity"),
    [(1500, 5, None), (-4000, 5, "note"), (4000, 3000, None), (400_000, 5, "review")],
)
def test_a_clock_is_told_by_how_far_it_is_surely_wrong(
    ahead: int, error: int, severity: str | None
) -> None:
    findings = found(spark(role="", clock=ClockFacts(ahead=ahead, error=error)))
    assert [(each.code, each.severity) for each in findings] == (
        [("N403", severity)] if severity else []
    )


@pytest.mark.parametrize("field", ["kernel", "memory", "space", "listeners", "clock", "routes"])
def test_what_was_not_told_is_said_and_never_taken_for_well(field: str) -> None:
    untold: dict[str, Any] = {field: NOWHERE}
    finding = only(found(spark(role="", **untold)), "N404")
    assert finding.severity == "review"
    assert finding.found == NOWHERE.not_known


def test_systems_that_differ_are_a_note() -> None:
    assert only(found(spark(), worker(system="Ubuntu 22.04")), "N405").severity == "note"


def test_every_way_between_two_sparks_is_tried_from_both_ends() -> None:
    told = trials([spark(), worker()])
    assert {(each.sender, each.address) for each in told} == {
        ("spark-a", "192.168.100.11"),
        ("spark-a", "192.168.101.11"),
        ("spark-a", "192.168.1.11"),
        ("spark-a", "192.168.2.11"),
        ("spark-b", "192.168.100.10"),
        ("spark-b", "192.168.101.10"),
        ("spark-b", "192.168.1.10"),
        ("spark-b", "192.168.2.10"),
    }
    fast = next(each for each in told if each.address == "192.168.100.11")
    assert (fast.interface, fast.mtu) == ("enp1s0f1np1", 9000)


def test_nodes_of_no_common_network_are_tried_at_the_address_of_their_default_route() -> None:
    routes = spark().facts.routes
    assert not isinstance(routes, NotKnown)
    alone = spark("far", 9, "worker", interfaces=interfaces(9)[:2])
    other = replace(
        alone.facts, interfaces=with_interface(alone, "enP7s7", addresses=address("10.0.0.9"))
    )
    other = replace(other, routes=(replace(routes[0], source=""),))
    far = Seen(name="far", role="worker", facts=other)
    assert main_address(far) == "10.0.0.9"
    assert [each.address for each in trials([spark(), far]) if each.sender == "spark-a"] == [
        "10.0.0.9"
    ]


def test_a_cable_with_addresses_drawn_by_lot_is_a_way_too() -> None:
    first, second = (
        with_interface(node, "enp1s0f1np1", addresses=address(f"169.254.1.{last}", 16))
        for node, last in ((spark(), 1), (worker(), 2))
    )
    told = trials([spark(interfaces=first), worker(interfaces=second)])
    assert "169.254.1.2" in [each.address for each in told if each.sender == "spark-a"]


def test_a_node_that_another_does_not_reach_stops_up() -> None:
    tried = paths(spark(), worker(), answered=False, trip=None, whole_frames=None)
    findings = found(spark(), worker(), tried=tried)
    assert [(each.code, each.severity) for each in findings] == [("N305", "blocked")] * 2
    untried = paths(spark(), worker(), answered=NOWHERE, trip=None, whole_frames=None)
    findings = found(spark(), worker(), tried=untried)
    assert [(each.code, each.severity) for each in findings] == [("N305", "review")] * 2


def test_one_way_that_leads_there_is_enough() -> None:
    tried = [
        each
        if each.address.startswith("192.168.100.")
        else replace(each, answered=False, trip=None)
        for each in paths(spark(), worker())
    ]
    assert found(spark(), worker(), tried=tried) == ()


def test_packets_that_do_not_pass_whole_and_ends_that_differ_are_told() -> None:
    tried = [
        replace(each, whole_frames=False) if each.address == "192.168.100.11" else each
        for each in paths(spark(), worker())
    ]
    assert "do not pass" in only(found(spark(), worker(), tried=tried), "N307").found
    small = worker(
        interfaces=tuple(
            replace(each, mtu=1500) if each.port == "p1" else each for each in interfaces(11)
        )
    )
    told = found(spark(), small)
    assert {each.code for each in told} == {"N307"}
    assert "9000 and 1500" in told[0].found


def test_a_slow_echo_over_a_fast_cable_is_told_and_over_a_slow_one_is_not() -> None:
    def slow(start: str) -> list[PathFacts]:
        return [
            replace(each, trip=1000) if each.address.startswith(start) else each
            for each in paths(spark(), worker())
        ]

    told = found(spark(), worker(), tried=slow("192.168.100."))
    assert [each.code for each in told] == ["N306", "N306"]
    assert found(spark(), worker(), tried=slow("192.168.1.")) == ()


def test_what_goes_through_this_machine_is_a_note() -> None:
    hop = HopFacts(sender="spark-a", receiver="spark-b", kind="relay")
    assert only(tuple(judge_hops([hop])), "N315").severity == "note"
    assert tuple(judge_hops([replace(hop, kind="push", address="192.168.100.11")])) == ()


def test_what_is_the_same_for_several_nodes_is_said_once_and_what_stops_last() -> None:
    findings = found(
        spark(**NO_DRIVER, pci=NO_CARD), worker(toolkit=NO_TOOLKIT, **NO_DRIVER, pci=NO_CARD)
    )
    assert only(findings, "N201").nodes == ("spark-a", "spark-b")
    first, second = findings[0], replace(findings[0], severity="blocked")
    assert ordered([second, first]) == (first, second)
    assert verdict_of([first]) == "review"
    assert verdict_of([first, second]) == "blocked"
    assert verdict_of([replace(first, severity="note")]) == "ok"


@given(unknown=st.sets(st.sampled_from([each.name for each in fields(NodeFacts)])))
@settings(max_examples=150)
def test_whatever_is_not_known_nothing_breaks_and_what_matters_is_said(unknown: set[str]) -> None:
    lost: dict[str, Any] = dict.fromkeys(unknown - {"images"}, NOWHERE)
    first, second = spark(images=HAS_BASE, **lost), worker(images=HAS_BASE, **lost)
    findings = judge([first, second], {}, paths(first, second), BASE)
    told = {each.code for each in findings}
    if {"kernel", "memory", "listeners", "clock", "interfaces", "routes"} & unknown:
        assert "N404" in told
    if "gpus" in unknown:
        assert "N201" in told
    if not unknown - {"images"}:
        assert told == set()

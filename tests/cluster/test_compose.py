# From what the nodes say to what is started, or to what stands in the way.
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_graft.cluster.addresses import NodeNetwork, Seat, choose_seats
from vllm_graft.cluster.compose import (
    NodeSurvey,
    compose,
    deployment_name,
    free_master_port,
    refuse_taken,
    refuse_words,
)
from vllm_graft.cluster.model_place import ModelPlace, WantedModel
from vllm_graft.cluster.sizes import plan_tensor_parallel
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.fleet.probes.network import DEVICES, LINKS, with_devices
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node_facts import Address, Interface, Listener, Route
from vllm_graft.values.settings import ServeSettings

SPARK = Path(__file__).parents[1] / "fleet/spark"
TINY = WantedModel(text="/srv/tiny")
SIZES = {"config.json": 700, "model.safetensors": 1000}


def interface(name: str, *addresses: str, speed: int | None = None, up: bool = True) -> Interface:
    parsed = (each.split("/") for each in addresses)
    return Interface(
        name=name,
        is_up=up,
        mtu=1500,
        addresses=tuple(Address(address=address, prefix=int(size)) for address, size in parsed),
        speed=speed,
    )


def network(node: str, *interfaces: Interface, default: str = "") -> NodeNetwork:
    routes = (Route(interface=default, gateway="x", source="", metric=100),) if default else ()
    return NodeNetwork(node=node, interfaces=interfaces, routes=routes)


def survey(node: str, number: int = 1, **more: object) -> NodeSurvey:
    made = NodeSurvey(
        node=node,
        image=ImageFacts(
            reference="i", architecture="arm64", system="linux", variant="", settings={}, layers=()
        ),
        content="sha256:1",
        model=ModelPlace(folder="/srv/tiny", sizes=SIZES),
        gpus=1,
        network=network(node, interface("eth0", f"10.0.0.{number}/24")),
        listeners=(),
        containers=(),
    )
    return replace(made, **more)


def test_the_members_follow_from_the_nodes() -> None:
    made = compose("img", TINY, ServeSettings(), [survey("a", 1), survey("b", 2)])
    assert made.name == "tiny"
    assert made.tensor_parallel == 2
    assert [(each.node, each.rank, each.address) for each in made.members] == [
        ("a", 0, "10.0.0.1"),
        ("b", 1, "10.0.0.2"),
    ]
    assert made.model.path == "/opt/vllm-graft/model"
    assert made.variables["HF_HUB_OFFLINE"] == "1"


def test_a_snapshot_is_served_by_its_commit_and_mounted_with_its_cache() -> None:
    folder = "/home/x/hub/models--Qwen--Tiny/snapshots/abc"
    place = ModelPlace(folder=folder, sizes=SIZES)
    other = ModelPlace(folder=folder.replace("/home/x", "/data"), sizes=SIZES)
    wanted = WantedModel(text="Qwen/Tiny")
    made = compose(
        "i", wanted, ServeSettings(), [survey("a", model=place), survey("b", 2, model=other)]
    )
    assert made.model.name == "Qwen/Tiny"
    assert made.model.path == "/opt/vllm-graft/hub/models--Qwen--Tiny/snapshots/abc"
    assert [each.model_folder for each in made.members] == ["/home/x/hub", "/data/hub"]
    assert made.variables["HF_HUB_CACHE"] == "/opt/vllm-graft/hub"
    later = ModelPlace(folder=other.folder.replace("abc", "def"), sizes=SIZES)
    with pytest.raises(NodeError, match="other commits") as caught:
        compose(
            "i", wanted, ServeSettings(), [survey("a", model=place), survey("b", 2, model=later)]
        )
    assert caught.value.code == "E578"


def test_a_graft_whose_distributions_lie_beside_the_images_own_gets_its_path() -> None:
    labels = {"Labels": {"vllm-graft.pythonpath": "/opt/vllm-graft/site"}}
    image = ImageFacts(
        reference="i", architecture="arm64", system="linux", variant="", settings=labels, layers=()
    )
    made = compose("i", TINY, ServeSettings(), [survey("a", image=image)])
    assert made.variables["PYTHONPATH"] == "/opt/vllm-graft/site"


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"content": "", "image": None}, "E571", "the engine of b has no image img"),
        ({"content": "sha256:2"}, "E571", "not the same image on every node"),
        (
            {"model": ModelPlace(folder="/srv/tiny", sizes={**SIZES, "model.safetensors": 9})},
            "E578",
            "model.safetensors has 9 bytes there, 1,000 here",
        ),
        (
            {"model": ModelPlace(folder="/srv/tiny", sizes={"config.json": 700})},
            "E578",
            "model.safetensors is not there",
        ),
    ],
)
def test_what_differs_between_nodes_is_told(
    changed: dict[str, object], code: str, said: str
) -> None:
    with pytest.raises(NodeError) as caught:
        compose("img", TINY, ServeSettings(), [survey("a", 1), survey("b", 2, **changed)])
    assert caught.value.code == code
    assert said in caught.value.what


def spark(name: str, here: str, fabric: str) -> NodeNetwork:
    """A DGX Spark with one cable in cage 1, and the fast twin's second network."""
    links = LINKS.read((SPARK / "ip-addr.json").read_text())
    devices = DEVICES.read((SPARK / "sysfs-net.txt").read_text())
    moved = {"192.168.1.21": here, "192.168.1.121": f"{here}0", "192.168.100.10": fabric}
    interfaces = [
        replace(
            each,
            addresses=tuple(
                replace(
                    one,
                    address=moved.get(
                        one.address, one.address.replace("101.10", f"101.{fabric[-2:]}")
                    ),
                )
                if not one.address.startswith(("127.", "172."))
                else one
                for one in each.addresses
            ),
        )
        for each in with_devices(links, devices)
    ]
    return NodeNetwork(
        node=name,
        interfaces=tuple(interfaces),
        routes=(Route(interface="wlP9s9", gateway="192.168.1.1", source="", metric=600),),
    )


def test_two_sparks_talk_over_their_cable_and_not_over_the_default_route() -> None:
    seats = choose_seats(
        [spark("a", "192.168.1.1", "192.168.100.10"), spark("b", "192.168.1.2", "192.168.100.11")]
    )
    assert seats == (
        Seat(address="192.168.100.10", interface="enp1s0f1np1"),
        Seat(address="192.168.100.11", interface="enp1s0f1np1"),
    )


def test_a_pair_that_is_cabled_crosswise_has_another_interface_on_each_node() -> None:
    seats = choose_seats(
        [
            network("a", interface("enp1s0f1np1", "192.168.100.10/24", speed=200_000)),
            network("b", interface("enp1s0f0np0", "192.168.100.11/24", speed=200_000)),
        ]
    )
    assert [each.interface for each in seats] == ["enp1s0f1np1", "enp1s0f0np0"]


def test_a_network_is_as_fast_as_its_slowest_end() -> None:
    nodes = [
        network(
            "a",
            interface("x", "10.1.0.1/24", speed=200_000),
            interface("y", "10.2.0.1/24", speed=10_000),
        ),
        network(
            "b",
            interface("x", "10.1.0.2/24", speed=1_000),
            interface("y", "10.2.0.2/24", speed=10_000),
        ),
    ]
    assert [each.address for each in choose_seats(nodes)] == ["10.2.0.1", "10.2.0.2"]


def test_of_two_as_fast_the_one_without_a_default_route_is_taken() -> None:
    nodes = [
        network(
            name,
            interface("lan", f"10.0.0.{n}/24"),
            interface("own", f"10.9.0.{n}/24"),
            default="lan",
        )
        for n, name in enumerate("ab", 1)
    ]
    assert [each.interface for each in choose_seats(nodes)] == ["own", "own"]


def test_a_bridge_that_every_machine_has_for_itself_connects_none() -> None:
    nodes = [
        network(
            name,
            interface("docker0", "172.17.0.1/16", speed=10_000),
            interface("eth0", f"10.0.0.{n}/24"),
        )
        for n, name in enumerate("ab", 1)
    ]
    assert [each.interface for each in choose_seats(nodes)] == ["eth0", "eth0"]


def test_a_cable_with_link_local_addresses_alone_will_do() -> None:
    nodes = [
        network(
            "a",
            interface("e", "169.254.127.30/16", speed=200_000),
            interface("l", "10.0.0.1/24", speed=1000),
        ),
        network(
            "b",
            interface("e", "169.254.12.9/16", speed=200_000),
            interface("l", "10.0.0.2/24", speed=1000),
        ),
    ]
    assert [each.interface for each in choose_seats(nodes)] == ["e", "e"]


def test_what_is_down_is_no_way() -> None:
    nodes = [
        network("a", interface("x", "10.1.0.1/24", speed=200_000), interface("y", "10.2.0.1/24")),
        network("b", interface("x", "10.1.0.2/24", up=False), interface("y", "10.2.0.2/24")),
    ]
    assert [each.interface for each in choose_seats(nodes)] == ["y", "y"]


def test_machines_that_are_routed_to_each_other_use_their_default_routes() -> None:
    nodes = [
        network("a", interface("ens4", "10.128.0.2/32"), default="ens4"),
        network("b", interface("ens4", "10.128.0.3/32"), default="ens4"),
    ]
    assert [each.address for each in choose_seats(nodes)] == ["10.128.0.2", "10.128.0.3"]


def test_two_names_of_one_machine_are_told_as_that() -> None:
    same = interface("eth0", "10.0.0.1/24")
    other = network("c", interface("eth0", "10.0.0.3/24"), default="eth0")
    twins = (network("a", same, default="eth0"), network("b", same, default="eth0"))
    with pytest.raises(NodeError, match=r"a and b are names of one machine") as caught:
        choose_seats([twins[0], other, twins[1]])
    assert caught.value.code == "E572"
    assert "a: eth0 10.0.0.1/24" in caught.value.what


def test_machines_without_a_common_network_are_no_one_machine() -> None:
    bridge = interface("docker0", "172.17.0.1/16")
    nodes = [
        network("a", bridge, interface("eth0", "10.0.0.1/24")),
        network("b", bridge, interface("eth0", "10.0.1.1/24")),
    ]
    with pytest.raises(NodeError, match="the nodes share no network"):
        choose_seats(nodes)


def test_one_node_needs_no_network() -> None:
    assert choose_seats([network("a")]) == (Seat(address="127.0.0.1", interface=""),)


def test_an_image_that_is_lacking_is_said_with_the_words_that_bring_it() -> None:
    lacking = [survey("this machine", 1, content=""), survey("b", 2, content="")]
    with pytest.raises(NodeError) as caught:
        compose("img:1", TINY, ServeSettings(), lacking)
    assert caught.value.code == "E571"
    assert caught.value.remedy.endswith("vllm-graft ship img:1 localhost b")


@pytest.mark.parametrize(
    ("wanted", "args", "gpus", "found"),
    [
        (None, (), (1, 1), 2),
        (None, (), (0, 0), 2),
        (None, (), (4, 4), 8),
        (None, ("--pipeline-parallel-size", "2"), (1, 1), 1),
        (None, ("-pp", "2"), (4, 4), 4),
        (1, (), (8,), 1),
        (2, (), (0,), 2),
        (4, ("--data-parallel-size", "2"), (4, 4), 4),
    ],
)
def test_how_it_is_split_follows_from_the_gpus(
    wanted: int | None, args: tuple[str, ...], gpus: tuple[int, ...], found: int
) -> None:
    assert plan_tensor_parallel(wanted, args, gpus, "abcd"[: len(gpus)]) == found


@pytest.mark.parametrize(
    ("wanted", "args", "gpus", "why"),
    [
        (1, (), (1, 1), "2 nodes cannot take evenly"),
        (3, (), (2, 2), "2 nodes cannot take evenly"),
        (4, (), (1, 4), "a has fewer GPUs"),
        (None, (), (1, 2), "a 1, b 2"),
        (None, ("-pp", "3"), (1, 1), "does not follow"),
        (None, ("-dp", "2"), (1, 1), "with data parallel"),
        (2, ("-pp", "two"), (1, 1), "takes a number"),
        (2, ("-pp", "0"), (1, 1), "takes a number"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    wanted: int | None, args: tuple[str, ...], gpus: tuple[int, ...], why: str
) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        plan_tensor_parallel(wanted, args, gpus, "abcd"[: len(gpus)])
    assert caught.value.code == "E222"


@pytest.mark.parametrize(
    "args",
    [
        ("--nnodes", "2"),
        ("--node_rank=1",),
        ("-n", "2"),
        ("--headless",),
        ("--host", "x"),
        ("--api-key", "k"),
    ],
)
def test_words_that_follow_from_the_settings_are_refused(args: tuple[str, ...]) -> None:
    with pytest.raises(RequestError):
        refuse_words(ServeSettings(args=args))


def test_words_that_are_only_alike_pass() -> None:
    args = ("--hf-overrides", '{"n": 1}', "--no-enable-log-requests", "-O3")
    refuse_words(ServeSettings(args=args))


def test_a_launcher_that_is_not_there_yet_is_refused() -> None:
    with pytest.raises(RequestError, match="ray"):
        refuse_words(ServeSettings(launcher="ray"))


@pytest.mark.parametrize(
    ("name", "model", "found"),
    [
        ("", "Qwen/Qwen3.5-122B-A10B-FP8", "qwen3.5-122b-a10b-fp8"),
        ("", "/srv/My Model (2)", "my-model-2"),
        ("mine", "/srv/tiny", "mine"),
    ],
)
def test_a_deployment_is_named_after_its_model(name: str, model: str, found: str) -> None:
    assert deployment_name(ServeSettings(name=name), model) == found


@pytest.mark.parametrize("name", ["-x", "a b", "Ä", "a" * 64, "a/b"])
def test_a_name_that_no_engine_takes_is_refused(name: str) -> None:
    with pytest.raises(RequestError):
        deployment_name(ServeSettings(name=name), "m")


@pytest.mark.parametrize(
    ("listening", "host", "taken"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("*", "127.0.0.1", True),
        ("[::]", "10.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.53%lo", "127.0.0.1", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", True),
    ],
)
def test_a_port_is_taken_where_two_would_listen_at_one_address(
    listening: str, host: str, *, taken: bool
) -> None:
    head = survey("a", listeners=(Listener(address=listening, port=8000, process="open-webui"),))
    made = compose("i", TINY, ServeSettings(host=host), [head])
    if not taken:
        return refuse_taken(made, head)
    with pytest.raises(NodeError, match="port 8000 of a is taken by open-webui") as caught:
        refuse_taken(made, head)
    assert caught.value.code == "E577"
    return None


def test_the_ranks_meet_at_a_port_that_is_free() -> None:
    assert free_master_port(survey("a")) == 29501
    taken = (
        Listener(address="*", port=29501, process=""),
        Listener(address="*", port=29502, process=""),
    )
    assert free_master_port(survey("a", listeners=taken)) == 29503
    assert free_master_port(survey("a", listeners=None)) == 29501

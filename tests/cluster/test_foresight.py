# What `up` would refuse is what its own functions refuse, of facts as DGX Sparks gave them.
from dataclasses import replace
from typing import Any

import pytest

from sparks import address, spark, with_interface, worker
from vllm_graft.cluster.foresight import foresee, foresee_seats
from vllm_graft.cluster.model_place import ModelPlace, WantedModel
from vllm_graft.errors import GraftError, NodeError
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.probe import NotKnown
from vllm_graft.values.settings import ServeSettings

TINY = WantedModel(text="/srv/tiny")
WHOLE = ModelPlace(folder="/srv/tiny", sizes={"config.json": 700, "model.safetensors": 9000})
PLACES: dict[str, ModelPlace | GraftError] = {"spark-a": WHOLE, "spark-b": WHOLE}


def foreseen(
    serve: ServeSettings | None = None, places: dict[str, ModelPlace | GraftError] | None = None
) -> tuple[NodeFinding, ...]:
    nodes = (spark(), worker())
    return tuple(foresee(TINY, serve or ServeSettings(), nodes, places or PLACES))


def test_what_up_would_start_gives_nothing_to_say() -> None:
    assert foreseen() == ()


@pytest.mark.parametrize(
    "serve",
    [
        ServeSettings(tensor_parallel=4),
        ServeSettings(tensor_parallel=3),
        ServeSettings(args=("--nnodes", "2")),
        ServeSettings(args=("--api-key", "secret")),
        ServeSettings(name="No Name"),
    ],
)
def test_settings_that_up_refuses_are_told_with_its_code(serve: ServeSettings) -> None:
    (finding,) = foreseen(serve)
    assert (finding.code, finding.severity, finding.stops) == ("E222", "blocked", ("up",))
    assert "secret" not in finding.found + finding.remedy


def test_a_model_that_is_absent_or_cut_short_on_one_node_is_told() -> None:
    absent = NodeError("there is no folder /srv/tiny on spark-b", remedy="copy it", code="E578")
    (finding,) = foreseen(places=PLACES | {"spark-b": absent})
    assert (finding.code, finding.nodes) == ("E578", ("spark-b",))
    cut = replace(WHOLE, sizes={**WHOLE.sizes, "model.safetensors": 4096})
    (finding,) = foreseen(places=PLACES | {"spark-b": cut})
    assert (finding.code, finding.nodes) == ("E578", ("spark-a", "spark-b"))
    assert "model.safetensors" in finding.found


def test_how_many_gpus_there_are_is_not_guessed_where_a_driver_is_silent() -> None:
    silent = NotKnown(not_known="nvidia-smi: No devices were found")
    absent = NotKnown(not_known="there is no nvidia-smi")
    serve = ServeSettings(tensor_parallel=4)
    for why, told in ((silent, ()), (absent, ())):
        nodes = (spark(gpus=why), worker(gpus=why))
        assert tuple(foresee(TINY, serve, nodes, PLACES)) == told


def test_ranks_of_two_sparks_talk_over_their_cable() -> None:
    seats, findings = foresee_seats([spark(), worker()])
    assert findings == ()
    assert {each.address for each in seats} <= {
        "192.168.100.10",
        "192.168.100.11",
        "192.168.101.10",
        "192.168.101.11",
    }
    assert foresee_seats([spark(role="")]) == ((), ())


def test_nodes_that_share_no_network_are_told_with_their_addresses() -> None:
    far: dict[str, Any] = {
        "interfaces": with_interface(worker(), "enP7s7", addresses=address("192.168.1.10")),
        "routes": (),
    }
    same = tuple(
        replace(each, addresses=()) if each.name != "enP7s7" else each for each in far["interfaces"]
    )
    bare = tuple(
        replace(each, addresses=()) if each.name != "enP7s7" else each
        for each in with_interface(spark(), "enP7s7", addresses=address("10.0.0.1"))
    )
    seats, (finding,) = foresee_seats(
        [spark(interfaces=bare, routes=()), worker(**(far | {"interfaces": same}))]
    )
    assert seats == ()
    assert finding.code == "E572"
    assert "10.0.0.1" in finding.found

import json
import re
from pathlib import Path

import jsonschema
import pytest

from sparks import image, spark, worker
from vllm_graft.fleet.preflight.judge import judge, verdict_of
from vllm_graft.fleet.preflight.paths import trials
from vllm_graft.fleet.preflight.wanted import Wanted
from vllm_graft.report.doctor import render_doctor
from vllm_graft.report.ink import Ink
from vllm_graft.values.doctor import (
    DoctorReport,
    HopFacts,
    NodeReport,
    PathFacts,
    SeatFacts,
)
from vllm_graft.values.node_facts import ModelFacts
from vllm_graft.values.probe import NotKnown

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/doctor.schema.json").read_text())


def report(count: int) -> DoctorReport:
    """So many Sparks, and one more that is not reached."""
    model = ModelFacts(folder="/srv/models/qwen", files=41, size=119_000_000_000)
    nodes = [
        spark(images={"vllm-node": image()}, model=model),
        *(
            worker(model=model, toolkit=NotKnown(not_known="there is no sh"))
            for _ in range(count - 1)
        ),
    ][:count]
    paths = tuple(
        PathFacts(
            sender=each.sender,
            receiver=each.receiver,
            interface=each.interface,
            address=each.address,
            answered=True,
            trip=280,
            whole_frames=True,
            mtu=each.mtu,
        )
        for each in trials(nodes[:2])
    )
    findings = judge(nodes, {}, paths, Wanted(base="vllm-node", builder="spark-a"))
    return DoctorReport(
        verdict=verdict_of(findings),
        nodes=(
            *(NodeReport(name=each.name, role=each.role, facts=each.facts) for each in nodes),
            NodeReport(name="lost", role="worker", facts=NotKnown(not_known="no route | to host")),
        ),
        paths=paths,
        hops=(
            HopFacts(sender="spark-a", receiver="spark-b", kind="relay"),
            HopFacts(sender="spark-a", receiver="lost", kind=NotKnown(not_known="it is lost")),
        ),
        seats=(SeatFacts(node="spark-a", address="192.168.100.10", interface="enp1s0f1np1"),),
        findings=findings,
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [40, 80, 100])
def test_every_width_and_number_of_nodes_can_be_read(count: int, width: int) -> None:
    text = render_doctor(report(count), "text", Ink(width=width))
    table = re.split(r"\n\n(?:note|review|blocked|ok)\b", text)[0]
    assert max(map(len, table.splitlines())) <= max(width, 44)
    for word in ("NVIDIA GB10", "580.142", "119 GB", "lost (worker)", "nothing is known"):
        assert word in " ".join(table.split()), word
    assert text.splitlines()[-1].startswith(("ok: ", "Review: ", "Blocked: "))


def test_a_figure_is_not_parted_from_its_unit() -> None:
    for width in range(60, 101):
        text = render_doctor(report(2), "text", Ink(width=width))
        units = ("GB", "GiB", "ms", "bytes", "Gb/s", "CPUs", "TB")
        starts = {line.split()[0].rstrip(",;") for line in text.splitlines() if line.split()}
        assert not starts & set(units)


def test_json_follows_the_schema_and_markdown_has_a_column_for_each_node() -> None:
    told = report(2)
    jsonschema.validate(json.loads(render_doctor(told, "json", Ink())), SCHEMA)
    markdown = render_doctor(told, "markdown", Ink())
    head = markdown.splitlines()[2]
    assert head == "| | spark-a (head) | spark-b (worker) | lost (worker) |"
    rows = markdown.split("\n\n")[1].splitlines()
    assert {line.replace("\\|", "").count("|") for line in rows} == {5}
    assert "Nothing is known of lost: no route | to host" in markdown


def test_colour_changes_no_letter() -> None:
    told = report(3)
    plain = render_doctor(told, "text", Ink())
    coloured = Ink(colour=True)
    shown = render_doctor(told, "text", coloured)
    assert shown != plain
    assert re.sub(r"\033\[\d+m", "", shown) == plain

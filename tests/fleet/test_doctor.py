# Real machines, each with an sshd and an engine: what is asked of them, what is said of them, and that nothing of them is changed.
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import published_models as models
from imaging import Image, Item
from machines import Kind, Machine, Machines, machines
from vllm_graft.cli.main import run

pytestmark = pytest.mark.engine

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/doctor.schema.json").read_text())


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    with machines(
        spark1=Kind(login="zsh"),
        spark2=Kind(login="fish", engine="sudo", trusted=False),
        spark3=Kind(login="tcsh", fabric="none", trusted=False, disk="40m"),
    ) as made:
        yield made


@dataclass(kw_only=True)
class Told:
    status: int
    text: str

    @property
    def value(self) -> dict[str, Any]:
        value = json.loads(self.text)
        jsonschema.validate(value, SCHEMA)
        return value

    def facts(self, name: str) -> dict[str, Any]:
        return next(each["facts"] for each in self.value["nodes"] if each["name"] == name)

    def codes(self, severity: str = "") -> set[tuple[str, tuple[str, ...]]]:
        return {
            (each["code"], tuple(each["nodes"]))
            for each in self.value["findings"]
            if severity in ("", each["severity"])
        }


def doctor(made: Machines, *words: str, form: str = "json", **variables: str) -> Told:
    out, err = io.StringIO(), io.StringIO()
    surroundings: Mapping[str, str] = {
        **made.variables,
        # This machine has no engine of its own here.
        "PATH": f"{made.folder}/bin:/nothing",
        **variables,
    }
    argv = ("doctor", *words, "--format", form, "--quiet")
    return Told(status=run(argv, surroundings, out, err), text=out.getvalue() or err.getvalue())


def written(machine: Machine) -> set[str]:
    """Give every file that its user, its settings and its engine have, with size and time."""
    told = machine.inside(
        "find",
        *("/home", "/etc/hosts", "/etc/ssh", "/etc/passwd", "/tmp", "/var/lib/docker"),  # noqa: S108 (looked at)
        *("-xdev", "!", "-type", "d", "-printf", "%p %s %T@\n"),
    )
    return set(told.splitlines())


def test_two_machines_are_asked_at_once_and_nothing_of_them_is_changed(made: Machines) -> None:
    first, second = made["spark1"], made["spark2"]
    image = Image.of([Item(path="x", content=b"x")])
    tag = first.docker.load(image)
    # A second host key, which an ssh that is let to would write down on the machine that connects.
    second.inside("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", "/etc/ssh/of-the-test/more")
    config = "/etc/ssh/of-the-test/sshd"
    second.inside("sh", "-c", f"echo HostKey /etc/ssh/of-the-test/more >>{config}")
    second.inside("sh", "-c", "kill -HUP $(cat /run/sshd.pid)")
    # It does so where it knows the machine by one name alone.
    known = f"/home/{first.user}/.ssh/known_hosts"
    first.inside("cp", "-p", known, "/run/known_hosts")
    first.inside("sed", "-i", r"/^\[spark2\]/!d", known)
    time.sleep(0.5)
    before = [written(each) for each in (first, second)]
    since = f"{time.time():.6f}"
    told = doctor(made, "spark1", "spark2", "--base", f"docker:{tag}@spark1", "--image", tag)
    until = f"{time.time():.6f}"
    after = [written(each) for each in (first, second)]
    first.inside("cp", "-p", "/run/known_hosts", known)
    assert [each ^ other for each, other in zip(before, after, strict=True)] == [set(), set()]
    for each in (first, second):
        assert each.docker.run("events", "--since", since, "--until", until) == ""
        assert each.processes() == []
    # Root is no one's GPU: nothing here has one, and all three names lead to one kernel.
    assert told.codes() == {
        ("N104", ("spark2",)),
        ("N201", ("spark1", "spark2")),
        ("N402", ("spark1", "spark2")),
    }
    assert (told.status, told.value["verdict"]) == (0, "review")
    one, other = told.facts("spark1"), told.facts("spark2")
    assert (one["user"], other["user"]) == ("zsh-user", "fish-user")
    assert (one["engine"]["through_sudo"], other["engine"]["through_sudo"]) == (False, True)
    assert one["engine"]["root"] == one["space"]["place"] == "/var/lib/docker"
    assert one["images"][tag]["platform"] == "linux/amd64"
    assert tag not in other["images"]
    assert one["memory"]["total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert one["gpus"] == {"not_known": "there is no nvidia-smi"}
    links = {each["name"]: each for each in one["interfaces"]}
    assert links["eth0"]["addresses"][0] == {"address": first.address, "prefix": 24}
    assert links["eth0"]["is_up"]
    assert abs(one["clock"]["ahead"]) <= one["clock"]["error"] + 1000
    ways = {(each["sender"], each["address"]): each for each in told.value["paths"]}
    assert set(ways) == {
        ("spark1", second.address),
        ("spark1", second.fabric),
        ("spark2", first.address),
        ("spark2", first.fabric),
    }
    assert all(each["answered"] is True for each in ways.values())
    (hop,) = told.value["hops"]
    assert hop["kind"] == "push"
    assert hop["address"] in (second.address, second.fabric)
    assert hop["rate"] > 0


def test_what_is_wrong_with_one_machine_is_told_beside_what_the_others_say(made: Machines) -> None:
    made["spark3"].stop_engine()
    try:
        told = doctor(made, "spark1", "spark2", "spark3", "nowhere")
    finally:
        made["spark3"].start_engine()
    assert told.status == 5
    blocked = told.codes("blocked")
    assert ("E506", ("spark3",)) in blocked  # its engine is not running
    assert ("E501", ("nowhere",)) in blocked
    assert "not_known" in told.facts("nowhere")
    assert ("N315", ("spark1", "spark3")) not in told.codes()
    names = [each["name"] for each in told.value["nodes"]]
    assert names == ["spark1", "spark2", "spark3", "nowhere"]
    assert told.facts("spark2")["engine"]["name"] == "docker"


def test_a_full_disk_a_taken_port_and_a_wrong_size_of_packets_are_seen(made: Machines) -> None:
    second, third = made["spark2"], made["spark3"]
    second.inside("ip", "link", "set", "fab0", "mtu", "1400")
    serve = "import socket,time; a=socket.create_server(('', 8000)); time.sleep(99)"
    enter = ("nsenter", "--net", "-t", str(third.init))
    with subprocess.Popen([*enter, sys.executable, "-c", serve]) as taking:
        try:
            time.sleep(0.5)
            told = doctor(made, "spark3", "spark1", "spark2")
        finally:
            taking.kill()
            second.inside("ip", "link", "set", "fab0", "mtu", "1500")
    codes = told.codes()
    assert ("N105", ("spark3",)) in told.codes("blocked")
    assert ("N301", ("spark3",)) in codes
    assert any(code == "N307" and "spark2" in nodes for code, nodes in codes)
    assert told.status == 5


def test_a_node_that_another_does_not_reach_is_told_although_both_are_reached_from_here(
    made: Machines,
) -> None:
    first, third = made["spark1"], made["spark3"]
    first.inside("ip", "route", "add", "blackhole", f"{third.address}/32")
    try:
        told = doctor(made, "spark1", "spark3")
    finally:
        first.inside("ip", "route", "del", "blackhole", f"{third.address}/32")
    findings = [each for each in told.value["findings"] if each["code"] == "N305"]
    assert ["spark1", "spark3"] in [each["nodes"] for each in findings]
    assert third.address in findings[0]["found"]
    assert all(each["severity"] == "blocked" for each in findings)
    assert ("N315", ("spark1", "spark3")) in told.codes()


def test_echoes_that_are_filtered_are_no_proof_that_nobody_is_there(made: Machines) -> None:
    both = (made["spark1"], made["spark2"])
    for each in both:
        each.inside("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1")
    try:
        told = doctor(made, "spark1", "spark2")
    finally:
        for each in both:
            each.inside("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=0")
    assert not any(code == "N305" for code, _ in told.codes())
    assert all(each["answered"] is True and each["trip"] is None for each in told.value["paths"])


STAND_IN = """\
#!/bin/sh
case "$*" in
*--query-gpu*) cat {folder}/query ;;
*--query-compute-apps*) cat {folder}/apps ;;
*) cat {folder}/all ;;
esac
"""


def test_a_machine_that_answers_as_a_spark_does_is_judged_as_one(made: Machines) -> None:
    first, spark = made["spark1"], Path(__file__).parent / "spark"
    home = f"/home/{first.user}"
    shown = first.place / "home" / first.user
    (shown / "bin").mkdir()
    for name, file in (("query", "-query"), ("apps", "-apps"), ("all", "")):
        (shown / name).write_text((spark / f"nvidia-smi{file}.txt").read_text())
    (shown / "bin/nvidia-smi").write_text(STAND_IN.format(folder=home))
    (shown / "bin/nvidia-smi").chmod(0o755)
    startup = shown / ".zshenv"
    kept = startup.read_text()
    startup.write_text(f"{kept}PATH={home}/bin:$PATH\n")
    try:
        told = doctor(made, "spark1")
    finally:
        startup.write_text(kept)
    (gpu,) = told.facts("spark1")["gpus"]
    assert (gpu["name"], gpu["memory"], gpu["driver"]) == ("NVIDIA GB10", None, "580.142")
    assert told.facts("spark1")["cuda"] == "13.0"
    assert ("N202", ("spark1",)) in told.codes("blocked")  # no container toolkit
    (processes,) = (each for each in told.value["findings"] if each["code"] == "N206")
    assert "pid 6008" in processes["found"]


def test_a_model_that_fits_into_no_gpu_is_told_before_anybody_loads_it(
    made: Machines, tmp_path: Path
) -> None:
    first, spark = made["spark1"], Path(__file__).parent / "spark"
    home = f"/home/{first.user}"
    shown = first.place / "home" / first.user
    (shown / "bin").mkdir(exist_ok=True)
    (shown / "query").write_text((spark / "nvidia-smi-query.txt").read_text())
    (shown / "apps").write_text("")
    (shown / "all").write_text((spark / "nvidia-smi.txt").read_text())
    (shown / "bin/nvidia-smi").write_text(STAND_IN.format(folder=home))
    (shown / "bin/nvidia-smi").chmod(0o755)
    large = [models.tensor("model.layers.0.mlp.up_proj.weight", (1 << 20, 1 << 17))]  # 256 GiB
    models.write_checkpoint(shown / "large", models.LLAMA_70B, large)
    startup = shown / ".zshenv"
    kept = startup.read_text()
    startup.write_text(f"{kept}PATH={home}/bin:$PATH\n")
    (tmp_path / "graft.toml").write_text(
        '[nodes]\nhead = "spark1"\n[serve]\nargs = ["--gpu-memory-utilization=0.1"]\n'
    )
    try:
        told = doctor(made, "--config", str(tmp_path / "graft.toml"), "--model", "~/large")
    finally:
        startup.write_text(kept)
    assert ("E583", ("spark1",)) in told.codes("blocked")
    plan = told.value["memory"]
    assert (plan["verdict"], plan["size"]) == ("does not fit", 256 << 30)
    assert plan["nodes"][0]["budget"]["is_unified"] is True


def test_the_base_may_be_on_a_machine_that_serves_nothing(made: Machines, tmp_path: Path) -> None:
    (tmp_path / "graft.toml").write_text(
        '[base]\nsource = "docker:no-such-image@spark2"\n[nodes]\nhead = "spark1"\n[serve]\nport = 8080\n'
    )
    told = doctor(made, "--config", str(tmp_path / "graft.toml"))
    assert [(each["name"], each["role"]) for each in told.value["nodes"]] == [
        ("spark1", ""),
        ("spark2", "builder"),
    ]
    assert ("N101", ("spark2",)) in told.codes("blocked")
    assert not any(code == "N201" and "spark2" in nodes for code, nodes in told.codes())
    assert told.value["paths"] == []
    local = doctor(made, "spark1", "--base", "docker:vllm-node")
    assert ("E330", ("this machine",)) in local.codes("blocked")


def test_a_model_and_its_settings_are_judged_as_up_would(made: Machines, tmp_path: Path) -> None:
    settings = """\
        [model]
        id = "~/tiny"
        [nodes]
        head = "spark1"
        workers = ["spark2"]
        [serve]
        port = 2201
        host = "0.0.0.0"
        args = ["--nnodes=2", "--gpu-memory-utilization=0.5"]
        """
    (tmp_path / "graft.toml").write_text(settings)
    tiny = made["spark1"].place / "home" / made["spark1"].user / "tiny"
    tiny.mkdir()
    (tiny / "config.json").write_text("{}")
    (tiny / "model.safetensors").write_bytes(b"x" * 4096)
    told = doctor(made, "--config", str(tmp_path / "graft.toml"))
    assert told.facts("spark1")["model"] == {
        "folder": f"/home/{made['spark1'].user}/tiny",
        "files": 2,
        "size": 4098,
    }
    assert "not_known" in told.facts("spark2")["model"]
    blocked = told.codes("blocked")
    assert ("E578", ("spark2",)) in blocked
    assert ("E222", ("spark1", "spark2")) in blocked  # --nnodes follows from the nodes
    assert ("N301", ("spark1",)) in blocked  # its sshd listens there
    seats = {each["node"]: each["address"] for each in told.value["seats"]}
    assert set(seats) == {"spark1", "spark2"}
    assert told.status == 5


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", "-x"), "E219"),
        (("spark1", "spark1"), "E223"),
        (("--base", "docker:"), "E200"),
        (("--config", "/no/such/graft.toml"), "E213"),
    ],
)
def test_a_request_that_says_nothing_sensible_asks_nobody(
    made: Machines, words: tuple[str, ...], code: str
) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert run(("doctor", *words), made.variables, out, err) == 2
    assert f"error[{code}]" in err.getvalue(), err.getvalue()
    assert out.getvalue() == ""


def test_text_and_markdown_say_what_json_says(made: Machines) -> None:
    text = doctor(made, "spark1", form="text")
    assert text.status == 0
    assert "docker 20." in text.text or "docker 2" in text.text
    assert "review N201 spark1: may stop up" in text.text
    assert text.text.endswith("`vllm-graft explain CODE` says more of each.\n")
    assert max(map(len, text.text.splitlines())) <= 110
    markdown = doctor(made, "spark1", form="markdown").text
    assert "| may stop up | N201 | spark1 |" in markdown


HEARING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vllm_graft.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_leaves_nothing_on_any_node(made: Machines) -> None:
    for wait in (0.8, 1.6, 2.8):
        child = subprocess.Popen(
            [sys.executable, "-c", HEARING, "doctor", "spark1", "spark2"],
            env=dict(made.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
        assert child.returncode in (0, 130, -signal.SIGINT), told.decode()
        deadline = time.monotonic() + 10
        left = ["?"]
        while left and time.monotonic() < deadline:
            left = [*made["spark1"].processes(), *made["spark2"].processes()]
        assert left == []

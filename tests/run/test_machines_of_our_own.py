# The machines that other tests rely on: if one of these fails, those prove nothing.
import subprocess
import time
from collections.abc import Generator

import pytest

from imaging import Image, Item
from machines import Kind, Machines, machines, shell_items

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    with machines(
        spark1=Kind(login="zsh"),
        spark2=Kind(login="fish", engine="sudo"),
        spark3=Kind(login="tcsh", engine="none", fabric="none", trusted=False),
    ) as made:
        yield made


def ssh(made: Machines, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", name, *words]
    return subprocess.run(
        argv, env=dict(made.variables), capture_output=True, text=True, check=False
    )


def test_each_is_another_machine_with_a_user_and_a_shell_of_its_own(made: Machines) -> None:
    told = [ssh(made, name, "echo; hostname; whoami").stdout.split() for name in made.names]
    assert [each[-2:] for each in told] == [
        ["spark1", "zsh-user"],
        ["spark2", "fish-user"],
        ["spark3", "tcsh-user"],
    ]


def test_each_engine_has_its_own_images(made: Machines) -> None:
    image = Image.of([Item(path="x", content=b"x")])
    made["spark1"].docker.load(image)
    assert made["spark1"].docker.run("image", "ls", "--quiet") != ""
    assert made["spark2"].docker.run("image", "ls", "--quiet") == ""
    assert ssh(made, "spark1", "docker ps").returncode == 0
    assert ssh(made, "spark2", "docker ps").returncode != 0
    assert ssh(made, "spark2", "sudo -n docker ps").returncode == 0


def test_one_that_is_trusted_reaches_the_others_over_both_networks(made: Machines) -> None:
    second = made["spark2"]
    for address in (second.name, second.address, second.fabric):
        words = f"ssh -o BatchMode=yes -p {second.port} {second.user}@{address} 'echo; hostname'"
        assert ssh(made, "spark1", words).stdout.split()[-1] == "spark2", address
        assert ssh(made, "spark3", words).returncode == 255


def test_one_that_is_lost_says_nothing_and_can_be_switched_on_again(made: Machines) -> None:
    first = made["spark1"]
    first.unplug()
    assert ssh(made, "spark1", "true").returncode == 255
    first.plug()
    assert ssh(made, "spark1", "true").returncode == 0
    child = subprocess.Popen(
        ["ssh", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2", "spark1", "sleep 99"],
        env=dict(made.variables),
        stderr=subprocess.DEVNULL,
    )
    time.sleep(0.7)
    first.lose()
    assert child.wait(15) == 255
    kept = first.docker
    first.start()
    assert kept.run("image", "ls", "--quiet") != ""


def test_an_engine_that_was_killed_begins_again_with_its_images(made: Machines) -> None:
    first = made["spark1"]
    before = first.docker.run("image", "ls", "--quiet")
    first.stop_engine()
    with pytest.raises(RuntimeError):
        first.docker.run("ps")
    first.start_engine()
    assert first.docker.run("image", "ls", "--quiet") == before


def test_a_container_runs_there(made: Machines) -> None:
    engine = made["spark1"].docker
    tag = engine.load(Image.of(shell_items()))
    run = (
        "run",
        "--rm",
        "--network",
        "host",
        tag,
        "/bin/sh",
        "-c",
        "read _ _ < /etc/hostname; echo it runs",
    )
    assert engine.run(*run) == "it runs\n"


def test_one_whose_host_key_changed_is_refused_by_ssh(made: Machines) -> None:
    made["spark3"].change_host_key()
    assert "IDENTIFICATION HAS CHANGED" in ssh(made, "spark3", "true").stderr


def test_what_runs_for_its_user_is_seen_and_its_connections_can_be_ended(made: Machines) -> None:
    first = made["spark1"]
    child = subprocess.Popen(["ssh", "spark1", "sleep 99"], env=dict(made.variables))
    deadline = time.monotonic() + 10
    while not first.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any("sleep 99" in line for line in first.processes())
    first.hang_up()
    assert child.wait(10) == 255


def test_one_without_sshd_refuses_connections(made: Machines) -> None:
    made["spark2"].stop_ssh()
    assert "refused" in ssh(made, "spark2", "true").stderr

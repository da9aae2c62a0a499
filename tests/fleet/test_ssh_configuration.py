# The user's SSH configuration is what says how a node is reached: a real ssh reads it, a real sshd answers. Nothing of it is
# switched off but what would be in the way of a command.
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from nodes import Nodes, free_port, nodes
from vllm_graft.errors import NodeError
from vllm_graft.run.connection import connected
from vllm_graft.run.process import run_command
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node, parse_node


@pytest.fixture(scope="module")
def there() -> Generator[Nodes]:
    with nodes() as made:
        yield made


class Client:
    """An ssh whose configuration begins with what a test writes; behind it stand the aliases of the fixture."""

    def __init__(self, there: Nodes, folder: Path) -> None:
        self.there = there
        self.folder = folder
        self.variables: Mapping[str, str] = there.variables

    def configure(self, text: str) -> None:
        config = self.folder / "config"
        # A Host block ends with the next one: what is included must not belong to it.
        config.write_text(f"{text}\nHost *\nInclude {self.there.folder}/config\n")
        config.chmod(0o600)
        (self.folder / "bin").mkdir(exist_ok=True)
        ssh = self.folder / "bin/ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        ssh.chmod(0o755)
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        self.variables = {**self.there.variables, "PATH": path}

    def host(self, alias: str, *more: str, user: str = "bash") -> str:
        """Give a block for an alias that is nowhere else."""
        folder = self.there.folder
        lines = [
            "HostName 127.0.0.1",
            f"Port {self.there.port}",
            f"User {self.there.users[user]}",
            f"IdentityFile {folder}/user",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {folder}/known",
            "GlobalKnownHostsFile none",
        ]
        # What comes first holds.
        return f"Host {alias}\n" + "".join(f"  {line}\n" for line in (*more, *lines))

    def said(self, name: str, *argv: str) -> str:
        with connected(parse_node(name, name), self.variables) as connection:
            command = connection(Command(argv=argv or ("id", "-un"), why="test"))
            return run_command(command, variables=self.variables).stdout.decode().strip()

    def refused(self, name: str) -> NodeError:
        with pytest.raises(NodeError) as caught, connected(Node(name=name), self.variables):
            pass
        assert caught.value.exit_status == 5
        return caught.value

    def logins(self, shell: str) -> int:
        log = (self.there.folder / "log").read_text()
        return log.count(f"Accepted publickey for {self.there.users[shell]} ")


@pytest.fixture
def client(there: Nodes, tmp_path: Path) -> Client:
    return Client(there, tmp_path)


def test_an_alias_stands_in_a_file_that_is_included(client: Client) -> None:
    (client.folder / "more").mkdir()
    (client.folder / "more/nodes.conf").write_text(client.host("spark1", user="dash"))
    client.configure(f"Include {client.folder}/more/*.conf")
    assert client.said("spark1") == client.there.users["dash"]


def test_a_user_before_the_name_comes_before_the_one_of_the_configuration(client: Client) -> None:
    client.configure(client.host("spark1", user="dash"))
    user = client.there.users["bash"]
    assert client.said(f"{user}@spark1") == user


def test_an_address_is_a_name_as_well(client: Client) -> None:
    client.configure(client.host("127.0.0.1"))
    assert client.said("127.0.0.1") == client.there.users["bash"]


def test_match_decides_by_name_and_by_what_a_command_says(client: Client) -> None:
    number = client.there.port
    client.configure(
        f"Match originalhost spark1 exec true\n  Port {number}\n"
        f"Match originalhost spark1 exec false\n  HostName nowhere.invalid\n"
        + client.host("spark1").replace(f"  Port {number}\n", "")
    )
    assert client.said("spark1") == client.there.users["bash"]


def test_a_node_is_reached_over_the_hosts_on_the_way(client: Client) -> None:
    client.configure(
        client.host("gate1", user="dash")
        + client.host("gate2", "ProxyJump gate1", user="bash")
        + client.host("spark1", "ProxyJump gate2", user="tcsh")
    )
    before = [client.logins(each) for each in ("dash", "bash", "tcsh")]
    assert client.said("spark1") == client.there.users["tcsh"]
    after = [client.logins(each) for each in ("dash", "bash", "tcsh")]
    assert after == [count + 1 for count in before]


def test_what_is_wrong_with_a_host_on_the_way_is_told(client: Client) -> None:
    folder = client.there.folder
    client.configure(
        client.host("locked-gate", f"IdentityFile {folder}/wrong", user="dash").replace(
            f"  IdentityFile {folder}/user\n", ""
        )
        + client.host("changed-gate", f"UserKnownHostsFile {folder}/changed")
        + client.host("closed-gate", f"Port {free_port()}")
        + client.host("behind-locked", "ProxyJump locked-gate")
        + client.host("behind-changed", "ProxyJump changed-gate")
        + client.host("behind-closed", "ProxyJump closed-gate")
    )
    for name, code, said in (
        ("behind-locked", "E503", client.there.users["dash"]),
        ("behind-changed", "E502", "changed"),
        ("behind-closed", "E501", "refused"),
    ):
        error = client.refused(name)
        assert (error.code, said in error.what) == (code, True), error.what
        assert "on the way" in error.what


def test_nobody_is_asked_not_even_in_a_window(client: Client) -> None:
    """BatchMode does not reach the ssh that connects to a host on the way."""
    asks = client.folder / "asks"
    asks.write_text(f"#!/bin/sh\necho asked >>{client.folder}/asked\necho yes\n")
    asks.chmod(0o755)
    client.configure(
        client.host("gate", f"UserKnownHostsFile {client.folder}/none", "StrictHostKeyChecking ask")
        + client.host("spark1", "ProxyJump gate")
    )
    client.variables = {**client.variables, "SSH_ASKPASS": str(asks), "DISPLAY": ":7"}
    error = client.refused("spark1")
    assert not (client.folder / "asked").exists()
    assert error.code == "E502"
    assert "on the way" in error.what


def test_a_command_of_the_users_own_makes_the_connection(client: Client) -> None:
    note = client.folder / "used"
    client.configure(
        client.host("gate", user="dash")
        + client.host(
            "spark1",
            f"ProxyCommand sh -c 'echo %n >{note}; exec {client.folder}/bin/ssh -W [%h]:%p gate'",
        )
    )
    assert client.said("spark1") == client.there.users["bash"]
    assert note.read_text() == "spark1\n"


def test_a_key_that_only_the_agent_has_is_enough(client: Client) -> None:
    agent = client.folder / "agent"
    child = subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while not agent.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        variables = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
        key = client.there.folder / "user"
        subprocess.run(["ssh-add", "-q", key], env=variables, check=True)
        own = f"  IdentityFile {key}\n  IdentitiesOnly yes\n"
        client.configure(
            client.host("spark1").replace(own, "  IdentityFile none\n")
            + client.host("handed-on", "ForwardAgent yes").replace(own, "  IdentityFile none\n")
        )
        assert client.refused("spark1").code == "E503"
        client.variables = {**client.variables, "SSH_AUTH_SOCK": str(agent)}
        assert client.said("spark1") == client.there.users["bash"]
        # And it is handed on where the user wants that, and only there.
        asked = ("sh", "-c", "ssh-add -l 2>&1; true")
        assert "ED25519" in client.said("handed-on", *asked)
        assert "ED25519" not in client.said("spark1", *asked)
    finally:
        child.terminate()
        child.wait()


def test_a_host_that_is_new_is_taken_where_the_user_says_so(client: Client) -> None:
    known = client.folder / "known"
    own = f"UserKnownHostsFile {known}"
    client.configure(
        client.host("careful", own, "StrictHostKeyChecking yes")
        + client.host("asks", own)
        + client.host("takes", own, "StrictHostKeyChecking accept-new")
    )
    assert client.refused("careful").code == "E502"
    # Whoever would be asked is not there.
    assert client.refused("asks").code == "E502"
    assert not known.exists()
    assert client.said("takes") == client.there.users["bash"]
    assert f"[127.0.0.1]:{client.there.port}" in known.read_text()
    assert client.said("careful") == client.there.users["bash"]


def test_the_host_key_is_looked_up_under_the_users_name_for_it(client: Client) -> None:
    public = (client.there.folder / "host.pub").read_text().split()
    other = (client.there.folder / "other-host.pub").read_text().split()
    known = client.folder / "known"
    known.write_text(f"rack-7 {' '.join(public[:2])}\nrack-8 {' '.join(other[:2])}\n")
    own = f"UserKnownHostsFile {known}"
    client.configure(
        client.host("spark1", own, "HostKeyAlias rack-7")
        + client.host("spark2", own, "HostKeyAlias rack-8")
    )
    assert client.said("spark1") == client.there.users["bash"]
    error = client.refused("spark2")
    assert (error.code, "ssh-keygen -R" in error.remedy) == ("E502", True)


def test_what_the_user_opens_by_hand_is_not_in_the_way(client: Client) -> None:
    """A session in tmux, a tunnel to a port, a connection that is shared."""
    port = free_port()
    client.configure(
        client.host(
            "spark1",
            "RemoteCommand echo by hand; exec sh",
            "RequestTTY force",
            f"LocalForward {port} 127.0.0.1:1",
            "ExitOnForwardFailure yes",
            "PermitLocalCommand yes",
            "LocalCommand echo a local command",
            "ControlMaster auto",
            f"ControlPath {client.folder}/own",
            "ControlPersist 60",
            "BatchMode no",
            "LogLevel VERBOSE",
            "SessionType default",
            "StdinNull no",
            "Compression yes",
        )
    )
    with (
        socket.create_server(("127.0.0.1", port)),  # as where a tunnel by hand stands already
        connected(Node(name="spark1"), client.variables) as connection,
    ):
        for _ in range(2):
            command = connection(Command(argv=("cat",), why="test", stdin=b"\x00\r\n\xff"))
            answer = run_command(command, variables=client.variables)
            assert (answer.status, answer.stdout) == (0, b"\x00\r\n\xff")
    assert not (client.folder / "own").exists()


def test_a_connection_that_the_user_shares_by_hand_is_left_alone(client: Client) -> None:
    own = client.folder / "own"
    client.configure(
        client.host("spark1", "ControlMaster auto", f"ControlPath {own}", "ControlPersist 60")
    )

    def by_hand(*words: str) -> int:
        child = subprocess.Popen(
            ["ssh", *words],
            env=client.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return child.wait()

    assert by_hand("spark1", "true") == 0
    assert own.is_socket()
    assert client.said("spark1") == client.there.users["bash"]
    assert by_hand("-O", "check", "spark1") == 0
    assert by_hand("-O", "exit", "spark1") == 0


def test_startup_files_that_spoil_the_path_are_not_in_the_way(there: Nodes) -> None:
    for shell, name, text in (
        ("bash", ".bashrc", "export PATH=/nowhere"),
        ("zsh", ".zshenv", "path=()"),
        ("fish", ".config/fish/config.fish", "set -x PATH /nowhere"),
        ("tcsh", ".cshrc", "setenv PATH /nowhere"),
    ):
        if shell not in there.users:
            continue
        place = there.folder / shell / name
        before = place.read_text()
        place.write_text(f"{before}{text}\n")
        try:
            with connected(Node(name=f"node-{shell}"), there.variables) as connection:
                command = connection(Command(argv=("id", "-un"), why="test"))
                answer = run_command(command, variables=there.variables)
            assert answer.stdout.decode().strip() == there.users[shell]
        finally:
            place.write_text(before)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 3", "status 3"),
        ("exec echo something else", "something else"),
        ("exec false", "status 1"),
    ],
)
def test_a_node_whose_shell_leaves_before_the_command_is_told(
    there: Nodes, text: str, said: str
) -> None:
    place = there.folder / "bash/.bashrc"
    before = place.read_text()
    place.write_text(f"{text}\n")
    try:
        with pytest.raises(NodeError) as caught, connected(Node(name="node-bash"), there.variables):
            pass
    finally:
        place.write_text(before)
    assert caught.value.code == "E510"
    assert "node-bash lets you in" in caught.value.what
    assert said in caught.value.what


def test_a_user_without_a_shell_is_told(client: Client) -> None:
    user = client.there.users["dash"]
    nologin = shutil.which("nologin", path="/usr/sbin:/sbin")
    if nologin is None:
        pytest.skip("no nologin on this machine")
    shell = pwd.getpwnam(user).pw_shell
    subprocess.run(["usermod", "--shell", nologin, user], check=True, capture_output=True)
    try:
        error = client.refused("node-dash")
    finally:
        subprocess.run(["usermod", "--shell", shell, user], check=True, capture_output=True)
    assert error.code == "E510"
    assert "not available" in error.what


def test_a_command_that_is_forced_upon_the_key_is_told(client: Client) -> None:
    place = client.there.folder / "authorized"
    before = place.read_text()
    place.write_text(f'command="echo backups only" {before}')
    try:
        error = client.refused("node-bash")
    finally:
        place.write_text(before)
    assert error.code == "E510"
    assert "backups only" in error.what

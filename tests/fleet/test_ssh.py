# Real login shells and a real sshd: what is sent arrives to the byte, and what goes wrong is told.
import hashlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from nodes import SHELLS, Nodes, nodes
from vllm_graft.errors import NodeError, RequestError
from vllm_graft.fleet.ssh import Connection, open_connection, over, quote
from vllm_graft.run.connection import connected
from vllm_graft.run.process import run_command, run_fed, talking_command
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node, parse_node
from vllm_graft.values.source import DockerSource, parse_source

TRUE = Command(argv=("true",), why="test")
HOSTILE = (
    *("", " ", "[", "]", "*", "?", "~", "~root", "=ls", "==", "!!", "!", "!x", "#", "%1", "^a^b"),
    *(
        "\\",
        "\\\\",
        "\\'",
        "'",
        "''",
        '"',
        '"$HOME"',
        "$HOME",
        "${IFS}",
        "$(id)",
        "`id`",
        "a\nb",
        "\n",
    ),
    *(
        "a\tb",
        ";",
        "&",
        "&&",
        "||",
        "|",
        ">x",
        "<x",
        "{a,b}",
        "(a)",
        "-",
        "--",
        "-n",
        "a b  c",
        "\x01\x7f",
    ),
    *(
        '{"method": "mtp", "num_speculative_tokens": 1}',
        "--hf-overrides={'a': [1, \"b\"]}",
        "é→\u200b",
        "\udcff\udcfe",
    ),
    "\r\n",
    "x" * 3000,
)


def vectors(count: int) -> list[tuple[str, ...]]:
    chance = random.Random(7)  # noqa: S311 (the same ones each time)
    signs = [*HOSTILE, *"abc019 \t\n'\"\\$`!*?[]{}()<>|&;#~=%^-,.:/@\x02\x1b", "é", "\udc80"]
    made: list[tuple[str, ...]] = [*((each,) for each in HOSTILE), HOSTILE]
    while len(made) < count:
        words = ("".join(chance.choices(signs, k=chance.randrange(9))) for _ in range(4))
        made.append(tuple(words))
    return made


def printed(argv: tuple[str, ...]) -> bytes:
    return b"".join(os.fsencode(each) + b"\0" for each in argv)


@pytest.mark.parametrize("name", ["dash", "bash", "zsh", "busybox"])
def test_whatever_bin_sh_is_a_command_says_and_ends_the_same(name: str, tmp_path: Path) -> None:
    program = shutil.which(name)
    if program is None:
        assert os.environ.get("VLLM_GRAFT_REQUIRE_ALL") != "1", name
        pytest.skip(f"no {name} on this machine")
    (tmp_path / "sh").symlink_to(program)
    for script, status in (("printf out; printf err >&2; exit 7", 7), ("kill -9 $$", 137)):
        line = quote(("sh", "-c", script), "marker").replace("/bin/sh", f"{tmp_path}/sh")
        done = subprocess.run(
            ["dash", "-c", f"{line} name"], capture_output=True, start_new_session=True, check=False
        )
        assert done.returncode == status
        if status == 7:
            assert (done.stdout, done.stderr) == (b"marker\nout", b"err")


def test_a_command_that_is_too_long_is_refused() -> None:
    with pytest.raises(NodeError) as caught:
        quote(("x" * 100_000,), "marker")
    assert caught.value.code == "E500"


def test_what_the_user_set_about_host_keys_is_never_switched_off() -> None:
    connection = Connection(node=Node(name="a"), control="/tmp/x")  # noqa: S108
    argv = over(Command(argv=("true",), why=""), connection).argv
    assert not any("HostKey" in word or "KnownHosts" in word for word in argv)
    assert argv[-3:-1] == ("--", "a")


def test_the_page_has_every_option_that_is_set_and_no_other() -> None:
    connection = Connection(node=Node(name="a"), control="/tmp/x")  # noqa: S108
    words = " ".join((*open_connection(connection).argv, *over(TRUE, connection).argv))
    page = (Path(__file__).parents[2] / "docs/nodes.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert set(re.findall(r"-o (\w+)=", words)) == told
    assert set(re.findall(r"-o ((?!Control)\w+=\w+)", words)) == {
        each for row in rows for each in re.findall(r"`(\w+=\w+)", row)
    }


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "a;b", "a@-b", "a/b", "$x"])
def test_what_is_no_name_of_a_node_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_node(text, "where")
    assert caught.value.code == "E219"


@pytest.mark.parametrize(
    ("text", "reference", "node"),
    [
        ("docker:vllm-node@spark1", "vllm-node", "spark1"),
        ("docker:a/vllm:1@me@10.0.0.7", "a/vllm:1", "me@10.0.0.7"),
        (f"docker:x@sha256:{'0' * 64}@spark1", f"x@sha256:{'0' * 64}", "spark1"),
        ("docker:x@spark1#/opt/venv", "x", "spark1"),
        (f"docker:x@sha256:{'0' * 64}", f"x@sha256:{'0' * 64}", ""),
    ],
)
def test_an_image_of_a_node_is_written_as_it_is_read(text: str, reference: str, node: str) -> None:
    source = parse_source(text)
    assert isinstance(source, DockerSource)
    assert source.reference == reference
    assert str(source.node or "") == node
    assert str(source) == text


def test_an_image_of_localhost_is_one_of_this_machine() -> None:
    assert parse_source("docker:x@localhost") == DockerSource(reference="x")
    assert str(parse_source("docker:x@me@localhost")) == "docker:x@me@localhost"


@pytest.mark.parametrize("text", ["docker:x@", "docker:x@-o", "docker:@spark1", "docker:x@a b"])
def test_what_is_no_image_of_a_node_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        parse_source(text)


@pytest.fixture(scope="module")
def there() -> Generator[Nodes]:
    with nodes() as made:
        yield made


def node(there: Nodes, shell: str) -> Node:
    if shell not in there.users:
        pytest.skip(f"no {shell} on this machine")
    return Node(name=f"node-{shell}")


IN_ONE = 50
"""Vectors in one command: a string of sshd may have 128 KiB."""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_thousand_vectors_arrive_through_every_login_shell(there: Nodes, shell: str) -> None:
    """Each is written by :func:`quote`; the login shell reads many of them in one command, one behind the other."""
    with connected(node(there, shell), there.variables) as connection:
        through = over(Command(argv=("true",), why="test"), connection)
        every = vectors(1000)
        for at in range(0, len(every), IN_ONE):
            some = every[at : at + IN_ONE]
            lines = [quote(("printf", "%s\\0", *argv), "vector") for argv in some]
            # All that is taken away is what would let the first one take the place of the shell.
            text = "; ".join(line.removeprefix("exec ") for line in lines)
            done = subprocess.run(
                (*through.argv[:-1], text),
                env=there.variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            wanted = b"".join(b"vector\n" + printed(argv) for argv in some)
            arrived = done.stdout[done.stdout.index(b"vector\n") :]
            assert arrived == wanted, (some, done.stderr)


@pytest.mark.parametrize("shell", SHELLS)
def test_words_bytes_and_statuses_pass_through_a_real_sshd(there: Nodes, shell: str) -> None:
    """With startup files that print."""
    with connected(node(there, shell), there.variables) as connection:

        def run(*argv: str) -> tuple[int, bytes]:
            done = run_command(
                connection(Command(argv=argv, why="test")), variables=there.variables
            )
            return done.status, done.stdout

        for argv in (HOSTILE, *vectors(len(HOSTILE) + 6)[-5:]):
            assert run("printf", "%s\\0", *argv) == (0, printed(argv))
        assert run("sh", "-c", "exit 7") == (7, b"")
        assert run("no-such-program")[0] == 127
        assert run("sh", "-c", "kill -9 $$")[0] == 137
        assert run("id", "-un") == (0, f"{there.users[shell]}\n".encode())
        content = os.urandom(3_000_001)
        digest = hashlib.sha256(content).hexdigest()
        pieces = (content[at : at + 65_537] for at in range(0, len(content), 65_537))
        fed = run_fed(
            connection(Command(argv=("sha256sum",), why="test")), pieces, variables=there.variables
        )
        assert fed.stdout.split()[0].decode() == digest
        place = there.folder / f"blob-{shell}"
        place.write_bytes(content)
        asked = connection(Command(argv=("cat", str(place)), why="test"))
        with talking_command(asked, variables=there.variables) as talking:
            assert talking.stdout.read() == content
            assert talking.ended().passed


def test_all_commands_go_through_one_connection_and_none_stays(there: Nodes) -> None:
    log = there.folder / "log"
    before = log.read_text().count("Accepted publickey")
    name = node(there, "bash")
    with connected(name, there.variables) as connection:
        for _ in range(5):
            with connected(name, there.variables) as same:
                assert same is connection
                run_command(same(Command(argv=("true",), why="test")), variables=there.variables)
        control = Path(connection.control)
        assert control.exists()
    assert log.read_text().count("Accepted publickey") == before + 1
    assert not control.parent.exists()
    found = subprocess.run(["pgrep", "-f", str(control)], capture_output=True, check=False)
    assert found.stdout == b""


@pytest.mark.parametrize(
    ("alias", "code", "said"),
    [
        ("nowhere", "E501", "no-such-host.invalid"),
        ("closed", "E501", "refused"),
        ("silent", "E501", "timed out"),
        ("stranger", "E502", "ssh stranger"),
        ("changed", "E502", "changed"),
        ("locked", "E503", "Permission denied"),
    ],
)
def test_a_node_that_is_not_reached_is_told_with_what_to_do(
    there: Nodes, alias: str, code: str, said: str
) -> None:
    with pytest.raises(NodeError) as caught, connected(Node(name=alias), there.variables):
        pass
    assert caught.value.code == code
    assert caught.value.exit_status == 5
    assert alias in caught.value.what
    assert said in caught.value.what + caught.value.remedy


def test_a_port_behind_a_name_is_told_as_what_ssh_does_not_take(there: Nodes) -> None:
    with (
        pytest.raises(NodeError) as caught,
        connected(Node(name="no-such-host.invalid:2222"), there.variables),
    ):
        pass
    assert caught.value.code == "E501"
    assert "give no-such-host.invalid a Host of its own" in caught.value.remedy
    assert "Port 2222" in caught.value.remedy


def test_without_ssh_it_is_said(there: Nodes, tmp_path: Path) -> None:
    variables: Mapping[str, str] = {**there.variables, "PATH": str(tmp_path)}
    with pytest.raises(NodeError) as caught, connected(node(there, "bash"), variables):
        pass
    assert caught.value.code == "E500"


def test_a_node_that_is_lost_while_something_runs_is_told(there: Nodes) -> None:
    with connected(node(there, "bash"), there.variables) as connection:
        asked = connection(Command(argv=("sleep", "30"), why="test"))
        with talking_command(asked, variables=there.variables) as talking:
            there.lose()
            with pytest.raises(NodeError) as caught:
                talking.ended()
    assert caught.value.code in {"E501", "E507"}

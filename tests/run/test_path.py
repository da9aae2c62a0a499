# Machines with two networks between them, a slow one and a fast one, and the user's own ssh on each.
import hashlib
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from machines import Kind, Machines, machines
from vllm_graft.errors import NodeError
from vllm_graft.fleet.hop import LOST, Hop, bytes_through, hop_lost, through
from vllm_graft.run.machines import Machine, machine_at
from vllm_graft.run.path import RELAY, find_hop
from vllm_graft.run.send import send
from vllm_graft.values.command import Command
from vllm_graft.values.node import Node

SLOW = "16mbit"


@pytest.fixture(scope="module")
def made() -> Generator[Machines]:
    with machines(
        spark1=Kind(login="zsh", engine="none", rate=SLOW),
        spark2=Kind(login="fish", engine="none", rate=SLOW),
        spark3=Kind(login="tcsh", engine="none", fabric="none", trusted=False, rate=SLOW),
        spark4=Kind(login="dash", engine="none", fabric="none", trusted=False, rate=SLOW),
    ) as made:
        yield made


@pytest.fixture(scope="module")
def at(made: Machines) -> Generator[dict[str, Machine]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                machine_at(Node(name=name) if name != "here" else None, made.variables)
            )
            for name in (*made.names, "here")
        }


def test_one_machine_sends_to_another_over_the_fast_network(
    made: Machines, at: dict[str, Machine]
) -> None:
    hop = find_hop(at["spark1"], at["spark2"])
    assert (hop.kind, hop.address, hop.interface) == ("push", made["spark2"].fabric, "fab0")
    assert hop.rate > 2_500_000


def test_a_machine_that_is_not_in_the_fast_network_sends_over_the_slow_one(
    made: Machines, at: dict[str, Machine]
) -> None:
    """DIST-6 of the pain list: an address of the fabric, used from a laptop that is no part of it."""
    hop = find_hop(at["here"], at["spark2"])
    assert (hop.kind, hop.address) == ("push", made["spark2"].address)
    assert hop.ssh[-1] == "spark2"


def test_this_machine_fetches_since_nobody_connects_to_it(
    made: Machines, at: dict[str, Machine]
) -> None:
    hop = find_hop(at["spark1"], at["here"])
    assert (hop.kind, hop.address, hop.client) == ("pull", made["spark1"].address, "this machine")


def test_who_may_not_log_in_is_fetched_from_and_where_nobody_may_all_goes_through_here(
    at: dict[str, Machine],
) -> None:
    assert find_hop(at["spark3"], at["spark1"]).kind == "pull"
    assert find_hop(at["spark3"], at["spark4"]).kind == "relay"


def test_an_address_that_was_given_is_used_and_no_other(
    made: Machines, at: dict[str, Machine]
) -> None:
    slow = made["spark2"].address
    hop = find_hop(at["spark1"], at["spark2"], addresses={"spark2": slow})
    assert (hop.kind, hop.address) == ("push", slow)
    assert find_hop(at["spark1"], at["spark2"], addresses={"spark2": RELAY}).kind == "relay"


def test_an_address_of_another_machine_is_refused(made: Machines, at: dict[str, Machine]) -> None:
    other = made["spark3"].address
    for wrong in (other, "198.18.0.0", "no-such-host.invalid"):
        with pytest.raises(NodeError) as caught:
            find_hop(at["spark1"], at["spark2"], addresses={"spark2": wrong})
        assert caught.value.code == "E550"
        assert wrong in caught.value.what


@pytest.fixture
def known(made: Machines) -> Generator[Path]:
    """Give the file of host keys that spark1 has; it is put back."""
    place = Path(f"/home/{made['spark1'].user}/.ssh/known_hosts")
    before = made["spark1"].inside("cat", str(place))
    yield place
    write(made, place, before)
    made["spark1"].inside("rm", "-f", str(place.parent / "config"))


def write(made: Machines, place: Path, text: str) -> None:
    user = made["spark1"].user
    made["spark1"].inside(
        "sh", "-c", 'printf %s "$1" >"$2"; chown "$3" "$2"', "sh", text, str(place), user
    )


def test_a_host_key_that_is_not_known_is_not_accepted(
    made: Machines, at: dict[str, Machine], known: Path
) -> None:
    """Also not where the user's configuration accepts new ones by itself."""
    second = made["spark2"]
    lines = made["spark1"].inside("cat", str(known)).splitlines(keepends=True)
    fewer = "".join(line for line in lines if second.fabric not in line)
    write(made, known, fewer)
    write(made, known.parent / "config", "Host *\n  StrictHostKeyChecking accept-new\n")
    hop = find_hop(at["spark1"], at["spark2"])
    assert hop.address == second.address
    assert made["spark1"].inside("cat", str(known)) == fewer


def test_the_key_that_is_known_for_a_name_is_enough_for_its_other_addresses(
    made: Machines, at: dict[str, Machine], known: Path
) -> None:
    """User, port and identity of the name hold there too."""
    second = made["spark2"]
    (key,) = {
        line.split(" ", 1)[1]
        for line in made["spark1"].inside("cat", str(known)).splitlines()
        if f"[{second.name}]" in line
    }
    write(made, known, f"[{second.address}]:{second.port} {key}\n")
    configured = (
        f"Host spark2\n  HostName {second.address}\n  Port {second.port}\n  User {second.user}\n"
    )
    write(made, known.parent / "config", configured)
    hop = find_hop(at["spark1"], at["spark2"])
    assert hop.address == second.fabric
    assert hop.ssh[-1] == "spark2"
    write(made, known, f"mine {key}\n")
    write(made, known.parent / "config", f"{configured}  HostKeyAlias mine\n")
    assert find_hop(at["spark1"], at["spark2"]).address == second.fabric


def test_the_key_of_another_machine_at_an_address_is_refused(
    made: Machines, at: dict[str, Machine], known: Path
) -> None:
    second, third = made["spark2"], made["spark3"]
    text = made["spark1"].inside("cat", str(known))
    keys = {line.split()[0]: line.split(" ", 1)[1] for line in text.splitlines()}
    wrong = keys[f"[{third.name}]:{third.port}"]
    changed = text.replace(
        f"[{second.fabric}]:{second.port} {keys[f'[{second.fabric}]:{second.port}']}",
        f"[{second.fabric}]:{second.port} {wrong}",
    )
    assert changed != text
    write(made, known, changed)
    assert find_hop(at["spark1"], at["spark2"]).address == second.address


def run_on(machine: Machine, hop: Hop, *argv: str, stdin: bytes = b"") -> tuple[int, bytes]:
    done = machine.run(hop(Command(argv=argv, why="test", stdin=stdin)))
    return done.status, done.stdout


HOSTILE = ("", "a b", "$HOME", "'", '"', "\\", "!!", "=ls", "*", "é", "a\nb", "`id`", '{"a": 1}')


@pytest.mark.parametrize(
    ("sender", "receiver"), [("spark1", "spark2"), ("spark2", "spark3"), ("here", "spark4")]
)
def test_words_bytes_and_statuses_pass_over_a_hop(
    made: Machines, at: dict[str, Machine], sender: str, receiver: str
) -> None:
    """Two login shells with startup files that print lie in between."""
    address = made[receiver].address
    hop = find_hop(at[sender], at[receiver], addresses={receiver: address})
    said = "".join(f"{each}\0" for each in HOSTILE).encode()
    assert run_on(at[sender], hop, "printf", "%s\\0", *HOSTILE) == (0, said)
    assert run_on(at[sender], hop, "sh", "-c", "id -un; exit 7") == (
        7,
        f"{made[receiver].user}\n".encode(),
    )
    assert run_on(at[sender], hop, "no-such-program")[0] == 127
    content = bytes(range(256)) * 5000
    assert run_on(at[sender], hop, "cat", stdin=content) == (0, content)


@pytest.mark.parametrize(("sender", "receiver"), [("spark1", "spark2"), ("spark3", "spark1")])
def test_what_one_says_is_handed_to_the_other_and_counted(
    at: dict[str, Machine], sender: str, receiver: str
) -> None:
    hop = find_hop(at[sender], at[receiver])
    client = at[hop.client]

    def send(produce: str, take: str) -> tuple[int, bytes, bytes]:
        commands = (Command(argv=("sh", "-c", each), why="test") for each in (produce, take))
        done = client.run(through(hop, *commands))
        return done.status, done.stdout, done.stderr

    status, told, said = send("head -c 3000000 /dev/zero", "wc -c; echo loaded; echo warned >&2")
    assert status == 0
    assert bytes_through(told) == 3_000_000
    assert sorted(said.split()) == [b"3000000", b"loaded", b"warned"]
    assert send("echo begun; exit 3", "cat")[0] == 3
    assert send("head -c 9000000 /dev/zero", "exit 4")[0] == 4
    assert send("exit 3", "exit 4")[0] == 4


def test_a_hop_that_breaks_is_told(made: Machines, at: dict[str, Machine]) -> None:
    hop = find_hop(at["spark1"], at["spark2"])
    done = at["spark1"].run(hop(Command(argv=("sh", "-c", "kill -9 $PPID"), why="test")))
    assert done.status == LOST
    error = hop_lost(done, hop)
    assert error is not None
    assert "spark1 lost its connection to spark2" in error.what
    deadline = time.monotonic() + 5  # what watches it looks every two seconds
    while made["spark2"].processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert made["spark2"].processes() == []


@pytest.mark.parametrize(
    ("sender", "receiver", "kind"),
    [("spark1", "spark2", "push"), ("spark3", "spark1", "pull"), ("spark3", "spark4", "relay")],
)
def test_what_is_sent_arrives_whole_on_whichever_path(
    at: dict[str, Machine], sender: str, receiver: str, kind: str
) -> None:
    hop = find_hop(at[sender], at[receiver])
    assert hop.kind == kind
    heard: list[int] = []
    produce = Command(argv=("sh", "-c", "seq 400000; echo made >&2"), why="test")
    take = Command(argv=("sh", "-c", "sha256sum; echo taken >&2"), why="test")
    done = send(hop, (at[sender], at[receiver]), (produce, take), heard.append)
    content = "".join(f"{each}\n" for each in range(1, 400_001)).encode()
    assert done.passed
    assert hashlib.sha256(content).hexdigest().encode() in done.stderr
    assert b"taken" in done.stderr
    assert heard[-1] == len(content)
    bad = Command(argv=("sh", "-c", "echo no room >&2; exit 9"), why="test")
    refused = send(hop, (at[sender], at[receiver]), (produce, bad), heard.append)
    assert (refused.status, b"no room" in refused.stderr) == (9, True)
    cut = send(hop, (at[sender], at[receiver]), (bad, take), heard.append)
    assert cut.status == 9

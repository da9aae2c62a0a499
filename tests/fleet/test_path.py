# What machines say of themselves, as recorded, and what follows from it; that it works between machines is in tests/run.
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from vllm_graft.errors import NodeError
from vllm_graft.fleet.cipher import has_aes, with_quick_cipher
from vllm_graft.fleet.hop import Hop, bytes_through
from vllm_graft.fleet.path import (
    Address,
    Configured,
    Identity,
    Standing,
    Way,
    at_address,
    by_name,
    fastest,
    is_measured,
    next_measure,
    parse_addresses,
    parse_configured,
    parse_rate,
    parse_standing,
    reachable,
    without_doubles,
)
from vllm_graft.values.command import Command, Completed

UP = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
DOWN = ["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"]


def interface(name: str, flags: list[str], *addresses: tuple[str, int, str]) -> dict[str, object]:
    """As iproute2 6.1 (Ubuntu 24.04) prints it."""
    return {
        "ifname": name,
        "flags": flags,
        "mtu": 1500,
        "operstate": "UP" if "LOWER_UP" in flags else "DOWN",
        "addr_info": [
            {
                "family": "inet6" if ":" in text else "inet",
                "local": text,
                "prefixlen": prefix,
                "scope": scope,
            }
            for text, prefix, scope in addresses
        ],
    }


def spark(last: int, *, fabric: bool = True) -> str:
    """Give ``ip -j addr`` of a DGX Spark with a cable in cage 1: values as recorded from such machines."""
    link = UP if fabric else DOWN
    return json.dumps(
        [
            interface("lo", ["LOOPBACK", *UP], ("127.0.0.1", 8, "host"), ("::1", 128, "host")),
            interface("enP7s7", UP, (f"192.168.1.{last}", 24, "global"), ("fe80::1", 64, "link")),
            interface("enp1s0f0np0", DOWN),
            interface("enp1s0f1np1", link, (f"192.168.100.{last}", 24, "global")),
            interface("enP2p1s0f0np0", DOWN),
            interface("enP2p1s0f1np1", link, (f"169.254.127.{last}", 16, "link")),
            interface(
                "wlP9s9", UP, (f"10.0.0.{last}", 24, "global"), (f"fd00::{last}", 64, "global")
            ),
            interface("docker0", DOWN, ("172.17.0.1", 16, "global")),
            interface("br-32d29ded7ce4", UP, ("172.18.0.1", 16, "global")),
        ]
    )


def standing(last: int, told: str) -> Standing:
    return Standing(
        identity=Identity(boot="b", host=f"spark{last}", user="nvidia"),
        port=22,
        addresses=parse_addresses(told),
    )


def completed(stdout: str = "", stderr: str = "", status: int = 0) -> Completed:
    return Completed(
        command=Command(argv=("x",), why=""),
        status=status,
        stdout=stdout.encode(),
        stderr=stderr.encode(),
        took=timedelta(),
    )


def test_the_addresses_of_a_spark_are_those_that_others_may_use() -> None:
    found = [(each.text, each.interface) for each in parse_addresses(spark(10))]
    assert found == [
        ("192.168.1.10", "enP7s7"),
        ("192.168.100.10", "enp1s0f1np1"),
        ("169.254.127.10", "enP2p1s0f1np1"),
        ("10.0.0.10", "wlP9s9"),
        ("fd00::10", "wlP9s9"),
        ("172.18.0.1", "br-32d29ded7ce4"),
    ]


@pytest.mark.parametrize("told", ["", "not json", "{}", "[]", '[{"ifname": "x"}]'])
def test_a_machine_that_does_not_tell_its_addresses_has_none(told: str) -> None:
    assert parse_addresses(told) == ()


def test_an_address_of_a_network_that_only_one_of_them_is_in_is_not_tried() -> None:
    """A laptop is no part of the fabric, and each machine has Docker's addresses for itself."""
    head, worker = standing(10, spark(10)), standing(11, spark(11))
    laptop = standing(50, json.dumps([interface("en0", UP, ("192.168.1.50", 24, "global"))]))
    assert [each.text for each in reachable(head, worker)] == [
        "192.168.1.11",
        "192.168.100.11",
        "169.254.127.11",
        "10.0.0.11",
        "fd00::11",
    ]
    assert [each.text for each in reachable(laptop, worker)] == ["192.168.1.11"]
    unplugged = standing(11, spark(11, fabric=False))
    assert "192.168.100.11" not in [each.text for each in reachable(head, unplugged)]


SSH_G = """\
user nvidia
hostname 192.168.1.11
port 22
addressfamily any
stricthostkeychecking ask
"""


@pytest.mark.parametrize(
    ("told", "key_name", "checks"),
    [
        (SSH_G, "192.168.1.11", True),
        (SSH_G.replace("port 22", "port 2222"), "[192.168.1.11]:2222", True),
        (SSH_G + "hostkeyalias spark-of-mine\n", "spark-of-mine", True),
        (SSH_G.replace("ask", "accept-new"), "192.168.1.11", True),
        (SSH_G.replace("ask", "false"), "192.168.1.11", False),
    ],
)
def test_a_host_key_is_known_under_what_ssh_looks_for(
    told: str, key_name: str, *, checks: bool
) -> None:
    found = parse_configured(completed(told))
    assert found is not None
    assert (found.key_name, found.checks) == (key_name, checks)


def test_without_ssh_nothing_is_configured() -> None:
    assert parse_configured(completed(status=127)) is None
    assert parse_configured(completed("usage: ssh\n")) is None


def words(ssh: tuple[str, ...]) -> str:
    return " ".join(ssh)


CONFIGURED = Configured(host="h", port=22, key_name="h", checks=True)


def test_no_address_is_reached_with_a_key_that_is_not_known() -> None:
    """`accept-new` of the user is for the names that he writes, not for addresses that are found."""
    server = standing(11, spark(11))
    for way in at_address("spark2", CONFIGURED, server, Address(text="192.168.100.11")):
        assert "StrictHostKeyChecking=yes" in way.ssh
        assert not re.search(r"KnownHosts|StrictHostKeyChecking=(no|accept)", words(way.ssh))


def test_what_the_user_switched_off_stays_off() -> None:
    server = standing(11, spark(11))
    off = Configured(host="h", port=22, key_name="h", checks=False)
    for way in at_address("spark2", off, server, Address(text="192.168.100.11")):
        assert "StrictHostKeyChecking" not in words(way.ssh)


def test_a_name_is_taken_as_it_is_and_then_with_the_login_known_from_here() -> None:
    server = Identity(boot="", host="spark2", user="nvidia")
    as_it_is, as_known = by_name("spark2", CONFIGURED, server, 2222)
    assert as_it_is.ssh[-2:] == ("--", "spark2")
    assert "StrictHostKeyChecking" not in words(as_it_is.ssh)
    assert as_known.ssh[-6:] == ("-l", "nvidia", "-p", "2222", "--", "spark2")
    assert len(by_name("me@spark2", CONFIGURED, server, 2222)) == 1
    assert len(by_name("spark2", CONFIGURED, server, 0)) == 1


def test_a_connection_that_stands_already_is_not_used_for_another_address() -> None:
    """It would be measured, and taken, for a path that it is not."""
    (way,) = by_name("spark2", None, Identity(boot="", host="", user=""), 0)
    assert "ControlPath=none" in way.ssh


def test_the_cipher_that_costs_least_comes_first_and_none_is_added_or_left_out() -> None:
    """Where both CPUs compute it by themselves, and the user's own configuration has it."""
    ciphers = ("chacha20-poly1305@openssh.com", "aes128-ctr", "aes128-gcm@openssh.com")
    quick = replace(standing(11, spark(11)), has_aes=True)
    slow = standing(10, spark(10))
    configured = replace(CONFIGURED, ciphers=ciphers)
    ways = by_name("spark2", configured, quick.identity, 22)
    for found in with_quick_cipher(ways, configured, quick, quick):
        (chosen,) = [word for word in found.ssh if word.startswith("Ciphers=")]
        assert chosen == f"Ciphers={ciphers[2]},{ciphers[0]},{ciphers[1]}"
    assert with_quick_cipher(ways, configured, quick, slow) == ways
    assert with_quick_cipher(ways, configured, slow, quick) == ways
    only = replace(CONFIGURED, ciphers=("aes256-ctr",))
    assert with_quick_cipher(ways, only, quick, quick) == ways


def way(address: str, rate: int) -> Way:
    return Way(ssh=(), address=address, interface="", rate=rate)


def test_the_fastest_is_taken_and_the_first_of_those_that_are_as_fast() -> None:
    assert fastest([way("name", 100), way("fabric", 2000)]).address == "fabric"
    assert fastest([way("name", 1000), way("other", 1050)]).address == "name"
    assert fastest([way("name", 0), way("other", 0)]).address == "name"
    assert [each.address for each in without_doubles([way("a", 1), way("b", 2), way("a", 3)])] == [
        "a",
        "b",
    ]


def test_what_passes_in_no_time_is_measured_with_more_where_it_matters() -> None:
    assert next_measure(1, 1_000_000_000, 119_000_000_000) == 64
    assert next_measure(1, 1_000_000_000, 70_000_000) == 4
    assert next_measure(1, 1_000_000_000, 0) == 0
    assert next_measure(1, 2_000_000, 119_000_000_000) == 0
    assert next_measure(64, 10_000_000_000, 119_000_000_000) == 0
    assert next_measure(1, 0, 119_000_000_000) == 0


@pytest.mark.parametrize(
    ("said", "rate"),
    [
        ("8+0 records in\n4194304 bytes (4.2 MB, 4.0 MiB) copied, 0.5 s, 8.4 MB/s\n", 8_388_608),
        ("4194304 bytes (4.0MB) copied, 0.500000 seconds, 8.0MB/s\n", 8_388_608),
        ("4194304 bytes (4.2 MB, 4.0 MiB) copied, 5e-01 s, 8.4 MB/s\n", 8_388_608),
        ("dd: unrecognized\n", 0),
    ],
)
def test_a_rate_is_what_the_reader_says(said: str, rate: int) -> None:
    assert parse_rate(completed(stderr=said)) == rate
    assert parse_rate(completed(stderr=said, status=1)) == 0


def test_how_much_has_gone_through_is_the_last_that_was_said() -> None:
    said = b"\r7143424 bytes (7.1 MB, 6.8 MiB) copied, 1 s, 7.0 MB/s\r31064064 bytes (31 MB) copied, 2 s"
    assert bytes_through(said) == 31_064_064
    assert bytes_through(b"0+763 records in") is None


def test_a_machine_that_does_not_say_who_it_is_is_told() -> None:
    with pytest.raises(NodeError) as caught:
        parse_standing(completed(stderr="sh: not found", status=127))
    assert caught.value.code == "E552"


def test_a_port_is_that_of_the_sshd_that_was_reached() -> None:
    said = f"boot\nspark1\nnvidia\n198.18.1.254 5000 198.18.1.1 2201\naes\n{spark(10)}\n"
    found = parse_standing(completed(said))
    assert (found.identity, found.port) == (
        Identity(boot="boot", host="spark1", user="nvidia"),
        2201,
    )
    assert len(found.addresses) == 6
    assert found.has_aes
    bare = parse_standing(completed("boot\nspark1\nnvidia\n\n\n"))
    assert (bare.port, bare.has_aes) == (0, False)


def test_what_rsync_is_given_as_its_shell_is_one_line_of_words_and_quotes() -> None:
    """It splits at spaces and knows quotes, and no backslash."""
    hop = Hop(sender="a", receiver="b", kind="push", ssh=("ssh", "-o", "X=[1]:2", "--", "b c"))
    assert re.fullmatch(r"/bin/sh -c '[^'\\\n]+'", hop.remote_shell)


def test_a_cpu_says_itself_whether_it_computes_aes() -> None:
    assert has_aes("processor\t: 0\nflags\t\t: fpu vme aes avx\n")
    assert has_aes("Features\t: fp asimd aes pmull sha1\n")
    assert not has_aes("Features\t: fp asimd evtstrm\nmodel name\t: aes of nobody\n")


@pytest.mark.parametrize(
    ("mebibytes", "rate"),
    [
        (1, 0),  # it cannot be measured
        (1, 2_000_000),  # half a second: that is the link
        (1, 200_000_000),
        (4, 11_000_000),
    ],
)
def test_a_link_is_measured_until_it_is_clear_what_it_is(mebibytes: int, rate: int) -> None:
    assert is_measured(mebibytes, rate)


def test_what_is_slow_in_a_short_time_may_be_a_machine_that_was_busy_for_a_moment() -> None:
    assert not is_measured(1, 20_000_000)

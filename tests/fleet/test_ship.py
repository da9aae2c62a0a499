# What is decided before anything is sent, and what engines' words mean afterwards.
from datetime import timedelta

import pytest

from vllm_graft.errors import NodeError
from vllm_graft.fleet.ship import (
    Held,
    groups,
    is_worth_chaining,
    not_given,
    not_taken,
    refuse_small_disk,
    runs,
)
from vllm_graft.image.engine import Engine
from vllm_graft.image.holdings import held_layers, is_same, lacking_size
from vllm_graft.image.oci import Descriptor
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node_facts import SpaceFacts

ENGINE = Engine(program="docker", node="spark2")


def image(layers: str, *, architecture: str = "arm64", **settings: object) -> ImageFacts:
    return ImageFacts(
        reference="vllm:1",
        architecture=architecture,
        system="linux",
        variant="",
        settings=settings,
        layers=tuple(Digest.of(each.encode()) for each in layers),
    )


@pytest.mark.parametrize(
    ("there", "held"),
    [
        ((), 0),
        (("abc",), 3),
        (("ab", "a"), 2),
        (("abx",), 2),
        (("abxd",), 2),
        (("ba", "bcd"), 0),
        (("abcde",), 4),
    ],
)
def test_any_image_with_the_same_lowest_layers_has_them(there: tuple[str, ...], held: int) -> None:
    assert held_layers(image("abcd"), [image(each) for each in there]) == held


def test_layers_of_another_architecture_are_not_the_same() -> None:
    assert held_layers(image("abc"), [image("abc", architecture="amd64")]) == 0


def test_the_same_image_is_known_by_what_it_is_and_not_by_its_name() -> None:
    wanted = image("ab", Env=["A=b"], Cmd=["x"])
    assert is_same(image("ab", Env=["A=b"], Cmd=["x"], Labels=None), wanted)
    assert not is_same(image("ab", Env=["A=c"], Cmd=["x"]), wanted)
    assert not is_same(image("abc", Env=["A=b"], Cmd=["x"]), wanted)
    assert not is_same(image("ab", architecture="amd64", Env=["A=b"], Cmd=["x"]), wanted)


@pytest.mark.parametrize(
    ("history", "layers", "held", "size"),
    [
        ((70, 1000, 2000), 3, 2, 70),
        ((0, 70, 0, 0, 1000, 2000), 3, 2, 70),
        ((0, 70, 0, 0, 1000, 2000), 3, 1, 1070),
        ((70, 1000, 2000), 3, 0, 3070),
        ((70, 1000, 2000), 3, 3, 0),
        ((70, 0, 2000), 3, 1, 2070),
        ((), 3, 1, 0),
    ],
)
def test_the_size_of_what_is_lacking_is_never_said_too_small(
    history: tuple[int, ...], layers: int, held: int, size: int
) -> None:
    assert lacking_size(history, layers, held) == size


def test_those_that_lack_the_least_come_first() -> None:
    stored = Descriptor(media_type="gzip", digest=Digest.of(b"x"), size=1)
    had = {name: Held(layers=count) for name, count in zip("abcde", (0, 6, 0, 6, 3), strict=True)}
    found = groups({**had, "f": Held(layers=3, stored=(stored,))})
    assert [(each.held.layers, each.names) for each in found] == [
        (6, ("b", "d")),
        (3, ("e",)),
        (3, ("f",)),
        (0, ("a", "c")),
    ]


@pytest.mark.parametrize(
    ("reached", "chains"),
    [
        ("bcd", ["abcd"]),
        ("", ["a", "b", "c", "d"]),
        ("bd", ["ab", "cd"]),
        ("cd", ["a", "bcd"]),
    ],
)
def test_nodes_stand_in_a_chain_as_long_as_each_reaches_the_next(
    reached: str, chains: list[str]
) -> None:
    found = runs("abcd", dict.fromkeys(reached, True))
    assert ["".join(each) for each in found] == chains


def test_a_chain_is_no_longer_than_what_ssh_takes_as_a_command() -> None:
    names = [f"spark{number}" for number in range(20)]
    found = runs(names, dict.fromkeys(names, True))
    assert [len(each) for each in found] == [8, 8, 4]
    assert [name for each in found for name in each] == names


def test_a_chain_is_made_where_the_senders_link_would_be_long_at_work() -> None:
    assert is_worth_chaining(70_000_000, 10_000_000)
    assert not is_worth_chaining(70_000_000, 1_000_000_000)
    assert is_worth_chaining(20_000_000_000, 1_000_000_000)
    assert is_worth_chaining(0, 1_000_000_000)


def test_an_engine_needs_room_for_the_archive_and_the_layers() -> None:
    space = SpaceFacts(place="/var/lib", free=199, size=1000, free_files=None)
    refuse_small_disk(99, space, ENGINE)
    with pytest.raises(NodeError) as caught:
        refuse_small_disk(100, space, ENGINE)
    assert caught.value.code == "E532"
    assert "docker on spark2 has 199 bytes left in /var/lib" in caught.value.what


def answer(status: int, said: str) -> Completed:
    command = Command(argv=("docker", "load"), why="load")
    return Completed(
        command=command, status=status, stdout=b"", stderr=said.encode(), took=timedelta()
    )


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (0, "Loaded image: vllm:1", None),
        # Docker 28.5 with containerd's store, where a layer is absent.
        (0, "Error unpacking image docker.io/library/vllm:1: apply layer error", "E535"),
        # Docker 20.10.
        (
            1,
            "open /var/lib/docker/tmp/docker-import-1/blobs/sha256/ff: no such file or directory",
            "E535",
        ),
        # podman 4.3.
        (125, "Error: payload does not match any of the supported image formats", "E535"),
        (1, "Error processing tar file(exit status 1): write /x: no space left on device", "E534"),
        (1, 'error during connect: Post "http://…/images/load": EOF', "E536"),
        (
            1,
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
            "E536",
        ),
        (1, "something that nobody has seen", "E530"),
        (127, "", "E530"),
    ],
)
def test_what_an_engine_says_has_a_reason(status: int, said: str, code: str | None) -> None:
    error = not_taken(answer(status, said), ENGINE, "vllm:1")
    assert (error.code if error else None) == code
    assert error is None or "docker on spark2 did not take vllm:1" in error.what


def test_an_engine_that_has_not_all_bytes_is_told_apart_from_one_that_fails() -> None:
    assert not_given(4, "sha256:…", "spark1", "vllm:1").code == "E537"
    assert not_given(1, "no space left on device", "spark1", "vllm:1").code == "E538"

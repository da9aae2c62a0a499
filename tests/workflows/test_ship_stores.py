# Engines of three kinds: Docker 20.10, Docker 28 with its classic store, and Docker 28 with containerd's. Each gives to each, whatever
# that has already. The newer ones come from a Debian of their own, which is fetched once: only in the full matrix.
from collections.abc import Generator
from pathlib import Path

import pytest

from building import Bench, base_image
from imaging import PACKERS, Image, files, layer, sha256
from machines import Kind, Machine, Machines, machines, newer_docker
from opening import opener_at
from shipping import SHELL, Dock, Made, base_and_top, chance, content, garbage, of, put
from vllm_graft.image.archive import archive_bytes, names_of, parse_tag, stand_in
from vllm_graft.image.inside_archive import LAYER, blob, described, naming_documents
from vllm_graft.values.digest import Digest

pytestmark = [pytest.mark.engine, pytest.mark.full]

NAMES = ("old", "new", "containerd")


@pytest.fixture(scope="module")
def three() -> Generator[Machines]:
    newer = newer_docker()
    with machines(
        old=Kind(login="zsh"),
        new=Kind(login="fish", system=newer),
        containerd=Kind(login="tcsh", system=newer, containerd=True),
    ) as made:
        yield made


@pytest.fixture
def dock(three: Machines, tmp_path: Path) -> Generator[Dock]:
    yield Dock(machines=three, folder=tmp_path)
    for machine in three.made:
        empty(machine)
        assert garbage(machine) == [], machine.name


def empty(machine: Machine) -> None:
    images = machine.docker.run("image", "ls", "--all", "--quiet", "--no-trunc").split()
    if images:
        machine.docker.run("image", "rm", "--force", *dict.fromkeys(images), check=False)


def as_pulled(machine: Machine, image: Image, name: str) -> str:
    """Have it in the store as what is pulled lies there: containerd's keeps the compressed layers."""
    stored = {sha256(each): each for each in map(PACKERS["gzip"], image.layers)}
    described = [
        {"mediaType": f"{LAYER}+gzip", "digest": f"sha256:{digest}", "size": len(each)}
        for digest, each in stored.items()
    ]
    documents = naming_documents(image.config(), described, names_of(parse_tag(name)))
    blobs = {f"blobs/sha256/{digest}": each for digest, each in stored.items()}
    machine.docker.run("load", stdin=layer(files(".", {**documents, **blobs})))
    return name


@pytest.mark.parametrize("sender", NAMES)
@pytest.mark.parametrize("held", ["nothing", "the base", "another image on the base"])
def test_each_gives_to_each(dock: Dock, three: Machines, sender: str, held: str) -> None:
    made = base_and_top()
    name = put(three[sender], made.image(), "vllm-node:1")
    others = [each for each in NAMES if each != sender]
    for each in others:
        if held != "nothing":
            above = (chance("other"),) if held != "the base" else ()
            put(three[each], made.image(3, *above), "what-was-there:1")
    receipt = dock.ship(f"{name}@{sender}", *others)
    assert {each.outcome for each in receipt.nodes} == {"sent"}, receipt
    lacking = made.layers if held == "nothing" else made.layers[3:]
    for each in receipt.nodes:
        assert len(each.layers) == len(lacking)
        assert each.sent < sum(map(len, lacking)) + 40_000
    assert len({content(machine, name) for machine in three.made}) == 1


def test_layers_that_lie_compressed_in_a_store_are_given_as_they_lie(
    dock: Dock, three: Machines
) -> None:
    made = Made(
        layers=[SHELL, chance("low", 6_000_000), chance("middle"), chance("top", 5_000_000)]
    )
    name = as_pulled(three["containerd"], made.image(), "vllm-node:1")
    put(three["old"], made.image(2), "what-was-there:1")
    put(three["new"], made.image(3), "what-was-there:1")
    receipt = dock.ship(f"{name}@containerd", "old", "new")
    assert [len(each.layers) for each in receipt.nodes] == [2, 1]
    assert of(receipt, "new").sent < 5_100_000
    assert len({content(machine, name) for machine in three.made}) == 1


def test_a_base_that_was_pulled_carries_a_layer_that_is_sent(dock: Dock, three: Machines) -> None:
    made = base_and_top()
    name = put(three["old"], made.image(), "vllm-node:1")
    as_pulled(three["containerd"], made.image(3), "what-was-pulled:1")
    receipt = dock.ship(f"{name}@old", "containerd")
    assert [len(each.layers) for each in receipt.nodes] == [1]
    assert content(three["containerd"], name) == content(three["old"], name)
    # Also where the base is taken away afterwards.
    three["containerd"].docker.run("image", "rm", "what-was-pulled:1")
    assert content(three["containerd"], name) == content(three["old"], name)


def test_what_containerd_got_in_part_it_can_give_on(dock: Dock, three: Machines) -> None:
    made = base_and_top()
    name = put(three["old"], made.image(), "vllm-node:1")
    as_pulled(three["containerd"], made.image(3), "what-was-pulled:1")
    dock.ship(f"{name}@old", "containerd")
    put(three["new"], made.image(2), "what-was-there:1")
    receipt = dock.ship(f"{name}@containerd", "new")
    assert [(each.outcome, len(each.layers)) for each in receipt.nodes] == [("sent", 2)]
    assert content(three["new"], name) == content(three["old"], name)


def test_one_that_has_not_all_bytes_of_an_image_is_told(dock: Dock, three: Machines) -> None:
    made = base_and_top()
    name = "vllm-node:1"
    put(three["containerd"], made.image(3), "what-was-there:1")
    three["containerd"].docker.run("load", stdin=partial(made, name))
    three["containerd"].docker.run("image", "rm", "what-was-there:1")
    put(three["new"], made.image(2), "what-was-there:1")
    saved = three["containerd"].docker.run("save", name)
    if len(saved) > sum(map(len, made.layers)):
        pytest.skip("this containerd kept what nobody pointed to any more")
    receipt = dock.ship(f"{name}@containerd", "new")
    assert [(each.outcome, each.code) for each in receipt.nodes] == [("failed", "E537")]
    assert three["new"].docker.run("image", "ls", "--quiet", name) == ""


def partial(made: Made, name: str) -> bytes:
    """An archive with the uppermost layer alone; the others are named by their diff ids."""
    lower = [stand_in(Digest.of(each)) for each in made.layers[:-1]]
    top = described(made.layers[-1], LAYER)
    documents = naming_documents(made.image().config(), [*lower, top], names_of(parse_tag(name)))
    return archive_bytes({**documents, blob(top["digest"]): made.layers[-1]})


@pytest.mark.parametrize("kind", ["pulled", "loaded"])
def test_an_image_is_built_on_a_base_of_either_kind_and_is_whole(
    dock: Dock, three: Machines, tmp_path: Path, kind: str
) -> None:
    machine, base = three["containerd"], base_image()
    have = as_pulled if kind == "pulled" else put
    name = have(machine, base, "some-base:1")
    bench = Bench(opener=opener_at(tmp_path / "cache", **dock.variables), folder=tmp_path)
    bench.path = dock.variables["PATH"]
    built = bench.build(bench.plan(f"docker:{name}@containerd"), "grafted:1")
    assert built.outcome == "loaded"
    again = bench.build(tmp_path / "plan-1.json", "grafted:1")
    assert again.outcome == "already there"
    # Whole: it can be given to one that has nothing of it.
    receipt = dock.ship("grafted:1@containerd", "new")
    assert [(each.outcome, len(each.layers)) for each in receipt.nodes] == [("sent", 3)]


def test_a_name_that_leads_to_nothing_that_runs_is_seen_and_the_image_sent_whole(
    dock: Dock, three: Machines
) -> None:
    made = base_and_top()
    name = put(three["old"], made.image(), "vllm-node:1")
    # What a partial archive leaves where the base is not: status 0, and a name.
    engine = three["containerd"].docker
    said = engine.run("load", stdin=partial(made, name), check=False)
    if name not in engine.run("image", "ls", "--format", "{{.Repository}}:{{.Tag}}"):
        pytest.skip(f"this containerd leaves no such name: {said}")
    receipt = dock.ship(f"{name}@old", "containerd")
    node = of(receipt, "containerd")
    assert (node.outcome, len(node.layers)) == ("sent", 4)
    assert content(three["containerd"], name) == content(three["old"], name)

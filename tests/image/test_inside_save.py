# What `docker save` of several engines says, filtered by the program that runs on a node: here it reads what they write from a
# file, in the forms that they have; tests/workflows/test_ship.py has real engines.
import ast
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files as package_files
from pathlib import Path

import pytest

import imaging
from imaging import Image, Item, docker_files, layer, layout_files, sha256
from vllm_graft.image.inside_archive import packed
from vllm_graft.image.program import as_program

MODULES = ("vllm_graft.image.inside_archive", "vllm_graft.image.inside_save")
CALL = (
    "import json, os\nfrom vllm_graft.image.inside_save import main\n"
    "os._exit(main(json.loads(sys.argv[1]), sys.stdout.buffer))\n"
)
NAMES = {"tag": "vllm:1", "full": "docker.io/library/vllm:1", "short": "1"}


def source(name: str) -> str:
    return (package_files("vllm_graft.image") / f"{name.rpartition('.')[2]}.py").read_text()


PROGRAM = as_program({name: source(name) for name in MODULES}, CALL)


def large(name: str, size: int = 5 << 20) -> bytes:
    return layer([Item(path=f"d/{name}", content=os.urandom(size))])


EMPTY = layer([])
LOW, MIDDLE, TOP = large("low"), large("middle"), layer([Item(path="d/top", content=b"top")])
IMAGE = Image(layers=[LOW, EMPTY, MIDDLE, EMPTY, TOP], settings={"Cmd": ["/bin/sh"]})


def old_docker(image: Image) -> dict[str, bytes]:
    return docker_files(image)


def new_docker(image: Image, packed: str = "plain") -> dict[str, bytes]:
    """Docker 25 and later: the layout of the OCI, and the list in the old form."""
    contents = layout_files(image, packed=packed)
    paths = [f"blobs/sha256/{sha256(imaging.PACKERS[packed](each))}" for each in image.layers]
    config = f"blobs/sha256/{sha256(image.config())}"
    told = [{"Config": config, "RepoTags": [image.name], "Layers": paths}]
    return {**contents, "manifest.json": json.dumps(told).encode()}


def containerd(image: Image) -> dict[str, bytes]:
    return new_docker(image, "gzip")


def podman(image: Image) -> dict[str, bytes]:
    contents = {f"{sha256(each)}.tar": each for each in image.layers}
    paths = [f"{sha256(each)}.tar" for each in image.layers]
    config = f"{sha256(image.config())}.json"
    told = [{"Config": config, "RepoTags": [image.name], "Layers": paths}]
    return {**contents, config: image.config(), "manifest.json": json.dumps(told).encode()}


def run(
    contents: Mapping[str, bytes], folder: Path, *, held: int, image: Image = IMAGE, **more: object
) -> "subprocess.CompletedProcess[bytes]":
    place = imaging.write_archive(folder / "saved.tar", contents)
    count = folder / "count"
    count.unlink(missing_ok=True)
    request = {
        "save": ["sh", "-c", f"echo >>{count}; cat {place}"],
        "marker": "",
        "diff_ids": [f"sha256:{sha256(each)}" for each in image.layers],
        "held": held,
        "names": NAMES,
        "lower": [],
        "table": {},
        "rate": 0,
        **more,
    }
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, json.dumps(request)]
    return subprocess.run(argv, capture_output=True, check=False)


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {
            each.name: (opened.extractfile(each) or io.BytesIO()).read()
            for each in opened.getmembers()
        }


FORMS = (old_docker, new_docker, containerd, podman)
READINGS = {"old_docker": 2, "containerd": 2}
"""How often the engine is asked; once where the names of files say which layer they are."""


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("held", [1, 2, 3, 4])
def test_only_the_layers_above_come_through(
    form: Callable[[Image], dict[str, bytes]], held: int, tmp_path: Path
) -> None:
    done = run(form(IMAGE), tmp_path, held=held)
    assert (done.returncode, done.stderr) == (0, b"")
    found = members(done.stdout)
    pack = imaging.PACKERS["gzip" if form is containerd else "plain"]
    wanted = {f"blobs/sha256/{sha256(pack(each))}" for each in IMAGE.layers[held:]}
    (told,) = json.loads(found["manifest.json"])
    manifest = json.loads(found[manifest_path(found)])
    assert {path for path in found if path in told["Layers"]} == wanted
    assert told["RepoTags"] == ["vllm:1"]
    assert found[told["Config"]] == IMAGE.config()
    assert [each["digest"] for each in manifest["layers"]] == [
        f"sha256:{sha256(pack(each))}" for each in IMAGE.layers
    ]
    for each in manifest["layers"]:
        path = f"blobs/sha256/{each['digest'].removeprefix('sha256:')}"
        assert path not in found or len(found[path]) == each["size"]
    readings = len((tmp_path / "count").read_text().splitlines())
    assert readings == READINGS.get(form.__name__, 1)


def manifest_path(found: Mapping[str, bytes]) -> str:
    (entry,) = json.loads(found["index.json"])["manifests"]
    return f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"


def table_of(pack: str, layers: Sequence[bytes]) -> dict[str, str]:
    packed = (imaging.PACKERS[pack](each) for each in layers)
    names = (f"sha256:{sha256(each)}" for each in IMAGE.layers)
    return dict(zip((f"blobs/sha256/{sha256(each)}" for each in packed), names, strict=True))


def test_an_engine_whose_store_said_what_its_files_are_is_read_once(tmp_path: Path) -> None:
    table = table_of("gzip", IMAGE.layers)
    done = run(containerd(IMAGE), tmp_path, held=2, table=table)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "count").read_text().count("\n") == 1
    twice = run(containerd(IMAGE), tmp_path, held=2)
    assert members(done.stdout) == members(twice.stdout)


def test_a_store_that_said_something_else_than_its_engine_is_not_believed(tmp_path: Path) -> None:
    mixed = [LOW, EMPTY, TOP, EMPTY, MIDDLE]
    done = run(containerd(IMAGE), tmp_path, held=2, table=table_of("gzip", mixed))
    assert (done.returncode, b"not the layers" in done.stderr) == (3, True)
    assert b"manifest.json" not in done.stdout


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_layers_that_are_there_are_named_as_they_are_there(
    form: Callable[[Image], dict[str, bytes]], tmp_path: Path
) -> None:
    lower = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar+zstd",
            "digest": f"sha256:{sha256(each)}",
            "size": 7,
        }
        for each in (b"low", b"empty")
    ]
    found = members(run(form(IMAGE), tmp_path, held=2, lower=lower).stdout)
    manifest = json.loads(found[manifest_path(found)])
    assert manifest["layers"][:2] == lower
    assert len(manifest["layers"]) == len(IMAGE.layers)


def test_without_a_layer_that_somebody_has_the_archive_is_passed_on_as_it_is(
    tmp_path: Path,
) -> None:
    done = run(old_docker(IMAGE), tmp_path, held=0)
    assert done.returncode == 0
    assert done.stdout == (tmp_path / "saved.tar").read_bytes()


def test_an_engine_that_has_not_all_bytes_is_told_and_nothing_can_be_loaded(
    tmp_path: Path,
) -> None:
    contents = new_docker(IMAGE)
    del contents[f"blobs/sha256/{sha256(MIDDLE)}"]
    done = run(contents, tmp_path, held=1)
    assert done.returncode == 4
    assert sha256(MIDDLE).encode() in done.stderr
    assert "manifest.json" not in members_of_a_part(done.stdout)


def members_of_a_part(archive: bytes) -> Sequence[str]:
    with tarfile.open(fileobj=io.BytesIO(archive), ignore_zeros=True) as opened:
        return opened.getnames() if archive else []


def test_another_image_of_this_name_is_told(tmp_path: Path) -> None:
    other = Image(layers=[LOW, MIDDLE], settings={"Cmd": ["/bin/sh"]})
    done = run(new_docker(other), tmp_path, held=1)
    assert done.returncode == 3
    assert b"another image of this name" in done.stderr


@pytest.mark.parametrize("held", [0, 2])
def test_an_engine_that_refuses_is_told_with_its_status(held: int, tmp_path: Path) -> None:
    refusal = ["sh", "-c", "echo no such image >&2; exit 125"]
    done = run({}, tmp_path, held=held, save=refusal)
    assert done.returncode == 125
    assert b"no such image" in done.stderr


@pytest.mark.parametrize("held", [0, 2])
def test_an_engine_that_breaks_off_is_told_and_nothing_can_be_loaded(
    held: int, tmp_path: Path
) -> None:
    place = imaging.write_archive(tmp_path / "whole.tar", new_docker(IMAGE))
    breaking = ["sh", "-c", f"head -c 6000000 {place}; exit 1"]
    done = run({}, tmp_path, held=held, save=breaking)
    assert done.returncode == 1
    assert b"the engine" in done.stderr
    assert b"manifest.json" not in done.stdout


def test_what_a_login_shell_says_first_is_passed_over(tmp_path: Path) -> None:
    place = imaging.write_archive(tmp_path / "whole.tar", new_docker(IMAGE))
    noisy = ["sh", "-c", f"echo noise; echo and moreMARK; cat {place}"]
    done = run({}, tmp_path, held=4, save=noisy, marker="MARK\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "manifest.json" in members(done.stdout)


def test_a_reader_that_leaves_ends_it(tmp_path: Path) -> None:
    place = imaging.write_archive(tmp_path / "whole.tar", new_docker(IMAGE))
    request = {
        "save": ["cat", str(place)],
        "marker": "",
        "diff_ids": [],
        "held": 0,
        "names": NAMES,
        "lower": [],
        "table": {},
        "rate": 0,
    }
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, json.dumps(request)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    with child.stdout, child.stderr:
        child.stdout.read(10)
        child.stdout.close()
        assert child.wait(20) == 141
        assert child.stderr.read() == b""


def slow_link() -> int:
    return 1


def fast_link() -> int:
    return 1 << 40


@pytest.mark.parametrize(
    ("content", "rate", "is_packed"),
    [
        (b"text " * (2 << 20), slow_link(), True),
        (b"text " * (2 << 20), fast_link(), False),
        (b"text " * (2 << 20), 0, False),
        (os.urandom(10 << 20), slow_link(), False),
        (b"", slow_link(), False),
    ],
    ids=["a slow link", "a fast link", "a link nobody knows", "what cannot be", "nothing"],
)
def test_what_gets_smaller_is_compressed_for_a_link_that_is_slower_than_this_machine(
    content: bytes, rate: int, *, is_packed: bool
) -> None:
    pieces = [content[start : start + 300_001] for start in range(0, len(content), 300_001)]
    made = b"".join(packed(pieces, rate, time.monotonic))
    assert made.startswith(b"\x1f\x8b") is is_packed
    assert (imaging.gzip.decompress(made) if is_packed else made) == content


@pytest.mark.parametrize("name", MODULES)
def test_it_is_python_3_9_and_needs_the_standard_library_alone(name: str) -> None:
    tree = ast.parse(source(name), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for each in names:
            assert each.partition(".")[0] in sys.stdlib_module_names or each in MODULES


def test_what_is_sent_to_a_node_is_short_enough_to_be_an_argument() -> None:
    request = {"diff_ids": ["sha256:" + "0" * 64] * 127}
    assert len(PROGRAM) + len(json.dumps(request)) < 60_000

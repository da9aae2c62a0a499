import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import imaging
from building import MODELS, SETTINGS, STALE, Bench, base_image, base_items
from engines import Docker
from imaging import SITE, Image, Item, folder
from opening import Opener, opener_at
from plans import CONFIG, CONFIGS, MODEL, MODEL_TEXT, REGISTRY
from vllm_graft.errors import BuildError, SourceError, VerificationError
from vllm_graft.image.layer import overlay_version


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    return Bench(opener=opener, folder=tmp_path)


def entries(docker: Docker, tag: str) -> dict[str, tuple[object, ...]]:
    """Every file of an image as the engine has it."""
    container = docker.run("create", tag, "/never").strip()
    try:
        exported = subprocess.run(
            ["docker", "export", container], capture_output=True, check=True
        ).stdout
    finally:
        docker.run("rm", "--volumes", container)
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(fileobj=io.BytesIO(exported)) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            content = stream.read() if stream is not None else member.linkname
            told = (member.type, member.mode & 0o7777, member.uid, member.gid, content)
            found[member.name.rstrip("/")] = told
    return found


def inspected(docker: Docker, tag: str) -> dict[str, object]:
    (found,) = json.loads(docker.run("image", "inspect", tag))
    return found


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_engines_image_is_the_base_but_for_the_graft(
    docker: Docker, bench: Bench, architecture: str
) -> None:
    image = base_image()
    image.architecture = architecture
    base = docker.load(image)
    plan = bench.plan(f"docker:{base}")
    tag = docker.name()
    receipt = bench.build(plan, tag)
    assert receipt.outcome == "loaded"
    before, after = entries(docker, base), entries(docker, tag)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    info = f"{SITE}/vllm_graft_overlay-{overlay_version(plan)}.dist-info"
    assert changed == {
        info,
        *(f"{info}/{name}" for name in ("INSTALLER", "METADATA", "RECORD", "plan.json")),
        *(f"{SITE}/{path}" for path in (REGISTRY, CONFIGS, MODEL, CONFIG)),
        STALE,
        STALE.replace(".pyc", ".opt-1.pyc"),
    }
    assert STALE not in after
    assert after[f"{SITE}/{MODEL}"][4] == MODEL_TEXT.encode()
    found = inspected(docker, tag)
    assert found["Architecture"] == architecture
    settings, kept = found["Config"], inspected(docker, base)["Config"]
    assert isinstance(settings, dict)
    assert isinstance(kept, dict)
    assert {name: settings[name] for name in SETTINGS if name != "Labels"} == {
        name: kept[name] for name in SETTINGS if name != "Labels"
    }
    assert settings["Labels"]["maintainer"] == "somebody"
    assert settings["Labels"]["vllm-graft.config"] == str(receipt.config)
    if docker.is_classic:  # containerd's store names an image by its manifest
        assert found["Id"] == str(receipt.image_id)
    rootfs = found["RootFS"]
    assert isinstance(rootfs, dict)
    assert rootfs["Layers"][-1] == str(receipt.layer)


def test_building_twice_changes_nothing(docker: Docker, bench: Bench) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    tag = docker.name()
    first = bench.build(plan, tag)
    made = inspected(docker, tag)
    second = bench.build(plan, tag)
    assert second.outcome == "already there"
    assert (second.layer, second.config) == (first.layer, first.config)
    assert inspected(docker, tag) == made


def test_a_name_that_is_taken_is_kept_unless_forced(docker: Docker, bench: Bench) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    tag = docker.load(base_image(Cmd=["other"]))
    old = inspected(docker, tag)["Id"]
    with pytest.raises(BuildError) as caught:
        bench.build(plan, tag)
    assert caught.value.code == "E422"
    assert inspected(docker, tag)["Id"] == old
    receipt = bench.build(plan, tag, force=True)
    assert receipt.replaced.startswith(f"{tag}-before-2")
    assert inspected(docker, receipt.replaced)["Id"] == old
    assert inspected(docker, tag)["Id"] != old


def test_the_bases_own_name_can_be_taken_too(docker: Docker, bench: Bench) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    receipt = bench.build(plan, base, force=True)
    assert bench.opener.open(f"docker:{receipt.replaced}").version == "0.14.1"
    assert MODEL in bench.opener.open(f"docker:{base}").files


def test_an_engine_without_the_base_takes_nothing(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    image = base_image(Env=["PATH=/usr/bin", f"ODD={os.urandom(4).hex()}"])
    image.layers = [imaging.layer([imaging.Item(path=os.urandom(8).hex())]), *image.layers]
    source = f"oci:{imaging.write_layout(tmp_path / 'base', image)}"
    tag = docker.name()
    with pytest.raises(BuildError) as caught:
        bench.build(bench.plan(source), tag)
    assert caught.value.code == "E421"
    assert "not in docker" in caught.value.remedy
    assert "No such image" in docker.run("image", "inspect", tag, check=False)
    docker.load(image)
    assert bench.build(bench.plan(source), tag).outcome == "loaded"


def test_an_archive_for_another_machine_loads_where_the_base_is(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    tag = docker.name()
    receipt = bench.build(plan, tag, to=f"archive:{tmp_path / 'graft.tar'}")
    assert not receipt.whole
    docker.run("load", "--input", str(tmp_path / "graft.tar"))
    assert bench.build(plan, tag).outcome == "already there"


FULL = """#!/bin/sh
case "$1" in
    load) head -c 1000 >/dev/null; {failure} ;;
    *) exec {docker} "$@" ;;
esac
"""


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("echo 'write /x: no space left on device' >&2; exit 1", BuildError),
        ("echo 'error during connect: EOF' >&2; exit 1", BuildError),
        ("kill -9 $$", BuildError),
        ("cat >/dev/null; echo 'Error unpacking image x: apply layer error'", BuildError),
        ("cat >/dev/null; echo 'Loaded image: x'", VerificationError),
        ("cat >/dev/null; {docker} tag {base} {tag}", VerificationError),
    ],
)
def test_what_goes_wrong_while_loading_leaves_no_name(
    docker: Docker, bench: Bench, tmp_path: Path, failure: str, error: type[Exception]
) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    tag = docker.name()
    real = subprocess.run(["which", "docker"], capture_output=True, check=True, text=True).stdout
    told = failure.format(docker=real.strip(), base=base, tag=tag)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/docker"
    script.write_text(FULL.format(docker=real.strip(), failure=told))
    script.chmod(0o755)
    bench.path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    with pytest.raises(error):
        bench.build(plan, tag)
    assert "No such image" in docker.run("image", "inspect", tag, check=False)
    assert docker.containers() == []
    bench.path = os.environ["PATH"]
    assert bench.build(plan, tag).outcome == "loaded"


def test_the_command_line_builds_and_says_what(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}"))
    tag = docker.name()
    lock = tmp_path / "graft.lock"
    done = subprocess.run(
        [sys.executable, "-m", "vllm_graft", "build", plan, "-t", tag, "--lock", str(lock)],
        env={**os.environ, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.startswith(f"loaded {tag}\n")
    assert "2 added, 2 edited, stale bytecode of 2 files removed" in done.stdout
    assert json.loads(lock.read_text())["results"]["layer"] in done.stdout


RM = """
#include <unistd.h>
int main(int count, char **words) {
    for (int at = 2; at < count; at++) unlink(words[at]);
    return 0;
}
"""


def with_rm(scratch: Path) -> Image:
    """The base with a program that removes files, since a Dockerfile can remove nothing by itself."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler on this machine")
    (scratch / "rm.c").write_text(RM)
    argv = ["gcc", "-static", "-o", scratch / "rm", scratch / "rm.c"]
    subprocess.run(argv, check=True)
    # "data": the classic builder makes a folder for each volume where the image has none.
    rm = Item(path="bin/rm", content=(scratch / "rm").read_bytes(), mode=0o755)
    many = [
        Item(path=f"{MODELS}/__pycache__/registry.cpython-312.opt-{number}.pyc", content=b"stale")
        for number in range(2, 700)  # more than a builder takes on one line
    ]
    return Image.of(
        base_items(),
        [rm, folder("data"), *many],
        settings={**SETTINGS, "OnBuild": None, "Shell": None},
    )


def built_by_docker(builder: str, tag: str, context: Path) -> None:
    """Build with one of Docker's two builders; a client without it skips."""
    words = ["build", "--network", "none", "--tag", tag, str(context)]
    for program in ("docker", "/usr/bin/docker"):
        done = subprocess.run(
            [program, *words],
            env={**os.environ, "DOCKER_BUILDKIT": builder},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        if "buildx" not in done.stderr:
            pytest.fail(done.stderr)
    pytest.skip("this machine's docker has no BuildKit")


ASKED = """#!/bin/sh
[ "$1" = context ] && exit 1
[ "$1" = cp ] && echo "$2" >> "$ASKED"
exec DOCKER "$@"
"""


def elsewhere(bench: Bench, folder: Path) -> tuple[Bench, Path]:
    """A machine that knows nothing of the base, and where its client notes what is copied out."""
    real = shutil.which("docker")
    assert real is not None
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin/docker"
    script.write_text(ASKED.replace("DOCKER", real))
    script.chmod(0o755)
    asked = folder / "asked"
    other = replace(bench, opener=opener_at(folder / "cache", ASKED=str(asked)))
    other.path = f"{script.parent}:{os.environ['PATH']}"
    return other, asked


def test_of_the_image_that_was_planned_for_only_vllm_is_read_again(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    image = base_image()
    base = docker.load(image)
    plan = bench.write(bench.plan(f"docker:{base}"))
    first = bench.build(plan, docker.name())
    other, asked = elsewhere(bench, tmp_path / "there")
    second = other.build(plan, docker.name())
    assert (second.layer, second.removed) == (first.layer, first.removed)
    assert second.notes == ()
    places = [line.partition(":")[2] for line in asked.read_text().splitlines()]
    assert f"/{SITE}/vllm" in places
    # The folder itself is asked for once, as one of those above vLLM, and nothing else in it.
    inside = {place for place in places if place.startswith(f"/{SITE}/")}
    assert inside == {
        f"/{SITE}/vllm",
        f"/{SITE}/vllm/__init__.py",
        f"/{SITE}/vllm-0.14.1.dist-info",
        f"/{SITE}/{MODEL}",
    }
    assert places.count(f"/{SITE}") == 1
    asked.unlink()
    other.build(plan, docker.name())
    again = [line.partition(":")[2] for line in asked.read_text().splitlines()]
    assert again == [f"/{SITE}/{MODEL}"]


def test_another_image_with_the_same_vllm_is_told_and_read_wholly(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    plan = bench.write(bench.plan(f"docker:{docker.load(base_image())}"))
    changed = docker.load(base_image(Cmd=["other"]))
    other, asked = elsewhere(bench, tmp_path / "there")
    receipt = other.build(plan, docker.name(), base=f"docker:{changed}")
    (note,) = receipt.notes
    assert f"{changed} is another image than the one that was planned for" in note
    places = [line.partition(":")[2] for line in asked.read_text().splitlines()]
    assert f"/{SITE}/vllm" not in places


def test_a_second_vllm_that_came_into_the_base_since_is_refused(
    docker: Docker, bench: Bench
) -> None:
    plan = bench.write(bench.plan(f"docker:{docker.load(base_image())}"))
    two = base_image()
    site = "opt/venv/lib/python3.12/site-packages"
    second = imaging.layer([*imaging.python("opt/venv"), *imaging.vllm(site)])
    two.layers = [*two.layers, second]
    with pytest.raises(SourceError) as caught:
        bench.build(plan, docker.name(), base=f"docker:{docker.load(two)}")
    assert caught.value.code == "E321"


@pytest.mark.parametrize("builder", ["0", "1"], ids=["classic builder", "BuildKit"])
def test_docker_builds_the_same_files_from_the_dockerfile(
    docker: Docker, bench: Bench, tmp_path: Path, builder: str
) -> None:
    """Every file of the image: kind, mode, owner, content."""
    base = docker.load(with_rm(tmp_path))
    plan = bench.write(bench.plan(f"docker:{base}"))
    ours, theirs = docker.name(), docker.name()
    bench.build(plan, ours)
    receipt = bench.build(plan, theirs, to=f"dockerfile:{tmp_path / 'context'}")
    recipe = (tmp_path / "context/Dockerfile").read_text()
    assert sum(map(len, receipt.removed)) > 65_536
    assert max(map(len, recipe.splitlines())) < 1000
    assert "COPY --from=graft / /" in recipe.splitlines()
    built_by_docker(builder, theirs, tmp_path / "context")
    before, wanted, found = entries(docker, base), entries(docker, ours), entries(docker, theirs)
    assert found == wanted
    assert {path.lstrip("/") for path in receipt.removed} <= before.keys() - found.keys()
    told, kept = inspected(docker, theirs)["Config"], inspected(docker, ours)["Config"]
    assert isinstance(told, dict)
    assert isinstance(kept, dict)
    for name in ("User", "Entrypoint", "Cmd", "WorkingDir", "Env", "Healthcheck", "StopSignal"):
        assert told[name] == kept[name]
    assert told["Labels"].items() <= kept["Labels"].items()


def test_inspect_says_where_a_grafted_image_comes_from(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    base = docker.load(base_image())
    plan = bench.write(bench.plan(f"docker:{base}", features=()))
    tag = docker.name()
    receipt = bench.build(plan, tag)

    def graft(of: str) -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "-m", "vllm_graft", "--format", "json", "inspect", f"docker:{of}"],
            env={**os.environ, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            check=True,
        )
        return json.loads(done.stdout)["graft"]

    found = graft(tag)
    told = found["provenance"]
    assert isinstance(told, dict)
    assert told["base_source"] == f"docker:{base}"
    assert told["layer"] == str(receipt.layer)
    assert told["config"] == str(receipt.config)
    assert (found["intact"], found["base_now"]) == (True, "unchanged")
    assert graft(base) is None
    docker.run("tag", base, docker.name())  # it is removed in the end by that name
    docker.run("tag", tag, base)  # the base is now an image that knows the model
    assert graft(tag)["base_now"] == "changed"
    assert graft(tag)["base_now_lacks"] == []
    docker.run("image", "rm", base)
    assert graft(tag)["base_now"] == "not found"

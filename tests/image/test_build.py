import csv
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import imaging
import pretend
from building import MODELS, SETTINGS, STALE, Bench, base_image, base_items
from imaging import SITE, Image, Item, folder, link, python
from opening import Opener, opener_at
from plans import CONFIG, CONFIGS, CONFIGS_AFTER, MODEL, MODEL_TEXT, REGISTRY, REGISTRY_AFTER
from vllm_graft.errors import BuildError, RequestError, SourceError
from vllm_graft.image.dockerfile import dockerfile_documents
from vllm_graft.image.layer import LayerFile, LayerPlan, encode_layer, overlay_version
from vllm_graft.report.build import render_build
from vllm_graft.report.ink import Ink
from vllm_graft.report.inspection import render_inspection
from vllm_graft.run.console import Console
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts, Placed
from vllm_graft.values.inspection import GraftAnswer
from vllm_graft.values.plan import GraftPlan
from vllm_graft.workflows.ask_graft import ask_graft
from vllm_graft.workflows.inspect import inspect_install


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    return Bench(opener=opener, folder=tmp_path)


def base_at(bench: Bench, image: Image | None = None) -> str:
    bench.count += 1
    place = bench.folder / f"base-{bench.count}"
    return f"oci:{imaging.write_layout(place, image or base_image(), packed='gzip')}"


def built_layer(bench: Bench, plan: GraftPlan | Path) -> tuple[BuildReceipt, list[tarfile.TarInfo]]:
    bench.count += 1
    place = bench.folder / f"image-{bench.count}"
    receipt = bench.build(plan, to=f"oci:{place}")
    assert receipt.layer is not None
    with tarfile.open(place / f"blobs/sha256/{receipt.layer.hex}") as archive:
        return receipt, archive.getmembers()


def test_the_image_is_the_base_and_one_layer(bench: Bench) -> None:
    source = base_at(bench)
    plan = bench.plan(source)
    place = bench.folder / "image"
    receipt = bench.build(plan, to=f"oci:{place}")
    assert receipt.outcome == "written"
    assert receipt.whole
    assert receipt.edited == (REGISTRY, CONFIGS)
    base, grafted = bench.opener.open(source), bench.opener.open(f"oci:{place}")
    assert grafted.image is not None
    assert base.image is not None
    assert grafted.image.layers == (*base.image.layers, receipt.layer)
    assert grafted.image.platform == base.image.platform
    wanted = {path: base.files.read(path) for path in base.files.paths()}
    wanted |= {
        REGISTRY: REGISTRY_AFTER,
        CONFIGS: CONFIGS_AFTER,
        MODEL: MODEL_TEXT.encode(),
        CONFIG: plan.modules[1].text.encode(),
    }
    assert {path: grafted.files.read(path) for path in grafted.files.paths()} == wanted
    assert [each.name for each in grafted.distributions] == ["vllm", "vllm-graft-overlay"]


def test_whatever_starts_a_container_is_kept(bench: Bench) -> None:
    plan = bench.plan(base_at(bench))
    place = bench.folder / "image"
    bench.build(plan, to=f"oci:{place}")
    image = bench.opener.open(f"oci:{place}").image
    assert image is not None
    labels = image.settings["Labels"]
    assert {**image.settings, "Labels": SETTINGS["Labels"]} == SETTINGS
    assert isinstance(labels, dict)
    assert labels["maintainer"] == "somebody"
    assert labels["vllm-graft.plan"].startswith("sha256:")


@pytest.mark.parametrize("missing", ["Entrypoint", "Cmd", "User", "Healthcheck", "Labels"])
def test_what_the_base_does_not_say_is_not_said(bench: Bench, missing: str) -> None:
    plan = bench.plan(base_at(bench, base_image(**{missing: None})))
    place = bench.folder / "image"
    bench.build(plan, to=f"oci:{place}")
    image = bench.opener.open(f"oci:{place}").image
    assert image is not None
    assert missing not in image.settings or missing == "Labels"


def test_the_same_inputs_give_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    source = base_at(bench)
    plan = bench.write(bench.plan(source))
    first = bench.build(plan, to=f"archive:{tmp_path / 'a.tar'}")
    other = Bench(opener=opener_at(tmp_path / "other"), folder=tmp_path / "there")
    other.folder.mkdir()
    place = imaging.write_archive(tmp_path / "base.tar", imaging.docker_files(base_image()), "zstd")
    second = other.build(plan, base=f"archive:{place}", to=f"archive:{tmp_path / 'b.tar'}")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    assert replace(second, target="", base="") == replace(first, target="", base="")
    assert "loads where" in render_build(first, "text")


def test_a_layer_has_these_bytes_and_no_others() -> None:
    like = Placed(mode=0o640, uid=7, gid=8, is_folder=False)
    above = Placed(mode=0o2775, uid=0, gid=70000, is_folder=True)
    long = "/a/" + "b" * 120 + "/grüße.py"
    planned = LayerPlan(
        files=(
            LayerFile(place=long, content=b"x = 1\n" * 200, like=like),
            LayerFile(place="/a/c.py", content=b"", like=like),
        ),
        gone=("/a/__pycache__/c.cpython-312.pyc",),
        folders=dict.fromkeys(("/a", "/a/" + "b" * 120, "/a/__pycache__"), above),
    )
    layer = encode_layer(planned)
    assert (
        str(Digest.of(layer))
        == "sha256:0e2fa3526d33937118e637d9f92fbdae125ecb687f0a4bf3a2ef69443018694c"
    )


def test_a_layer_repeats_what_the_base_says_of_every_folder_above(bench: Bench) -> None:
    _, members = built_layer(bench, bench.plan(base_at(bench)))
    found = {each.name: (each.mode, each.uid, each.gid) for each in members}
    assert found["usr"] == (0o755, 0, 0)
    assert found[SITE] == (0o2775, 1000, 1001)
    assert found[f"{SITE}/vllm"] == (0o750, 1000, 1001)
    assert found[MODELS] == (0o770, 1000, 1001)
    assert found[f"{MODELS}/registry.py"] == (0o640, 1000, 1001)  # edited: as it was
    assert found[f"{MODELS}/new.py"] == (0o644, 1000, 1001)  # added: as its folder's owner
    folders = {each.name for each in members if each.isdir()}
    for each in members:
        above = each.name.rpartition("/")[0]
        assert not above or above in folders, each.name
    assert [each.name for each in members] == sorted(each.name for each in members)
    assert {each.mtime for each in members} == {315532800}


def test_bytecode_of_what_changes_is_removed_and_no_other(bench: Bench) -> None:
    receipt, members = built_layer(bench, bench.plan(base_at(bench)))
    assert receipt.removed == (
        f"/{MODELS}/__pycache__/registry.cpython-312.opt-1.pyc",
        f"/{STALE}",
    )
    gone = [each.name for each in members if ".wh." in each.name]
    assert gone == [
        f"{MODELS}/__pycache__/.wh.registry.cpython-312.opt-1.pyc",
        f"{MODELS}/__pycache__/.wh.registry.cpython-312.pyc",
    ]


def test_bytecode_that_is_kept_in_another_place_is_removed_there(bench: Bench) -> None:
    elsewhere = f"var/pyc/{MODELS}/registry.cpython-312.pyc"
    image = Image.of(
        [*base_items(), Item(path=elsewhere, content=b"stale")],
        settings={"Env": ["PYTHONPYCACHEPREFIX=/var/pyc", "PATH=/usr/bin"]},
    )
    receipt, _ = built_layer(bench, bench.plan(base_at(bench, image)))
    assert f"/{elsewhere}" in receipt.removed


def test_pip_list_names_the_graft_and_its_record_is_true(bench: Bench) -> None:
    source = base_at(bench)
    plan = bench.plan(source)
    place = bench.folder / "image"
    receipt = bench.build(plan, to=f"oci:{place}")
    version = overlay_version(plan)
    assert version.startswith("0.14.1+from.0.17.1.")
    info = f"vllm_graft_overlay-{version}.dist-info"
    assert receipt.layer is not None
    with tarfile.open(place / f"blobs/sha256/{receipt.layer.hex}") as archive:
        contents = {
            each.name.removeprefix(f"{SITE}/"): stream.read()
            for each in archive
            if each.isreg() and (stream := archive.extractfile(each)) is not None
        }
    rows = list(csv.reader(contents[f"{info}/RECORD"].decode().splitlines()))
    assert {row[0] for row in rows} == {
        MODEL,
        CONFIG,
        *(f"{info}/{name}" for name in ("INSTALLER", "METADATA", "RECORD", "plan.json")),
    }
    for path, digest, size in rows[:-1]:
        assert digest == pretend.record_digest(contents[path])
        assert int(size) == len(contents[path])
    assert json.loads(contents[f"{info}/plan.json"])["architectures"] == ["NewForCausalLM"]


def test_a_dry_run_computes_all_and_writes_nothing(bench: Bench) -> None:
    plan = bench.write(bench.plan(base_at(bench)))
    before = sorted(bench.folder.rglob("*"))
    receipt = bench.build(plan, to=f"oci:{bench.folder / 'image'}", dry_run=True)
    assert receipt.outcome == "not written"
    assert sorted(bench.folder.rglob("*")) == before
    assert receipt.layer == bench.build(plan, to=f"oci:{bench.folder / 'image'}").layer


def refused(bench: Bench, plan: GraftPlan | Path, **more: Any) -> BuildError | RequestError:
    with pytest.raises((BuildError, RequestError)) as caught:
        bench.build(plan, **{"to": f"oci:{bench.folder / 'image'}", **more})
    assert not (bench.folder / "image").exists()
    return caught.value


def test_a_base_that_changed_since_the_plan_is_refused(bench: Bench) -> None:
    plan = bench.plan(base_at(bench))
    patched = [Item(path=f"{SITE}/vllm/other.py", content=b"new = True\n")]
    changed = Image.of(base_items(), patched, settings=dict(SETTINGS))
    error = refused(bench, plan, base=base_at(bench, changed))
    assert error.code == "E420"
    assert "plan again with --base oci:" in error.remedy


@pytest.mark.parametrize("form", ["oci", "archive"])
def test_a_full_disk_leaves_nothing_half_written(bench: Bench, form: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may mount a disk that is full at once")
    plan = bench.write(bench.plan(base_at(bench)))
    disk = bench.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(disk)], check=True)
    try:
        with pytest.raises(RequestError) as caught:
            bench.build(plan, to=f"{form}:{disk / 'image'}")
        assert caught.value.code == "E213"
        assert "No space left on device" in caught.value.what
        assert "disk is full" in caught.value.remedy
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert bench.build(plan, to=f"{form}:{disk / 'image'}").outcome == "written"


def test_a_base_that_is_another_image_with_the_same_vllm_is_told(bench: Bench) -> None:
    plan = bench.plan(base_at(bench))
    other = base_at(bench, base_image(Cmd=["other"]))
    receipt = bench.build(plan, to=f"oci:{bench.folder / 'one'}", base=other)
    assert "is another image than the one that was planned for" in receipt.notes[0]
    assert plan.base.image in receipt.notes[0]
    for form in ("text", "markdown"):
        assert "another image" in " ".join(render_build(receipt, form).split())
    assert bench.build(plan, to=f"oci:{bench.folder / 'two'}").notes == ()


def test_a_base_whose_layer_was_altered_after_it_was_planned_for_is_not_copied(
    bench: Bench,
) -> None:
    source = base_at(bench)
    plan = bench.plan(source)
    blobs = Path(source.removeprefix("oci:")) / "blobs/sha256"
    largest = max(blobs.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        bench.build(plan, to=f"oci:{bench.folder / 'image'}")
    assert caught.value.code == "E324"
    assert largest.name in caught.value.what
    assert not (bench.folder / "image").exists()


def test_a_blocked_plan_is_not_built(bench: Bench) -> None:
    plan = bench.plan(base_at(bench), verdict="blocked")
    assert refused(bench, plan).code == "E401"


def test_a_plan_for_a_folder_needs_an_image(bench: Bench) -> None:
    plan = bench.plan(base_at(bench))
    told = replace(plan, base=replace(plan.base, source="pypi:vllm==0.14.1"))
    assert refused(bench, told).code == "E218"
    assert bench.build(told, base=plan.base.source, dry_run=True).outcome == "not written"


@pytest.mark.parametrize("tag", ["Upper", "a b", "-x", "a@sha256:" + "0" * 64, "", "a:b:c/"])
def test_what_names_no_image_is_refused(bench: Bench, tag: str) -> None:
    assert refused(bench, bench.plan(base_at(bench)), tag=tag).code == "E216"


@pytest.mark.parametrize("to", ["dockr", "oci:", "registry:x", "docker:x"])
def test_what_is_no_place_is_refused(bench: Bench, to: str) -> None:
    assert refused(bench, bench.plan(base_at(bench)), to=to).code == "E218"


def test_a_file_behind_a_link_is_refused(bench: Bench) -> None:
    moved = [
        Item(path=f"data/vllm/{item.path.removeprefix(f'{MODELS}/')}", content=item.content)
        for item in base_items()
        if item.path.startswith(f"{MODELS}/") and item.kind == "file"
    ]
    image = Image.of(
        base_items(),
        [Item(path=f"{SITE}/vllm/model_executor/.wh.models")],
        [*moved, link(MODELS, "/data/vllm")],
    )
    assert refused(bench, bench.plan(base_at(bench, image))).code == "E404"


def test_a_folder_that_somebody_else_made_is_not_replaced(bench: Bench) -> None:
    (bench.folder / "mine").mkdir()
    (bench.folder / "mine/file").write_text("x")
    with pytest.raises(RequestError) as caught:
        bench.build(bench.plan(base_at(bench)), to=f"oci:{bench.folder / 'mine'}")
    assert caught.value.code == "E213"


def test_the_lock_is_the_same_everywhere_and_names_what_changed(bench: Bench) -> None:
    source = base_at(bench)
    plan = bench.write(bench.plan(source))
    lock = bench.folder / "graft.lock"
    bench.build(plan, to=f"oci:{bench.folder / 'one'}", lock=str(lock))
    first = lock.read_bytes()
    archive = imaging.write_archive(
        bench.folder / "base.tar", imaging.docker_files(base_image()), "gzip"
    )
    moved = f"archive:{archive}"
    bench.build(plan, base=moved, to=f"oci:{bench.folder / 'two'}", lock=str(lock))
    assert lock.read_bytes() == first
    bench.build(plan, base=moved, to=f"oci:{bench.folder / 'three'}", locked=str(lock))
    told = Image.of(
        [Item(path="etc/motd", content=b"changed")], base_items(), settings=dict(SETTINGS)
    )
    error = refused(bench, plan, base=base_at(bench, told), locked=str(lock))
    assert error.code == "E424"
    assert "base layer 1: wanted sha256:" in error.what
    assert "base config" in error.what
    assert "vllm/" not in error.what
    other = refused(bench, bench.plan(source, features=()), locked=str(lock))
    assert "plan: wanted" in other.what
    assert "base" not in other.what.replace("based", "").split("\n", 1)[1]


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"schema": "vllm-graft/lock/1"}'])
def test_what_is_no_lock_is_refused(bench: Bench, content: bytes) -> None:
    (bench.folder / "graft.lock").write_bytes(content)
    plan = bench.plan(base_at(bench))
    assert refused(bench, plan, locked=str(bench.folder / "graft.lock")).code == "E217"
    assert refused(bench, plan, locked=str(bench.folder / "none.lock")).code == "E213"


def test_a_checkout_is_built_on_where_it_lies(bench: Bench) -> None:
    moved = [
        Item(path=item.path.replace(SITE, "workspace/src"), content=item.content)
        for item in base_items()
        if item.path.startswith(f"{SITE}/vllm/") and item.kind == "file"
    ]
    image = Image.of(
        [*python(), Item(path=f"{SITE}/vllm.pth", content=b"/workspace/src\n")],
        [folder("workspace", 0o777), *moved],
    )
    _, members = built_layer(bench, bench.plan(base_at(bench, image)))
    names = [each.name for each in members]
    assert "workspace/src/vllm/model_executor/models/new.py" in names
    assert next(each for each in members if each.name == "workspace").mode == 0o777


def test_a_base_for_another_machine_is_built_on_as_any(bench: Bench) -> None:
    image = base_image()
    image.architecture, image.variant = "arm64", "v8"
    place = bench.folder / "image"
    bench.build(bench.plan(base_at(bench, image)), to=f"oci:{place}")
    found = bench.opener.open(f"oci:{place}").image
    assert found is not None
    assert found.platform == "linux/arm64/v8"


def test_what_the_verb_prints_as_json_follows_its_schema(bench: Bench) -> None:
    receipt = bench.build(bench.plan(base_at(bench)), to=f"oci:{bench.folder / 'image'}")
    value = json.loads(render_build(receipt, "json"))
    schema = json.loads((Path(__file__).parents[2] / "docs/build.schema.json").read_text())
    jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**value, "extra": 1}, schema)
    assert str(receipt.layer) in render_build(receipt, "markdown")


def test_an_image_tells_where_it_comes_from_and_whether_it_is_still_needed(bench: Bench) -> None:
    source = base_at(bench)
    layout = bench.folder / "image"
    bench.build(bench.plan(source, features=()), to=f"oci:{layout}")
    environment = Environment(variables=bench.opener.variables, home=str(Path.home()))
    console = Console(stream=bench.opener.stream)

    def asked(place: str) -> GraftAnswer | None:
        install = bench.opener.open(place)
        return ask_graft(install, environment=environment, console=console)

    assert asked(source) is None
    found = asked(f"oci:{layout}")
    assert found is not None
    assert found.provenance.base_source == source
    assert found.provenance.architectures == ("NewForCausalLM",)
    assert (found.intact, found.base_now) == (True, "unchanged")
    inspection = replace(inspect_install(bench.opener.open(f"oci:{layout}")), graft=found)
    for form in ("text", "markdown"):
        shown = render_inspection(inspection, form, Ink())
        assert "Grafted" in shown
        assert "unchanged" in shown
    # The base moves on: once to a vLLM without the model, once to one with it.
    place = Path(source.removeprefix("oci:"))
    other = Image.of([Item(path="etc/motd")], base_items())
    shutil.rmtree(place)
    imaging.write_layout(place, other)
    changed = asked(f"oci:{layout}")
    assert changed is not None
    assert (changed.base_now, changed.base_now_lacks) == ("changed", ("NewForCausalLM",))
    registry = [Item(path=f"{SITE}/{REGISTRY}", content=REGISTRY_AFTER)]
    shutil.rmtree(place)
    imaging.write_layout(place, Image.of(base_items(), registry))
    knows = asked(f"oci:{layout}")
    assert knows is not None
    assert knows.base_now_lacks == ()
    shutil.rmtree(place)
    gone = asked(f"oci:{layout}")
    assert gone is not None
    assert gone.base_now == "not found"


def test_an_image_that_was_changed_after_it_was_built_does_not_pass_for_it(bench: Bench) -> None:
    layout = bench.folder / "image"
    bench.build(bench.plan(base_at(bench)), to=f"oci:{layout}")
    install = bench.opener.open(f"oci:{layout}")
    assert install.image is not None
    settings = {**install.image.settings, "Entrypoint": ["/bin/other"]}
    changed = replace(install, image=replace(install.image, settings=settings))
    environment = Environment(variables=bench.opener.variables)
    answer = ask_graft(changed, environment=environment, console=Console(quiet=True))
    assert answer is not None
    assert not answer.intact


def test_a_dockerfile_names_its_base_and_escapes_its_labels(bench: Bench) -> None:
    error = refused(bench, bench.plan(base_at(bench)), to=f"dockerfile:{bench.folder / 'image'}")
    assert error.code == "E218"
    base = ImageFacts(
        reference="vllm-node:1",
        architecture="arm64",
        system="linux",
        variant="",
        settings={},
        layers=(),
    )
    planned = LayerPlan(files=(), gone=(), folders={})
    found = dockerfile_documents(base, planned, {"a": 'x "$HOME" \\'})["Dockerfile"].decode()
    assert (
        "FROM scratch AS graft\nADD graft.tar /\n\nFROM vllm-node:1\nCOPY --from=graft / /\n"
        in found
    )
    assert 'LABEL "a"="x \\"\\$HOME\\" \\\\"' in found
    told = replace(base, settings={"OnBuild": ["RUN true"]})
    with pytest.raises(BuildError) as caught:
        dockerfile_documents(told, planned, {})
    assert caught.value.code == "E452"

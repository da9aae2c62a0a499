import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import imaging
import pretend
from imaging import SITE, Image, Item, files, folder, hard, link, python, vllm
from opening import Opener
from vllm_graft.errors import SourceError
from vllm_graft.values.install import Install
from vllm_graft.values.source import SourceOptions, parse_platform
from vllm_graft.workflows.inspect import InspectRequest, inspect_install

ELSEWHERE = "opt/venv/lib/python3.12/site-packages"


def read(opener: Opener, tmp_path: Path, image: Image, more: str = "") -> Install:
    place = tmp_path / f"image-{len(list(tmp_path.iterdir()))}"
    return opener.open(f"oci:{imaging.write_layout(place, image)}{more}")


def refused(opener: Opener, tmp_path: Path, image: Image) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read(opener, tmp_path, image)
    return caught.value


def as_folder(opener: Opener, tmp_path: Path, version: str = "0.17.1") -> Install:
    site = tmp_path / "folder"
    for item in vllm("", version):
        pretend.write_tree(site, {item.path.lstrip("/"): item.content})
    return opener.open(f"path:{site}")


@pytest.mark.parametrize("packed", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("form", ["layout", "docker", "oci archive"])
def test_an_image_is_the_same_install_as_its_folder(
    opener: Opener, tmp_path: Path, form: str, packed: str
) -> None:
    image = Image.of(python(), vllm())
    if form == "layout":
        source = f"oci:{imaging.write_layout(tmp_path / 'image', image, packed=packed)}"
    else:
        contents = imaging.docker_files(image) if form == "docker" else imaging.layout_files(image)
        source = f"archive:{imaging.write_archive(tmp_path / 'image.tar', contents, packed)}"
    install = opener.open(source)
    same = as_folder(opener, tmp_path)
    assert install.digest == same.digest
    assert install.native == same.native
    assert install.record == same.record
    assert install.distributions == same.distributions
    assert install.version == "0.17.1"
    assert install.interpreter == "cp312"
    assert install.location.startswith(f"/{SITE} in ")
    assert install.image is not None
    assert install.image.platform == "linux/amd64"
    again = opener.open(source)  # from the cache
    assert replace(again, files=install.files) == install
    assert again.files.paths() == install.files.paths()


@pytest.mark.parametrize(
    ("site", "before", "settings"),
    [
        (SITE, python(), {}),
        ("usr/local/lib/python3.12/site-packages", python("usr/local"), {}),
        ("usr/lib/python3/dist-packages", python(), {}),
        (
            ELSEWHERE,
            [link("opt/venv/bin/python", "/usr/bin/python3"), *python()],
            {"Env": ["PATH=/opt/venv/bin:/usr/bin"]},
        ),
        (
            "srv/app/env/lib/python3.12/site-packages",
            [link("srv/app/env/bin/python3", "/usr/bin/python3.12"), *python()],
            {"Env": ["VIRTUAL_ENV=/srv/app/env"]},
        ),
        ("opt/conda/lib/python3.11/site-packages", python("opt/conda", "3.11"), {}),
        (
            "opt/conda/envs/serve/lib/python3.11/site-packages",
            python("opt/conda/envs/serve", "3.11"),
            {},
        ),
        ("work/.venv/lib/python3.12/site-packages", python("work/.venv"), {"WorkingDir": "/work"}),
        ("srv/packages", python(), {"Env": ["PYTHONPATH=/srv/packages"]}),
    ],
)
def test_vllm_is_found_where_images_have_it(
    opener: Opener,
    tmp_path: Path,
    site: str,
    before: list[Item],
    settings: dict[str, object],
) -> None:
    image = Image.of(before, vllm(site), settings=settings, architecture="arm64")
    install = read(opener, tmp_path, image)
    assert install.location.startswith(f"/{site} in ")
    assert install.digest == as_folder(opener, tmp_path).digest
    assert install.image is not None
    assert install.image.platform == "linux/arm64"


def test_a_virtual_environment_that_sees_the_system_has_the_systems_packages(
    opener: Opener, tmp_path: Path
) -> None:
    told = b"home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.12.3\n"
    image = Image.of(
        python(),
        files("usr/local/lib/python3.12/dist-packages", pretend.dist_info("ray", "2.50.0", {})),
        [Item(path="opt/venv/pyvenv.cfg", content=told), *python("opt/venv"), *vllm(ELSEWHERE)],
    )
    assert {each.name for each in read(opener, tmp_path, image).distributions} == {
        "ray",
        "torch",
        "vllm",
    }


@pytest.mark.parametrize("how", ["finder", "pth", "direct_url", "link"])
def test_an_editable_checkout_is_found(opener: Opener, tmp_path: Path, how: str) -> None:
    notes = {
        "finder": [
            Item(
                path=f"{SITE}/__editable___vllm_0_17_1_finder.py",
                content=b"MAPPING: dict[str, str] = {'vllm': '/workspace/src/vllm'}\n",
            )
        ],
        "pth": [Item(path=f"{SITE}/vllm.pth", content=b"/workspace/src\n")],
        "direct_url": files(
            SITE,
            {
                "vllm-0.17.1.dist-info/direct_url.json": json.dumps(
                    {"url": "file:///workspace/src", "dir_info": {"editable": True}}
                ).encode()
            },
        ),
        "link": [link(f"{SITE}/vllm", "../../../../../workspace/src/vllm")],
    }[how]
    checkout = files("workspace/src", pretend.package())
    metadata = files(SITE, pretend.dist_info("vllm", "0.17.1", pretend.package()))
    install = read(opener, tmp_path, Image.of(python(), checkout, [*metadata, *notes]))
    assert install.location.startswith("/workspace/src in ")
    assert "/workspace/src" in install.notes[0] or SITE in install.notes[0]
    assert [each.name for each in install.distributions] == ["vllm"]


def test_a_later_layer_wins(opener: Opener, tmp_path: Path) -> None:
    patched = files(SITE, {"vllm/__init__.py": b"patched = True\n"})
    install = read(opener, tmp_path, Image.of(python(), vllm(), patched))
    assert install.files.read("vllm/__init__.py") == b"patched = True\n"


def test_what_a_later_layer_removes_is_gone(opener: Opener, tmp_path: Path) -> None:
    llama = "vllm/model_executor/models/llama.py"
    gone = [Item(path=f"{SITE}/vllm/model_executor/models/.wh.llama.py")]
    install = read(opener, tmp_path, Image.of(python(), vllm(), gone))
    assert llama not in install.files
    back = files(SITE, {llama: b"again = True\n"})
    install = read(opener, tmp_path, Image.of(python(), vllm(), gone, back))
    assert install.files.read(llama) == b"again = True\n"


@pytest.mark.parametrize("first", ["whiteout", "files"])
def test_a_whiteout_hides_lower_layers_and_never_its_own(
    opener: Opener, tmp_path: Path, first: str
) -> None:
    hidden = [Item(path=f"{SITE}/.wh.vllm"), Item(path=f"{SITE}/.wh.vllm-0.14.1.dist-info")]
    new = vllm(version="0.17.1")
    upper = [*hidden, *new] if first == "whiteout" else [*new, *hidden]
    lower = [
        *vllm(version="0.14.1"),
        *files(SITE, {"vllm/old.py": b"", "vllm/model_executor/old.py": b""}),
    ]
    install = read(opener, tmp_path, Image.of(python(), lower, upper))
    assert install.digest == as_folder(opener, tmp_path).digest


@pytest.mark.parametrize("first", ["opaque", "files"])
def test_an_opaque_folder_hides_all_that_lower_layers_have_in_it(
    opener: Opener, tmp_path: Path, first: str
) -> None:
    opaque = [Item(path=f"{SITE}/.wh..wh..opq")]
    new = [folder(SITE), *vllm(version="0.17.1")]
    upper = [*opaque, *new] if first == "opaque" else [*new, *opaque]
    lower = [*vllm(version="0.14.1"), *files(SITE, {"vllm/old.py": b""})]
    install = read(opener, tmp_path, Image.of(python(), lower, upper))
    assert install.digest == as_folder(opener, tmp_path).digest
    assert [each.version for each in install.distributions] == ["2.10.0", "0.17.1"]


def test_a_folder_that_becomes_a_file_or_a_link_takes_its_content_along(
    opener: Opener, tmp_path: Path
) -> None:
    old = files(SITE, {"vllm/models/a.py": b"", "vllm/plugins/b.py": b""})
    new = [
        Item(path=f"{SITE}/vllm/models", content=b"a file"),
        link(f"{SITE}/vllm/plugins", "model_executor/models"),
    ]
    install = read(opener, tmp_path, Image.of(python(), [*vllm(), *old], new))
    paths = install.files.paths()
    assert "vllm/models/a.py" not in paths
    assert "vllm/plugins/b.py" not in paths
    assert "vllm/plugins/llama.py" in paths


def test_files_that_an_installer_linked_from_its_store_are_read(
    opener: Opener, tmp_path: Path
) -> None:
    linked: list[Item] = []
    for number, item in enumerate(vllm()):
        store = f"root/.cache/store/{number:04x}"
        linked += [Item(path=store, content=item.content), hard(item.path, store)]
    install = read(opener, tmp_path, Image.of(python(), linked))
    assert install.digest == as_folder(opener, tmp_path).digest
    contents = imaging.docker_files(Image.of(python(), linked))
    archive = imaging.write_archive(tmp_path / "a.tar", contents, "gzip")
    assert opener.open(f"archive:{archive}").digest == install.digest


def test_folders_that_are_links_lead_to_the_same_place(opener: Opener, tmp_path: Path) -> None:
    image = Image.of(
        [link("lib", "usr/lib"), *python()],
        [link("usr/local/lib/python3.12/dist-packages", "/data/packages"), *vllm("data/packages")],
    )
    assert read(opener, tmp_path, image).location.startswith("/data/packages in ")


def test_links_in_a_circle_lead_nowhere(opener: Opener, tmp_path: Path) -> None:
    image = Image.of(
        python(),
        vllm(),
        [
            link(f"{SITE}/vllm/loop", "loop"),
            link(f"{SITE}/vllm/up", ".."),
            link(f"{SITE}/vllm/out", "/../../etc/passwd"),
        ],
    )
    assert read(opener, tmp_path, image).digest == as_folder(opener, tmp_path).digest


def test_an_image_is_an_environment_whose_pins_are_judged(opener: Opener, tmp_path: Path) -> None:
    found = inspect_install(read(opener, tmp_path, Image.of(python(), vllm())))
    assert [(pin.name, pin.state) for pin in found.own_pins] == [("torch", "met")]


def test_two_vllms_are_refused_until_it_is_said_which(opener: Opener, tmp_path: Path) -> None:
    image = Image.of([*python(), *python("opt/venv")], vllm(), vllm(ELSEWHERE, version="0.14.1"))
    place = imaging.write_layout(tmp_path / "image", image)
    with pytest.raises(SourceError) as caught:
        opener.open(f"oci:{place}")
    assert caught.value.code == "E321"
    assert f"/{SITE}/vllm" in caught.value.what
    assert f"/{ELSEWHERE}/vllm" in caught.value.what
    offered = re.search(r"oci:\S+(?=\.)", caught.value.remedy)
    assert offered is not None
    assert opener.open(offered[0]).version == "0.17.1"
    assert opener.open(f"oci:{place}#/opt/venv").version == "0.14.1"
    assert opener.open(f"oci:{place}#/usr").version == "0.17.1"


def test_what_no_interpreter_imports_is_told_and_not_taken(opener: Opener, tmp_path: Path) -> None:
    odd = "srv/odd/lib/python3.10/site-packages"
    install = read(opener, tmp_path, Image.of(python(), vllm(), vllm(odd, version="0.14.1")))
    assert install.version == "0.17.1"
    assert f"/{odd}" in install.notes[0]


def test_an_image_without_vllm_is_refused(opener: Opener, tmp_path: Path) -> None:
    error = refused(opener, tmp_path, Image.of(python(), [folder(SITE)]))
    assert error.code == "E320"
    assert f"/{SITE}" in error.what
    assert "no Python" in refused(opener, tmp_path, Image.of([Item(path="etc/passwd")])).what


def test_a_checkout_that_nothing_leads_to_is_offered(opener: Opener, tmp_path: Path) -> None:
    image = Image.of(python(), files("workspace", pretend.package()))
    error = refused(opener, tmp_path, image)
    assert error.code == "E320"
    assert "#/workspace" in error.remedy
    assert read(opener, tmp_path, image, "#/workspace").version == "0.17.1"


def test_transformers_of_the_image_answers_for_its_classes(opener: Opener, tmp_path: Path) -> None:
    auto = {
        "transformers/models/auto/configuration_auto.py": b'M = [("okapi", "OkapiConfig")]\n',
        **pretend.dist_info("transformers", "5.0.0", {}),
    }
    install = read(opener, tmp_path, Image.of(python(), [*vllm(), *files(SITE, auto)]))
    assert set(install.beside) == {"transformers/models/auto/configuration_auto.py"}
    assert inspect_install(install, InspectRequest()).version == "0.17.1"


def test_one_of_several_images_is_chosen_by_name_or_platform(
    opener: Opener, tmp_path: Path
) -> None:
    images = (
        Image.of(python(), vllm(), name="one:latest"),
        Image.of(python(), vllm(version="0.14.1"), name="two:latest", architecture="arm64"),
    )
    for source in (
        f"oci:{imaging.write_layout(tmp_path / 'image', *images)}",
        f"archive:{imaging.write_archive(tmp_path / 'a.tar', imaging.layout_files(*images))}",
    ):
        with pytest.raises(SourceError) as caught:
            opener.open(source)
        assert caught.value.code == "E323"
        assert "one:latest" in caught.value.what
        assert opener.open(f"{source}#two").version == "0.14.1"
        options = SourceOptions(platform=parse_platform("linux/arm64"))
        assert opener.open(source, options).version == "0.14.1"
        with pytest.raises(SourceError, match="no image three"):
            opener.open(f"{source}#three")
    archive = imaging.write_archive(tmp_path / "b.tar", imaging.docker_files(*images))
    assert opener.open(f"archive:{archive}#two:latest").version == "0.14.1"


def test_a_path_that_leaves_the_image_is_refused(opener: Opener, tmp_path: Path) -> None:
    image = Image.of(python(), vllm(), [Item(path="usr/../../etc/cron.d/x")])
    error = refused(opener, tmp_path, image)
    assert error.code == "E322"
    assert "leaves the image" in error.what


@pytest.mark.parametrize("packed", ["plain", "gzip", "zstd"])
def test_a_layer_that_was_altered_on_disk_is_not_read(
    opener: Opener, tmp_path: Path, packed: str
) -> None:
    image = Image.of(python(), vllm())
    place = imaging.write_layout(tmp_path / "image", image, packed=packed)
    largest = max((place / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        opener.open(f"oci:{place}")
    assert caught.value.code in ("E322", "E324")
    assert largest.name in caught.value.what


@pytest.mark.parametrize("packed", ["plain", "gzip", "zstd"])
def test_a_layer_of_a_few_bytes_is_a_layer_too(opener: Opener, tmp_path: Path, packed: str) -> None:
    image = Image.of([Item(path="etc/motd")], python(), vllm())
    contents = imaging.layout_files(image, packed=packed)
    archive = imaging.write_archive(tmp_path / "a.tar", contents)
    assert opener.open(f"archive:{archive}").version == "0.17.1"


def test_an_image_with_fewer_layers_than_it_names_is_refused(
    opener: Opener, tmp_path: Path
) -> None:
    contents = imaging.docker_files(Image.of(python(), vllm(), [Item(path="etc/motd")]))
    (told,) = json.loads(contents["manifest.json"])
    told["Layers"].pop()
    contents["manifest.json"] = json.dumps([told]).encode()
    archive = imaging.write_archive(tmp_path / "a.tar", contents)
    with pytest.raises(SourceError) as caught:
        opener.open(f"archive:{archive}")
    assert caught.value.code == "E324"
    assert "names 3 layers, its manifest 2" in caught.value.what


def test_a_configuration_that_names_other_layers_is_refused(opener: Opener, tmp_path: Path) -> None:
    contents = imaging.docker_files(Image.of(python(), vllm()))
    name = next(each for each in contents if each.endswith("layer.tar"))
    contents[name] = imaging.layer(vllm(version="0.14.1"))
    archive = imaging.write_archive(tmp_path / "a.tar", contents)
    with pytest.raises(SourceError) as caught:
        opener.open(f"archive:{archive}")
    assert caught.value.code == "E324"


@pytest.mark.parametrize("packed", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("part", [0.3, 0.8])
def test_an_archive_that_broke_off_is_refused(
    opener: Opener, tmp_path: Path, packed: str, part: float
) -> None:
    contents = imaging.docker_files(Image.of(python(), vllm()))
    archive = imaging.write_archive(tmp_path / "a.tar", contents, packed)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(SourceError) as caught:
        opener.open(f"archive:{archive}")
    assert caught.value.code == "E322"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("archive:missing.tar", "no such file"),
        ("archive:folder", "Did you mean oci:"),
        ("archive:text", "docker save"),
        ("archive:empty", "docker save"),
        ("archive:exported.tar", "neither manifest.json nor index.json"),
        ("oci:missing", "no such folder"),
        ("oci:text", "archive:"),
        ("oci:folder", "no index.json"),
        ("oci:broken", "no JSON"),
    ],
)
def test_what_is_no_image_is_refused(
    opener: Opener, tmp_path: Path, source: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no image" * 500)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "exported.tar").write_bytes(imaging.layer(vllm()))
    pretend.write_tree(tmp_path / "broken", {"index.json": b"{"})
    kind, _, name = source.partition(":")
    with pytest.raises(SourceError) as caught:
        opener.open(f"{kind}:{tmp_path / name}")
    assert says in f"{caught.value.what} {caught.value.remedy}"
    assert caught.value.code in ("E300", "E322")


def test_a_layout_without_its_lower_layers_is_refused(opener: Opener, tmp_path: Path) -> None:
    image = Image.of(python(), vllm())
    place = imaging.write_layout(tmp_path / "image", image)
    (place / "blobs/sha256" / imaging.sha256(image.layers[0])).unlink()
    with pytest.raises(SourceError, match="a part of the image is not there"):
        opener.open(f"oci:{place}")

# Wheels as files of a layer: every wheel here is made by the test, and what the layer does to an image is seen by laying it over it.
import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import jsonschema
import pytest

from building import Bench, base_items
from engines import Docker
from imaging import (
    SITE,
    Image,
    Item,
    docker_files,
    files,
    folder,
    layer,
    link,
    write_archive,
    write_layout,
)
from opening import Opener
from plans import BASE_TREE
from pretend import dist_info, write_tree
from vllm_graft.errors import BuildError, SourceError
from vllm_graft.image.layer import NO_LAYER, encode_layer, with_wheels
from vllm_graft.image.wheel_files import Scheme, WheelFile, place_wheel
from vllm_graft.report.build import render_build
from vllm_graft.run.console import Console
from vllm_graft.values.digest import Digest
from vllm_graft.values.lock import decode_lock
from vllm_graft.values.source import DockerSource, parse_source
from vllm_graft.values.wheels import LockedWheel
from vllm_graft.workflows.apply import ApplyRequest, run_apply
from vllm_graft.workflows.build_plugin import PluginRequest, run_build_plugin
from vllm_graft.workflows.whole_image import whole_tree

SCHEME = Scheme(
    site="/opt/venv/lib/python3.12/site-packages",
    scripts="/opt/venv/bin",
    data="/opt/venv",
    python="/opt/venv/bin/python3.12",
)


def row(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def wheel_bytes(members: Mapping[str, bytes], *, executable: tuple[str, ...] = ()) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(info, content)
    return stream.getvalue()


def tool_wheel(version: str = "2.0", /, **more: bytes) -> bytes:
    info = f"tool-{version}.dist-info"
    members = {
        "tool/__init__.py": b"VERSION = 2\n",
        "tool/new.py": b"",
        "tool/raylet": b"\x7fELF",
        f"tool-{version}.data/scripts/tool-old": b"#!python\nprint()\n",
        f"tool-{version}.data/platlib/tool/native.so": b"\x7fELF",
        f"tool-{version}.data/data/share/tool.txt": b"text",
        f"tool-{version}.data/headers/tool.h": b"int x;",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tool\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": b"[console_scripts]\nTool = tool.cli:Main.run [x]\n",
        f"{info}/RECORD": b"wrong,,\n",
        **more,
    }
    return wheel_bytes(members, executable=("tool/raylet",))


def locked(content: bytes, *, replaces: str = "", name: str = "tool") -> LockedWheel:
    return LockedWheel(
        name=name,
        version="2.0",
        file=f"{name}-2.0-py3-none-any.whl",
        digest=Digest.of(content),
        replaces=replaces,
    )


def placed(content: bytes) -> dict[str, WheelFile]:
    return {each.place: each for each in place_wheel(content, locked(content), SCHEME)}


def test_a_wheel_becomes_the_files_that_an_installer_writes() -> None:
    found = placed(tool_wheel())
    site, info = SCHEME.site, f"{SCHEME.site}/tool-2.0.dist-info"
    assert set(found) == {
        f"{site}/tool/__init__.py",
        f"{site}/tool/new.py",
        f"{site}/tool/raylet",
        f"{site}/tool/native.so",
        f"{info}/METADATA",
        f"{info}/WHEEL",
        f"{info}/entry_points.txt",
        f"{info}/INSTALLER",
        f"{info}/RECORD",
        "/opt/venv/bin/tool-old",
        "/opt/venv/bin/Tool",
        "/opt/venv/share/tool.txt",
    }
    executable = {place for place, each in found.items() if each.executable}
    assert executable == {f"{site}/tool/raylet", "/opt/venv/bin/tool-old", "/opt/venv/bin/Tool"}
    assert found["/opt/venv/bin/tool-old"].content == b"#!/opt/venv/bin/python3.12\nprint()\n"
    script = found["/opt/venv/bin/Tool"].content.decode()
    assert script.startswith("#!/opt/venv/bin/python3.12\n")
    assert "from tool.cli import Main\n" in script
    assert "sys.exit(Main.run())" in script
    record = found[f"{info}/RECORD"].content.decode()
    assert row("tool/__init__.py", b"VERSION = 2\n") in record
    assert "../../../bin/Tool,sha256=" in record
    assert "tool-2.0.dist-info/RECORD,,\n" in record
    assert "wrong" not in record


def test_the_same_wheel_gives_the_same_files() -> None:
    assert place_wheel(tool_wheel(), locked(tool_wheel()), SCHEME) == place_wheel(
        tool_wheel(), locked(tool_wheel()), SCHEME
    )


@pytest.mark.parametrize("name", ["../out.py", "/etc/passwd", "tool/../../x", "tool\\x.py"])
def test_a_path_that_leaves_its_place_is_refused(name: str) -> None:
    info = {"tool-2.0.dist-info/METADATA": b"Name: tool\n"}
    with pytest.raises(BuildError, match="leads out of its place") as caught:
        placed(wheel_bytes({name: b"", **info}))
    assert caught.value.code == "E430"


@pytest.mark.parametrize(
    "content", [b"", b"no wheel", wheel_bytes({"tool/__init__.py": b""}), tool_wheel()[:-30]]
)
def test_what_is_no_wheel_is_refused(content: bytes) -> None:
    with pytest.raises(BuildError) as caught:
        placed(content)
    assert caught.value.code == "E430"


def test_bytecode_in_a_wheel_stays_out() -> None:
    found = placed(tool_wheel("2.0", **{"tool/__pycache__/a.cpython-312.pyc": b""}))
    assert not [place for place in found if "__pycache__" in place]


# --- over an image -------------------------------------------------------------------------------------------------

OLD = {
    "tool/__init__.py": b"VERSION = 1\n",
    "tool/gone/__init__.py": b"",
    "tool/gone/deep/old.py": b"",
    "tool_old.py": b"",
    "shared/tool_part.py": b"",
}
OLD_INFO = "tool-1.0.dist-info"


def old_tool(*, record: bool = True) -> list[Item]:
    """An older release as pip installed it, with bytecode, and with files in it that are not its own."""
    metadata = {
        f"{OLD_INFO}/METADATA": b"Metadata-Version: 2.1\nName: Tool\nVersion: 1.0\n",
        f"{OLD_INFO}/INSTALLER": b"pip\n",
        f"{OLD_INFO}/REQUESTED": b"",
    }
    rows = [f"{path},," for path in (*OLD, *metadata, "../../../bin/tool-gone", "tool/lost.py")]
    if record:
        metadata[f"{OLD_INFO}/RECORD"] = "\n".join((*rows, f"{OLD_INFO}/RECORD,,")).encode()
    compiled = {
        "tool/__pycache__/__init__.cpython-312.pyc": b"",
        "tool/gone/__pycache__/__init__.cpython-312.pyc": b"",
        "tool/gone/deep/__pycache__/old.cpython-312.opt-1.pyc": b"",
        "__pycache__/tool_old.cpython-312.pyc": b"",
        "__pycache__/other.cpython-312.pyc": b"",
    }
    others = {"tool/made_by_hand.py": b"", "shared/other.py": b"", "other.py": b""}
    contents = {**OLD, **metadata, **compiled, **others}
    above = {str(each) for path in contents for each in PurePosixPath(path).parents} - {"."}
    return [
        # All of them: those that a layer does not name, an engine makes as it likes.
        *(folder(f"{SITE}/{each}") for each in sorted(above - {"tool"})),
        folder(f"{SITE}/tool", 0o2755, 5, 6),
        folder("usr/local/bin"),
        *files(SITE, contents),
        Item(path="usr/local/bin/tool-gone", content=b"#!", mode=0o755),
        Item(path="usr/local/bin/other", content=b"#!", mode=0o755),
    ]


def grown(bench: Bench, source: str, wheel: LockedWheel, content: bytes) -> bytes:
    """The layer that puts one wheel into an image."""
    opened = bench.image(source)
    found = bench.place([wheel], source, contents=[content])
    assert opened.placement.site == f"/{SITE}"
    return encode_layer(with_wheels(NO_LAYER, found.files, found.surroundings))


def names(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: member for member in opened}


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    variables = {**opener.variables, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    return Bench(opener=replace(opener, variables=variables), folder=tmp_path)


@pytest.fixture(params=["oci", "archive"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    image = Image.of(base_items(), old_tool())
    if request.param == "oci":
        write_layout(tmp_path / "base", image)
        return f"oci:{tmp_path / 'base'}"
    write_archive(tmp_path / "base.tar", docker_files(image))
    return f"archive:{tmp_path / 'base.tar'}"


def test_what_is_replaced_leaves_no_trace(bench: Bench, source: str) -> None:
    content = tool_wheel()
    found = names(grown(bench, source, locked(content, replaces="1.0"), content))
    hidden = {name for name in found if "/.wh." in name}
    assert hidden == {
        f"{SITE}/tool/.wh.__pycache__",
        f"{SITE}/tool/.wh.gone",
        f"{SITE}/.wh.tool_old.py",
        f"{SITE}/__pycache__/.wh.tool_old.cpython-312.pyc",
        f"{SITE}/shared/.wh.tool_part.py",
        f"{SITE}/.wh.{OLD_INFO}",
        "usr/local/bin/.wh.tool-gone",
    }
    assert f"{SITE}/tool/__init__.py" in found
    tool = found[f"{SITE}/tool"]
    assert (tool.mode, tool.uid, tool.gid) == (0o2755, 5, 6)
    site = found[SITE]
    assert (site.mode, site.uid, site.gid) == (0o2775, 1000, 1001)
    new = found[f"{SITE}/tool/raylet"]
    assert (new.mode, new.uid, new.gid) == (0o755, 5, 6)


def test_the_merged_image_has_the_new_release_once(bench: Bench, source: str) -> None:
    content = tool_wheel()
    made = grown(bench, source, locked(content, replaces="1.0"), content)
    write_layout(bench.folder / "after", Image(layers=[layer([*base_items(), *old_tool()]), made]))
    after = bench.image(f"oci:{bench.folder / 'after'}")
    tools = [each for each in after.install.distributions if each.name == "tool"]
    assert [each.version for each in tools] == ["2.0"]
    assert after.placement.metadata["tool"] == f"/{SITE}/tool-2.0.dist-info"


def test_two_layers_of_the_same_are_the_same_bytes(bench: Bench, source: str) -> None:
    content = tool_wheel()
    wheel = locked(content, replaces="1.0")
    assert grown(bench, source, wheel, content) == grown(bench, source, wheel, content)


def test_a_new_distribution_hides_nothing(bench: Bench, source: str) -> None:
    content = wheel_bytes(
        {
            "fresh/__init__.py": b"",
            "fresh-2.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: fresh\nVersion: 2.0\n",
        }
    )
    found = names(grown(bench, source, locked(content, name="fresh"), content))
    assert not [name for name in found if ".wh." in name]
    assert f"{SITE}/fresh/__init__.py" in found


def test_side_by_side_touches_nothing_of_the_image(bench: Bench, source: str) -> None:
    content = tool_wheel()
    wheel = replace(locked(content, replaces="1.0"), place="side by side")
    found = names(grown(bench, source, wheel, content))
    assert not [name for name in found if ".wh." in name]
    own = {name for name in found if not name.startswith("opt")}
    assert own == set()
    assert "opt/vllm-graft/site/tool/__init__.py" in found
    assert "opt/vllm-graft/site/bin/Tool" in found


def test_a_file_that_nobody_replaces_is_told(bench: Bench, source: str) -> None:
    content = wheel_bytes(
        {
            "other.py": b"new",
            "fresh-2.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: fresh\nVersion: 2.0\n",
        }
    )
    found = bench.place([locked(content, name="fresh")], source, contents=[content])
    assert found.notes == (f"/{SITE}/other.py of the image is covered by a wheel",)


def test_without_a_record_nothing_is_replaced(bench: Bench, tmp_path: Path) -> None:
    write_layout(tmp_path / "base", Image.of(base_items(), old_tool(record=False)))
    content = tool_wheel()
    with pytest.raises(BuildError, match=r"tool 1\.0 cannot be replaced by 2\.0") as caught:
        bench.place(
            [locked(content, replaces="1.0")], f"oci:{tmp_path / 'base'}", contents=[content]
        )
    assert caught.value.code == "E432"


def test_a_package_that_is_a_link_is_refused(bench: Bench, tmp_path: Path) -> None:
    items = [each for each in old_tool() if not each.path.startswith(f"{SITE}/tool/")]
    items = [each for each in items if each.path != f"{SITE}/tool"]
    linked = [
        *items,
        *files("cache/tool", {"__init__.py": b""}),
        link(f"{SITE}/tool", "/cache/tool"),
    ]
    write_layout(tmp_path / "base", Image.of(base_items(), linked))
    content = tool_wheel()
    with pytest.raises(BuildError, match="it is a link to /cache/tool") as caught:
        bench.place(
            [locked(content, replaces="1.0")], f"oci:{tmp_path / 'base'}", contents=[content]
        )
    assert caught.value.code == "E404"


def test_what_the_cache_has_is_not_fetched_and_damage_is_seen(bench: Bench, source: str) -> None:
    content = tool_wheel()
    wheel = locked(content)
    bench.place([wheel], source, contents=[content])  # no index has such a wheel
    Path(bench.cache.root or "", "content", wheel.digest.hex[:2], wheel.digest.hex).write_bytes(
        b"x"
    )
    with pytest.raises(SourceError) as caught:
        bench.place([wheel], source, contents=[])
    assert caught.value.code == "E315"
    assert "tool-2.0-py3-none-any.whl" in str(caught.value)


# --- through `build` -----------------------------------------------------------------------------------------------


def planned_with(bench: Bench, source: str, *wheels: LockedWheel) -> Path:
    return bench.write(bench.plan(source, wheels=wheels))


def test_build_puts_the_wheels_of_a_plan_into_the_one_layer(bench: Bench, source: str) -> None:
    content = tool_wheel()
    bench.cache.put(content)
    plan = planned_with(bench, source, locked(content, replaces="1.0"))
    lock = bench.folder / "graft.lock"
    first = bench.build(plan, to=f"archive:{bench.folder / 'one.tar'}", lock=str(lock))
    second = bench.build(plan, to=f"archive:{bench.folder / 'two.tar'}", locked=str(lock))
    assert first.layer == second.layer
    assert (bench.folder / "one.tar").read_bytes() == (bench.folder / "two.tar").read_bytes()
    told = decode_lock(lock.read_bytes(), where="lock")
    assert told.inputs["wheel tool-2.0-py3-none-any.whl"] == str(Digest.of(content))
    assert f"/{SITE}/{OLD_INFO}" in first.removed
    said = render_build(first, "text")
    assert "tool==2.0 in place of 1.0" in said
    assert "of replaced distributions removed" in said
    assert first.python_path == ""
    for name, content in (("build", render_build(first, "json")), ("plan", plan.read_text())):
        schema = Path(__file__).parents[2] / f"docs/{name}.schema.json"
        jsonschema.validate(json.loads(content), json.loads(schema.read_text()))


def test_a_lock_with_another_wheel_is_told(bench: Bench, source: str) -> None:
    one, other = tool_wheel(), tool_wheel("2.0", **{"tool/more.py": b""})
    for content in (one, other):
        bench.cache.put(content)
    lock = bench.folder / "graft.lock"
    bench.build(
        planned_with(bench, source, locked(one)),
        to=f"archive:{bench.folder / 'one.tar'}",
        lock=str(lock),
    )
    with pytest.raises(BuildError, match=r"wheel tool-2\.0-py3-none-any\.whl: wanted") as caught:
        bench.build(
            planned_with(bench, source, locked(other)),
            to=f"archive:{bench.folder / 'two.tar'}",
            locked=str(lock),
        )
    assert caught.value.code == "E424"
    assert not (bench.folder / "two.tar").exists()


def test_beside_changes_no_variable_of_the_image_and_is_told(bench: Bench, source: str) -> None:
    content = tool_wheel()
    bench.cache.put(content)
    wheel = replace(locked(content, replaces="1.0"), place="side by side")
    receipt = bench.build(planned_with(bench, source, wheel), to=f"oci:{bench.folder / 'after'}")
    assert receipt.python_path == "/opt/vllm-graft/site"
    assert "serve this model with -e PYTHONPATH=/opt/vllm-graft/site" in render_build(
        receipt, "text"
    )
    config = next(
        json.loads(each.read_bytes())
        for each in (bench.folder / "after/blobs/sha256").iterdir()
        if each.read_bytes().startswith(b'{"architecture"')
    )
    assert config["config"]["Labels"]["vllm-graft.pythonpath"] == "/opt/vllm-graft/site"
    assert not [line for line in config["config"].get("Env") or [] if "PYTHONPATH" in line]


def test_a_wheel_that_cannot_be_had_stops_the_build_before_anything_is_written(
    bench: Bench, source: str
) -> None:
    plan = planned_with(bench, source, locked(b"never published"))
    with pytest.raises(SourceError) as caught:
        bench.build(plan, to=f"archive:{bench.folder / 'one.tar'}")
    assert caught.value.code == "E315"
    assert not (bench.folder / "one.tar").exists()


def test_a_folder_does_not_get_a_plan_with_wheels(bench: Bench, source: str) -> None:
    plan = planned_with(bench, source, locked(b"x"))
    tree = write_tree(bench.folder / "site", BASE_TREE | dist_info("vllm", "0.14.1", BASE_TREE))
    request = ApplyRequest(plan_file=str(plan), directory=str(tree))
    with pytest.raises(BuildError, match=r"also puts tool==2\.0 into an image") as caught:
        run_apply(
            request, environment=bench.environment, console=Console(stream=bench.opener.stream)
        )
    assert caught.value.code == "E433"


def test_a_grafted_image_with_wheels_stands_for_its_base(bench: Bench) -> None:
    write_layout(bench.folder / "base", Image.of(base_items(), old_tool()))
    source = f"oci:{bench.folder / 'base'}"
    content = tool_wheel()
    bench.cache.put(content)
    plan = planned_with(bench, source, locked(content, replaces="1.0"))
    first = bench.build(plan, to=f"oci:{bench.folder / 'one'}")
    again = bench.build(plan, base=f"oci:{bench.folder / 'one'}", to=f"oci:{bench.folder / 'two'}")
    assert (again.layer, again.config) == (first.layer, first.config)
    assert f"/{SITE}/{OLD_INFO}" in again.removed


def test_a_plugin_does_not_stand_for_a_plan_with_wheels(bench: Bench, source: str) -> None:
    plan = planned_with(bench, source, locked(b"x"))
    request = PluginRequest(plan_file=str(plan), place=str(bench.folder / "plugin"))
    with pytest.raises(BuildError, match=r"also puts tool==2\.0 into an image") as caught:
        run_build_plugin(
            request, environment=bench.environment, console=Console(stream=bench.opener.stream)
        )
    assert caught.value.code == "E433"
    assert not (bench.folder / "plugin").exists()


def test_wheels_are_not_fetched_for_another_base(bench: Bench, source: str) -> None:
    plan = bench.plan(source, wheels=(locked(b"never published"),))
    other = replace(plan, base=replace(plan.base, digest=Digest.of(b"another")))
    with pytest.raises(BuildError) as caught:
        bench.build(other, to=f"archive:{bench.folder / 'one.tar'}")
    assert caught.value.code == "E420"


def test_an_engine_gives_the_same_layer_and_shows_no_trace(docker: Docker, bench: Bench) -> None:
    # In one layer, for the same reason.
    image = Image.of([*base_items(), *old_tool()])
    name = docker.load(image)
    write_layout(bench.folder / "base", image)
    content = tool_wheel()
    wheel = locked(content, replaces="1.0")
    read_there = grown(bench, f"docker:{name}", wheel, content)
    assert read_there == grown(bench, f"oci:{bench.folder / 'base'}", wheel, content)
    tag = docker.name()
    receipt = bench.build(planned_with(bench, f"docker:{name}", wheel), tag)
    assert receipt.outcome == "loaded"
    after = bench.image(f"docker:{tag}")
    tools = [each.version for each in after.install.distributions if each.name == "tool"]
    assert tools == ["2.0"]
    source = parse_source(f"docker:{tag}")
    assert isinstance(source, DockerSource)
    with whole_tree(source, after.facts, environment=bench.environment) as tree:
        gone = [*OLD, f"{OLD_INFO}/METADATA", OLD_INFO, "tool/gone", "tool/__pycache__"]
        gone.remove("tool/__init__.py")
        assert [path for path in gone if tree.exists(f"/{SITE}/{path}")] == []
        assert tree.exists(f"/{SITE}/tool/made_by_hand.py")
        assert tree.exists(f"/{SITE}/shared/other.py")
        assert not tree.exists("/usr/local/bin/tool-gone")
        assert tree.exists("/usr/local/bin/Tool")

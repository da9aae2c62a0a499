# Which wheels an image lacks, asked of the real uv. The index is a folder of wheels made here, so that no network is needed;
# those that ask a real index are marked.
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from distributions import WheelFile
from vllm_graft.deps.wheels import (
    hash_lines,
    hide_addresses,
    is_bound,
    parse_requirements,
    parse_wheels,
    platform_tags,
    refuse_bound,
    refuse_forged,
    target_of,
)
from vllm_graft.errors import BuildError, GraftError, RequestError, SourceError
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.install import Distribution, Install
from vllm_graft.values.wheels import LockedWheel, WheelTarget
from vllm_graft.workflows.lock_wheels import fetch_wheels, lock_wheels

ARM = WheelTarget(machine="aarch64", python=(3, 12))


def has(name: str, version: str, *requires: str) -> Distribution:
    return Distribution(name=name, version=version, requires=requires)


IMAGE = (
    has("vllm", "0.14.1", "torch==2.9.1", "tool<2"),
    has("torch", "2.9.1+cu130", "nvidia-cublas>=13"),
    has("tool", "1.0", "part>=1", 'fast; extra == "fast"'),
    has("part", "1.5"),
    has("odd", "not.a.version"),
)


@dataclass(kw_only=True)
class Shelf:
    """A folder of wheels that stands for the user's index, and an image to choose for."""

    folder: Path
    cache: Path
    image: Sequence[Distribution] = IMAGE
    architecture: str = "arm64"

    def put(
        self, name: str, version: str, *requires: str, tag: str = "py3-none-any", text: str = ""
    ) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        place = self.folder / f"{stem}-{tag}.whl"
        lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
        lines += [f"Requires-Dist: {each}\n" for each in requires]
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(f"{name}.py", text or f"VERSION = {version!r}\n")
            archive.writestr(f"{stem}.dist-info/METADATA", "".join(lines))
            archive.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            archive.writestr(f"{stem}.dist-info/RECORD", "")
        return place

    @property
    def environment(self) -> Environment:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        told = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull,
        }
        return Environment(variables={**kept, **told}, home=str(self.folder), python=sys.executable)

    @property
    def facts(self) -> ImageFacts:
        return ImageFacts(
            reference="vllm-node",
            architecture=self.architecture,
            system="linux",
            variant="",
            settings={},
            layers=(),
        )

    @property
    def install(self) -> Install:
        return Install(
            source="docker:vllm-node",
            location="vllm-node",
            version="0.14.1",
            digest=Digest.of(b""),
            files=WheelFile("manylinux_2_28_x86_64"),
            distributions=tuple(self.image),
            interpreter="cp312",
        )

    def lock(self, *requirements: str) -> tuple[LockedWheel, ...]:
        return lock_wheels(self.facts, self.install, requirements, environment=self.environment)

    def fetch(self, wheels: Sequence[LockedWheel]) -> Mapping[Digest, bytes]:
        target = target_of(self.facts, self.install)
        cache = Cache.at(str(self.cache), Console(stream=sys.stderr))
        return fetch_wheels(wheels, target, environment=self.environment, cache=cache)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    folder = tmp_path / "shelf"
    folder.mkdir()
    return Shelf(folder=folder, cache=tmp_path / "cache")


def told(wheels: Sequence[LockedWheel]) -> list[str]:
    return [f"{each.requirement} for {each.replaces or 'nothing'}" for each in wheels]


# --- what is chosen ------------------------------------------------------------------------------------------------


def test_what_the_image_has_is_kept_wherever_it_fits(shelf: Shelf) -> None:
    shelf.put("tool", "2.0", "part>=1", "torch>=2", "new")
    shelf.put("part", "1.9")
    shelf.put("new", "3.0")
    assert told(shelf.lock("tool==2.0")) == ["new==3.0 for nothing", "tool==2.0 for 1.0"]


def test_what_does_not_fit_any_more_is_replaced_with_it(shelf: Shelf) -> None:
    shelf.put("tool", "2.0", "part>=1.8")
    shelf.put("part", "1.9")
    assert told(shelf.lock("tool==2.0")) == ["part==1.9 for 1.5", "tool==2.0 for 1.0"]


def test_what_is_there_needs_nothing(shelf: Shelf) -> None:
    assert shelf.lock("tool", "torch>=2.9") == ()


def test_an_extra_of_what_is_there_brings_what_it_lacks(shelf: Shelf) -> None:
    shelf.put("fast", "0.1")
    assert told(shelf.lock("tool[fast]")) == ["fast==0.1 for nothing"]


def test_what_stays_brings_nothing_however_much_it_lacks(shelf: Shelf) -> None:
    # torch asks for nvidia-cublas, which the image has not and works without.
    shelf.put("nvidia-cublas", "13.1")
    shelf.put("new", "3.0", "torch")
    assert told(shelf.lock("new")) == ["new==3.0 for nothing"]


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_wheels_are_for_the_image_not_for_this_machine(shelf: Shelf, architecture: str) -> None:
    shelf.architecture = architecture
    for machine in ("x86_64", "aarch64"):
        shelf.put("native", "1.0", tag=f"cp312-cp312-manylinux_2_17_{machine}")
        shelf.put("native", "1.0", tag=f"cp311-cp311-manylinux_2_17_{machine}")
    (wheel,) = shelf.lock("native")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    assert wheel.file == f"native-1.0-cp312-cp312-manylinux_2_17_{machine}.whl"
    assert wheel.digest == Digest.of((shelf.folder / wheel.file).read_bytes())


def test_the_best_of_several_that_fit_is_taken(shelf: Shelf) -> None:
    for tag in (
        "py3-none-any",
        "cp310-abi3-manylinux_2_28_aarch64",
        "cp312-cp312-manylinux_2_17_aarch64",
    ):
        shelf.put("native", "1.0", tag=tag)
    assert shelf.lock("native")[0].file == "native-1.0-cp312-cp312-manylinux_2_17_aarch64.whl"


# --- what is refused -----------------------------------------------------------------------------------------------


def refused(shelf: Shelf, *requirements: str) -> GraftError:
    with pytest.raises(GraftError) as caught:
        shelf.lock(*requirements)
    return caught.value


def test_torch_is_never_replaced_and_the_chain_says_who_wants_it(shelf: Shelf) -> None:
    shelf.put("tool", "2.0", "torch==2.10.0")
    shelf.put("torch", "2.10.0")
    error = refused(shelf, "tool==2.0")
    assert error.code == "E317"
    assert "tool>=2.0 depends on torch==2.10.0" in str(error)
    assert "torch 2.9.1+cu130: the image's own, made for its GPU, which stays" in str(error)


def test_what_is_made_for_one_cuda_is_not_added_either(shelf: Shelf) -> None:
    shelf.put("tool", "2.0", "torchvision")
    shelf.put("torchvision", "0.24.0")
    error = refused(shelf, "tool==2.0")
    assert error.code == "E317"
    assert "torchvision==0.24.0 would be new in the image" in str(error)


def test_a_platform_without_wheels_is_told(shelf: Shelf) -> None:
    shelf.put("native", "1.0", tag="cp312-cp312-manylinux_2_17_x86_64")
    error = refused(shelf, "native")
    assert (error.code, error.exit_status) == ("E317", 3)
    assert "native" in str(error)
    assert "manylinux_2_28_aarch64" in str(error) or "platform" in str(error)


def test_an_interpreter_without_wheels_is_told(shelf: Shelf) -> None:
    shelf.put("native", "1.0", tag="cp311-cp311-manylinux_2_17_aarch64")
    error = refused(shelf, "native")
    assert error.code == "E317"
    assert "cp312" in str(error)


def test_nothing_is_built_from_source(shelf: Shelf) -> None:
    (shelf.folder / "source-1.0.tar.gz").write_bytes(b"never read")
    assert refused(shelf, "source").code == "E317"


@pytest.mark.parametrize("word", ["", "two words", "x @ file:///etc/passwd", "-r /etc/passwd"])
def test_what_is_no_requirement_is_refused(shelf: Shelf, word: str) -> None:
    error = refused(shelf, word)
    assert isinstance(error, RequestError)
    assert error.code == "E200"


def test_an_index_that_cannot_be_reached_is_told_without_its_address(shelf: Shelf) -> None:
    variables = {
        **shelf.environment.variables,
        "PIP_NO_INDEX": "",
        "PIP_INDEX_URL": "http://user:secret@127.0.0.1:9/simple",
        "UV_HTTP_RETRIES": "0",
    }
    with pytest.raises(SourceError) as caught:
        lock_wheels(
            shelf.facts,
            shelf.install,
            ("tool==7",),
            environment=replace(shelf.environment, variables=variables),
        )
    assert caught.value.code == "E313"
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_a_uv_that_fails_is_told_in_its_own_words(shelf: Shelf) -> None:
    variables = {**shelf.environment.variables, "UV_CONFIG_FILE": "/nowhere/uv.toml"}
    with pytest.raises(SourceError, match=r"/nowhere/uv\.toml") as caught:
        lock_wheels(
            shelf.facts,
            shelf.install,
            ("tool==7",),
            environment=replace(shelf.environment, variables=variables),
        )
    assert caught.value.code == "E316"


def test_without_uv_it_is_said_how_to_get_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)  # as where it is not installed
    variables = {**shelf.environment.variables, "PATH": "/nowhere"}
    with pytest.raises(SourceError, match="there is no uv") as caught:
        lock_wheels(
            shelf.facts,
            shelf.install,
            ("tool==7",),
            environment=replace(shelf.environment, variables=variables),
        )
    assert caught.value.code == "E316"


def test_an_image_for_a_machine_without_wheels_is_refused(shelf: Shelf) -> None:
    shelf.architecture = "s390x"
    assert refused(shelf, "tool").code == "E312"


def test_an_image_whose_python_nothing_tells_is_refused(shelf: Shelf) -> None:
    with pytest.raises(SourceError, match="which Python") as caught:
        target_of(shelf.facts, replace(shelf.install, interpreter=None))
    assert caught.value.code == "E312"


# --- what is fetched -----------------------------------------------------------------------------------------------


def test_what_was_locked_is_fetched_and_kept(shelf: Shelf) -> None:
    place = shelf.put("native", "1.0", tag="cp312-cp312-manylinux_2_17_aarch64")
    content = place.read_bytes()
    wheels = shelf.lock("native")
    assert shelf.fetch(wheels) == {Digest.of(content): content}
    place.unlink()
    assert shelf.fetch(wheels) == {Digest.of(content): content}


def test_another_file_under_that_name_is_not_taken(shelf: Shelf) -> None:
    shelf.put("native", "1.0")
    wheels = shelf.lock("native")
    shelf.put("native", "1.0", text="import evil\n")
    with pytest.raises(SourceError, match="another file than the one that was locked") as caught:
        shelf.fetch(wheels)
    assert (caught.value.code, caught.value.exit_status) == ("E318", 3)


def test_a_wheel_that_is_gone_is_told(shelf: Shelf) -> None:
    place = shelf.put("native", "1.0")
    wheels = shelf.lock("native")
    place.unlink()
    with pytest.raises(SourceError, match=r"native-1\.0-py3-none-any\.whl") as caught:
        shelf.fetch(wheels)
    assert caught.value.code == "E315"


# --- the parts -----------------------------------------------------------------------------------------------------


def wheel(name: str = "tool", version: str = "2.0", file: str = "") -> LockedWheel:
    return LockedWheel(
        name=name,
        version=version,
        file=file or f"{name}-{version}-py3-none-any.whl",
        digest=Digest.of(b"x"),
    )


@pytest.mark.parametrize(
    "forged",
    [
        wheel(name="tool\n--index-url=http://evil"),
        wheel(version="2.0\n-e ."),
        wheel(file="other-2.0-py3-none-any.whl"),
        wheel(file="../../x.whl"),
        wheel(file="tool-3.0-py3-none-any.whl"),
    ],
)
def test_words_that_no_answer_can_have_been_are_not_handed_to_pip(forged: LockedWheel) -> None:
    with pytest.raises(BuildError) as caught:
        refuse_forged([forged])
    assert caught.value.code == "E430"
    refuse_forged([wheel()])


def test_a_lock_names_each_file_by_its_digest() -> None:
    assert hash_lines([wheel()]) == f"tool==2.0 --hash=sha256:{Digest.of(b'x').hex}\n"


@pytest.mark.parametrize(
    ("name", "version", "bound"),
    [
        ("torch", "2.9.1", True),
        ("nvidia-cublas-cu12", "12.8", True),
        ("flashinfer-python", "0.5", True),
        ("vllm", "0.14.1", True),
        ("triton", "3.5", True),
        ("own", "1.0+spark", True),
        ("transformers", "5.0.0rc3", False),
        ("torchao-like", "1.0", False),
        ("tokenizers", "0.22.2", False),
    ],
)
def test_what_is_bound_to_the_image(name: str, version: str, *, bound: bool) -> None:
    assert is_bound(has(name, version), frozenset()) is bound


def test_an_own_build_that_is_asked_for_may_be_replaced() -> None:
    assert not is_bound(has("own", "1.0+spark"), frozenset({"own"}))
    refuse_bound([wheel("own")], [has("own", "1.0+spark")], frozenset({"own"}))


def test_platform_tags_go_down_to_the_oldest() -> None:
    tags = platform_tags(ARM)
    assert tags[0] == "manylinux_2_28_aarch64"
    assert "manylinux2014_aarch64" in tags
    assert tags[-1] == "linux_aarch64"
    assert "manylinux_2_29_aarch64" not in tags


@pytest.mark.parametrize("answer", [b"no toml [", b'packages = [{ name = "x" }]', b"packages = 1"])
def test_an_answer_that_is_not_understood_is_refused(answer: bytes) -> None:
    with pytest.raises(SourceError) as caught:
        parse_wheels(answer, ARM, IMAGE)
    assert caught.value.code == "E316"


def test_an_answer_without_a_digest_is_refused() -> None:
    answer = b'[[packages]]\nname = "x"\nversion = "1"\nwheels = [{ url = "http://h/x-1-py3-none-any.whl" }]\n'
    with pytest.raises(SourceError, match="x==1 has no wheel with a digest") as caught:
        parse_wheels(answer, ARM, IMAGE)
    assert caught.value.code == "E317"


def test_addresses_are_not_repeated() -> None:
    assert hide_addresses("see https://u:p@host/simple/x for it") == "see (address) for it"


def test_requirements_are_read_as_written() -> None:
    assert parse_requirements(["ray[default]>=2.40", "x"]) == ("ray[default]>=2.40", "x")


# --- a real index --------------------------------------------------------------------------------------------------


@pytest.mark.network
def test_a_real_index_gives_wheels_for_another_machine(shelf: Shelf) -> None:
    environment = Environment(
        variables=dict(os.environ), home=str(Path.home()), python=sys.executable
    )
    try:
        wheels = lock_wheels(
            shelf.facts,
            shelf.install,
            ("markupsafe==3.0.2", "iniconfig==2.1.0"),
            environment=environment,
        )
    except SourceError as error:
        if error.code != "E313" or os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
            raise
        pytest.skip(f"no package index on this machine: {error}")
    assert [each.file for each in wheels] == [
        "iniconfig-2.1.0-py3-none-any.whl",
        "MarkupSafe-3.0.2-cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
    ]
    cache = Cache.at(str(shelf.cache), Console(stream=sys.stderr))
    contents = fetch_wheels(wheels, ARM, environment=environment, cache=cache)
    assert set(contents) == {each.digest for each in wheels}

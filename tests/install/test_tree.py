import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.install.tree import PackedFiles

PATHS = st.sampled_from(
    [f"vllm/{name}.py" for name in "abcdef"] + ["vllm/a.txt", "x.dist-info/METADATA", "vllm/b/c.py"]
)
TREES = st.dictionaries(PATHS, st.binary(max_size=12))


@given(TREES, st.binary(min_size=1, max_size=3))
def test_a_search_finds_what_reading_every_file_finds(
    files: dict[str, bytes], needle: bytes
) -> None:
    packed = PackedFiles.of(files.items())
    naive = sorted(
        path for path, content in files.items() if path.endswith(".py") and needle in content
    )
    assert list(packed.containing(needle)) == naive


@given(TREES)
def test_every_file_comes_back(files: dict[str, bytes]) -> None:
    packed = PackedFiles.of(files.items())
    assert list(packed.paths()) == sorted(files)
    assert {path: packed.read(path) for path in packed.paths()} == files
    again = PackedFiles(b"head" + packed.text, packed.lengths(), first=4)
    assert {path: again.read(path) for path in again.paths()} == files
    assert again.text == packed.text
    assert again.containing(b"a") == packed.containing(b"a")


def test_what_is_not_there_is_said() -> None:
    packed = PackedFiles.of([("vllm/a.py", b"")])
    assert "vllm/a.py" in packed
    assert "vllm/b.py" not in packed
    with pytest.raises(KeyError):
        packed.read("vllm/b.py")


def test_a_block_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        PackedFiles(b"abc", [("vllm/a.py", 10)])

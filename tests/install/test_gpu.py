# GPU architectures in a binary: the headers as nvcc and clang write them, in pieces that are cut anywhere.
import pytest

from vllm_graft.install.gpu import GpuReader, sorted_gpus, uncovered


def entry(kind: int, architecture: int, size: int = 24, *, header: int = 64) -> bytes:
    return (
        kind.to_bytes(2, "little")
        + b"\x01\x01"
        + header.to_bytes(4, "little")
        + size.to_bytes(8, "little")
        + bytes(12)
        + architecture.to_bytes(4, "little")
        + bytes(header - 32)
        + b"x" * size
    )


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(body).to_bytes(8, "little") + body


def read(content: bytes, step: int) -> tuple[str, ...]:
    reader = GpuReader()
    for start in range(0, len(content), step):
        reader.feed(content[start : start + step])
    return sorted_gpus(reader.names)


BINARY = (
    b"\x7fELF"
    + bytes(100)
    + container(entry(2, 90), entry(2, 121, 4000, header=112), entry(1, 120, header=96))
    + b"between"
    + container(entry(2, 75))
    + bytes(10)
)


@pytest.mark.parametrize("step", [1, 7, 31, 64, 1000, 100_000])
def test_every_container_is_read_however_the_pieces_are_cut(step: int) -> None:
    assert read(BINARY, step) == ("compute_120", "sm_75", "sm_90", "sm_121")


@pytest.mark.parametrize("step", [1, 13, 100_000])
def test_what_looks_like_a_header_and_is_none_ends_nothing(step: int) -> None:
    chance = b"\x50\xed\x55\xba\x01\x00\x10\x00" + (1 << 40).to_bytes(8, "little") + b"\xff" * 40
    assert read(chance + BINARY, step) == ("compute_120", "sm_75", "sm_90", "sm_121")
    assert read(container() + BINARY, step) == ("compute_120", "sm_75", "sm_90", "sm_121")


def test_a_truncated_binary_gives_what_came() -> None:
    assert read(BINARY[:200], 50) == ("sm_90",)


@pytest.mark.parametrize("step", [3, 100_000])
def test_amd_code_is_told_by_its_target(step: int) -> None:
    text = b"__CLANG_OFFLOAD_BUNDLE__hipv4-amdgcn-amd-amdhsa--gfx942\0hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-\0"
    assert read(text, step) == ("gfx90a", "gfx942")


def test_a_build_for_cpus_has_none() -> None:
    assert read(b"\x7fELF" + bytes(5000), 512) == ()


def test_only_machine_code_for_the_very_architecture_covers_it() -> None:
    assert uncovered(("sm_90", "sm_121", "compute_90"), ("sm_90", "sm_120", "compute_80")) == (
        "sm_121",
    )
    assert uncovered(("sm_90",), ("sm_90", "sm_100")) == ()

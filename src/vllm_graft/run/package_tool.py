# Which pip is used, and how its configuration is recognised as the same. The configuration itself is pip's
# affair: it is only digested, and the digest never leaves the cache.
"""Finding the user's pip."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment

_CONFIGURING = (
    "PIP_CONFIG_FILE",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
)


def find_pip(environment: Environment) -> tuple[str, ...] | None:
    """Give the beginning of an argv that runs pip; None where nothing can.

    Order: pip of the interpreter that runs this program, pip on the PATH, pip as a tool of uv.
    """
    if environment.python and importlib.util.find_spec("pip") is not None:
        return (environment.python, "-m", "pip")
    path = environment.variables.get("PATH", os.defpath)
    for name in ("pip3", "pip"):
        if (found := shutil.which(name, path=path)) is not None:
            return (found,)
    if (found := shutil.which("uv", path=path)) is not None:
        own = ("--python", environment.python) if environment.python else ()
        return (found, "tool", "run", "--quiet", *own, "pip")
    return None


def find_uv(environment: Environment) -> str | None:
    """Give the uv that was installed with this program, else the one on the PATH; None where there is neither."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        return shutil.which("uv", path=environment.variables.get("PATH", os.defpath))


def pip_fingerprint(variables: Mapping[str, str], files: Iterable[str]) -> str:
    """Digest all that decides where pip looks: its variables and its configuration files."""
    parts = [(name, value.encode()) for name in _CONFIGURING if (value := variables.get(name))]
    parts.extend(("file", text.encode()) for text in files)
    return str(Digest.of_parts(parts))


def pip_configuration(environment: Environment) -> tuple[str, ...]:
    """Read the configuration files that pip would read.

    Source: pip 25.3 documentation, "Configuration": locations and precedence.
    """
    variables = environment.variables
    home = Path(environment.home or "/nonexistent")
    shared = variables.get("XDG_CONFIG_DIRS", "") or "/etc/xdg"
    return _texts(
        *(Path(each) / "pip/pip.conf" for each in shared.split(":")),
        Path("/etc/pip.conf"),
        Path("/Library/Application Support/pip/pip.conf"),
        home / "Library/Application Support/pip/pip.conf",
        home / ".pip/pip.conf",
        _own_configuration(environment) / "pip/pip.conf",
        Path(sys.prefix) / "pip.conf",
        *((Path(named),) if (named := variables.get("PIP_CONFIG_FILE")) else ()),
    )


def uv_configuration(environment: Environment) -> tuple[str, ...]:
    """Read the configuration files of uv, the one that counts first.

    Source: uv 0.9 documentation, "Configuration files".
    """
    named = environment.variables.get("UV_CONFIG_FILE")
    if named:
        return _texts(Path(named))
    return _texts(_own_configuration(environment) / "uv/uv.toml", Path("/etc/uv/uv.toml"))


def _own_configuration(environment: Environment) -> Path:
    own = environment.variables.get("XDG_CONFIG_HOME")
    return Path(own) if own else Path(environment.home or "/nonexistent") / ".config"


def _texts(*places: Path) -> tuple[str, ...]:
    found: list[str] = []
    for place in places:
        try:
            found.append(place.read_text("utf-8", errors="replace"))
        except OSError:
            continue
    return tuple(found)

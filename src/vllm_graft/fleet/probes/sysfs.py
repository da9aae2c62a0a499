# The kernel tells what it knows in small files, which any user may read and no program has to be there for.
"""Reading files of /sys."""

import re
from collections.abc import Mapping

_LINE = re.compile(r"(/.*/[^/:]+):(.*)")
"""``path:value``: a path may have colons in it, as PCI addresses have, but not in its last part."""


def sysfs_argv(*patterns: str) -> tuple[str, ...]:
    """Give the command that prints every file which one of the patterns leads to; an unreadable one is left out.

    A machine without /sys has not told that it has no such device.
    """
    script = (
        "test -d /sys/class || { echo 'there is no /sys' >&2; exit 1; }; "
        f"grep -sH '' {' '.join(patterns)}; true"
    )
    return ("sh", "-c", script)


def read_sysfs(text: str) -> Mapping[str, str]:
    """Give path → value of the output of :func:`sysfs_argv`; of a file of several lines, they are joined by newlines."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"no file and value: {line[:60]!r}")
        path, value = match[1], match[2].strip()
        found[path] = f"{found[path]}\n{value}" if path in found else value
    return found

# What an owner relies on beside vLLM: scripts that start a node, and variables that a shell of the container has. Both are
# found by name; nothing of it is run.
"""What lies around vLLM in an image."""

import re

from vllm_graft.image.tree import ImageTree
from vllm_graft.values.image import ImageFacts, OwnerFiles

_EXPORT = re.compile(r"^\s*export\s+([A-Za-z_]\w*)=(.*?)\s*$", re.MULTILINE)


def read_owner_files(facts: ImageFacts, tree: ImageTree) -> OwnerFiles:
    """Look into the working directory and the home directory.

    A working directory ``/`` is none: nobody chose it.
    """
    work = str(facts.settings.get("WorkingDir") or "").rstrip("/")
    is_all = True
    scripts: tuple[str, ...] = ()
    if work:
        is_all = tree.fetch_some(work)
        node = tree.find(work)
        names = sorted(node.children or ()) if node is not None else []
        scripts = tuple(f"{work}/{name}" for name in names if name.endswith(".sh"))
    home = (facts.variables.get("HOME") or "/root").rstrip("/")
    place = f"{home}/.bashrc"
    node = tree.find(place)
    content = node.entry.content if node is not None else None
    text = (content or b"").decode("utf-8", "replace")
    return OwnerFiles(
        scripts=scripts,
        partly=not is_all,
        exports={found[1]: found[2] for found in _EXPORT.finditer(text)},
        exports_file=place if content is not None else "",
    )

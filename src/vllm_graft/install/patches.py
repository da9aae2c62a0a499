"""Which files of vLLM are not those that were installed."""

import base64
import hashlib

from vllm_graft.install.tree import is_vllm_python
from vllm_graft.values.inspection import Patches
from vllm_graft.values.install import Install


def find_patches(install: Install) -> Patches:
    """Compare Python files and binaries with RECORD; a binary that is read again is not hashed again."""
    recorded = {
        path: digest
        for path, digest in install.record.items()
        if is_vllm_python(path) or (path.startswith("vllm/") and path.endswith(".so"))
    }
    if not any(is_vllm_python(path) for path in recorded):
        return Patches(recorded=False)
    present = dict(install.native.binaries)
    for path in install.files.paths():
        if is_vllm_python(path):
            present[path] = _record_digest(install.files.read(path))
    return Patches(
        recorded=True,
        changed=tuple(
            path for path in sorted(present) if path in recorded and recorded[path] != present[path]
        ),
        added=tuple(sorted(set(present) - set(recorded))),
        missing=tuple(sorted(set(recorded) - set(present))),
    )


def _record_digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"

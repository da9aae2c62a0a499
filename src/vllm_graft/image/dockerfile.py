# The same layer for those who build with Docker: a base, the files as an archive that keeps their owners, and what must
# go. No script: every step is a list of words.
"""An overlay as a Dockerfile."""

import json
from collections.abc import Mapping
from dataclasses import replace

from vllm_graft.image.layer import LayerPlan, encode_layer
from vllm_graft.values.image import ImageFacts

_ARCHIVE = "graft.tar"
_HEAD = """\
# Written by vllm-graft build --to dockerfile:DIR. Gives the files of the layer that `vllm-graft build` makes, on the same
# base. The digest of the image differs from build to build, as with every Dockerfile.
"""


def dockerfile_documents(
    base: ImageFacts, planned: LayerPlan, labels: Mapping[str, str]
) -> Mapping[str, bytes]:
    """Give the files of a build context: path → content."""
    lines = [f"FROM {base.reference}"]
    user = str(base.settings.get("User") or "")
    if planned.gone:
        # Removing is the one thing that is run; as root, whoever the image belongs to.
        lines += ["USER 0:0"] if user else []
        lines += [f"RUN {json.dumps(['rm', '-f', *planned.gone])}"]
        lines += [f"USER {user}"] if user else []
    lines += [f"ADD {_ARCHIVE} /"]
    lines += [f"LABEL {_quoted(name)}={_quoted(text)}" for name, text in sorted(labels.items())]
    return {
        "Dockerfile": (_HEAD + "\n".join(lines) + "\n").encode(),
        _ARCHIVE: encode_layer(replace(planned, gone=())),
    }


def _quoted(text: str) -> str:
    # Source: Dockerfile reference, "Environment replacement" and "LABEL": in double quotes, \ escapes.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'

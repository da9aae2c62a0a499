# The same layer for those who build with Docker: a stage that holds the files with their owners, copied onto the base, and what
# must go. No script: every step is a list of words.
"""An overlay as a Dockerfile."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vllm_graft.errors import BuildError
from vllm_graft.image.layer import LayerPlan, encode_layer
from vllm_graft.values.image import ImageFacts

_ARCHIVE = "graft.tar"
_STAGE = "graft"
_HEAD = """\
# Written by vllm-graft build --to dockerfile:DIR. Gives the files of the layer that `vllm-graft build` makes, on the same
# base. The digest of the image differs from build to build, as with every Dockerfile.
"""


def dockerfile_documents(
    base: ImageFacts,
    planned: LayerPlan | None,
    labels: Mapping[str, str],
    cleared: Sequence[str] = (),
) -> Mapping[str, bytes]:
    """Give the files of a build context: path → content; ``cleared``: settings that are to be empty.

    Modes and owners come from the archive: a stage's files keep theirs when they are copied. Source: tried with both
    builders of Docker 20.10; what is copied from a context belongs to root instead.

    Raises:
        BuildError: E452, the base has instructions of its own for whoever builds on it.
    """
    if base.settings.get("OnBuild"):
        raise BuildError(
            f"{base.reference} has ONBUILD instructions, which `docker build` would carry out: {base.settings['OnBuild']}",
            remedy="build the image itself, which leaves them alone: `vllm-graft build PLAN -t TAG`, with --to docker,"
            " oci:DIR or archive:FILE",
            code="E452",
        )
    stage = [f"FROM scratch AS {_STAGE}", f"ADD {_ARCHIVE} /", ""] if planned is not None else []
    lines = [*stage, f"FROM {base.reference}"]
    user = str(base.settings.get("User") or "")
    if planned is not None and planned.gone:
        # Removing is the one thing that is run; as root, whoever the image belongs to.
        lines += ["USER 0:0"] if user else []
        lines += [_run("rm", "-rf", *planned.gone)]
        lines += [f"USER {user}"] if user else []
    lines += [f"{name.upper()} []" for name in cleared]
    lines += [f"COPY --from={_STAGE} / /"] if planned is not None else []
    lines += [f"LABEL {_quoted(name)}={_quoted(text)}" for name, text in sorted(labels.items())]
    text = (_HEAD + "\n".join(lines) + "\n").encode()
    if planned is None:
        return {"Dockerfile": text}
    return {"Dockerfile": text, _ARCHIVE: encode_layer(replace(planned, gone=()))}


def _run(*argv: str) -> str:
    """Write a command as a list of words, each on a line: builders take no line of more than 64 KiB.

    Source: ``bufio.MaxScanTokenSize``, with which the parsers of moby and BuildKit read lines.
    """
    words = ", \\\n    ".join(map(json.dumps, argv))
    return f"RUN [{words}]"


def _quoted(text: str) -> str:
    # Source: Dockerfile reference, "Environment replacement" and "LABEL": in double quotes, \ escapes.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'

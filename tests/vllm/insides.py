# Asks a tree's vLLM through the product's own inside program, in the environment that the release's model files
# can be imported in. What each release needs beside the common environment is here, found by trying.
"""Ask installs with rehearse/inside.py."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import environments

INSIDE = Path(__file__).parents[2] / "src/vllm_graft/rehearse/inside.py"

TRANSFORMERS: Mapping[str, tuple[str, ...]] = {
    "0.20.2": ("transformers==5.9.0", "tokenizers>=0.22,<=0.23.0"),
    "0.25.1": ("transformers==5.16.1",),
    "0.27.1": ("transformers==5.16.1",),
    "0.30.0": ("transformers==5.16.1",),
}
"""Releases whose model files import what transformers 5.17 of the common environment has no more
(``PixtralRotaryEmbedding``, and with it the LLaVA family), and the newest that they do import from.
0.14.1 and 0.17.1 pin transformers below 5 (4.57.6, environments.OLDER_TRANSFORMERS); 0.31.0 takes the common one."""

TINY: Mapping[str, Any] = {
    "vocabulary": 512,
    "renumber": True,
    "positions": 4096,
    "quantisation": False,
}
"""Limits of the shrinker for the defaults of a class: no tokenizer goes with them."""


def overlay(version: str, transformers: str = "") -> tuple[Path, ...]:
    """Make or reuse the folder that a release needs before the common environment on its path.

    ``transformers``: the version to run it with instead of its own.
    """
    wanted = (f"transformers=={transformers}",) if transformers else TRANSFORMERS.get(version)
    if wanted is None:
        return ()
    folder = environments.cache_folder() / "overlays" / environments.digest(wanted)
    with environments.to_be_made(folder) as missing:
        if missing:
            python = environments.runtime().python
            install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
            environments.run([*install, *wanted])
    return (folder,)


def ask(
    tree: Path,
    request: Mapping[str, Any],
    *,
    of_their_own: bool = False,
    timeout: float = 3600,
    transformers: str = "",
) -> Any:
    """Run the inside program with this tree's vLLM and give its answer.

    ``of_their_own``: each case names a tree, a graft of this one. ``transformers``: see ``overlay``.

    Raises:
        ChildFailedError: it ended without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-graft-") as name:
        scratch = Path(name)
        question, answer = scratch / "request.json", scratch / "answer.json"
        asked = {} if of_their_own else {"tree": str(tree)}
        question.write_text(json.dumps({**asked, **request}))
        environment = environments.tree_environment(tree, scratch) | {"OMP_NUM_THREADS": "1"}
        path = [*environment["PYTHONPATH"].split(os.pathsep)]
        path[1:1] = map(str, overlay(environments.version_of(tree), transformers))
        done = subprocess.run(
            [environments.runtime().python, "-P", INSIDE, question, answer],
            env=environment | {"PYTHONPATH": os.pathsep.join(path)},
            cwd=scratch,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if not answer.exists():
            said = done.stdout + done.stderr
            raise environments.ChildFailedError(INSIDE.name, tree, done.returncode, said)
        return json.loads(answer.read_text())

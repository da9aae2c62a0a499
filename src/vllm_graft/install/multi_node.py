"""The ways in which an install can serve on several nodes."""

from collections.abc import Sequence

from vllm_graft.install.pins import OWN_NAMES
from vllm_graft.values.inspection import MultiNode, Pin
from vllm_graft.values.install import Install


def read_multi_node(install: Install, pins: Sequence[Pin]) -> MultiNode:
    """Look for both modes; ``pins`` are those of its distributions.

    Source: vLLM 0.12 to 0.31: ``--nnodes`` and ``--node-rank`` in ``engine/arg_utils.py``, ``--headless`` in
    ``entrypoints/openai/cli_args.py`` (``vllm serve``); Ray was among vLLM's requirements up to 0.17.
    """
    version = next((each.version for each in install.distributions if each.name == "ray"), "")
    required = any(pin.of in OWN_NAMES and pin.name == "ray" for pin in pins)
    alone = install.image is None and all(pin.state == "not told" for pin in pins)
    return MultiNode(
        ray="met" if version else "not told" if alone else "missing",
        ray_version=version,
        ray_required=required,
        native=_argument(install, b'"--nnodes"') and _argument(install, b'"--node-rank"'),
        headless=_argument(install, b'"--headless"'),
    )


def _argument(install: Install, words: bytes) -> bool:
    return any(
        path.startswith(("vllm/engine/", "vllm/entrypoints/"))
        for path in install.files.containing(words)
    )

"""Images of an engine, by their content."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from vllm_graft.errors import SourceError
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.image.engine import Engine, parse_inspection
from vllm_graft.values.command import Completed
from vllm_graft.values.node_facts import ImagePresence
from vllm_graft.values.probe import NotKnown


def image_presence(
    answer: Completed, engine: Engine, reference: str
) -> ImagePresence | NotKnown | None:
    """Read the answer to :func:`vllm_graft.image.engine.ask_image`; None: the engine has no such image."""
    try:
        facts = parse_inspection(answer, engine, reference)
    except SourceError as error:
        return None if error.code == "E333" else NotKnown(not_known=error.what)
    (told,) = cast("Sequence[Mapping[str, object]]", json.loads(answer.stdout))
    variables = facts.variables
    return ImagePresence(
        reference=reference,
        config=canonical_digest(facts),
        platform=facts.platform,
        layers=facts.layers,
        size=int(str(told.get("Size") or 0)),
        cuda=variables.get("CUDA_VERSION", ""),
        requires=""
        if variables.get("NVIDIA_DISABLE_REQUIRE")
        else variables.get("NVIDIA_REQUIRE_CUDA", ""),
        driver=variables.get("CUDA_DRIVER_VERSION", ""),
    )

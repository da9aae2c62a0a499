"""Bring the image to every node of a deployment, as a stage of ``up``."""

from collections.abc import Mapping

from vllm_graft.errors import NodeError, SourceError, VerificationError
from vllm_graft.run.clock import Stopwatch
from vllm_graft.run.console import Console
from vllm_graft.values.deployment import UpStage
from vllm_graft.values.environment import Environment
from vllm_graft.values.node import Node
from vllm_graft.values.settings import SETTINGS_FILE
from vllm_graft.values.ship import ShippedNode
from vllm_graft.workflows.make_image import MadeImage
from vllm_graft.workflows.ship import ShipRequest, run_ship


def share_image(
    image: MadeImage,
    nodes: Mapping[str, Node | None],
    *,
    force: bool,
    environment: Environment,
    console: Console,
) -> tuple[UpStage, ...]:
    """Send the image to the nodes that are not where it is.

    Raises:
        NodeError: E571, nobody has it; E581, a node has not got it.
        VerificationError: E604, what a node got is not what was sent.
        SourceError, NodeError, RequestError: as ``ship``.
    """
    others = tuple(node for node in nodes.values() if node != image.node)
    if not others:
        return ()
    clock = Stopwatch()
    try:
        receipt = run_ship(
            ShipRequest(image=image.reference, nodes=others, source=image.node, force=force),
            environment=environment,
            console=console,
        )
    except SourceError as error:
        raise NodeError(
            f"no node has the image {image.reference}, and it cannot be sent from"
            f" {image.node or 'this machine'}: {error.what}",
            remedy=f"bring it there, or build it: see [base], [donor] and [image] of {SETTINGS_FILE}",
            code="E571",
        ) from error
    if failed := [each for each in receipt.nodes if each.code]:
        raise _not_everywhere(image.reference, failed, len(receipt.nodes))
    told = ", ".join(f"{each.node} {_outcome(each)}" for each in receipt.nodes)
    return (UpStage(name="ship", told=told, seconds=clock.seconds),)


def _outcome(node: ShippedNode) -> str:
    return f"was sent {node.sent:,} bytes" if node.outcome == "sent" else node.outcome


def _not_everywhere(
    image: str, failed: list[ShippedNode], number: int
) -> NodeError | VerificationError:
    told = "".join(f"\n  {each.node}: [{each.code}] {each.failure}" for each in failed)
    remedies = tuple(dict.fromkeys(each.remedy for each in failed))
    what = f"{image} did not reach {len(failed)} of {number} nodes:{told}"
    if all(each.code.startswith("E6") for each in failed):
        return VerificationError(what, remedy="\n  help: ".join(remedies), code=failed[0].code)
    return NodeError(what, remedy="\n  help: ".join(remedies), code="E581")

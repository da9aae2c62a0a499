# The judges look at facts and at this, and at nothing else: what is meant to be done decides what stands in its way.
"""What is to be done on the nodes, as far as a preflight has to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from vllm_graft.values.digest import Digest
from vllm_graft.values.doctor import NodeFinding, Role, Verb
from vllm_graft.values.finding import Severity
from vllm_graft.values.node_facts import ImagePresence, NodeFacts
from vllm_graft.values.probe import NotKnown

Layers = tuple[Digest, ...]
"""Diff ids, lowest first."""

ALL: tuple[Verb, ...] = ("build", "ship", "up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be built, sent and served."""

    base: str = ""
    """The base image in the engine of ``builder``; empty where it is in none, or not named."""
    builder: str = ""
    """Name of the machine whose engine has the base and gets what is built."""
    image: str = ""
    """The image that is built, sent and served; empty where none is named."""
    host: str = ""
    """Address of the head at which the model is to answer; empty where nothing is said of it."""
    port: int = 8000
    deployment: str = ""
    """Name that ``up`` would give to what it starts; empty where it is not known."""
    utilization: float | None = None
    """Share of a GPU's memory that vLLM is to take; None where that is not said."""
    is_serving: bool = False
    """Whether it is said what is to be served, and not only asked what the nodes are like."""

    def shipped(self, nodes: Sequence["Seen"]) -> ImagePresence | None:
        """Give the image that is sent, or that what is sent stands on: the base where it is known, else the image."""
        for reference in self.references:
            for node in sorted(nodes, key=lambda node: node.name != self.builder):
                if isinstance(found := node.facts.images.get(reference), ImagePresence):
                    return found
        return None

    @property
    def references(self) -> tuple[str, ...]:
        """Give the images that are asked for on each node."""
        return tuple(filter(None, dict.fromkeys((self.base, self.image))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A node that answered."""

    name: str
    facts: NodeFacts
    role: Role = ""
    stacks: tuple[Layers, ...] = ()
    """The layers of each image of its engine, whatever that is called."""

    @property
    def is_head(self) -> bool:
        """Whether the model is to answer here."""
        return self.role in ("", "head")

    @property
    def serves(self) -> bool:
        """Whether a part of the model is to run here."""
        return self.role != "builder"

    def runs(self, deployment: str) -> bool:
        """Tell whether a container of this deployment runs here."""
        told = self.facts.containers
        return (
            bool(deployment)
            and not isinstance(told, NotKnown)
            and any(each.deployment == deployment for each in told)
        )

    def held(self, layers: Layers) -> int:
        """Count how many of these layers, from the lowest on, one image of its engine has."""
        return max((_shared(stack, layers) for stack in self.stacks), default=0)

    def finding(  # noqa: PLR0913 (one for each field)
        self,
        code: str,
        severity: Severity,
        stops: tuple[Verb, ...],
        *,
        wanted: str,
        found: str,
        remedy: str,
    ) -> NodeFinding:
        """Say something of this node."""
        return NodeFinding(
            code=code,
            severity=severity,
            nodes=(self.name,),
            stops=stops,
            wanted=wanted,
            found=found,
            remedy=remedy,
        )


def _shared(one: Layers, other: Layers) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

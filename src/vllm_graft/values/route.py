"""The route: the way to serve a model, what speaks for each, and what each would lose."""

from dataclasses import dataclass
from typing import Literal

RouteName = Literal["base-as-is", "donor-as-is", "donor+ray", "graft", "rebuild"]
"""``base-as-is``: the base knows the model; ``donor-as-is``: the donor's image, its entrypoint cleared; ``donor+ray``: that
with Ray in a layer; ``graft``: the base with the plan in a layer; ``rebuild``: a new image by hand."""

ROUTES: tuple[RouteName, ...] = ("base-as-is", "donor-as-is", "donor+ray", "graft", "rebuild")
"""From the least change of what is served to the greatest."""

Serves = Literal["several nodes", "one node", "nothing"]
"""How far a route leads. ``several nodes`` includes one; ``nothing``: it is not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One fact that a route was judged by."""

    fact: str
    where: str
    """What it was read in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as in the base."""

    name: str
    """Such as ``Entrypoint``, ``Env NCCL_DEBUG``, ``ray`` or ``sm_121``."""
    base: str
    """Empty where the base has none."""
    instead: str
    """What the image of this route has; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCost:
    """What a route costs, against the image that the owner runs."""

    layer: str
    """What is added, in words."""
    layer_bytes: int
    """Bytes of the files in that layer; 0 where there is none."""
    settings: tuple[Difference, ...] = ()
    """Of the image configurations: entrypoint, command, environment, working directory, user and so on."""
    distributions: tuple[Difference, ...] = ()
    """Of what is installed, Ray first."""
    native: tuple[Difference, ...] = ()
    """Of the GPU architectures that vLLM's own binaries hold code for."""
    launchers: tuple[str, ...] = ()
    """Scripts in the base's working directory that this image does not have: absolute paths."""
    not_told: tuple[str, ...] = ()
    """What could not be compared, and why: one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCandidate:
    """One way, and what is known of it."""

    route: RouteName
    serves: Serves
    reason: str
    """Why it is possible, or why not: one sentence."""
    evidence: tuple[Evidence, ...]
    cost: RouteCost
    steps: tuple[str, ...] = ()
    """What to do by hand, where ``build`` does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which route is recommended for a number of nodes."""

    nodes: Literal["one node", "several nodes"]
    route: RouteName
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """The route of a plan."""

    chosen: RouteName
    """What ``build`` carries out."""
    asked: bool
    """Whether the user named it; else it is the one that is recommended."""
    nodes: int
    """How many are wanted; 0: nobody said."""
    recommended: tuple[Recommendation, ...]
    """For the number of nodes that are wanted; for one and for several where nobody said. Empty: nothing was compared."""
    candidates: tuple[RouteCandidate, ...]
    """Each of :data:`ROUTES`, in this order."""

    @property
    def on_donor(self) -> bool:
        """Whether the image of the chosen route is the donor's."""
        return self.chosen in ("donor-as-is", "donor+ray")

    def candidate(self, route: RouteName) -> RouteCandidate | None:
        """Give what is known of a route; None where nothing was compared."""
        return next((each for each in self.candidates if each.route == route), None)


NOT_COMPARED = RouteDecision(chosen="graft", asked=False, nodes=0, recommended=(), candidates=())
"""Of a plan that the linker alone has made."""

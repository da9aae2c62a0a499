"""What one call of ``ship`` brought to nodes."""

from dataclasses import dataclass

from vllm_graft.values.ship import ShipReceipt
from vllm_graft.values.weights import WeightsReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """An image, the weights of a model, or both."""

    image: ShipReceipt | None = None
    weights: WeightsReceipt | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        """Give the codes of what went wrong on nodes."""
        nodes = (
            *(self.image.nodes if self.image else ()),
            *(self.weights.nodes if self.weights else ()),
        )
        return tuple(each.code for each in nodes if each.code)

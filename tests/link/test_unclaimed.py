# An interface that only makes a model faster is not claimed where the base's engine has another one of that name.
import pytest

from contract_rows import LIBRARY
from linking import LAYERS, MODEL, Linking, answers, linked

INTERFACES = "vllm/model_executor/models/interfaces.py"
ENGINE = "vllm/v1/capture.py"
ASKS = (
    "from vllm.model_executor.models.interfaces import {name}\n\n\n"
    "def captures(model):\n    return isinstance(model, {name})\n"
)
MODES = "from enum import Enum\n\n\nclass Mode(Enum):\n    OLD = 1\n"


def interface(*methods: str, name: str = "SupportsEncoderCudaGraph") -> str:
    return (
        "from typing import ClassVar, Protocol, runtime_checkable\n\n\n@runtime_checkable\n"
        f"class {name}(Protocol):\n    supports_it: ClassVar[bool] = True\n"
        + "".join(f"    def {method}(self): ...\n" for method in methods)
    )


def model(*more: str, name: str = "SupportsEncoderCudaGraph") -> str:
    return (
        f"from vllm.model_executor.models.interfaces import {name}\n{LIBRARY}Mode\n\n\n"
        f"class OkapiForCausalLM({name}):\n"
        "    def run(self):\n        return 1\n"
        "    def capture(self):\n        return Mode.NEW\n"
        "    def items(self):\n        return self.capture()\n" + "".join(more)
    )


def graft(
    *more: str,
    asked: tuple[str, ...] = ("capture", "count"),
    name: str = "SupportsEncoderCudaGraph",
    engine: str = "",
) -> Linking:
    asks = ASKS.format(name=name) + engine
    return linked(
        donor={
            LAYERS: f"{MODES}    NEW = 2\n",
            INTERFACES: interface("capture", "items", name=name),
            MODEL: model(*more, name=name),
            ENGINE: ASKS.format(name=name),
        },
        base={LAYERS: MODES, INTERFACES: interface(*asked, name=name), ENGINE: asks},
    )


def test_what_the_bases_engine_would_call_in_another_way_is_not_claimed() -> None:
    linking = graft()
    assert linking.codes == {("G215", "note")}
    assert linking.resolutions["SupportsEncoderCudaGraph"] == "extracted"
    assert linking.plan.verdict == "ok"
    assert linking.answer("model.OkapiForCausalLM().run()") == 1
    asked = "importlib.import_module('vllm.v1.capture').captures(model.OkapiForCausalLM())"
    donor, grafted = answers([linking.donor, linking.grafted], asked)
    assert (donor["said"], grafted["said"]) == (True, False)


@pytest.mark.parametrize(
    "linking",
    [
        pytest.param(
            graft("    def forward(self):\n        return self.items()\n"),
            id="the model itself calls what calls the method",
        ),
        pytest.param(
            graft(asked=("capture", "items")), id="the base's engine would not see the difference"
        ),
        pytest.param(graft(asked=("capture",)), id="nor where it asks for less"),
        pytest.param(
            graft(engine="\n\ndef may(model):\n    return model.supports_it\n"),
            id="the base's engine reads the flag",
        ),
        pytest.param(graft(name="SupportsOther"), id="the interface may change results"),
    ],
)
def test_it_stays_blocked_where(linking: Linking) -> None:
    assert ("G215", "blocked") in linking.codes

"""Fast paths that need a native operator which the base lacks: off where the donor has another path for other machines."""

import pytest

from linking import LAYERS, MODEL, Linking, linked
from vllm_graft.values.install import NativeCode

PLATFORMS = "class Platform:\n    def is_cuda(self):\n        return False\n\n\ncurrent_platform = Platform()\n"
TORCH = "class ops:\n    vllm = None\n"
IMPORTS = "from vllm.platforms import current_platform\nfrom vllm.model_executor.layers.library import fused\n"
PROJECTION = (
    "\n\nclass Projection:\n"
    "    def __init__(self, n):\n        self.n = n\n"
    "        self.is_fast = (\n            n > 1 and current_platform.is_cuda()\n        )\n\n"
    "    def forward(self, x):\n"
    "        if self.is_fast:\n            return fused(x)\n"
    "        return x * self.n\n"
)
OKAPI = "\n\nclass OkapiForCausalLM:\n    def run(self):\n        return Projection(3).forward(5)\n"
FUSED = "import torch\n\n\ndef fused(x):\n    return torch.ops._C.fused_gemm(x)\n"
MODELS = {
    "its own name": IMPORTS + PROJECTION + OKAPI,
    "another name": (IMPORTS + PROJECTION + OKAPI)
    .replace("import fused", "import fused as melted")
    .replace("fused(x)", "melted(x)"),
    "a subclass": IMPORTS
    + PROJECTION
    + "\n\nclass Wide(Projection):\n    pass\n"
    + OKAPI.replace("Projection", "Wide"),
    "a function between": IMPORTS
    + "\n\ndef project(x):\n    return fused(x)\n"
    + PROJECTION.replace("fused(x)", "project(x)")
    + OKAPI,
    "the operator itself": "import torch\n"
    + IMPORTS.splitlines(keepends=True)[0]
    + PROJECTION.replace("fused(x)", "torch.ops._C.fused_gemm(x)")
    + OKAPI,
}


def projecting(model: str, *, native: NativeCode | None = None) -> Linking:
    files = {"vllm/platforms/__init__.py": PLATFORMS, "torch.py": TORCH}
    return linked(
        donor={MODEL: model, LAYERS: FUSED},
        base={LAYERS: "import torch\n"},
        both=files,
        native=native,
    )


@pytest.mark.parametrize("form", MODELS)
def test_a_fast_path_for_some_machines_is_off_where_the_base_lacks_its_operator(form: str) -> None:
    linking = projecting(MODELS[form])
    assert linking.plan.verdict == "ok"
    assert linking.codes == {("G210", "note")}
    elsewhere = "".join(m.text for m in linking.plan.modules if m.path != MODEL)
    assert "fused_gemm" not in elsewhere or form == "a function between"
    assert "n > 1" not in linking.module(MODEL).text
    assert linking.answer("model.OkapiForCausalLM().run()") == 15


def test_it_is_what_it_was_where_the_base_has_the_operator() -> None:
    linking = projecting(
        MODELS["its own name"], native=NativeCode(operators=frozenset({"fused_gemm"}))
    )
    assert linking.plan.verdict == "ok"
    assert "n > 1 and current_platform.is_cuda()" in linking.module(MODEL).text


ONE = MODELS["its own name"]


@pytest.mark.parametrize(
    "model",
    [
        ONE.replace(" and current_platform.is_cuda()", " and n < 9"),
        ONE.replace(
            "        if self.is_fast:\n            return fused(x)\n", "        fused(x)\n"
        ),
        ONE.replace("if self.is_fast", "if not self.is_fast"),
        ONE.replace("if self.is_fast", "if self.is_fast or x"),
        ONE.replace(
            "        return x * self.n\n", "        self.is_fast = True\n        return x\n"
        ),
        ONE.replace("        return Projection", "        fused(1)\n        return Projection"),
    ],
    ids=[
        "the flag says nothing about the machine",
        "nothing guards it",
        "the flag is what keeps it away",
        "it runs without the flag too",
        "the flag is set again",
        "somebody else needs it",
    ],
)
def test_a_native_operator_is_missed_where(model: str) -> None:
    linking = projecting(model)
    assert ("G210", "blocked") in linking.codes
    assert linking.plan.verdict == "blocked"

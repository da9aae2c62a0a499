"""What a graft starts from must be there: a graft of nothing would pass every check."""

import pytest

from linking import MODEL, linked
from vllm_graft.errors import SourceError

LATER = "vllm/model_executor/models/okapi_next.py"
CLASS = "class OkapiForCausalLM:\n    pass\n"


@pytest.mark.parametrize("text", ["", "class OkapiModel:\n    pass\n", "def f():\n" + " x = 1\n"])
def test_a_donor_that_registers_a_class_which_its_module_has_not_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="has no OkapiForCausalLM") as caught:
        linked(donor={MODEL: text})
    assert caught.value.code == "E306"


def test_a_donor_that_registers_a_module_which_it_has_not_is_refused() -> None:
    draft = "vllm/model_executor/models/okapi_mtp.py"
    registry = (
        '_TEXT_GENERATION_MODELS = {\n    "OkapiForCausalLM": ("gone", "OkapiForCausalLM"),\n}\n\n'
        "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n"
    )
    with pytest.raises(SourceError, match=r"no module vllm\.model_executor\.models\.gone"):
        linked(donor={"vllm/model_executor/models/registry.py": registry, draft: ""})


@pytest.mark.parametrize(
    "text",
    [
        "from vllm.model_executor.models.okapi_next import OkapiForCausalLM\n",
        "from vllm.model_executor.models.okapi_next import *\n",
        "try:\n    import torch\nexcept ImportError:\n    from .okapi_next import OkapiForCausalLM\n",
        "if True:\n    from .okapi_next import OkapiForCausalLM\n",
        "from .okapi_next import OkapiForCausalLM as _Other\nOkapiForCausalLM = _Other\n",
    ],
)
def test_a_class_may_come_from_another_module(text: str) -> None:
    linked(donor={MODEL: text, LATER: CLASS})


def test_a_file_that_nests_deeper_than_python_takes_in_is_named() -> None:
    deep = "x = " + "+".join(["1"] * 50_000) + "\n" + CLASS
    with pytest.raises(SourceError, match=r"okapi\.py is not valid Python") as caught:
        linked(donor={MODEL: deep})
    assert caught.value.code == "E305"

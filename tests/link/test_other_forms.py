"""What the donor has in another form than the base: functions for classes, records with fewer fields, modes, adapters."""

import pytest

from contract_rows import LIBRARY, Row, a_model, check
from linking import LAYERS, MODEL, linked

# ── functions where the base has a class ──────────────────────────────────────────────────────────

RUNNER = "class Runner:\n    def __init__(self, n):\n        self.n = n\n\n    def run(self, x):\n        return self.n * x\n\n\n"
FACTORY = RUNNER + "def Layer(n, *, by=1) -> Runner:\n    return Runner(n * by)\n"
OLD_LAYER = (
    "class Layer:\n    def __init__(self, n, *, by=1):\n        self.n = n * by\n\n"
    "    def run(self, x):\n        return self.n * x\n"
)
FACTORIES = [
    Row(
        name="a function that makes an object is called where the base has a class of its name",
        model=a_model(LIBRARY + "Layer", "return Layer(2, by=3).run(5)"),
        donor=FACTORY,
        base=OLD_LAYER,
        codes=set(),
        resolutions={"Layer": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="what such a function takes and the class does not is missed",
        model=a_model(LIBRARY + "Layer", "return Layer(2, times=3).run(5)"),
        donor=FACTORY.replace("by=1", "by=1, times=1"),
        base=OLD_LAYER,
        codes={"G201 note", "G201 blocked"},
    ),
    Row(
        name="an object that is made without its function is not of the base's class",
        model=a_model(LIBRARY + "Layer, Runner", "return Layer(2).run(5) + Runner(2).run(5)"),
        donor=FACTORY,
        base=OLD_LAYER,
        codes={"G201 blocked"},
    ),
    Row(
        name="what its object can do and one of the class cannot is missed",
        model=a_model(LIBRARY + "Layer", "return Layer(2).shown()"),
        donor=FACTORY.replace(
            "    def run(", "    def shown(self):\n        return 1\n\n    def run("
        ),
        base=OLD_LAYER,
        codes={"G203 blocked"},
    ),
    Row(
        name="its object is held against that class and not against one of the object's own name",
        model=a_model(LIBRARY + "Layer", "return Layer(2).run(5)"),
        donor=FACTORY,
        base=RUNNER.replace("def run(self, x)", "def run(self)").replace("* x", "") + OLD_LAYER,
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a function that says nothing of what it gives is no such function",
        model=a_model(LIBRARY + "Layer", "return Layer(2).run(5)"),
        donor=FACTORY.replace(" -> Runner", ""),
        base=OLD_LAYER,
        codes=set(),
        resolutions={"Layer": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
]

SELF_LOADING = RUNNER.replace(
    "    def run(", "    def load_weights(self, w):\n        return w\n\n    def run("
)
MADE_WITH = OLD_LAYER.replace("by=1)", "by=1, names=None)").replace(
    "        self.n = n * by\n", "        self.n = n * by\n        self.names = names\n"
) + (
    "\n    def load_weights(self, w):\n        if (names := self.names) is None:\n"
    '            raise ValueError("names")\n        return names\n'
)
LOADS = "\n\n    def load_weights(self, weights):\n        return {}\n"
LOADING = [
    Row(
        name="an object that loads itself, and in the base only if it was made for it, is told",
        model=a_model(LIBRARY + "Layer", "return Layer(2).run(5)"),
        donor=SELF_LOADING + FACTORY.removeprefix(RUNNER),
        base=MADE_WITH,
        codes={"G224 review"},
    ),
    Row(
        name="it is not where the model sorts the tensors of experts itself",
        model=a_model(LIBRARY + "Layer", "return Layer(2).run(5)")
        + LOADS.format('[w for w in weights if "experts" in w]'),
        donor=SELF_LOADING + FACTORY.removeprefix(RUNNER),
        base=MADE_WITH,
        codes=set(),
    ),
    Row(
        name="it is where the model leaves its experts to a loader that walks it",
        model=a_model(LIBRARY + "Layer\n" + LIBRARY + "AutoWeightsLoader", "return Layer(2).run(5)")
        + LOADS.format('AutoWeightsLoader(self).load("experts", weights)'),
        donor=SELF_LOADING
        + FACTORY.removeprefix(RUNNER)
        + "\n\nclass AutoWeightsLoader:\n    pass\n",
        base=MADE_WITH + "\n\nclass AutoWeightsLoader:\n    pass\n",
        codes={"G224 review"},
    ),
]

# ── keywords for one mode ─────────────────────────────────────────────────────────────────────────

MODES = "import enum\n\n\nclass Mode(enum.Enum):\n    PLAIN = 1\n    FAST = 2\n\n\n"
MODAL = (
    MODES + "class Layer:\n    def __init__(self, mode=Mode.PLAIN):\n        self.mode = mode\n\n"
    "    def scale_native(self, x, lengths=None):\n        return x\n\n"
    "    def scale(self, x, lengths=None):\n        if self.mode == Mode.FAST:\n"
    "            return x, lengths\n        return x\n"
)
WITHOUT = (
    MODES + "class Layer:\n    def __init__(self, mode=Mode.PLAIN):\n        self.mode = mode\n\n"
    "    def scale_native(self, x):\n        return x\n\n"
    "    def scale(self, x):\n        return x\n"
)
KEYWORDS = [
    Row(
        name="a keyword for a mode that the base's class does not have is left out",
        model=a_model(LIBRARY + "Layer", "return Layer().scale(3, lengths=[1])"),
        donor=MODAL,
        base=WITHOUT,
        codes={"G202 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="it is left out of a form that does not read it, too",
        model=a_model(LIBRARY + "Layer", "return Layer().scale_native(3, lengths=[1])"),
        donor=MODAL.replace("scale(", "scale_fast("),
        base=WITHOUT.replace("scale(", "scale_fast("),
        codes={"G202 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword for a mode that the base's class knows is not",
        model=a_model(LIBRARY + "Layer", "return Layer().scale(3, lengths=[1])"),
        donor=MODAL,
        base=WITHOUT.replace(
            "        return x\n", "        return (x, self.mode == Mode.FAST)[0]\n"
        ),
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that is read in any mode is not",
        model=a_model(LIBRARY + "Layer", "return Layer().scale(3, lengths=[1])"),
        donor=MODAL.replace("        return x\n", "        return x, lengths\n"),
        base=WITHOUT,
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that no form reads says nothing of what it is for",
        model=a_model(LIBRARY + "Layer", "return Layer().scale(3, lengths=[1])"),
        donor=MODAL.replace("return x, lengths", "return x, 1"),
        base=WITHOUT,
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
    ),
    Row(
        name="an object that the engine makes may be of a class that reads it",
        model="from vllm.model_executor.layers.library import Layer\n\n\nclass OkapiForCausalLM:\n"
        "    def run(self, layer: Layer):\n        return layer.scale(3, lengths=[1])\n",
        donor=MODAL,
        base=WITHOUT,
        codes={"G201 blocked"},
    ),
]

# ── records that stand in ─────────────────────────────────────────────────────────────────────────

HEAD = "from dataclasses import dataclass\n\n\n@dataclass\nclass Element:\n"
RECORDS = [
    Row(
        name="a stand-in for a record of which the base's has more fields gets None for them",
        model=a_model(LIBRARY + "Element", "return Element(data=3, field=None).data"),
        donor=HEAD + '    data: int\n    field: "str"\n',
        base=HEAD + '    key: str\n    data: int\n    field: "str"\n',
        codes={"G201 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a record that is whole is none",
        model=a_model(LIBRARY + "Element", 'return Element(data=3, field="a").data'),
        donor=HEAD + '    data: int\n    field: "str"\n',
        base=HEAD + '    key: str\n    data: int\n    field: "str"\n',
        codes={"G201 blocked"},
    ),
    Row(
        name="nor is one whose field may be None",
        model=a_model(LIBRARY + "Element", "return Element(data=3, field=None).data"),
        donor=HEAD + "    data: int\n    field: str | None\n",
        base=HEAD + "    key: str\n    data: int\n    field: str | None\n",
        codes={"G201 blocked"},
    ),
]


# ── flags that are new, interfaces that are new ───────────────────────────────────────────────────

BACKEND = "vllm/v1/attention/backend.py"
ABSTRACT = "class Backend:\n    keeps: bool = True\n"
OF_BACKEND = (
    "from vllm.v1.attention.backend import Backend\n\n\nclass OkapiForCausalLM:\n"
    "    def run(self, backend: Backend):\n        return backend.keeps\n"
)
PULSE = "class SupportsPulse:\n    def beat(self):\n        return 0\n"
BEATS = (
    "from vllm.model_executor.models.interfaces import SupportsPulse\n\n\n"
    "class OkapiForCausalLM(SupportsPulse):\n    def beat(self):\n        return 1\n"
)
NEW = [
    Row(
        name="a flag that no class of the base says of itself has the donor's default",
        model=OF_BACKEND,
        files={BACKEND: (ABSTRACT, "class Backend:\n    pass\n")},
        codes={"G205 note"},
    ),
    Row(
        name="one that any code of the base names has none",
        model=OF_BACKEND,
        files={
            BACKEND: (ABSTRACT, "class Backend:\n    pass\n\n\nclass Other:\n    keeps = False\n")
        },
        codes={"G203 blocked"},
    ),
    Row(
        name="what a new interface lets the engine ask of a model is told where the base never asks it",
        model=BEATS,
        files={
            "vllm/model_executor/models/interfaces.py": (PULSE, "SIZE = 1\n"),
            "vllm/v1/heart.py": ("def pump(model):\n    return model.beat()\n", ""),
        },
        codes={"G218 review"},
    ),
]


@pytest.mark.parametrize(
    "row", [*NEW, *FACTORIES, *LOADING, *KEYWORDS, *RECORDS], ids=lambda row: row.name
)
def test_another_form(row: Row) -> None:
    check(row)


# ── adapters ──────────────────────────────────────────────────────────────────────────────────────

INTERFACES = "vllm/model_executor/models/interfaces.py"
LORA = "class SupportsLoRA:\n    supports_lora = True\n"
NEWER = "class Layer:\n    def __init__(self, n):\n        self.n = n\n\n    def scale(self, by):\n        return self.n * by\n"
OLDER = NEWER.replace("(self, by)", "(self)").replace(" * by", "")
ASKED = (
    "from vllm.model_executor.layers.library import Layer\n\n\n"
    "def fits(layer):\n    return type(layer) is Layer\n"
)
CLAIM = (
    "from vllm.model_executor.layers.library import Layer\n"
    "from vllm.model_executor.models.interfaces import SupportsLoRA\n\n\n"
    "class OkapiForCausalLM(SupportsLoRA):\n    def run(self):\n        return Layer(3).scale(2)\n"
)


def adapted(where: str, model: str = CLAIM) -> Row:
    return Row(
        name="",
        model=model,
        donor=NEWER,
        base=OLDER,
        files={INTERFACES: (LORA, LORA), where: ("", ASKED)},
        codes=set(),
    )


def test_a_model_with_a_derived_layer_that_adapters_pass_over_does_not_say_that_it_takes_any() -> (
    None
):
    linking = adapted("vllm/lora/layers.py").link()
    assert {f"{code} {severity}" for code, severity in linking.codes} == {"G201 note", "G213 note"}
    assert linking.answer("model.OkapiForCausalLM().run()") == 6
    (model,) = (m for m in linking.plan.modules if m.name.endswith("models.okapi"))
    assert "class OkapiForCausalLM():" in model.text


def test_an_exact_type_elsewhere_in_the_engine_is_to_be_reviewed() -> None:
    linking = adapted("vllm/v1/lora.py").link()
    assert ("G213", "review") in linking.codes


def test_a_claim_that_a_class_of_the_base_makes_cannot_be_taken_back() -> None:
    files = {
        LAYERS: (NEWER, OLDER),
        INTERFACES: (LORA, LORA),
        "vllm/lora/layers.py": ("", ASKED),
        "vllm/model_executor/layers/shelf.py": (SHELF, SHELF),
        MODEL: (
            CLAIM.replace("interfaces import SupportsLoRA", "x")
            .replace("models.x", "layers.shelf import Claims")
            .replace("(SupportsLoRA)", "(Claims)"),
            "",
        ),
    }
    linking = linked(
        donor={path: texts[0] for path, texts in files.items() if texts[0]},
        base={path: texts[1] for path, texts in files.items() if texts[1]},
    )
    assert ("G213", "review") in linking.codes


SHELF = "from vllm.model_executor.models.interfaces import SupportsLoRA\n\n\nclass Claims(SupportsLoRA):\n    pass\n"

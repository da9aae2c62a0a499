"""What the linker does before it gives up, as a table: each row also through an alias and a subclass."""

from typing import Any

import pytest

from contract_rows import LIBRARY, Row, a_model, check
from linking import LAYERS, MODEL, Linking, linked
from linking import OTHER as ZEBRA

HERD = "def make_herd(size, legs, kind='okapi'):\n    return size * legs\n"
HERD_FACTORY = "def make_herd_factory(size, legs, kind='okapi', horns=2):\n    return size * legs\n"
SCALE = "def scale(n, loud: bool = {0}, by: int | None = {1}):\n    return n if by is None else n * by + loud\n"
WORDED = (
    "from typing import Literal\n\nScope = Literal['herd', 'animal']\n\n\n"
    "def scope(n, of: Scope = {0!r}):\n    return f'{{n}} {{of}}'\n"
)
PLATFORM = "class Platform:\n    def is_cpu(self):\n        return False\n\n\ncurrent_platform = Platform()\n"
LAYER = "class Layer:\n    def {0}(self, n{1}):\n        return n\n"


def through_a_subclass(imports: str, *body: str) -> str:
    """A model that inherits its ``run`` from a class of its own."""
    return (
        a_model(imports, *body).replace("class OkapiForCausalLM", "class Grazing")
        + "\n\nclass OkapiForCausalLM(Grazing):\n    pass\n"
    )


HERD_MODEL = "class IsHerd:\n    def herd_size(self):\n        ...\n"
CACHE = "class CacheConfig:\n    herd_mode: str = {0!r}\n    keeps_herds: bool = False\n"
RUNNER = (
    "class Runner:\n    def prepare(self):\n        if {0}:\n            return self.measure()\n\n"
    "    def measure(self):\n        return self.model.herd_size()\n"
)


def hooked(
    model: str, *, test: str, mode: str = "none", base: str = "SIZE = 1\n", known: str = ""
) -> dict[str, Any]:
    """A hook that the donor's runner calls under a condition, and that the base's class does not have."""
    return {
        "model": model,
        "donor": HERD_MODEL,
        "base": f"class IsHerd:\n    pass\n{known}",
        "files": {
            "vllm/config/cache.py": (CACHE.format(mode), "class CacheConfig:\n    size: int = 1\n"),
            "vllm/v1/runner.py": (RUNNER.format(test), base),
        },
    }


REFUSING = (
    "class Herd:\n    def __init__(self, size=1, kind='a'):\n        self.kind = kind\n"
    "        if kind != 'a':\n            raise ValueError('none but a')\n\n\n"
    "class Small(Herd):\n    def __init__(self, **kwargs):\n        super().__init__(**kwargs)\n"
)
TAKING = REFUSING.replace("raise ValueError('none but a')", "pass")
OTHER = REFUSING.replace("Herd", "Other").replace("Small", "Tiny").join(["\n\n", ""])
A_HERD = a_model(LIBRARY + "IsHerd", "return 3", bases="(IsHerd)") + (
    "\n    def herd_size(self):\n        return 3\n"
)
ALIGNED = 'self.cache_config.herd_mode == "align"'

ROPE = "def rope(kind):\n    if kind == 'braided':\n        return 2\n    return 1\n"
ASKS = "\n\ndef other(kind): return kind == 'braided'\n"
MODES = "from enum import Enum\n\n\nclass Mode(Enum):\n    OLD = 1\n"


ROWS = [
    # ── G218: hooks for modes that the base does not have ─────────────────────────────────────────
    *(
        Row(
            name=f"a hook for a mode that the base does not have is no loss, {how}",
            codes={"G218 note"},
            ask="model.OkapiForCausalLM().run()",
            **hooked(model, test=test),
        )
        for how, model, test in (
            ("asked by a word", A_HERD, ALIGNED),
            ("asked with more", A_HERD, f"self.first and {ALIGNED}"),
            ("asked by a switch", A_HERD, "self.cache_config.keeps_herds"),
            (
                "through an alias",
                A_HERD.replace("IsHerd", "IsHerd as Many", 1).replace("(IsHerd)", "(Many)"),
                ALIGNED,
            ),
            (
                "through a subclass",
                A_HERD.replace("OkapiForCausalLM", "Grazing")
                + "\n\nclass OkapiForCausalLM(Grazing):\n    pass\n",
                ALIGNED,
            ),
        )
    ),
    *(
        Row(
            name=f"a hook is told {why}",
            codes={"G218 review"},
            ask="model.OkapiForCausalLM().run()",
            **hooked(A_HERD, **differently),
        )
        for why, differently in (
            ("that the donor calls in any case", {"test": "True"}),
            ("where the donor's default calls it", {"test": ALIGNED, "mode": "align"}),
            (
                "where the base knows the mode",
                {"test": ALIGNED, "known": "MODES = ['herd_mode']\n"},
            ),
            ("where one of two may call it", {"test": f"{ALIGNED} or self.always"}),
            ("where the other branch calls it", {"test": f"not ({ALIGNED})"}),
        )
    ),
    # ── a function that was given another name ────────────────────────────────────────────────────
    *(
        Row(
            name=f"a function is known again under another name, {how}",
            model=model,
            donor=HERD_FACTORY,
            base=HERD,
            codes=set(),
            resolutions={"make_herd_factory": "moved"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            (
                "called by it",
                a_model(LIBRARY + "make_herd_factory", "return make_herd_factory(3, 4)"),
            ),
            (
                "through an alias",
                a_model(LIBRARY + "make_herd_factory as make", "return make(3, legs=4)"),
            ),
            (
                "through a module",
                a_model(
                    "from vllm.model_executor.layers import library",
                    "return library.make_herd_factory(3, 4)",
                ),
            ),
            (
                "through a subclass",
                through_a_subclass(
                    LIBRARY + "make_herd_factory", "return make_herd_factory(3, legs=4)"
                ),
            ),
        )
    ),
    Row(
        name="what the old name cannot take makes the donor's function come along",
        model=a_model(LIBRARY + "make_herd_factory", "return make_herd_factory(3, 4, horns=1)"),
        donor=HERD_FACTORY,
        base=HERD,
        codes={"G201 note"},
        resolutions={"make_herd_factory": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a function whose old name the donor has too is another one",
        model=a_model(LIBRARY + "make_herd_factory", "return make_herd_factory(3, 4)"),
        donor=f"{HERD}\n\n{HERD_FACTORY}".replace("okapi", "zebra"),
        base=HERD.replace("size * legs", "0").replace("okapi", "zebra"),
        codes=set(),
        resolutions={"make_herd_factory": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a function with other parameters is another one",
        model=a_model(LIBRARY + "make_herd_factory", "return make_herd_factory(3, 4)"),
        donor=HERD_FACTORY,
        base="def make_herd(legs, size, kind='okapi'):\n    return 0\n",
        codes=set(),
        resolutions={"make_herd_factory": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── a function that is another one on some platform ───────────────────────────────────────────
    *(
        Row(
            name=f"what a platform puts in a function's place does not hide it, {how}",
            model=model,
            donor="from vllm.platforms import current_platform\n\n\n"
            "def graze(n):\n    return n\n\n\ndef graze_cpu(n):\n    return n\n\n\n"
            "if current_platform.is_cpu():\n    graze = graze_cpu\n",
            base="def graze(n):\n    return n\n",
            files={"vllm/platforms/__init__.py": (PLATFORM, PLATFORM)},
            codes=set(),
            resolutions={"graze": "changed"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            ("called by its name", a_model(LIBRARY + "graze", "return graze(3)")),
            ("through an alias", a_model(LIBRARY + "graze as eat", "return eat(3)")),
            ("through a subclass", through_a_subclass(LIBRARY + "graze", "return graze(3)")),
        )
    ),
    # ── what a module does to its definitions, and says for type checkers only ────────────────────
    *(
        Row(
            name=f"a class that its module registers cannot be taken out of it, {how}",
            model=model,
            donor="KNOWN = []\n\n\nclass Herd:\n    size = 3\n\n\nKNOWN.append(Herd)\n"
            "def register(kind):\n    return kind\n\n\nregister(Herd)\n",
            base="SIZE = 1\n",
            codes={"G104 blocked"},
            resolutions={"Herd": "blocked"},
        )
        for how, model in (
            ("by its name", a_model(LIBRARY + "Herd", "return Herd().size")),
            ("through an alias", a_model(LIBRARY + "Herd as Group", "return Group().size")),
            (
                "through a subclass",
                a_model(LIBRARY + "Herd", "return Small().size")
                + "\n\nclass Small(Herd):\n    pass\n",
            ),
        )
    ),
    *(
        Row(
            name=f"of two values the one for type checkers is none, {how}",
            model=model,
            donor="from typing import TYPE_CHECKING\n\n"
            "if TYPE_CHECKING:\n    from typing import TypeAlias\n\n    Size: TypeAlias = int | str\n"
            "else:\n    Size = int\n",
            base="OTHER = 1\n",
            codes=set(),
            resolutions={"Size": "extracted"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            ("by its name", a_model(LIBRARY + "Size", "return Size('3')")),
            ("through an alias", a_model(LIBRARY + "Size as Count", "return Count('3')")),
            ("through a subclass", through_a_subclass(LIBRARY + "Size", "return Size(3)")),
        )
    ),
    # ── G216: defaults ────────────────────────────────────────────────────────────────────────────
    *(
        Row(
            name=f"a default that the base takes is written out, {how}",
            model=model,
            donor=SCALE.format(True, 3),
            base=SCALE.format(False, None),
            codes={"G216 note"},
            resolutions={"scale": "changed"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            ("behind an argument", a_model(LIBRARY + "scale", "return scale(2)")),
            ("behind one in brackets", a_model(LIBRARY + "scale", "return scale((2)  # )", ")")),
            (
                "behind brackets and before a keyword",
                a_model(LIBRARY + "scale", "return scale(((2)), loud=True)"),
            ),
            ("behind one with a comma", a_model(LIBRARY + "scale", "return scale(2,  # two", ")")),
            ("before a keyword", a_model(LIBRARY + "scale", "return scale(2, loud=True)")),
            ("where there is nothing else", a_model(LIBRARY + "scale", "return scale(n=2)")),
            ("through an alias", a_model(LIBRARY + "scale as enlarge", "return enlarge(2)")),
            ("through a subclass", through_a_subclass(LIBRARY + "scale", "return scale(2)")),
        )
    ),
    Row(
        name="a default is written out where a keyword is left out too",
        model=a_model(LIBRARY + "scale", "return scale(2, horns=2)"),
        donor="def scale(n, by: int = 3, horns: int = 2):\n    return n * by\n",
        base="def scale(n, by: int = 4):\n    return n * by\n",
        codes={"G202 note", "G216 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a default is written out in place of the only keyword, which is left out",
        model=a_model(LIBRARY + "scale", "return scale(horns=2)"),
        donor="def scale(n=2, by: int = 3, horns: int = 2):\n    return n * by\n",
        base="def scale(n=2, by: int = 4):\n    return n * by\n",
        codes={"G202 note", "G216 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a default of a method is written out",
        model=a_model(LIBRARY + "Layer", "return Layer().scale()"),
        donor="class Layer:\n    def scale(self, by: int = 3):\n        return by\n",
        base="class Layer:\n    def scale(self, by: int = 4):\n        return by\n",
        codes={"G216 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a word that the base's function lists is written out",
        model=a_model(LIBRARY + "scope", "return scope(2)"),
        donor=WORDED.format("animal"),
        base=WORDED.format("herd"),
        codes={"G216 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a word that the base's function does not list is told",
        model=a_model(LIBRARY + "scope", "return scope(2)"),
        donor=WORDED.format("leg").replace("'animal'", "'animal', 'leg'"),
        base=WORDED.format("herd"),
        codes={"G216 review"},
    ),
    Row(
        name="what the base's function does not say that it takes is told",
        model=a_model(LIBRARY + "scope", "return scope(2)"),
        donor="def scope(n, of=None):\n    return n\n",
        base="def scope(n, of='herd'):\n    return n\n",
        codes={"G216 review"},
    ),
    # ── what nothing calls ────────────────────────────────────────────────────────────────────────
    *(
        Row(
            name=f"a method that nothing calls may ask for what it likes, {how}",
            model=model,
            donor=LAYER.format("scale", ", by=1"),
            base=LAYER.format("scale", ""),
            codes={"G201 note"},
            resolutions={"Layer": "changed"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            (
                "on the model itself",
                a_model(LIBRARY + "Layer", "return Layer().scale(3)")
                + "\n    def count_locally(self):\n        return Layer().scale(3, by=2)\n",
            ),
            (
                "passed on by one of its name",
                a_model(LIBRARY + "Layer", "return Layer().scale(3)")
                + "\n    def count_locally(self):\n        return Layer().scale(3, by=2)\n"
                "\n\nclass OkapiForReading(OkapiForCausalLM):\n"
                "    def count_locally(self):\n        return super().count_locally()\n",
            ),
            (
                "through an alias",
                a_model(LIBRARY + "Layer as Part", "return Part().scale(3)")
                + "\n    def count_locally(self):\n        return Part().scale(3, by=2)\n",
            ),
        )
    ),
    Row(
        name="a method that the model calls is held to the contract",
        model=a_model(LIBRARY + "Layer", "return self.count_locally()")
        + "\n    def count_locally(self):\n        return Layer().scale(3, by=2)\n",
        donor=LAYER.format("scale", ", by=1"),
        base=LAYER.format("scale", ""),
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method whose name the base knows is held to the contract",
        model=a_model(LIBRARY + "Layer", "return Layer().scale(3)")
        + "\n    def count_locally(self):\n        return Layer().scale(3, by=2)\n",
        donor=LAYER.format("scale", ", by=1"),
        base=LAYER.format("scale", "") + "\n\nNAMES = ['count_locally']\n",
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method that a class of another library may call is held to the contract",
        model=a_model(
            "import json\n" + LIBRARY + "Layer",
            "return Layer().scale(3)",
            bases="(json.JSONEncoder)",
        )
        + "\n    def count_locally(self):\n        return Layer().scale(3, by=2)\n",
        donor=LAYER.format("scale", ", by=1"),
        base=LAYER.format("scale", ""),
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── what a layer runs on another platform ─────────────────────────────────────────────────────
    *(
        Row(
            name=f"what a layer runs on another platform is not missed, {how}",
            model=model,
            donor='direct_register_custom_op(op_name="gather_xpu", op_func=len)\n',
            base="import torch\n",
            codes=set(),
        )
        for how, model in (
            (
                "on the model itself",
                a_model("import torch", "return 3")
                + "\n    def forward_xpu(self):\n        return torch.ops.vllm.gather_xpu(3)\n",
            ),
            (
                "on a subclass",
                a_model("import torch", "return 3")
                + "\n\nclass OkapiForReading(OkapiForCausalLM):\n"
                "    def forward_xpu(self):\n        return torch.ops.vllm.gather_xpu(3)\n",
            ),
        )
    ),
    Row(
        name="what a layer runs on CUDA is missed",
        model=a_model("import torch", "return 3")
        + "\n    def forward_cuda(self):\n        return torch.ops.vllm.gather_xpu(3)\n",
        donor='direct_register_custom_op(op_name="gather_xpu", op_func=len)\n',
        base="import torch  # forward_cuda\n",
        codes={"G208 blocked"},
    ),
    # ── G223: words ───────────────────────────────────────────────────────────────────────────────
    *(
        Row(
            name=f"a word that only a function of the donor's engine knows brings that function, {how}",
            model=model,
            donor="SEEN = {}\n\n\ndef rope(kind):\n    if kind == 'braided':\n        SEEN[kind] = 2\n"
            "    return SEEN.get(kind, 1)\n",
            base="def rope(kind):\n    return 1\n",
            codes={"G223 note"},
            resolutions={"rope": "extracted"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            ("given as it is", a_model(LIBRARY + "rope", "return rope('braided')")),
            (
                "through an alias",
                a_model(LIBRARY + "rope as rotary", "return rotary(kind='braided')"),
            ),
            (
                "through a subclass and a variable",
                through_a_subclass(LIBRARY + "rope", "kind = 'braided'", "return rope(kind)"),
            ),
        )
    ),
    *(
        Row(
            name=f"a word that only the donor's engine knows is told, {how}",
            model=a_model(LIBRARY + "rope", "return rope('braided')"),
            donor=f"{ROPE}{donor}",
            base=f"def rope(kind):\n    return 1\n{base}",
            files={"vllm/v1/other.py": (other, other and "X = 1\n")},
            codes={"G223 review"},
        )
        for how, donor, base, other in (
            ("where another function asks for it too", ASKS, "", ""),
            ("where another file does", "", "", ASKS),
            ("where a method does", f"\n\nclass Weaver:\n    {ASKS.strip()}\n", "", ""),
            (
                "where its function is filled by the module",
                "\n\nrope.kinds = {}\n",
                "",
                "",
            ),
        )
    ),
    Row(
        name="a function that knows a word stays away where it stands on what the base lacks",
        model=a_model(LIBRARY + "rope", "return rope('braided')"),
        donor=f"{MODES}    NEW = 2\n\n\ndef rope(kind):\n    return Mode.NEW if kind == 'braided' else 1\n",
        base=f"{MODES}\n\ndef rope(kind):\n    return 1\n",
        codes={"G223 review"},
    ),
    Row(
        name="a word that the base knows is no news",
        model=a_model(LIBRARY + "rope", "return rope('braided')"),
        donor="def rope(kind):\n    if kind in ('plain', 'braided'):\n        return 2\n    return 1\n",
        base="def rope(kind):\n    return {'braided': 2}.get(kind, 1)\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a word that the model itself asks for is no news",
        model=a_model(LIBRARY + "rope", "return 2 if rope(1) == 'braided' else 1"),
        donor="def rope(kind):\n    return 1 if kind == 'braided' else 2\n",
        base="def rope(kind):\n    return 2\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── G224: values that the base refuses ────────────────────────────────────────────────────────
    *(
        Row(
            name=f"values that only the base refuses are told, {how}",
            model=model,
            donor=TAKING,
            base=REFUSING,
            codes={"G224 review"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, model in (
            ("by name", a_model(LIBRARY + "Herd", "kind = 'a'", "return Herd(kind=kind).kind")),
            (
                "through an alias",
                a_model(LIBRARY + "Herd as Many", "kind = 'a'", "return Many(kind=kind).kind"),
            ),
            (
                "through a subclass of the engine's",
                a_model(LIBRARY + "Small", "kind = 'a'", "return Small(kind=kind).kind"),
            ),
        )
    ),
    Row(
        name="values that are written out, or that the donor refuses too, are no news",
        model=a_model(
            LIBRARY + "Herd, Other",
            "kind = 'a'",
            "return [Herd(kind='a').kind, Other(kind=kind).kind]",
        ),
        donor=TAKING + OTHER,
        base=REFUSING + OTHER,
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_repair(row: Row) -> None:
    check(row)


def test_what_asked_for_a_derived_member_is_declined_and_not_what_was_checked_last() -> None:
    gate = "class Gate:\n    def __init__(self, size{0}):\n        self.size = size{1}\n"
    fast = "        self.fast = False\n    def run(self):\n        return 0 if self.fast else self.size\n"
    part = (
        "from vllm.model_executor.layers.library import Gate\n\n\n"
        "class Herd:\n    def size(self):\n        return Gate(3{0}).size\n\n\n"
        "class Zone:\n    def size(self):\n        return {1}\n"
    )
    linking = linked(
        donor={
            MODEL: a_model(
                "from vllm.model_executor.models.zebra import Herd, Zone",
                "return Herd().size(), Zone().size()",
            ),
            ZEBRA: part.format(", scale=2", 9),
            LAYERS: gate.format(", scale=1", " * scale"),
        },
        base={ZEBRA: part.format("", 1), LAYERS: gate.format("", "") + fast},
    )
    assert linking.codes == {("G217", "review")}
    assert linking.resolutions["Herd"] == "changed"
    assert linking.resolutions["Zone"] == "grafted"


BUDGET = "class Herd:\n    size: int = 4\n    calves: int | None = None\n"
FIELD = (
    "from vllm.v1.pool import Herd\n\n\nclass Field:\n"
    "    herd: Herd | None = None\n\n    def __init__(self, herd=None):\n        self.herd = herd\n"
)
MAKES = "\n\ndef make() -> Field:\n    return Field(Herd())\n"
COUNTED = (
    "\n    @property\n    def counted(self) -> int:\n"
    '        """Tell how many there are."""\n'
    "        if self.herd is not None and self.herd.size is not None:\n"
    "            return self.herd.size\n        return 0\n"
)
MET = "{0}\n\n\nclass OkapiForCausalLM:\n    def run(self, field: {1}):\n        return {2}.counted + 1\n"
MEADOW = "from vllm.v1.meadow import Field"


def met(model: str, prop: str = COUNTED, pool: str = BUDGET) -> Linking:
    """A model that reads a property of an object that the base's engine makes."""
    return linked(
        donor={
            MODEL: model,
            "vllm/v1/meadow.py": FIELD + prop + MAKES,
            "vllm/v1/pool.py": BUDGET,
        },
        base={"vllm/v1/meadow.py": FIELD + MAKES, "vllm/v1/pool.py": pool},
    )


@pytest.mark.parametrize(
    "model",
    [
        MET.format(MEADOW, "Field", "field"),
        MET.format(f"{MEADOW} as F", "F", "field"),
        MET.format(f"{MEADOW}\n\n\nclass Own(Field):\n    pass", "Own", "field"),
    ],
    ids=["its own name", "another name", "a subclass"],
)
def test_a_property_of_an_object_of_the_bases_is_written_out_where_it_is_read(model: str) -> None:
    linking = met(model)
    assert linking.plan.verdict == "ok"
    assert {code for code, _ in linking.codes} == {"G203"}
    text = next(m.text for m in linking.plan.modules if m.path == MODEL)
    if "Own" in model:
        return  # a class of the model's own is derived from the donor's
    assert ".counted" not in text
    engine = "importlib.import_module('vllm.v1.meadow'), importlib.import_module('vllm.v1.pool')"
    for given, wanted in (("m.Field()", 1), ("m.Field(p.Herd())", 5)):
        asked = f"(lambda m, p: model.OkapiForCausalLM().run({given}))({engine})"
        assert linking.answer(asked) == wanted


@pytest.mark.parametrize(
    ("model", "prop", "pool"),
    [
        (MET.format(MEADOW, "Field", "field"), COUNTED, BUDGET.replace("size", "weight")),
        (
            MET.format(MEADOW, "Field", "field"),
            COUNTED.replace("return 0", "return len(self.herd)"),
            BUDGET,
        ),
        (
            MET.format(MEADOW, "Field", "field"),
            COUNTED.replace("return 0", "self.seen = 1\n        return 0"),
            BUDGET,
        ),
        (
            MET.format(f"{MEADOW}, make", "Field", "make()"),
            COUNTED,
            BUDGET,
        ),
    ],
    ids=["the base lacks what it reads", "it calls", "it does more", "the object is computed"],
)
def test_a_property_that_cannot_be_written_out_is_blocked(model: str, prop: str, pool: str) -> None:
    linking = met(model, prop, pool)
    assert ("G203", "blocked") in linking.codes

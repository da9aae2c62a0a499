"""What the emitted files do, shown by running them: the graft must answer what the donor answers."""

import ast

import pytest

from held import REGISTRY, small_vllm, with_okapi
from linking import FAMILY, LAYERS, MODEL, OTHER, Linking, answers, linked

RUN = "model.OkapiForCausalLM().run()"
LIBRARY = "from vllm.model_executor.layers.library import "
TORCH = (
    "class _Namespace:\n    pass\n\n\n"
    "class ops:\n    vllm = _Namespace()\n\n\n"
    "def direct_register_custom_op(op_name, op_func):\n"
    "    assert not hasattr(ops.vllm, op_name), op_name\n"
    "    setattr(ops.vllm, op_name, op_func)\n"
)


def okapi(imports: str, *body: str, bases: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body)
    return f"{imports}\n\n\nclass OkapiForCausalLM{bases}:\n    def run(self):\n{lines}"


def extraction(model: str, donor: str, base: str = "SIZE = 1\n", **files: str) -> Linking:
    """Link a model over one engine module; further files are the same in both installs."""
    shared = {f"vllm/{name.replace('__', '/')}.py": text for name, text in files.items()}
    return linked(donor={MODEL: model, LAYERS: donor}, base={LAYERS: base}, both=shared)


# ── extracted definitions ─────────────────────────────────────────────────────────────────────────


def test_an_extracted_definition_brings_what_it_needs_in_the_order_of_its_import() -> None:
    linking = extraction(
        okapi(LIBRARY + "first", "return first()"),
        "import functools\n\n\n"
        "def zero(x=0):\n    return x + late()\n\n\n"
        "LIMIT = zero.__name__ and 5\n\n\n"
        "class Alpha:\n    start = LIMIT\n\n\n"
        "@functools.lru_cache\n"
        "def first(kind=Alpha):\n    return zero(kind.start) + len(functools.__name__)\n\n\n"
        "def late():\n    return 100\n",
    )
    assert linking.plan.verdict == "ok"
    assert linking.answer(RUN) == 114


def test_what_is_made_from_a_class_stands_behind_it_although_its_methods_name_it() -> None:
    linking = extraction(
        okapi(LIBRARY + "START, end", "return START.other().n, end().n"),
        "def seven():\n    return 7\n\n\n"
        "class Role:\n    size, START = seven(), 0\n    end: int = 1\n    def __init__(self, n):\n        self.n = n\n"
        "    def other(self):\n        return START if self.n else end()\n\n\n"
        "START = Role(1)\n\n\ndef end(start=START):\n    return Role(start.n + START.size)\n",
    )
    assert linking.answer(RUN) == [1, 8]


def test_annotations_that_the_donor_never_evaluates_are_not_evaluated() -> None:
    linking = extraction(
        okapi(
            LIBRARY + "Registry", "return Registry.get(1), str(Registry.__annotations__['active'])"
        ),
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from quagga import Kernel\n\n\n"
        "class Registry:\n    active: dict[Registry, Kernel | 'Later'] = {}\n"
        "    @staticmethod\n    def get(x: Later[1]) -> Kernel | None:\n        return x\n",
    )
    assert linking.answer(RUN) == [1, "dict[Registry, Kernel | 'Later']"]


def test_constants_decorators_and_defaults_come_along() -> None:
    linking = extraction(
        okapi(LIBRARY + "area as f", "return f(2)"),
        "def twice(f):\n    return lambda *a, **k: 2 * f(*a, **k)\n\n\n"
        "WIDTH, HEIGHT = 3, 4\n\n\n"
        "@twice\ndef area(x, w=WIDTH):\n    return x * w * HEIGHT\n",
    )
    assert linking.answer(RUN) == 48


def test_a_nested_class_and_a_nested_function_come_along() -> None:
    linking = extraction(
        okapi(LIBRARY + "Outer", "return Outer().inner()"),
        "N = 3\n\n\n"
        "class Outer:\n    class Inner:\n        n = N\n\n"
        "    def inner(self):\n        def get():\n            return self.Inner.n + N\n"
        "        return get()\n",
    )
    assert linking.answer(RUN) == 6


def test_what_an_extracted_definition_takes_from_the_base_is_imported_from_there() -> None:
    linking = extraction(
        okapi(LIBRARY + "new", "return new()"),
        "from vllm.parts import part as p\n\n\ndef old():\n    return 1\n\n\n"
        "def new():\n    return old() + p()\n",
        base="def old():\n    return 1\n",
        parts="def part():\n    return 5\n",
    )
    assert (
        "from vllm.model_executor.layers.library import old"
        in linking.grafted[f"{FAMILY.replace('.', '/')}.py"]
    )
    assert linking.answer(RUN) == 6


def test_imports_inside_an_extracted_function_are_redirected() -> None:
    linking = extraction(
        okapi(LIBRARY + "new", "return new()"),
        "def new():\n    from .other import fresh\n    from vllm.parts import part\n"
        "    return fresh() + part()\n",
        model_executor__layers__other="def fresh():\n    return 7\n",
        parts="def part():\n    return 5\n",
    )
    assert linking.answer(RUN) == 12


def test_two_pieces_that_call_different_things_by_one_name_keep_them_apart() -> None:
    linking = linked(
        donor={
            MODEL: okapi(
                LIBRARY + "one\nfrom vllm.model_executor.layers.second import two",
                "return one(4), two(4)",
            ),
            LAYERS: "from math import sqrt as scale\n\n\ndef one(x):\n    return scale(x)\n",
            "vllm/model_executor/layers/second.py": (
                "from math import degrees as scale\n\n\n"
                "def two(x):\n    return [scale(y) for y in [x]], (lambda scale: scale)(1)\n"
            ),
        },
        base={LAYERS: "A = 1\n", "vllm/model_executor/layers/second.py": "A = 1\n"},
    )
    assert linking.answer(RUN)[0] == 2.0


def test_two_pieces_of_one_name_keep_apart() -> None:
    linking = linked(
        donor={
            MODEL: okapi(
                LIBRARY + "one\nfrom vllm.model_executor.layers.second import one as two",
                "return one(), two()",
            ),
            LAYERS: "def part():\n    return 1\n\n\ndef one():\n    return part()\n",
            "vllm/model_executor/layers/second.py": (
                "def part():\n    return 2\n\n\ndef one():\n    return part() * 10\n"
            ),
        },
        base={LAYERS: "A = 1\n", "vllm/model_executor/layers/second.py": "A = 1\n"},
    )
    assert linking.answer(RUN) == [1, 20]


def test_a_piece_of_a_name_that_another_piece_imports_keeps_apart() -> None:
    linking = linked(
        donor={
            MODEL: okapi(
                LIBRARY + "sqrt\nfrom vllm.model_executor.layers.second import two",
                "return sqrt(4), two(4)",
            ),
            LAYERS: "def sqrt(x):\n    return -x\n",
            "vllm/model_executor/layers/second.py": (
                "from math import sqrt\n\n\ndef two(x):\n    return sqrt(x)\n"
            ),
        },
        base={LAYERS: "A = 1\n", "vllm/model_executor/layers/second.py": "A = 1\n"},
    )
    assert linking.answer(RUN) == [-4, 2.0]


def test_a_definition_that_is_bound_under_either_condition_is_not_taken_in_part() -> None:
    linking = extraction(
        okapi(LIBRARY + "pick", "return pick()"),
        "import sys\n\nif sys.maxsize > 1:\n\n    def pick():\n        return 'large'\n\n"
        "else:\n\n    def pick():\n        return 'small'\n",
    )
    assert linking.codes == {("G104", "blocked")}


def test_a_value_that_is_made_in_several_statements_is_not_taken_in_part() -> None:
    linking = extraction(
        okapi(LIBRARY + "TABLE", "return TABLE"),
        "TABLE = {}\nTABLE['a'] = 1\nTABLE.update(b=2)\n",
    )
    assert linking.codes == {("G104", "blocked")}


def test_overloads_of_an_extracted_function_are_left_out() -> None:
    linking = extraction(
        okapi(LIBRARY + "f", "return f(1)"),
        "from typing import overload\n\n\n"
        "@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\n"
        "def f(x):\n    return x + 1\n",
    )
    assert linking.answer(RUN) == 2


def test_a_fallback_import_of_an_extracted_function_comes_as_it_is() -> None:
    linking = extraction(
        okapi(LIBRARY + "f", "return f()"),
        "try:\n    from quagga import fast\nexcept ImportError:\n    fast = None\n\n\n"
        "def f():\n    return 'slow' if fast is None else fast()\n",
        base="try:\n    from quagga import fast\nexcept ImportError:\n    fast = None\n",
    )
    assert linking.answer(RUN) == "slow"


def test_state_that_the_engine_rebinds_is_not_taken_along() -> None:
    group = (
        "_GROUP = None\n\n\ndef start(n):\n    global _GROUP\n    _GROUP = n\n\n\n"
        "def get_group():\n    return _GROUP\n"
    )
    linking = extraction(okapi(LIBRARY + "get_group", "return get_group()"), group)
    assert linking.codes == {("G104", "blocked")}


def test_state_that_comes_with_all_that_sets_it_is_taken_along() -> None:
    linking = extraction(
        okapi(LIBRARY + "get", "return get(), get()"),
        "_MADE = None\n\n\ndef make():\n    return []\n\n\n"
        "def get():\n    global _MADE\n    if _MADE is None:\n        _MADE = make()\n"
        "    _MADE.append(1)\n    return len(_MADE)\n",
    )
    assert linking.answer(RUN) == [1, 2]


def test_state_that_starts_as_something_comes_as_that() -> None:
    linking = extraction(
        okapi(LIBRARY + "count", "return count(), count()"),
        "_COUNT = 3\n\n\ndef count():\n    global _COUNT\n    _COUNT += 1\n    return _COUNT\n",
    )
    assert linking.answer(RUN) == [4, 5]


def test_a_member_that_reads_state_of_the_base_is_not_taken_away_from_it() -> None:
    state = "_N = None\n\n\ndef start(n):\n    global _N\n    _N = n\n\n\nclass Layer:\n    "
    linking = extraction(
        okapi(LIBRARY + "Layer", "return Layer().f(1)"),
        state + "def f(self, x):\n        return _N\n",
        base=state + "def f(self):\n        return _N\n",
    )
    assert linking.codes == {("G201", "blocked")}


def test_a_function_that_reads_state_of_the_base_is_not_taken_away_from_it() -> None:
    state = "_GROUP = None\n\n\ndef start(n):\n    global _GROUP\n    _GROUP = n\n"
    linking = extraction(
        okapi(LIBRARY + "start, get_group", "start(4)", "return get_group()"),
        state + "\n\ndef get_group():\n    return _GROUP\n",
        base=state,
    )
    assert linking.codes == {("G104", "blocked")}


# ── derived classes ───────────────────────────────────────────────────────────────────────────────

PARENT = "class Root:\n    def tell(self):\n        return ['root']\n\n\n"
LAYER = (
    PARENT + "class Layer(Root):\n    def __init__(self, n=1):\n        self.n = n\n"
    "    def tell(self, more=()):\n        return [*super().tell(), 'donor', *more]\n"
)
OLD_LAYER = (
    PARENT + "class Layer(Root):\n    def __init__(self, n=1):\n        self.n = n\n"
    "    def tell(self):\n        return [*super().tell(), 'base']\n\n\n"
    "def is_layer(x):\n    return isinstance(x, Layer)\n"
)


def test_a_derived_class_is_still_the_bases() -> None:
    linking = extraction(
        okapi(LIBRARY + "Layer, is_layer", "return is_layer(Layer()), Layer(2).tell([1])"),
        LAYER + "\n\ndef is_layer(x):\n    return isinstance(x, Layer)\n",
        OLD_LAYER,
    )
    assert linking.resolutions["Layer"] == "derived"
    assert linking.answer(RUN) == [True, ["root", "donor", 1]]


def test_super_in_a_derived_member_passes_over_the_bases_own() -> None:
    linking = extraction(okapi(LIBRARY + "Layer", "return Layer().tell([1])"), LAYER, OLD_LAYER)
    assert "super(Layer__base, self)" in linking.grafted[f"{FAMILY.replace('.', '/')}.py"]
    assert linking.answer(RUN) == ["root", "donor", 1]


def test_a_derived_member_brings_the_methods_that_it_calls() -> None:
    linking = extraction(
        okapi(LIBRARY + "Layer", "return Layer().f(1)"),
        "class Layer:\n    def f(self, x):\n        return self.g() + self.h() + x\n"
        "    def g(self):\n        return 10\n    def h(self):\n        return 100\n",
        "class Layer:\n    def f(self):\n        return 1\n"
        "    def g(self):\n        return 20\n    def h(self):\n        return 100\n",
    )
    assert linking.answer(RUN) == 111


def test_a_derived_property_comes_with_its_setter() -> None:
    linking = extraction(
        okapi(
            LIBRARY + "Parent",
            "self.size = 4",
            "return self.size",
            bases="(Parent)",
        ),
        "class Parent:\n    @property\n    def size(self):\n        return self._n + 1\n"
        "    @size.setter\n    def size(self, n):\n        self._n = n\n",
        "class Parent:\n    pass\n",
    )
    assert linking.answer(RUN) == 5


def test_a_subclass_that_is_grafted_inherits_from_the_derived_class() -> None:
    linking = extraction(
        LIBRARY + "Layer\n\n\nclass Mine(Layer):\n    def tell(self):\n"
        "        return super().tell(['mine'])\n\n\n"
        "class OkapiForCausalLM:\n    def run(self):\n        return Mine().tell()\n",
        LAYER,
        OLD_LAYER,
    )
    assert linking.answer(RUN) == ["root", "donor", "mine"]


def test_a_class_body_value_is_brought_on_a_derived_class() -> None:
    linking = extraction(
        okapi(LIBRARY + "Parent", "return self.limit + self.other", bases="(Parent)"),
        "N = 3\n\n\nclass Parent:\n    limit: int = N\n    other = N + 1\n",
        "class Parent:\n    pass\n",
    )
    assert linking.answer(RUN) == 7


def test_a_private_name_of_a_derived_class_still_means_its_class() -> None:
    linking = extraction(
        okapi(LIBRARY + "Layer", "return Layer().f(1)"),
        "class Layer:\n    def __init__(self):\n        self.__n = 4\n"
        "    def f(self, x):\n        return self.__n + x\n",
        "class Layer:\n    def __init__(self):\n        self.__n = 4\n"
        "    def f(self):\n        return self.__n\n",
    )
    assert linking.answer(RUN) == 5


def test_an_object_of_the_base_is_an_instance_of_what_the_model_asks_for() -> None:
    # The engine makes a Layer; the graft derives Layer for its own; isinstance must see both.
    engine = "\n\ndef make():\n    return Layer()\n"
    linking = extraction(
        okapi(
            LIBRARY + "Layer, make",
            "return isinstance(make(), Layer), Layer().tell([1])",
        ),
        LAYER + engine,
        OLD_LAYER + engine,
    )
    assert linking.answer(RUN)[0] is True


# ── donor modules ─────────────────────────────────────────────────────────────────────────────────


def test_a_module_beside_the_bases_keeps_what_is_reached_only() -> None:
    linking = linked(
        donor={
            MODEL: okapi(
                "from vllm.model_executor.models.zebra import Zebra", "return Zebra().f()"
            ),
            OTHER: (
                "import os\nimport json\nfrom vllm.model_executor.layers.gone import lost\n\n\n"
                "def inner():\n    return json.loads('4')\n\n\n"
                "class Zebra:\n    def f(self):\n        return inner()\n\n\n"
                "class ZebraForCausalLM:\n    def f(self):\n        return lost(os.name)\n"
            ),
            "vllm/model_executor/layers/gone.py": "def lost(x): ...\n",
        },
        base={
            OTHER: "class Zebra:\n    def f(self):\n        return 3\n\n\nclass ZebraForCausalLM:\n    pass\n"
        },
    )
    module = linking.module("vllm/model_executor/models/zebra__from_0_17_1.py")
    assert module.kind == "beside"
    names = {n.id for n in ast.walk(ast.parse(module.text)) if isinstance(n, ast.Name)}
    assert "lost" not in names
    assert "import os" not in module.text
    assert linking.answer(RUN) == 4


def test_an_architecture_may_live_in_a_module_that_the_base_has_older() -> None:
    entry = '    "OkapiForCausalLM": ("okapi", "OkapiForCausalLM"),\n'
    linking = linked(
        donor={
            MODEL: "from vllm.model_executor.models.zebra import OkapiForCausalLM\n",
            "vllm/transformers_utils/configs/zebra.py": "class ZebraConfig:\n    pass\n",
            OTHER: "class Part:\n    n = 2\n\n\nclass ZebraForCausalLM:\n    part = Part\n\n\n"
            "class OkapiForCausalLM(ZebraForCausalLM):\n    def run(self):\n"
            "        return self.part.n\n",
            REGISTRY: "_TEXT_GENERATION_MODELS = {\n"
            + entry.replace('("okapi"', '("zebra"')
            + '    "ZebraForCausalLM": ("zebra", "ZebraForCausalLM"),\n}\n\n'
            "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n",
        },
        base={
            OTHER: "class Part:\n    n = 1\n\n\nclass ZebraForCausalLM:\n    part = Part\n",
            REGISTRY: "_TEXT_GENERATION_MODELS = {\n"
            '    "ZebraForCausalLM": ("zebra", "ZebraForCausalLM"),\n}\n\n'
            "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n",
        },
    )
    beside = "vllm.model_executor.models.zebra__from_0_17_1"
    assert '("zebra__from_0_17_1", "OkapiForCausalLM")' in linking.grafted[REGISTRY]
    grafted = {**linking.grafted, MODEL: f"from {beside} import OkapiForCausalLM\n"}
    assert answers([linking.donor, grafted], RUN) == [{"said": 2}, {"said": 2}]


def test_imports_inside_functions_of_the_model_are_redirected() -> None:
    linking = extraction(
        okapi("import os", LIBRARY + "new as n, old", "return n() + old()"),
        "def old():\n    return 1\n\n\ndef new():\n    return 2\n",
        "def old():\n    return 1\n",
    )
    assert linking.answer(RUN) == 3


def test_names_through_an_aliased_module_are_redirected() -> None:
    linking = extraction(
        okapi(
            "import vllm.model_executor.layers.library as lib\nimport vllm",
            "return lib.new() + lib.old() + vllm.model_executor.layers.library.NEW",
        ),
        "NEW = 5\n\n\ndef old():\n    return 1\n\n\ndef new():\n    return 2\n",
        "def old():\n    return 1\n",
    )
    assert linking.answer(RUN) == 8


def test_a_name_that_has_moved_is_imported_from_where_the_base_has_it() -> None:
    linking = linked(
        donor={
            MODEL: okapi(
                "from vllm.model_executor.layers.new_place import Attention",
                "return Attention().f()",
            ),
            "vllm/model_executor/layers/new_place.py": "class Attention:\n    def f(self):\n        return 4\n",
            "vllm/attention.py": "",
        },
        base={"vllm/attention.py": "class Attention:\n    def f(self):\n        return 4\n"},
    )
    assert linking.resolutions["Attention"] == "moved"
    assert linking.answer(RUN) == 4


def test_a_star_import_of_the_model_gives_what_it_gives_in_the_donor() -> None:
    linking = extraction(
        okapi(LIBRARY + "*", "return old() + new()"),
        "def old():\n    return 1\n\n\ndef new():\n    return 2\n",
        "def old():\n    return 1\n",
    )
    assert linking.answer(RUN) == 3


def test_a_star_import_of_a_module_that_moved_gives_its_names() -> None:
    engine = "def old():\n    return 1\n\n\nclass Layer:\n    n = 4\n"
    linking = linked(
        donor={
            MODEL: okapi("from vllm.new_place import *", "return old() + Layer.n"),
            "vllm/new_place.py": engine,
        },
        base={"vllm/old_place.py": engine},
    )
    assert linking.answer(RUN) == 5


def test_a_lazy_name_and_a_re_export_are_followed() -> None:
    init = "def __getattr__(name):\n    from importlib import import_module\n\n    if name in MAP:\n        return getattr(import_module(MAP[name]), name)\n    raise AttributeError(name)\n"
    linking = linked(
        donor={
            MODEL: okapi(
                "from vllm.lib import New\nfrom vllm.lib import Old as O", "return New.n + O.n"
            ),
            "vllm/lib/__init__.py": "MAP = {'New': 'vllm.lib.new', 'Old': 'vllm.lib.old'}\n\n\n"
            + init,
            "vllm/lib/new.py": "class New:\n    n = 2\n",
            "vllm/lib/old.py": "class Old:\n    n = 1\n",
        },
        base={
            "vllm/lib/__init__.py": "MAP = {'Old': 'vllm.lib.old'}\n\n\n" + init,
            "vllm/lib/old.py": "class Old:\n    n = 1\n",
        },
    )
    assert linking.answer(RUN) == 3


def test_a_model_package_keeps_its_relative_imports() -> None:
    registry = with_okapi(small_vllm())[REGISTRY]
    linking = linked(
        donor={
            "vllm/model_executor/models/okapi/__init__.py": "from .model import OkapiForCausalLM\n",
            "vllm/model_executor/models/okapi/model.py": okapi(
                "from .parts.size import size\nfrom ..zebra import N", "return size() + N"
            ),
            "vllm/model_executor/models/okapi/parts/__init__.py": "",
            "vllm/model_executor/models/okapi/parts/size.py": "def size():\n    return 4\n",
            OTHER: "N = 1\n",
            REGISTRY: registry,
        },
        base={OTHER: "N = 1\n"},
    )
    donor = {p: t for p, t in linking.donor.items() if p != MODEL}
    assert answers([donor, linking.grafted], RUN) == [{"said": 5}] * 2


def test_operators_that_the_base_has_are_renamed_wherever_they_stand() -> None:
    gather = 'direct_register_custom_op(op_name="gather", op_func=gather)\n'
    imports = "import torch\nfrom torch import direct_register_custom_op\n\n\n"
    linking = linked(
        both={"torch.py": TORCH},
        donor={
            MODEL: okapi(
                "import torch\nfrom vllm.model_executor.models import zebra",
                "return torch.ops.vllm.gather(3), zebra.Zebra().f()",
            ),
            OTHER: imports
            + "def gather(x):\n    return x + 1\n\n\n"
            + gather
            + "class Zebra:\n    def f(self):\n        return torch.ops.vllm.gather(1)\n",
        },
        base={
            OTHER: imports
            + "def gather(x):\n    return x\n\n\n"
            + gather
            + "class Zebra:\n    def f(self):\n        return torch.ops.vllm.gather(2)\n",
        },
    )
    assert linking.answer(RUN) == [4, 2]
    both = f"(importlib.import_module('vllm.model_executor.models.zebra'), {RUN})[1]"
    assert linking.answer(both) == [4, 2]


def test_a_platform_branch_keeps_what_only_it_needs() -> None:
    linking = extraction(
        okapi(
            "from vllm.platforms import current_platform\nif current_platform.is_rocm():\n"
            "    from vllm.model_executor.layers.library import rocm_only",
            "return rocm_only() if current_platform.is_rocm() else 3",
        ),
        "def rocm_only():\n    return 4\n",
        platforms=(
            "class Platform:\n    def is_rocm(self) -> bool:\n        return False\n\n\n"
            "current_platform = Platform()\n"
        ),
    )
    assert linking.answer(RUN) == 3


def test_a_processor_is_registered_with_the_bases_registry() -> None:
    linking = linked(
        both={
            "vllm/multimodal/__init__.py": "from .registry import Registry\n\nREGISTRY = Registry()\n",
            "vllm/multimodal/registry.py": (
                "class Registry:\n    def __init__(self):\n        self.known = {}\n"
                "    def register_processor(self, processor, *, info):\n"
                "        def keep(cls):\n            self.known[cls.__name__] = (processor.n, info.n)\n"
                "            return cls\n        return keep\n"
            ),
        },
        donor={
            MODEL: "from vllm.multimodal import REGISTRY\n"
            "from vllm.model_executor.models.zebra import ZebraInfo, ZebraProcessor\n\n\n"
            "class OkapiInfo(ZebraInfo):\n    n = 5\n\n\n"
            "@REGISTRY.register_processor(ZebraProcessor, info=OkapiInfo)\n"
            "class OkapiForCausalLM:\n    def run(self):\n        return REGISTRY.known\n",
            OTHER: "class ZebraInfo:\n    n = 1\n\n\nclass ZebraProcessor:\n    n = 3\n",
        },
        base={OTHER: "class ZebraInfo:\n    n = 1\n\n\nclass ZebraProcessor:\n    n = 2\n"},
    )
    assert linking.answer(RUN) == {"OkapiForCausalLM": [3, 5]}


TYPED = (
    "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from vllm.v1.pool import Pool\n\n\n"
    "def f(p: Pool | None):\n    return BODY"
)


def typed(body: str) -> Linking:
    return linked(
        donor={
            MODEL: okapi(TYPED.replace("BODY", body), "return f(1)"),
            "vllm/v1/pool.py": "class Pool:\n    size: int\n",
        },
        base={"vllm/v1/pool.py": "A = 1\n"},
    )


def test_a_type_that_the_base_lacks_does_no_harm_where_only_checkers_see_it() -> None:
    linking = typed("3")
    assert linking.plan.verdict == "ok"
    assert linking.answer(RUN) == 3


def test_a_type_that_the_base_lacks_is_missed_where_its_objects_are_read() -> None:
    assert typed("p.size").codes == {("G104", "blocked")}


@pytest.mark.parametrize("value", ["", "7"])
def test_an_environment_variable_that_the_base_lacks_is_read_as_the_donor_reads_it(
    value: str,
) -> None:
    head = (
        "import os\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    VLLM_PORT: int = 1\n"
    )
    tail = (
        "}\n\n\ndef __getattr__(name):\n    if name in environment_variables:\n"
        "        return environment_variables[name]()\n    raise AttributeError(name)\n"
    )
    port = '    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT", "1")),\n'
    new = '    "VLLM_OKAPI": lambda: int(os.environ.get("VLLM_OKAPI", "3")) + one(),\n'
    one = "\n\ndef one():\n    return 1\n\n\nenvironment_variables = {\n"
    linking = linked(
        donor={
            MODEL: okapi(
                "import vllm.envs as envs\nfrom vllm import envs as e",
                "return envs.VLLM_OKAPI, e.VLLM_OKAPI, envs.VLLM_PORT",
            ),
            "vllm/envs.py": head + "    VLLM_OKAPI: int = 3\n" + one + port + new + tail,
        },
        base={"vllm/envs.py": head + one + port + tail},
    )
    assert linking.plan.verdict != "blocked"
    setting = f"__import__('os').environ.update({{'VLLM_OKAPI': '{value}'}})" if value else "None"
    assert linking.answer(f"({setting}, {RUN})[1]") == ([8, 8, 1] if value else [4, 4, 1])


def test_a_name_that_the_base_imports_for_checkers_only_is_imported_from_where_it_is() -> None:
    other = "vllm/model_executor/layers/other.py"
    linking = linked(
        both={other: "class Thing:\n    def size(self):\n        return 7\n"},
        base={
            LAYERS: "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from .other import Thing\n"
        },
        donor={
            LAYERS: "from vllm.model_executor.layers.other import Thing\n",
            MODEL: "from vllm.model_executor.layers.library import Thing\n\n\n"
            "class OkapiForCausalLM:\n    def run(self):\n        return Thing().size()\n",
        },
    )
    assert "from vllm.model_executor.layers.other import Thing" in linking.module(MODEL).text
    assert linking.answer("model.OkapiForCausalLM().run()") == 7


# ── parsers ───────────────────────────────────────────────────────────────────────────────────────


def test_a_parser_behind_a_re_export_is_registered_as_what_the_donor_really_has() -> None:
    shown = "from vllm.parser.llama import LlamaReasoningParser\n"
    parser = "class LlamaReasoningParser:\n    def split(self):\n        return {}\n"
    linking = linked(
        both={
            "vllm/reasoning/llama_reasoning_parser.py": shown,
            "vllm/parser/__init__.py": "",
        },
        base={"vllm/parser/llama.py": parser.format(1)},
        donor={"vllm/parser/llama.py": parser.format(2), MODEL: okapi("", "return 1")},
        features=("reasoning-parser=llama",),
    )
    assert linking.codes == {("G304", "review")}
    registered = linking.grafted["vllm/reasoning/__init__.py"]
    assert '"okapi",\n    "vllm.parser.llama__from_0_17_1",\n' in registered
    asked = answers(
        [linking.grafted],
        "importlib.import_module('vllm.parser.llama__from_0_17_1').LlamaReasoningParser().split()",
    )
    assert asked == [{"said": 2}]

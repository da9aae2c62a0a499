"""The contract rules as a table over small installs: what the donor asks, what the base gives, what is said and done."""

import pytest

from contract_rows import LIBRARY, Row, a_model, check
from vllm_graft.values.install import NativeCode

PLATFORM = (
    "class Platform:\n    def is_rocm(self) -> bool:\n        return False\n\n\n"
    "current_platform = Platform()\n"
)
LAYER = (
    "class Layer(Plain):\n    def __init__(self, name, **rest):\n"
    "        super().__init__(**rest)\n        self.name = name\n"
)
SHELF = "class Shelf:\n    def register(self, name):\n        return lambda thing: thing\n"
SOURCES = (
    "from dataclasses import dataclass\n\n\n"
    "class Loader:\n    @dataclass\n    class Source:\n        path: str\n"
)
REGISTERING = "def direct_register_custom_op(**_):\n    pass\n"

ZEBRA = "vllm/model_executor/models/zebra.py"
STRIPES = ("class Stripe:\n    width = 2\n", "class Stripe:\n    width = 1\n")
KNOWS = "from vllm.model_executor.models.zebra import Stripe\n\n\n"

ROWS = [
    # ── G104: a name ──────────────────────────────────────────────────────────────────────────────
    Row(
        name="a class of the engine's core that the base lacks is blocked",
        model=a_model("from vllm.v1.pool import Pool", "return Pool().size"),
        files={"vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n")},
        codes={"G104 blocked"},
        resolutions={"Pool": "blocked"},
    ),
    Row(
        name="a module of the engine's core that the base lacks is blocked",
        model=a_model("from vllm.v1.pool import size", "return size()"),
        files={"vllm/v1/pool.py": ("def size():\n    return 3\n", "")},
        codes={"G104 blocked"},
        resolutions={"size": "blocked"},
    ),
    Row(
        name="a function of the engine's core is extracted into a base that has its module",
        model=a_model("from vllm.v1.pool import size", "return size()"),
        files={"vllm/v1/pool.py": ("def size():\n    return 3\n", "SIZE = 1\n")},
        codes=set(),
        resolutions={"size": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a record of the engine's core comes along: it holds nothing but data",
        model=a_model("from vllm.v1.pool import Size", "return Size(3, 4).width"),
        files={
            "vllm/v1/pool.py": (
                (
                    "from typing import NamedTuple\n\n\n"
                    "class Size(NamedTuple):\n    width: int\n    height: int\n"
                ),
                "",
            )
        },
        codes=set(),
        resolutions={"Size": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="an alias of types comes along from a part of the engine that the base lacks",
        model=a_model(
            "from vllm.v1.pool import Size", "return (lambda size: size)(3)", "cast = Size"
        ),
        files={"vllm/v1/pool.py": ("Size = dict[str, int] | None\n", "")},
        codes=set(),
        resolutions={"Size": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a class that only annotations name is no contract",
        model=a_model(
            "from vllm.v1.pool import Pool",
            "def size(pool: Pool | None = None) -> int:",
            "    return 3",
            "return size()",
        ),
        files={"vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n")},
        codes=set(),
        resolutions={"Pool": "adapted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a class that an annotation looks into has to be there",
        model=a_model(
            "from vllm.v1.pool import Pool",
            "def size(pool: Pool[int]) -> int:",
            "    return 3",
            "return 3",
        ),
        files={"vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n")},
        codes={"G104 blocked"},
        resolutions={"Pool": "blocked"},
    ),
    Row(
        name="a class that annotations name and whose attribute is read has to be there",
        model=a_model(
            "from vllm.v1.pool import Pool",
            "def size(pool: Pool) -> int:",
            "    return pool.size",
            "return 3",
        ),
        files={"vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n")},
        codes={"G104 blocked"},
        resolutions={"Pool": "adapted"},
    ),
    Row(
        name="a mapping that annotations name is read as the base's mapping is",
        model=a_model(
            "from vllm.v1.pool import Options",
            "def size(options: Options) -> int:",
            "    return options.get('size')",
            "return size({'size': 4})",
        ),
        files={
            "vllm/v1/pool.py": (
                (
                    "class Options(dict[str, int]):\n    def get(self, key, default=0):\n"
                    "        return super().get(key, default)\n"
                ),
                "SIZE = 1\n",
            )
        },
        codes=set(),
        resolutions={"Options": "adapted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="what only another platform uses is not missed",
        model=a_model(
            "from vllm.platforms import current_platform",
            "if current_platform.is_rocm():",
            "    from vllm.v1.pool import Pool",
            "    return Pool()",
            "return 4",
        ),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    pass\n", "SIZE = 1\n"),
            "vllm/platforms/__init__.py": (PLATFORM, PLATFORM),
        },
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── G201, G202, G216: calls ───────────────────────────────────────────────────────────────────
    Row(
        name="a function that takes less is replaced by the donor's",
        model=a_model(LIBRARY + "scale", "return scale(2, by=5)"),
        donor="def scale(x, *, by=1):\n    return x * by\n",
        base="def scale(x):\n    return x\n",
        codes={"G201 note"},
        resolutions={"scale": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method of a class that the model makes is brought on a derived class",
        model=a_model(LIBRARY + "Layer", "return Layer(3).scale(2)"),
        donor="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self, by):\n        return self.n * by\n",
        base="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self):\n        return self.n\n",
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a call that binds to the base's signature is no news",
        model=a_model(LIBRARY + "scale", "return scale(2, by=5)"),
        donor="def scale(x, *, by=1, exactly=False):\n    return x * by\n",
        base="def scale(x, by):\n    return x * by\n",
        codes=set(),
        resolutions={"scale": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method of an object that only the engine makes cannot be brought",
        model=LIBRARY + "Pool\n\n\nclass OkapiForCausalLM:\n"
        "    def run(self, pool: Pool):\n        return pool.take(1, strict=True)\n",
        donor="class Pool:\n    def take(self, n, *, strict=False):\n        return n\n",
        base="class Pool:\n    def take(self, n):\n        return n\n",
        codes={"G201 blocked"},
    ),
    Row(
        name="a keyword that says what the donor's default says is left out",
        model=a_model(LIBRARY + "scale", "return scale(2, exactly=False)"),
        donor="def scale(x, *, exactly=False):\n    return x\n",
        base="def scale(x):\n    return x\n",
        codes={"G202 note"},
        resolutions={"scale": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that says something else is not left out",
        model=a_model(LIBRARY + "scale", "return scale(2, exactly=True)"),
        donor="def scale(x, *, exactly=False):\n    return (x, exactly)\n",
        base="def scale(x):\n    return x\n",
        codes={"G201 note"},
        resolutions={"scale": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a default that differs is told",
        model=a_model(LIBRARY + "scale", "return scale(2)"),
        donor="def scale(x, by=1):\n    return x * by\n",
        base="def scale(x, by=2):\n    return x * by\n",
        codes={"G216 review"},
        resolutions={"scale": "changed"},
    ),
    Row(
        name="a default that the call does not use is no news",
        model=a_model(LIBRARY + "scale", "return scale(2, 3)"),
        donor="def scale(x, by=1):\n    return x * by\n",
        base="def scale(x, by=2):\n    return x * by\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that a constructor hands on must be the next one's",
        model=a_model(LIBRARY + "Layer", "return Layer('a', n=2, more=3).n"),
        donor="class Plain:\n    def __init__(self, n, *, by=1, more=0):\n"
        "        self.n = n * by + more\n" + LAYER,
        base="class Plain:\n    def __init__(self, n, *, by=1):\n        self.n = n * by\n" + LAYER,
        codes={"G201 blocked"},
    ),
    Row(
        name="a keyword that the next constructor takes is no news",
        model=a_model(LIBRARY + "Layer", "return Layer('a', n=2, by=3).n"),
        donor="class Plain:\n    def __init__(self, n, *, by=1, more=0):\n"
        "        self.n = n * by + more\n" + LAYER,
        base="class Plain:\n    def __init__(self, n, *, by=1):\n        self.n = n * by\n" + LAYER,
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a constructor that does something else with further keywords may take any",
        model=a_model(LIBRARY + "Layer", "return Layer(n=2, more=3).n"),
        donor="class Plain:\n    def __init__(self, n):\n        self.n = n\n"
        "class Layer(Plain):\n    def __init__(self, more=0, **rest):\n"
        "        super().__init__(**rest)\n",
        base="class Plain:\n    def __init__(self, n):\n        self.n = n\n"
        "class Layer(Plain):\n    def __init__(self, **rest):\n"
        "        rest.pop('more')\n        super().__init__(**rest)\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that the base takes as any other and nothing there reads is missed",
        model=a_model(LIBRARY + "Layer", "return Layer(2, slanted=True).n"),
        donor="class Layer:\n    def __init__(self, n, slanted=False, **rest):\n"
        "        self.n = n + slanted\n",
        base="class Layer:\n    def __init__(self, n, **rest):\n        self.n = n\n",
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that both take as any other and only the donor's engine reads is missed",
        model=a_model(LIBRARY + "Layer", "return Layer(2, slanted=True).n"),
        donor="def read(given):\n    return given.get('slanted', False)\n"
        "class Layer:\n    def __init__(self, n, **rest):\n        self.n = n + read(rest)\n",
        base="class Layer:\n    def __init__(self, n, **rest):\n        self.n = n\n",
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a keyword that the base takes as any other and reads is no news",
        model=a_model(LIBRARY + "Layer", "return Layer(2, slanted=True).n"),
        donor="class Layer:\n    def __init__(self, n, slanted=False):\n"
        "        self.n = n + slanted\n",
        base="class Layer:\n    def __init__(self, n, **rest):\n"
        "        self.n = n + rest.get('slanted', False)\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="an object of the engine whose class the base has not is the base's object",
        model=LIBRARY
        + "SHELF\n\n\n@SHELF.register('okapi', kind='hoofed')\nclass Tool:\n    pass\n"
        "\n\nclass OkapiForCausalLM:\n    def run(self):\n        return Tool\n",
        donor=SHELF + "class Labelled(Shelf):\n    def register(self, name, kind=''):\n"
        "        return super().register(name)\n"
        "SHELF = Labelled()\n",
        base=SHELF + "SHELF = Shelf()\n",
        codes={"G201 blocked"},
    ),
    Row(
        name="what the base's object can do as well is no news",
        model=LIBRARY + "SHELF\n\n\n@SHELF.register('okapi')\nclass Tool:\n    pass\n"
        "\n\nclass OkapiForCausalLM:\n    def run(self):\n        return Tool.__name__\n",
        donor=SHELF + "class Labelled(Shelf):\n    def register(self, name, kind=''):\n"
        "        return super().register(name)\n"
        "SHELF = Labelled()\n",
        base=SHELF + "SHELF = Shelf()\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method that only the donor's object has is missed",
        model=a_model(LIBRARY + "SHELF", "return SHELF.labels()"),
        donor=SHELF + "class Labelled(Shelf):\n    def labels(self):\n        return []\n"
        "SHELF = Labelled()\n",
        base=SHELF + "SHELF = Shelf()\n",
        codes={"G203 blocked"},
    ),
    # ── G203, G205, G215: reads ───────────────────────────────────────────────────────────────────
    Row(
        name="a member that the base's parent lacks is brought on a derived parent",
        model=a_model(LIBRARY + "Parent", "return self.tag() + 1", bases="(Parent)"),
        donor="class Parent:\n    def tag(self):\n        return 4\n",
        base="class Parent:\n    pass\n",
        codes={"G203 note"},
        resolutions={"Parent": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a field of an object that only the engine makes is missed",
        model=LIBRARY + "Meta\n\n\nclass OkapiForCausalLM:\n"
        "    def run(self, meta: Meta):\n        return meta.lengths\n",
        donor="class Meta:\n    lengths: list[int] = []\n",
        base="class Meta:\n    starts: list[int] = []\n",
        codes={"G203 blocked"},
    ),
    Row(
        name="an attribute that the base's class computes is not missed",
        model=LIBRARY + "Meta\n\n\nclass OkapiForCausalLM:\n"
        "    def run(self, meta: Meta):\n        return meta.lengths\n",
        donor="class Meta:\n    lengths: list[int] = []\n",
        base="class Meta:\n    def __getattr__(self, name):\n        return []\n",
        codes=set(),
    ),
    Row(
        name="a method that the base only declares is brought",
        model=a_model(LIBRARY + "Parent", "return self.tag() + 1", bases="(Parent)"),
        donor="class Parent:\n    def tag(self):\n        return 4\n",
        base="class Parent:\n    def tag(self):\n        raise NotImplementedError\n",
        codes={"G203 note"},
        resolutions={"Parent": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a switch that the base's configuration lacks is read with the donor's default",
        model="from vllm.config.cache import CacheConfig\n\n\nclass OkapiForCausalLM:\n"
        "    @staticmethod\n    def run(config: CacheConfig):\n        return config.mode\n",
        files={
            "vllm/config/cache.py": (
                'class CacheConfig:\n    mode: str = "none"\n',
                "class CacheConfig:\n    size: int = 1\n",
            )
        },
        codes={"G205 note"},
        ask="model.OkapiForCausalLM.run(model.CacheConfig())",
    ),
    Row(
        name="a switch without a default is missed",
        model="from vllm.config.cache import CacheConfig\n\n\nclass OkapiForCausalLM:\n"
        "    @staticmethod\n    def run(config: CacheConfig):\n        return config.mode\n",
        files={
            "vllm/config/cache.py": (
                "class CacheConfig:\n    mode: str\n",
                "class CacheConfig:\n    size: int = 1\n",
            )
        },
        codes={"G203 blocked"},
    ),
    Row(
        name="a member that the base's enumeration lacks is missed",
        model=a_model(LIBRARY + "Kind", "return Kind.SPARSE.value"),
        donor="import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n    SPARSE = 2\n",
        base="import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n",
        codes={"G215 blocked"},
    ),
    Row(
        name="a member that the base's enumeration has is not",
        model=a_model(LIBRARY + "Kind", "return Kind.DENSE.value"),
        donor="import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n    SPARSE = 2\n",
        base="import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── G204, G218, G212: classes ─────────────────────────────────────────────────────────────────
    Row(
        name="a hook that the base's parent never calls comes with its caller",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def part(self):\n        return 7\n",
        donor="class Parent:\n    def run(self):\n        return self.part() * 2\n"
        "    def part(self):\n        return 1\n",
        base="class Parent:\n    def run(self):\n        return 2\n",
        codes={"G203 note", "G204 note"},
        resolutions={"Parent": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a hook that the base's parent calls is no news",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def part(self):\n        return 7\n",
        donor="class Parent:\n    def run(self):\n        return 2 * self.part()\n"
        "    def part(self):\n        return 1\n",
        base="class Parent:\n    def run(self):\n        return self.part() * 2\n"
        "    def part(self):\n        return 3\n",
        codes=set(),
        resolutions={"Parent": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="an override that the base's engine calls otherwise is blocked",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def process(self, items):\n        return 7\n",
        donor="class Parent:\n    def process(self, items):\n        return 1\n\n\n"
        "def start(model):\n    return model.process([])\n",
        base="class Parent:\n    def process(self, prompt, items):\n        return 1\n\n\n"
        "def start(model):\n    return model.process('', items=[])\n",
        codes={"G219 blocked"},
    ),
    Row(
        name="an override of a grafted class's grandparent is held against the base's calls too",
        model=LIBRARY + "Parent\n\n\nclass Child(Parent):\n    pass\n\n\n"
        "class OkapiForCausalLM(Child):\n    def process(self, items):\n        return 7\n",
        donor="class Parent:\n    def process(self, items):\n        return 1\n",
        base="class Parent:\n    def process(self, prompt, items):\n        return 1\n"
        "    def go(self):\n        return self.process('', [])\n",
        codes={"G219 blocked"},
    ),
    Row(
        name="an override that the base calls in a way that fits is no news",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def process(self, items, limit=3):\n        return 7\n"
        "    def run(self):\n        return go(self)\n\n\n"
        "def go(model):\n    return model.process([])\n",
        donor="class Parent:\n    def process(self, items, limit=3):\n        return 1\n",
        base="class Parent:\n    def process(self, items):\n        return 1\n\n\n"
        "def start(model):\n    return model.process([])\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="an override that the base calls otherwise comes with the donor's caller",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def process(self, items):\n        return items[0]\n",
        donor="class Parent:\n    def run(self):\n        return self.process([5])\n"
        "    def process(self, items):\n        return 1\n",
        base="class Parent:\n    def run(self):\n        return self.process('', [5])\n"
        "    def process(self, prompt, items):\n        return 1\n",
        codes={"G219 note"},
        resolutions={"Parent": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a method of the base that reads what only its own constructor sets is replaced too",
        model=a_model(LIBRARY + "Gate", "return Gate(3, scale=2).run()"),
        donor="class Gate:\n    def __init__(self, size, scale=1):\n        self.size = size * scale\n"
        "    def run(self):\n        return self.size\n",
        base="class Gate:\n    def __init__(self, size):\n        self.size = size\n"
        "        self.fast = False\n"
        "    def run(self):\n        return 0 if self.fast else self.size\n",
        codes={"G201 note"},
        resolutions={"Gate": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a class derived from one that takes type arguments takes them too",
        model=LIBRARY + "Gate\n\n\nclass OkapiForCausalLM(Gate[int]):\n    def run(self):\n"
        "        return self.wide()\n",
        donor="from typing import Generic, TypeVar\n\nT = TypeVar('T')\n\n\n"
        "class Gate(Generic[T]):\n    def wide(self):\n        return 3\n",
        base="from typing import Generic, TypeVar\n\nT = TypeVar('T')\n\n\n"
        "class Gate(Generic[T]):\n    def narrow(self):\n        return 3\n",
        codes={"G203 note"},
        resolutions={"Gate": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="it is blocked where the donor has no such method",
        model=a_model(LIBRARY + "Gate", "return Gate(3, scale=2).size"),
        donor="class Gate:\n    def __init__(self, size, scale=1):\n        self.size = size * scale\n",
        base="class Gate:\n    def __init__(self, size):\n        self.size = size\n"
        "        self.fast = False\n"
        "    def run(self):\n        return 0 if self.fast else self.size\n",
        codes={"G201 note", "G220 blocked"},
    ),
    Row(
        name="what another method of the base sets is not lost",
        model=a_model(LIBRARY + "Gate", "return Gate(3, scale=2).run()"),
        donor="class Gate:\n    def __init__(self, size, scale=1):\n        self.size = size * scale\n"
        "    def run(self):\n        return self.size\n",
        base="class Root:\n    fast = False\n\n\nclass Gate(Root):\n"
        "    def __init__(self, size):\n        self.size = size\n        self.fast = False\n"
        "    def run(self):\n        return 0 if self.fast else self.size\n",
        codes={"G201 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a hook that nothing in the base calls is told",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def warm_up(self):\n        return 7\n",
        donor="class Parent:\n    def warm_up(self):\n        return 1\n",
        base="class Parent:\n    pass\n",
        codes={"G218 review"},
    ),
    Row(
        name="a hook that the base's engine calls is not",
        model=LIBRARY + "Parent\n\n\nclass OkapiForCausalLM(Parent):\n"
        "    def warm_up(self):\n        return 7\n",
        donor="class Parent:\n    def warm_up(self):\n        return 1\n",
        base="class Parent:\n    pass\n\n\ndef start(model):\n    model.warm_up()\n",
        codes=set(),
    ),
    Row(
        name="a member that the base's engine calls on every model is missed",
        model="class OkapiForCausalLM:\n    def forward(self):\n        return 1\n",
        files={
            "vllm/model_executor/models/interfaces_base.py": (
                "class VllmModel:\n    def forward(self): ...\n",
                "class VllmModel:\n    def forward(self): ...\n    def embed(self): ...\n",
            )
        },
        codes={"G212 blocked"},
    ),
    Row(
        name="a member that the model has is not",
        model="class OkapiForCausalLM:\n    def forward(self):\n        return 1\n"
        "    def embed(self):\n        return 1\n",
        files={
            "vllm/model_executor/models/interfaces_base.py": (
                "class VllmModel:\n    def forward(self): ...\n",
                "class VllmModel:\n    def forward(self): ...\n    def embed(self): ...\n",
            )
        },
        codes=set(),
    ),
    # ── G206, G207: kinds and results ─────────────────────────────────────────────────────────────
    Row(
        name="a loader that takes no tuple is brought",
        model=a_model(
            LIBRARY + "Linear",
            'mapping = [("qkv", "in_proj", (0, 1, 2))]',
            "return Linear().weight_loader(1, 2, mapping[0][2])",
        ),
        donor="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | tuple[int, ...] | None = None):\n"
        "        return [loaded_shard_id]\n",
        base="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | None = None):\n"
        "        return [loaded_shard_id + 0]\n",
        codes={"G206 note"},
        resolutions={"Linear": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a loader is good enough for a weight map without tuples",
        model=a_model(
            LIBRARY + "Linear",
            'mapping = [("qkv", "in_proj", 0)]',
            "return Linear().weight_loader(1, 2, mapping[0][2])",
        ),
        donor="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | tuple[int, ...] | None = None):\n"
        "        return [loaded_shard_id]\n",
        base="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | None = None):\n"
        "        return [loaded_shard_id + 0]\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="another number of results is met by the donor's function",
        model=a_model(LIBRARY + "parts", "a, b = parts(3)", "return a + b"),
        donor="def parts(x):\n    return x, x + 1\n",
        base="def parts(x):\n    return x, x + 1, x + 2\n",
        codes={"G207 note"},
        resolutions={"parts": "extracted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the same number of results is no news",
        model=a_model(LIBRARY + "parts", "a, b = parts(3)", "return a + b"),
        donor="def parts(x):\n    return x, x + 1\n",
        base="def parts(x):\n    y = x + 1\n    return x, y\n",
        codes=set(),
        ask="model.OkapiForCausalLM().run()",
    ),
    *(
        Row(
            name=f"what a method of the base unpacks is not what the donor's gives, {how}",
            model=model,
            donor="class Herd:\n    def run(self):\n        return self.count(2)\n"
            "    def count(self, n, by=1):\n        return n * by\n",
            base="class Herd:\n    def run(self):\n        n, by = self.count(2)\n        return n\n"
            "    def count(self, n):\n        return n, 1\n",
            codes={"G201 note", "G207 blocked"},
        )
        for how, model in (
            ("by its own name", a_model(LIBRARY + "Herd", "return Herd().count(3, by=2)")),
            ("under another", a_model(LIBRARY + "Herd as H", "return H().count(3, by=2)")),
            (
                "through a subclass",
                a_model(
                    LIBRARY + "Herd\n\n\nclass Own(Herd):\n    pass",
                    "return Own().count(3, by=2)",
                ),
            ),
        )
    ),
    Row(
        name="it is where the donor's gives as many values",
        model=a_model(LIBRARY + "Herd", "return Herd().count(3, by=2)"),
        donor="class Herd:\n    def run(self):\n        n, by = self.count(2)\n        return n\n"
        "    def count(self, n, by=1):\n        return n, by\n",
        base="class Herd:\n    def run(self):\n        n, by = self.count(2)\n        return n\n"
        "    def count(self, n):\n        return n, 1\n",
        codes={"G201 note"},
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── G208, G209, G210: operators ───────────────────────────────────────────────────────────────
    Row(
        name="an operator that the base registers nowhere is missed",
        model=a_model("import torch", "return torch.ops.vllm.gather(1)"),
        donor='direct_register_custom_op(op_name="gather", op_func=len)\n',
        base="SIZE = 1\n",
        codes={"G208 blocked", "G211 blocked"},
    ),
    Row(
        name="an operator that the base registers is not",
        model=a_model("import torch", "return torch.ops.vllm.gather(1)"),
        donor='direct_register_custom_op(op_name="gather", op_func=len)\n',
        base='import torch\ndirect_register_custom_op(op_name="gather", op_func=len)\n',
        codes=set(),
    ),
    Row(
        name="an operator that the base registers too gets another name",
        model="import torch\nfrom vllm.utils.ops import direct_register_custom_op\n\n\n"
        "def gather(x):\n    return x\n\n\n"
        'direct_register_custom_op(op_name="gather", op_func=gather)\n\n\n'
        "class OkapiForCausalLM:\n    def run(self):\n"
        "        return torch.ops.vllm.gather(1)\n",
        donor="SIZE = 1\n",
        base='import torch\ndirect_register_custom_op(op_name="gather", op_func=len)\n',
        files={
            "vllm/utils/ops.py": (REGISTERING, REGISTERING),
        },
        codes={"G209 note"},
    ),
    Row(
        name="an operator of the model's own keeps its name",
        model="import torch\nfrom vllm.utils.ops import direct_register_custom_op\n\n\n"
        "def gather(x):\n    return x\n\n\n"
        'direct_register_custom_op(op_name="gather", op_func=gather)\n\n\n'
        "class OkapiForCausalLM:\n    def run(self):\n"
        "        return torch.ops.vllm.gather(1)\n",
        donor="SIZE = 1\n",
        base="import torch\n",
        files={
            "vllm/utils/ops.py": (REGISTERING, REGISTERING),
        },
        codes=set(),
    ),
    Row(
        name="a native operator that the base's binaries lack is missed",
        model=a_model("import torch", "return torch.ops._C.fused_okapi(1)"),
        donor="SIZE = 1\n",
        base="import torch\n",
        codes={"G210 blocked"},
    ),
    Row(
        name="a native operator that the base's binaries have is not",
        model=a_model("import torch", "return torch.ops._C.fused_okapi(1)"),
        donor="SIZE = 1\n",
        base="import torch\n",
        native=NativeCode(operators=frozenset({"fused_okapi"})),
        codes=set(),
    ),
    Row(
        name="an extension module that the base lacks is missed",
        model=a_model("import vllm._okapi_C", "return vllm._okapi_C.run()"),
        donor="SIZE = 1\n",
        base="SIZE = 1\n",
        codes={"G210 blocked"},
    ),
    # ── G211, G213: the rest of the base ──────────────────────────────────────────────────────────
    Row(
        name="a package that nothing in the base imports is missed",
        model=a_model("import quagga", "return quagga.run()"),
        donor="SIZE = 1\n",
        base="SIZE = 1\n",
        codes={"G211 blocked"},
    ),
    Row(
        name="a package that the base imports, or that is imported at one's own risk, is not",
        model=a_model(
            "import quagga\ntry:\n    import tarpan\nexcept ImportError:\n    tarpan = None",
            "return quagga.run()",
        ),
        donor="SIZE = 1\n",
        base="import quagga\n",
        codes=set(),
    ),
    Row(
        name="an exact type that the base asks for is told where a class is derived",
        model=a_model(LIBRARY + "Layer", "return Layer(3).scale(2)"),
        donor="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self, by):\n        return self.n * by\n",
        base="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self):\n        return self.n\n\n\n"
        "def fits(layer):\n    return type(layer) is Layer\n",
        codes={"G201 note", "G213 review"},
    ),
    Row(
        name="an exact type of a class of a longer name is another",
        model=a_model(LIBRARY + "Layer", "return Layer(3).scale(2)"),
        donor="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self, by):\n        return self.n * by\n",
        base="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self):\n        return self.n\n\n\n"
        "class LayerOfOld:\n    pass\n\n\n"
        "def fits(layer):\n    return type(layer) is LayerOfOld\n",
        codes={"G201 note"},
    ),
    # ── G217: model code of the base's own ────────────────────────────────────────────────────────
    Row(
        name="the base's version of another model's class is used where the donor's cannot come along",
        model=a_model("from vllm.model_executor.models.zebra import Zebra", "return Zebra().run()"),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n"),
            "vllm/model_executor/models/zebra.py": (
                (
                    "from vllm.v1.pool import Pool\n\n\n"
                    "class Zebra:\n    def run(self):\n        return Pool.size\n"
                ),
                "class Zebra:\n    def run(self):\n        return 3\n",
            ),
        },
        codes={"G217 review"},
        resolutions={"Zebra": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the base's version is no doubt where it makes the same parts and computes the same",
        model=a_model("from vllm.model_executor.models.zebra import Zebra", "return Zebra().run()"),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n"),
            "vllm/model_executor/models/zebra.py": (
                (
                    "from vllm.v1.pool import Pool\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        self.size = Pool.size\n"
                    "    def run(self):\n        return self.size\n"
                ),
                (
                    "class Zebra:\n    def __init__(self):\n        self.size = 3\n"
                    "    def run(self):\n        return self.size\n"
                ),
            ),
        },
        codes={"G217 note"},
        resolutions={"Zebra": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the base's version is doubtful where it chooses among classes that differ",
        model=a_model("from vllm.model_executor.models.zebra import Zebra", "return Zebra().run()"),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n"),
            "vllm/model_executor/models/zebra.py": (
                (
                    "from vllm.v1.pool import Pool\n\n\n"
                    "class Wide:\n    def run(self):\n        return Pool.size\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        kind = Wide\n"
                    "        self.part = kind()\n        self.size = Pool.size\n"
                    "    def run(self):\n        return self.part.run()\n"
                ),
                (
                    "class Wide:\n    def run(self):\n        return 3\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        kind = Wide\n"
                    "        self.part = kind()\n        self.size = 3\n"
                    "    def run(self):\n        return self.part.run()\n"
                ),
            ),
        },
        codes={"G217 review"},
        resolutions={"Zebra": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the base's version is doubtful where it makes other parts",
        model=a_model("from vllm.model_executor.models.zebra import Zebra", "return Zebra().run()"),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n"),
            "vllm/model_executor/models/zebra.py": (
                (
                    "from vllm.v1.pool import Pool\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        self.part = Pool()\n"
                    "    def run(self):\n        return self.part.size\n"
                ),
                (
                    "class Narrow:\n    size = 3\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        self.part = Narrow()\n"
                    "    def run(self):\n        return self.part.size\n"
                ),
            ),
        },
        codes={"G217 review"},
        resolutions={"Zebra": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the donor's version of another model's class comes along where it can",
        model=a_model("from vllm.model_executor.models.zebra import Zebra", "return Zebra().run()"),
        files={
            "vllm/model_executor/models/zebra.py": (
                "class Zebra:\n    def run(self):\n        return 4\n",
                "class Zebra:\n    def run(self):\n        return 3\n",
            ),
        },
        codes=set(),
        resolutions={"Zebra": "grafted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── a class that takes the name of its parent ─────────────────────────────────────────────────
    Row(
        name="a class with the name of its parent stands on that parent",
        model="from vllm.model_executor.layers.library import Layer\n\n\n"
        "class Layer(Layer):\n    def prepare(self):\n        return 1\n\n\n"
        "class OkapiForCausalLM:\n    def run(self):\n        return Layer().run()\n",
        donor="class Layer:\n    def run(self):\n        return self.prepare()\n"
        "    def prepare(self):\n        return 0\n",
        base="class Layer:\n    def run(self):\n        return 0\n"
        "    def prepare(self):\n        return 0\n",
        codes={"G204 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="a class with the name of its parent in another model's file brings that file's version",
        model="from vllm.model_executor.models.zebra import Stripe\n\n\n"
        "class Stripe(Stripe):\n    pass\n\n\n"
        "class OkapiForCausalLM:\n    def run(self):\n        return Stripe.width\n",
        files={
            "vllm/model_executor/models/zebra.py": (
                "class Stripe:\n    width = 2\n",
                "class Stripe:\n    width = 1\n",
            ),
        },
        codes=set(),
        resolutions={"Stripe": "grafted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    # ── G221: classes that exist twice ────────────────────────────────────────────────────────────
    Row(
        name="where the base's version makes the objects, what asks for their class asks for the base's",
        model=a_model(
            "from vllm.model_executor.models.zebra import Stripe, Zebra",
            "return isinstance(Zebra().part, Stripe)",
        ),
        files={
            "vllm/v1/pool.py": ("class Pool:\n    size = 3\n", "SIZE = 1\n"),
            "vllm/model_executor/models/zebra.py": (
                (
                    "from vllm.v1.pool import Pool\n\n\n"
                    "class Stripe:\n    width = 2\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        self.part = Stripe()\n"
                    "    def run(self):\n        return Pool.size\n"
                ),
                (
                    "class Stripe:\n    width = 1\n\n\n"
                    "class Zebra:\n    def __init__(self):\n        self.part = Stripe()\n"
                    "    def run(self):\n        return 3\n"
                ),
            ),
        },
        codes={"G217 review"},
        resolutions={"Zebra": "changed", "Stripe": "changed"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="the donor's version stays where only grafted code makes the objects that are asked",
        model=a_model(
            "from vllm.model_executor.models.zebra import Stripe",
            "return isinstance(Stripe(), Stripe) and Stripe.width",
        ),
        files={
            "vllm/model_executor/models/zebra.py": (
                "class Stripe:\n    width = 2\n",
                "class Stripe:\n    width = 1\n",
            ),
        },
        codes=set(),
        resolutions={"Stripe": "grafted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="what the base's engine makes is of a class that was derived, for who asks",
        model=a_model(
            LIBRARY + "Layer, make", "return isinstance(make(), Layer) and Layer(3).scale(2)"
        ),
        donor="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self, by):\n        return self.n * by\n\n\n"
        "def make():\n    return Layer(1)\n",
        base="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self):\n        return self.n\n\n\n"
        "def make():\n    return Layer(1)\n",
        codes={"G201 note"},
        resolutions={"Layer": "derived"},
        ask="model.OkapiForCausalLM().run()",
    ),
    Row(
        name="who asks for exactly a class that was derived is told",
        model=a_model(
            LIBRARY + "Layer, make", "return type(make()) is Layer and Layer(3).scale(2)"
        ),
        donor="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self, by):\n        return self.n * by\n\n\n"
        "def make():\n    return Layer(1)\n",
        base="class Layer:\n    def __init__(self, n):\n        self.n = n\n"
        "    def scale(self):\n        return self.n\n\n\n"
        "def make():\n    return Layer(1)\n",
        codes={"G201 note", "G221 review"},
        resolutions={"Layer": "derived"},
    ),
    *(
        Row(
            name=f"a class that the base's engine knows, {how}, is told where the donor's comes along",
            model=a_model(
                "from vllm.model_executor.models.zebra import Stripe", "return Stripe().width"
            ),
            files={"vllm/v1/proposer.py": ("SIZE = 1\n", engine), ZEBRA: STRIPES},
            codes={"G222 review"},
            resolutions={"Stripe": "grafted"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, engine in {
            "and compares its exact type": f"{KNOWS}def fits(x):\n    return type(x) is Stripe\n",
            "and asks elsewhere too": f"{KNOWS}def fits(x):\n    return isinstance(x, Stripe) or of(x, Stripe)\n",
            "by its module": "from vllm.model_executor.models import zebra\n\n\n"
            "def fits(xs):\n    return [x for x in xs if type(x) is zebra.Stripe]\n",
            "inside a function": "def fits(x):\n"
            "    from vllm.model_executor.models.zebra import Stripe\n\n"
            "    return layers_of(x, Stripe)\n",
            "relatively": "def fits(x):\n"
            "    from ..model_executor.models.zebra import Stripe as Bar\n\n"
            "    return layers_of(x, Bar)\n",
            "on a line of several": "from vllm.model_executor.models.zebra import Stripe; SIZE = 1\n\n\n"
            "def fits(x):\n    return isinstance(x, Stripe)\n",
            "and one kind of class or the other": f"{KNOWS}def fits(x):\n    return isinstance(x, Stripe | int)\n",
        }.items()
    ),
    *(
        Row(
            name=f"a class that the base's engine only asks for, {how}, is asked for in both versions",
            model=a_model(
                "from vllm.model_executor.models.zebra import Stripe\nfrom vllm.v1.proposer import fits",
                "return [fits(Stripe()), fits(1), Stripe().width]",
            ),
            files={"vllm/v1/proposer.py": (engine, engine), ZEBRA: STRIPES},
            codes={"G222 note"},
            resolutions={"Stripe": "grafted"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, engine in {
            "by its name": f"{KNOWS}def fits(x):\n    return isinstance(x, Stripe)\n",
            "as a subclass": f"{KNOWS}def fits(x):\n    return issubclass(type(x), Stripe)\n",
            "by another name, among others": "from vllm.model_executor.models.zebra import (\n"
            "    Stripe as Bar,\n)\n\n\n"
            "def fits(x):\n    return isinstance(x, (\n        str,\n        Bar,\n        bytes,\n    ))\n",
            "inside a function": "def fits(x):\n"
            "    from ..model_executor.models.zebra import Stripe\n\n"
            "    return isinstance(x, Stripe)\n",
            "twice": f"{KNOWS}def fits(x):\n"
            "    assert isinstance(x, (int, Stripe))\n    return isinstance(x, Stripe)\n",
        }.items()
    ),
    *(
        Row(
            name=f"a class that the base's engine only asks for, and whose donor's version {how}, stays its own",
            model=a_model(
                "from vllm.model_executor.models.zebra import Stripe", "return Stripe().width"
            ),
            files={
                "vllm/v1/proposer.py": (
                    "SIZE = 1\n",
                    f"{KNOWS}def run(x):\n    return x.paint(1) if isinstance(x, Stripe) else 0\n",
                ),
                ZEBRA: (
                    f"class Stripe:\n    width = 2\n{donor}",
                    "class Stripe:\n    width = 1\n    def paint(self, by):\n        return by\n",
                ),
            },
            codes={"G222 review"},
            resolutions={"Stripe": "grafted"},
            ask="model.OkapiForCausalLM().run()",
        )
        for how, donor in {
            "lacks what is then called": "",
            "takes other arguments": "    def paint(self, by, at):\n        return by + at\n",
        }.items()
    ),
    Row(
        name="a class that the base's engine names in annotations only is no matter",
        model=a_model(
            "from vllm.model_executor.models.zebra import Stripe", "return Stripe().width"
        ),
        files={
            "vllm/v1/proposer.py": (
                "SIZE = 1\n",
                (
                    "from vllm.model_executor.models.zebra import Stripe\n\n\n"
                    "def fits(x: Stripe) -> Stripe | None:\n    y: Stripe = x\n    return y\n"
                ),
            ),
            "vllm/model_executor/models/zebra.py": (
                "class Stripe:\n    width = 2\n",
                "class Stripe:\n    width = 1\n",
            ),
        },
        codes=set(),
        resolutions={"Stripe": "grafted"},
        ask="model.OkapiForCausalLM().run()",
    ),
    *(
        Row(
            name=f"a class inside a class of the engine, made {how}, is held to what the base's takes",
            model=a_model("from vllm.v1.loader import Loader", body),
            files={"vllm/v1/loader.py": (f"{SOURCES}        folder: str = ''\n", SOURCES)},
            codes=codes,
            resolutions={"Loader": "changed"},
            ask=ask,
        )
        for how, body, codes, ask in (
            (
                "with a field that the base lacks",
                "return Loader.Source('a', folder='b').path",
                {"G201 blocked"},
                "",
            ),
            (
                "through self with one",
                "self.loader = Loader()\n        return self.loader.Source('a', folder='b').path",
                {"G201 blocked"},
                "",
            ),
            (
                "without one",
                "return Loader.Source('a').path",
                set[str](),
                "model.OkapiForCausalLM().run()",
            ),
        )
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_contract(row: Row) -> None:
    check(row)

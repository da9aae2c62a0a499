# The specification of the linker's rules, as a table: what the donor's engine says, what the base's says, what the
# donor's model does, and what is found. Each row is tried in every way in which Python lets a name be reached: under its
# own name, another, through a module, a re-export, a subclass. A finding must not depend on which one the model's
# author chose.
"""Rows of the specification, and the forms in which each is tried."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from held import CONFIG_REGISTRY, ENGINE
from linking import MODEL, Linking, linked
from vllm_graft.values.install import NativeCode

LIBRARY = "vllm.model_executor.layers.library"
SHELF = "vllm.model_executor.layers.shelf"
POOL = "vllm.v1.pool"
ZEBRA = "vllm.model_executor.models.zebra"

FORMS = (
    "its own name",
    "another name",
    "a module",
    "a module under another name",
    "a package's attribute",
    "an assignment",
    "an import in the function",
    "a re-export",
    "a re-export under another name",
    "a subclass",
    "a subclass of a subclass",
    "an inherited method",
)


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One promise. ``donor`` and ``base`` are the texts of ``module``; ``model`` what the donor's model does."""

    code: str
    says: str
    name: str
    """What the model uses of ``module``."""
    donor: str
    base: str
    module: str = LIBRARY
    imports: str = ""
    """What else the model imports."""
    body: str = ""
    """Of the model's ``run``; ``{X}`` is where the name stands."""
    model: str = ""
    """A whole model after its imports, in place of ``body``."""
    found: frozenset[str]
    """Code and severity, as in ``G201 note``."""
    found_if: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Form → what is found instead, where Python itself makes it another thing."""
    unfit: Mapping[str, str] = field(default_factory=dict[str, str])
    """Form → why the row cannot be put so."""
    missed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Form → why the linker does not see it; a strict expected failure."""
    runs: bool = False
    """What is made of it must say what the donor says."""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Further files: path → (the donor's text, the base's text); an empty text is no file."""
    native: NativeCode | None = None

    def forms(self) -> Iterator[str]:
        return (form for form in FORMS if form not in self.unfit)

    def expected(self, form: str) -> frozenset[str]:
        return self.found_if.get(form, self.found)

    def link(self, form: str) -> Linking:
        texts = {
            path_of(self.module): (self.donor, self.base),
            MODEL: (self.model_in(form), ""),
            **self._shelf(form),
            **self.files,
        }
        return linked(
            donor={path: each[0] for path, each in texts.items() if each[0]},
            base={path: each[1] for path, each in texts.items() if each[1]},
            native=self.native,
        )

    def _shelf(self, form: str) -> Mapping[str, tuple[str, str]]:
        if not form.startswith("a re-export"):
            return {}
        renamed = " as Shelved" if "another name" in form else ""
        text = f"from {self.module} import {self.name}{renamed}\n"
        # A base that lacks the module would not import the shelf either.
        return {path_of(SHELF): (text, text if self.base else "SIZE = 1\n")}

    def model_in(self, form: str) -> str:
        package, _, last = self.module.rpartition(".")
        module, name = self.module, self.name
        top, reached, inside = {
            "its own name": (f"from {module} import {name}\n", name, ""),
            "another name": (f"from {module} import {name} as Renamed\n", "Renamed", ""),
            "a module": (f"import {module}\n", f"{module}.{name}", ""),
            "a module under another name": (f"import {module} as shelf\n", f"shelf.{name}", ""),
            "a package's attribute": (
                f"from {package} import {last} as shelf\n",
                f"shelf.{name}",
                "",
            ),
            "an assignment": (f"from {module} import {name}\n\nChosen = {name}\n", "Chosen", ""),
            "an import in the function": ("", name, f"from {module} import {name}\n"),
            "a re-export": (f"from {SHELF} import {name}\n", name, ""),
            "a re-export under another name": (f"from {SHELF} import Shelved\n", "Shelved", ""),
            "a subclass": (
                f"from {module} import {name}\n\n\nclass Own({name}):\n    pass\n",
                "Own",
                "",
            ),
            "a subclass of a subclass": (
                (
                    f"from {module} import {name}\n\n\nclass First({name}):\n    pass\n\n\n"
                    "class Own(First):\n    size_of_own = 1\n"
                ),
                "Own",
                "",
            ),
            "an inherited method": (f"from {module} import {name}\n", name, ""),
        }[form]
        if self.model:
            return f"{self.imports}{top}\n\n{self.model.replace('{X}', reached)}"
        lines = (inside + self.body.replace("{X}", reached)).splitlines()
        run = "    def run(self):\n" + "".join(f"        {line}\n" for line in lines)
        if form == "an inherited method":
            kin = f"class Kin:\n{run}\n\nclass OkapiForCausalLM(Kin):\n    pass\n"
            return f"{self.imports}{top}\n\n{kin}"
        return f"{self.imports}{top}\n\nclass OkapiForCausalLM:\n{run}"


A_FUNCTION: Mapping[str, str] = {
    "a subclass": "it is no class",
    "a subclass of a subclass": "it is no class",
}
A_WHOLE_MODEL = {
    "an import in the function": "the name stands outside of functions",
    "an inherited method": "the model is written out",
}


def told(*words: str) -> frozenset[str]:
    return frozenset(words)


LAYER = "class Layer:\n    def __init__(self, n):\n        self.n = n\n"
MAKE = "\n\ndef make():\n    return Layer(1)\n"
KIND = "import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n"

MODE = (
    "import enum\n\n\nclass Mode(enum.Enum):\n    PLAIN = 1\n    FAST = 2\n\n\n"
    "class Layer:\n    mode = Mode.PLAIN\n\n"
)
RECORD = "from dataclasses import dataclass\n\n\n@dataclass\nclass Element:\n"
MADE = "FILLED = []\n\n\nclass Made:\n    def __init__(self, n):\n        self.n = n\n\n\n"


ROWS: list[Row] = [
    # ── G104 ──────────────────────────────────────────────────────────────────────────────────────
    Row(
        code="G104",
        says="a class of the engine's core that the base lacks",
        module=POOL,
        name="Pool",
        donor="class Pool:\n    size = 3\n",
        base="SIZE = 1\n",
        body="return {X}().size",
        found=told("G104 blocked"),
    ),
    Row(
        code="G104",
        says="a module of the engine's core that the base lacks",
        module=POOL,
        name="size",
        donor="def size():\n    return 3\n",
        base="",
        body="return {X}()",
        found=told("G104 blocked"),
        unfit=A_FUNCTION,
    ),
    Row(
        code="G104",
        says="a constant that the engine's functions fill cannot come along",
        name="TABLE",
        donor="TABLE = {}\n\n\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n\n\n"
        "@register\ndef wide():\n    return 3\n",
        base="SIZE = 1\n",
        body="return {X}['wide']()",
        found=told("G104 blocked"),
        unfit=A_FUNCTION,
    ),
    # ── G201, G202, G216: calls ───────────────────────────────────────────────────────────────────
    Row(
        code="G201",
        says="a function that takes less",
        name="scale",
        donor="def scale(x, *, by=1):\n    return x * by\n",
        base="def scale(x):\n    return x\n",
        body="return {X}(2, by=5)",
        found=told("G201 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G201",
        says="a function that wants more",
        name="scale",
        donor="def scale(x):\n    return x\n",
        base="def scale(x, by):\n    return x * by\n",
        body="return {X}(2)",
        found=told("G201 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G201",
        says="a function that takes less, called through partial",
        name="scale",
        donor="def scale(x, *, by=1):\n    return x * by\n",
        base="def scale(x):\n    return x\n",
        body="return partial({X}, by=5)(2)",
        imports="from functools import partial\n",
        found=told("G201 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G201",
        says="a constructor that takes less",
        name="Layer",
        donor="class Layer:\n    def __init__(self, n, *, wide=False):\n        self.n = n + wide\n",
        base=LAYER,
        body="return {X}(3, wide=True).n",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a dataclass that has fewer fields",
        name="Layer",
        donor="from dataclasses import dataclass\n\n\n@dataclass\nclass Layer:\n    n: int\n    m: int\n",
        base="from dataclasses import dataclass\n\n\n@dataclass\nclass Layer:\n    n: int\n",
        body="return {X}(3, 4).n",
        found=told("G201 blocked"),
    ),
    Row(
        code="G201",
        says="a method that takes less",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n",
        base=LAYER + "    def scale(self):\n        return self.n\n",
        body="return {X}(3).scale(2)",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a class method that takes less",
        name="Layer",
        donor="class Layer:\n    @classmethod\n    def width(cls, of):\n        return of + 1\n",
        base="class Layer:\n    @classmethod\n    def width(cls):\n        return 1\n",
        body="return {X}.width(2)",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a static method that takes less",
        name="Layer",
        donor="class Layer:\n    @staticmethod\n    def width(of):\n        return of + 1\n",
        base="class Layer:\n    @staticmethod\n    def width():\n        return 1\n",
        body="return {X}.width(2)",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a method of an object that only the engine makes",
        name="Pool",
        donor="class Pool:\n    def take(self, n, *, strict=False):\n        return n\n",
        base="class Pool:\n    def take(self, n):\n        return n\n",
        model="class OkapiForCausalLM:\n    def run(self, pool: {X}):\n"
        "        return pool.take(1, strict=True)\n",
        found=told("G201 blocked"),
        unfit={
            **A_WHOLE_MODEL,
            "a subclass": "an object of the model's own class is made by the model",
            "a subclass of a subclass": "likewise",
        },
    ),
    Row(
        code="G201",
        says="super() that takes less",
        name="Layer",
        donor="class Layer:\n    def scale(self, by):\n        return by + 1\n",
        base="class Layer:\n    def scale(self):\n        return 1\n",
        model="class OkapiForCausalLM({X}):\n    def run(self):\n        return self.scale(4)\n"
        "    def scale(self, by):\n        return super().scale(by) * 2\n",
        found=told("G201 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G202",
        says="a keyword that says what the donor's default says",
        name="scale",
        donor="def scale(x, *, exactly=False):\n    return x\n",
        base="def scale(x):\n    return x\n",
        body="return {X}(2, exactly=False)",
        found=told("G202 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G202",
        says="a constructor's keyword that says what the donor's default says",
        name="Layer",
        donor="class Layer:\n    def __init__(self, n, *, wide=False):\n        self.n = n + wide\n",
        base=LAYER,
        body="return {X}(3, wide=False).n",
        found=told("G202 note"),
        runs=True,
    ),
    Row(
        code="G202",
        says="a keyword for a mode that the base's class does not have",
        name="Layer",
        donor=MODE + "    def scale(self, x, sizes=None):\n        if self.mode == Mode.FAST:\n"
        "            return x, sizes\n        return x\n",
        base=MODE + "    def scale(self, x):\n        return x\n",
        body="return {X}().scale(3, sizes=[1])",
        found=told("G202 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a stand-in for a record of which the base's has more fields",
        name="Element",
        donor=RECORD + "    data: int\n    field: str\n",
        base=RECORD + "    key: str\n    data: int\n    field: str\n",
        body="return {X}(data=3, field=None).data",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="what a function that makes an object takes, and the base's class of its name does not",
        module=POOL,
        name="Maker",
        donor=MADE
        + "def Maker(n, *, by=1) -> Made:\n    FILLED.append(n)\n    return Made(n * by)\n",
        base="class Maker:\n    def __init__(self, n):\n        self.n = n\n",
        body="return {X}(3, by=2).n",
        found=told("G201 note", "G201 blocked"),
        unfit=A_FUNCTION,
    ),
    Row(
        code="G216",
        says="a default that differs",
        name="scale",
        donor="def scale(x, by=1):\n    return x * by\n",
        base="def scale(x, by=2):\n    return x * by\n",
        body="return {X}(2)",
        found=told("G216 review"),
        unfit=A_FUNCTION,
    ),
    Row(
        code="G216",
        says="a constructor's default that differs",
        name="Layer",
        donor="class Layer:\n    def __init__(self, n, by=1):\n        self.n = n * by\n",
        base="class Layer:\n    def __init__(self, n, by=2):\n        self.n = n * by\n",
        body="return {X}(2).n",
        found=told("G216 review"),
    ),
    # ── G203, G205, G215: reads ───────────────────────────────────────────────────────────────────
    Row(
        code="G203",
        says="a member that the base's parent lacks",
        name="Parent",
        donor="class Parent:\n    def tag(self):\n        return 4\n",
        base="class Parent:\n    pass\n",
        model="class OkapiForCausalLM({X}):\n    def run(self):\n        return self.tag() + 1\n",
        found=told("G203 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G203",
        says="an attribute of a class that the model makes",
        name="Layer",
        donor="class Layer:\n    size = 4\n",
        base="class Layer:\n    pass\n",
        body="layer = {X}()\nreturn layer.size",
        found=told("G203 note"),
        runs=True,
    ),
    Row(
        code="G203",
        says="a field of an object that only the engine makes",
        name="Meta",
        donor="class Meta:\n    lengths: list[int] = []\n",
        base="class Meta:\n    starts: list[int] = []\n",
        model="class OkapiForCausalLM:\n    def run(self, meta: {X}):\n        return meta.lengths\n",
        found=told("G203 blocked"),
        unfit={
            **A_WHOLE_MODEL,
            "a subclass": "an object of the model's own class is made by the model",
            "a subclass of a subclass": "likewise",
        },
    ),
    Row(
        code="G203",
        says="a method that the base only declares",
        name="Parent",
        donor="class Parent:\n    def tag(self):\n        return 4\n",
        base="class Parent:\n    def tag(self):\n        raise NotImplementedError\n",
        model="class OkapiForCausalLM({X}):\n    def run(self):\n        return self.tag() + 1\n",
        found=told("G203 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G203",
        says="a switch of a configuration that the model makes",
        module="vllm.config.cache",
        name="CacheConfig",
        donor='class CacheConfig:\n    mode: str = "none"\n',
        base="class CacheConfig:\n    size: int = 1\n",
        model="class OkapiForCausalLM:\n    def run(self, config: '{X} | None' = None):\n"
        "        return (config or {X}()).mode\n",
        found=told("G203 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G205",
        says="a switch of a configuration that only the engine makes",
        module="vllm.config.cache",
        name="CacheConfig",
        donor='class CacheConfig:\n    mode: str = "none"\n',
        base="class CacheConfig:\n    size: int = 1\n",
        model="class OkapiForCausalLM:\n    def run(self, config: {X}):\n        return config.mode\n",
        found=told("G205 note"),
        unfit={
            **A_WHOLE_MODEL,
            "a subclass": "an object of the model's own class is made by the model",
            "a subclass of a subclass": "likewise",
        },
    ),
    Row(
        code="G205",
        says="a switch that a configuration inherits, of which the engine makes only that one",
        module="vllm.config.cache",
        name="WideCacheConfig",
        donor='class CacheConfig:\n    mode: str = "none"\n\n\n'
        "class WideCacheConfig(CacheConfig):\n    width: int = 2\n",
        base="class CacheConfig:\n    size: int = 1\n\n\n"
        "class WideCacheConfig(CacheConfig):\n    width: int = 2\n",
        model="class OkapiForCausalLM:\n    def run(self, config: {X}):\n        return config.mode\n",
        found=told("G205 note"),
        unfit={
            **A_WHOLE_MODEL,
            "a subclass": "an object of the model's own class is made by the model",
            "a subclass of a subclass": "likewise",
        },
    ),
    Row(
        code="G215",
        says="a member that the base's enumeration lacks",
        name="Kind",
        donor=KIND + "    SPARSE = 2\n",
        base=KIND,
        body="return {X}.SPARSE.value",
        found=told("G215 blocked"),
        unfit={
            "a subclass": "an enumeration with members has none",
            "a subclass of a subclass": "likewise",
        },
    ),
    # ── G204, G212, G218 to G220: classes ─────────────────────────────────────────────────────────
    Row(
        code="G204",
        says="a hook that the base's parent never calls",
        name="Parent",
        donor="class Parent:\n    def run(self):\n        return self.part() * 2\n"
        "    def part(self):\n        return 1\n",
        base="class Parent:\n    def run(self):\n        return 2\n",
        model="class OkapiForCausalLM({X}):\n    def part(self):\n        return 7\n",
        found=told("G203 note", "G204 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G218",
        says="a hook that nothing in the base calls",
        name="Parent",
        donor="class Parent:\n    def warm_up(self):\n        return 1\n",
        base="class Parent:\n    pass\n",
        model="class OkapiForCausalLM({X}):\n    def warm_up(self):\n        return 7\n",
        found=told("G218 review"),
        unfit=A_WHOLE_MODEL,
    ),
    Row(
        code="G219",
        says="an override that the base's engine calls otherwise",
        name="Parent",
        donor="class Parent:\n    def process(self, items):\n        return 1\n\n\n"
        "def start(model):\n    return model.process([])\n",
        base="class Parent:\n    def process(self, prompt, items):\n        return 1\n\n\n"
        "def start(model):\n    return model.process('', items=[])\n",
        model="class OkapiForCausalLM({X}):\n    def process(self, items):\n        return 7\n",
        found=told("G219 blocked"),
        unfit=A_WHOLE_MODEL,
    ),
    Row(
        code="G220",
        says="a derived class does not set what the base's own methods read",
        name="Gate",
        donor="class Gate:\n    def __init__(self, size, scale=1):\n        self.size = size * scale\n",
        base="class Gate:\n    def __init__(self, size):\n        self.size = size\n"
        "        self.fast = False\n"
        "    def run(self):\n        return 0 if self.fast else self.size\n",
        body="return {X}(3, scale=2).size",
        found=told("G201 note", "G220 blocked"),
    ),
    Row(
        code="G212",
        says="a member that the base's engine calls on every model",
        name="Layer",
        donor="class Layer:\n    def forward(self):\n        return 1\n",
        base="class Layer:\n    def forward(self):\n        return 1\n",
        model="class OkapiForCausalLM({X}):\n    pass\n",
        files={
            "vllm/model_executor/models/interfaces_base.py": (
                "class VllmModel:\n    def forward(self): ...\n",
                "class VllmModel:\n    def forward(self): ...\n    def embed(self): ...\n",
            )
        },
        found=told("G212 blocked"),
        unfit=A_WHOLE_MODEL,
    ),
    # ── G206, G207: kinds and results ─────────────────────────────────────────────────────────────
    Row(
        code="G206",
        says="a loader that takes no tuple",
        name="Linear",
        donor="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | tuple[int, ...] | None = None):\n        return [loaded_shard_id]\n",
        base="class Linear:\n    def weight_loader(self, param, weight,"
        " loaded_shard_id: int | None = None):\n        return [loaded_shard_id + 0]\n",
        body='mapping = [("qkv", "in_proj", (0, 1, 2))]\nlinear = {X}()\n'
        "return linear.weight_loader(1, 2, mapping[0][2])",
        found=told("G206 note"),
        runs=True,
    ),
    Row(
        code="G207",
        says="a function with another number of results",
        name="parts",
        donor="def parts(x):\n    return x, x + 1\n",
        base="def parts(x):\n    return x, x + 1, x + 2\n",
        body="a, b = {X}(3)\nreturn a + b",
        found=told("G207 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G207",
        says="a method with another number of results",
        name="Layer",
        donor="class Layer:\n    def parts(self, x):\n        return x, x + 1\n",
        base="class Layer:\n    def parts(self, x):\n        return x, x + 1, x + 2\n",
        body="layer = {X}()\na, b = layer.parts(3)\nreturn a + b",
        found=told("G207 note"),
        runs=True,
    ),
    # ── G213, G217 ────────────────────────────────────────────────────────────────────────────────
    Row(
        code="G213",
        says="an exact type that the base asks for",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n",
        base=LAYER + "    def scale(self):\n        return self.n\n\n\n"
        "def fits(layer):\n    return type(layer) is Layer\n",
        body="return {X}(3).scale(2)",
        found=told("G201 note", "G213 review"),
        runs=True,
    ),
    Row(
        code="G213",
        says="an exact type that another file of the base asks for under another name",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n",
        base=LAYER + "    def scale(self):\n        return self.n\n",
        files={
            "vllm/v1/lora.py": (
                "",
                (
                    f"from {LIBRARY} import Layer as Plain\n\n\n"
                    "def fits(layer):\n    return type(layer) is Plain\n"
                ),
            )
        },
        body="return {X}(3).scale(2)",
        found=told("G201 note", "G213 review"),
        runs=True,
    ),
    Row(
        code="G217",
        says="the base's version of another model's class, where the donor's cannot come along",
        module=ZEBRA,
        name="Zebra",
        donor=f"from {POOL} import Pool\n\n\nclass Zebra:\n    def run(self):\n"
        "        return Pool.size\n",
        base="class Zebra:\n    def run(self):\n        return 3\n",
        files={path_of(POOL): ("class Pool:\n    size = 3\n", "SIZE = 1\n")},
        body="return {X}().run()",
        found=told("G217 review"),
        runs=True,
    ),
    # ── G221, G222: classes that exist twice ──────────────────────────────────────────────────────
    Row(
        code="G221",
        says="an exact type that the model asks for",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n" + MAKE,
        base=LAYER + "    def scale(self):\n        return self.n\n" + MAKE,
        imports=f"from {LIBRARY} import make\n",
        body="return type(make()) is {X} and {X}(3).scale(2)",
        found=told("G201 note", "G221 review"),
        unfit={
            "a subclass": "no object that the base makes is of the model's own class",
            "a subclass of a subclass": "likewise",
        },
    ),
    Row(
        code="G201",
        says="an instance of a class that is derived, made by the base and asked for by the model",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n" + MAKE,
        base=LAYER + "    def scale(self):\n        return self.n\n" + MAKE,
        imports=f"from {LIBRARY} import make\n",
        body="return [isinstance(make(), {X}), {X}(3).scale(2)]",
        found=told("G201 note"),
        runs=True,
    ),
    Row(
        code="G222",
        says="a class that the base's engine asks for, of which the donor's version comes along: it asks for both",
        module=ZEBRA,
        name="Stripe",
        donor="class Stripe:\n    width = 2\n",
        base="class Stripe:\n    width = 1\n",
        files={
            "vllm/v1/proposer.py": (
                "SIZE = 1\n",
                (
                    f"from {ZEBRA} import Stripe\n\n\n"
                    "def fits(x):\n    return isinstance(x, Stripe)\n"
                ),
            )
        },
        body="return {X}().width",
        found=told("G222 note"),
        runs=True,
    ),
    Row(
        code="G222",
        says="a class that the base's engine collects, of which the donor's version comes along",
        module=ZEBRA,
        name="Stripe",
        donor="class Stripe:\n    width = 2\n",
        base="class Stripe:\n    width = 1\n",
        files={
            "vllm/v1/proposer.py": (
                "SIZE = 1\n",
                (
                    f"from {ZEBRA} import Stripe\n\n\n"
                    "def fits(x):\n    return layers_of(x, Stripe)\n"
                ),
            )
        },
        body="return {X}().width",
        found=told("G222 review"),
        runs=True,
    ),
    Row(
        code="G223",
        says="a word that only the donor's engine knows",
        name="rope",
        donor="def rope(kind):\n    if kind == 'braided':\n        return 2\n    return 1\n",
        base="def rope(kind):\n    return 1\n",
        body="return {X}('braided')",
        found=told("G223 note"),
        unfit=A_FUNCTION,
        runs=True,
    ),
    Row(
        code="G223",
        says="a word that two functions of the donor's engine know",
        name="rope",
        donor="def rope(kind):\n    if kind == 'braided':\n        return 2\n    return 1\n\n\n"
        "def reverse(kind):\n    return kind == 'braided'\n",
        base="def rope(kind):\n    return 1\n",
        body="return {X}('braided')",
        found=told("G223 review"),
        unfit=A_FUNCTION,
    ),
    Row(
        code="G223",
        says="a word that only the donor's engine knows, passed to a class",
        name="Rope",
        donor="class Rope:\n    def __init__(self, kind):\n"
        "        self.n = 2 if kind == 'braided' else 1\n",
        base="class Rope:\n    def __init__(self, kind):\n        self.n = 1\n",
        body="return {X}('braided').n",
        found=told("G223 review"),
    ),
    Row(
        code="G224",
        says="values that only the base's constructor refuses",
        name="Herd",
        donor="class Herd:\n    def __init__(self, kind='a'):\n        self.kind = kind\n",
        base="class Herd:\n    def __init__(self, kind='a'):\n        if kind != 'a':\n"
        "            raise ValueError('none but a')\n        self.kind = kind\n",
        body="return {X}(kind=str('a')).kind",
        found=told("G224 review"),
        runs=True,
    ),
]


# ── what is not reached by a name of vLLM ─────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Written:
    """A promise about things that have no name in vLLM: each form is written out.

    ``models``: form → the donor's model.
    """

    code: str
    says: str
    models: Mapping[str, str]
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Path → (the donor's text, the base's text); an empty text is no file."""
    found: frozenset[str]
    missed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Form → why the linker does not see it; a strict expected failure."""
    native: NativeCode | None = None
    features: tuple[str, ...] = ()

    def link(self, form: str) -> Linking:
        texts = {MODEL: (self.models[form], ""), **self.files}
        return linked(
            donor={path: each[0] for path, each in texts.items() if each[0]},
            base={path: each[1] for path, each in texts.items() if each[1]},
            native=self.native,
            features=self.features,
        )


def running(imports: str, *body: str, bases: str = "") -> str:
    """A model whose ``run`` has this body."""
    lines = "".join(f"        {line}\n" for line in body)
    return f"{imports}\n\nclass OkapiForCausalLM{bases}:\n    def run(self):\n{lines}"


def inherited(imports: str, *body: str) -> str:
    """A model that inherits ``run``."""
    lines = "".join(f"        {line}\n" for line in body)
    return (
        f"{imports}\n\nclass Kin:\n    def run(self):\n{lines}\n\n"
        "class OkapiForCausalLM(Kin):\n    pass\n"
    )


def operator_forms(path: str) -> Mapping[str, str]:
    """Ways to call ``torch.ops.<path>``."""
    namespace, _, name = path.partition(".")
    return {
        "its own name": running("import torch\n", f"return torch.ops.{path}(1)"),
        "another name": running("import torch as t\n", f"return t.ops.{path}(1)"),
        "a part of a module": running("from torch import ops\n", f"return ops.{path}(1)"),
        "a part of a module under another name": running(
            "from torch import ops as o\n", f"return o.{path}(1)"
        ),
        "an overload": running("import torch\n", f"return torch.ops.{path}.default(1)"),
        "an assignment": running(
            f"import torch\n\nOPS = torch.ops.{namespace}\n", f"return OPS.{name}(1)"
        ),
        "a local assignment": running(
            "import torch\n", f"ops = torch.ops.{namespace}", f"return ops.{name}(1)"
        ),
        "a value": running("import torch\n", f"gather = torch.ops.{path}", "return gather(1)"),
        "an inherited method": inherited("import torch\n", f"return torch.ops.{path}(1)"),
    }


REGISTERING = "def direct_register_custom_op(**_):\n    pass\n"
GATHER = "\n\ndef gather(x):\n    return x\n\n\n"
REGISTERED = '(op_name="gather", op_func=gather)\n\n'
OPS = "vllm.utils.ops"


def registering_forms() -> Mapping[str, str]:
    """Ways to register the operator ``gather``."""
    body = "return torch.ops.vllm.gather(1)"
    return {
        form: running(f"import torch\n{imports}{GATHER}{call}{REGISTERED}", body)
        for form, imports, call in (
            (
                "its own name",
                f"from {OPS} import direct_register_custom_op\n",
                "direct_register_custom_op",
            ),
            (
                "another name",
                f"from {OPS} import direct_register_custom_op as register\n",
                "register",
            ),
            ("a module under another name", f"import {OPS} as o\n", "o.direct_register_custom_op"),
        )
    }


CUSTOM = (
    "class CustomOp:\n    @classmethod\n    def register(cls, name):\n        return lambda c: c\n"
)

QUAGGA = "class Foal:\n    pass\n"

WRITTEN: list[Written] = [
    Written(
        code="G208",
        says="a custom operator that the base registers nowhere",
        models=operator_forms("vllm.gather"),
        files={
            path_of(LIBRARY): (
                'direct_register_custom_op(op_name="gather", op_func=len)\n',
                "import torch\n",
            )
        },
        found=told("G208 blocked"),
    ),
    Written(
        code="G209",
        says="a custom operator that the base registers too",
        models=registering_forms(),
        files={
            path_of(OPS): (REGISTERING, REGISTERING),
            path_of(LIBRARY): (
                "SIZE = 1\n",
                'import torch\ndirect_register_custom_op(op_name="gather", op_func=len)\n',
            ),
        },
        found=told("G209 note"),
    ),
    Written(
        code="G209",
        says="a custom operator that the base registers by position",
        models=registering_forms(),
        files={
            path_of(OPS): (REGISTERING, REGISTERING),
            path_of(LIBRARY): (
                "SIZE = 1\n",
                'import torch\ndirect_register_custom_op(\n    "gather", len\n)\n',
            ),
        },
        found=told("G209 note"),
    ),
    Written(
        code="G209",
        says="a layer that the base registers too",
        models={
            form: running(
                f'{imports}\n\n@{name}.register("gather")\nclass Gather({name}):\n    size = 1\n\n',
                "return Gather.size",
            )
            for form, imports, name in (
                ("its own name", f"from {OPS} import CustomOp\n", "CustomOp"),
                ("another name", f"from {OPS} import CustomOp as Op\n", "Op"),
                ("a module under another name", f"import {OPS} as o\n", "o.CustomOp"),
            )
        },
        files={
            path_of(OPS): (CUSTOM, CUSTOM),
            path_of(LIBRARY): (
                "SIZE = 1\n",
                (
                    f'from {OPS} import CustomOp\n\n\n@CustomOp.register("gather")\n'
                    "class Other(CustomOp):\n    pass\n"
                ),
            ),
        },
        found=told("G209 note"),
    ),
    Written(
        code="G210",
        says="a native operator that the base's binaries lack",
        models=operator_forms("_C.fused_okapi"),
        files={path_of(LIBRARY): ("SIZE = 1\n", "import torch\n")},
        found=told("G210 blocked"),
    ),
    Written(
        code="G210",
        says="an extension module that the base lacks",
        models={
            "its own name": running("import vllm._okapi_C\n", "return vllm._okapi_C.run()"),
            "another name": running("import vllm._okapi_C as c\n", "return c.run()"),
            "a part of a package": running("from vllm import _okapi_C\n", "return _okapi_C.run()"),
            "a name of it": running("from vllm._okapi_C import run as r\n", "return r()"),
            "an import in the function": running(
                "", "from vllm import _okapi_C", "return _okapi_C.run()"
            ),
            "a subclass": running("from vllm._okapi_C import Layer\n", "return 1", bases="(Layer)"),
        },
        found=told("G210 blocked"),
    ),
    Written(
        code="G211",
        says="a package that nothing in the base imports",
        models={
            "its own name": running("import quagga\n", "return quagga.run()"),
            "another name": running("import quagga as q\n", "return q.run()"),
            "a module of it": running("import quagga.foals\n", "return quagga.foals.run()"),
            "a name of it": running("from quagga import run\n", "return run()"),
            "a name of it under another name": running(
                "from quagga import run as r\n", "return r()"
            ),
            "a subclass": running("from quagga import Foal\n", "return 1", bases="(Foal)"),
        },
        found=told("G211 blocked"),
    ),
    Written(
        code="G402",
        says="a name of a package that nothing in the base uses",
        models={
            "a module of it": running("import quagga.foals\n", "return quagga.foals.run()"),
            "a module of it under another name": running(
                "import quagga.foals as f\n", "return f.run()"
            ),
            "a name of it": running("from quagga import gallop\n", "return gallop()"),
            "a name of it under another name": running(
                "from quagga import gallop as g\n", "return g()"
            ),
            "a subclass": running("from quagga import Foal\n", "return 1", bases="(Foal)"),
            "an attribute": running("import quagga\n", "return quagga.gallop()"),
            "an attribute under another name": running("import quagga as q\n", "return q.gallop()"),
        },
        files={path_of(LIBRARY): ("SIZE = 1\n", "import quagga\n")},
        found=told("G402 review"),
    ),
    Written(
        code="G211",
        says="a package that nothing in the base imports, imported by a function",
        models={"an import in the function": running("", "import quagga", "return quagga.run()")},
        found=told("G211 blocked"),
    ),
]


# ── the places outside the model's own files ──────────────────────────────────────────────────────

OKAPI = "class OkapiForCausalLM:\n    pass\n"
FAMILY_MODULE = "vllm.model_executor.models.okapi"
PARSERS = "vllm/reasoning/__init__.py"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A promise about a place of the engine: each form is a pair of texts of one file.

    ``texts``: form → (the donor's, the base's).
    """

    code: str
    says: str
    path: str
    texts: Mapping[str, tuple[str, str]]
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    features: tuple[str, ...] = ()
    found: frozenset[str]
    missed: Mapping[str, str] = field(default_factory=dict[str, str])

    def link(self, form: str) -> Linking:
        texts = {MODEL: (OKAPI, ""), **self.files, self.path: self.texts[form]}
        return linked(
            donor={path: each[0] for path, each in texts.items() if each[0]},
            base={path: each[1] for path, each in texts.items() if each[1]},
            features=self.features,
        )


def asking(imports: str, condition: str) -> tuple[str, str]:
    """An engine that treats the family in its own way, and one that does all in another."""
    return (
        f"{imports}\n\ndef run(model, size):\n    size += 2 if {condition} else 1\n    return size\n",
        "def run(model, size):\n    return size * 3\n",
    )


def parser(name: str, answer: int) -> str:
    return f"class {name}:\n    def read(self):\n        return {answer}\n"


def parsers(module: str, name: str) -> str:
    return f'_REASONING_PARSERS_TO_REGISTER = {{\n    "llama": (\n        "{module}",\n        "{name}",\n    ),\n}}\n'


PLACES: list[Place] = [
    Place(
        code="G301",
        says="a condition of the engine that the base does not have",
        path=ENGINE,
        texts={
            "its own name": asking("", 'model.model_type == "okapi"'),
            "its class": asking(
                f"from {FAMILY_MODULE} import OkapiForCausalLM\n",
                "isinstance(model, OkapiForCausalLM)",
            ),
            "its class under another name": asking(
                f"from {FAMILY_MODULE} import OkapiForCausalLM as Family\n",
                "isinstance(model, Family)",
            ),
            "its module under another name": asking(
                f"import {FAMILY_MODULE} as family\n", "isinstance(model, family.OkapiForCausalLM)"
            ),
            "a constant": asking('NAME = "okapi"\n', "model.model_type == NAME"),
            "a subclass": (
                (
                    f"from {FAMILY_MODULE} import OkapiForCausalLM\n\n\n"
                    "class Fast(OkapiForCausalLM):\n    pass\n\n\n"
                    "def run(model, size):\n    size += 2 if isinstance(model, Fast) else 1\n"
                    "    return size\n"
                ),
                "def run(model, size):\n    return size * 3\n",
            ),
        },
        found=told("G301 review"),
    ),
    Place(
        code="G302",
        says="a table of an unknown form",
        path=CONFIG_REGISTRY,
        texts={
            "in the donor": (
                "CONFIGS = load()\n",
                '_CONFIG_REGISTRY = LazyConfigDict(\n    z="Z",\n)\n',
            ),
            "under another name": (
                'CONFIGS = LazyConfigDict(\n    z="Z",\n)\n',
                '_CONFIG_REGISTRY = LazyConfigDict(\n    z="Z",\n)\n',
            ),
        },
        found=told("G302 review"),
    ),
    Place(
        code="G304",
        says="a parser that both have, with another body",
        path=PARSERS,
        texts={
            "its own name": (
                parsers("llama_parser", "LlamaParser"),
                parsers("llama_parser", "LlamaParser"),
            ),
            "another name": (
                parsers("llama_parser", "Newer"),
                parsers("llama_parser", "LlamaParser"),
            ),
            "a re-export": (
                parsers("llama_shelf", "LlamaParser"),
                parsers("llama_parser", "LlamaParser"),
            ),
            "a subclass": (
                parsers("llama_own", "OwnParser"),
                parsers("llama_parser", "LlamaParser"),
            ),
        },
        files={
            "vllm/reasoning/llama_parser.py": (
                parser("LlamaParser", 2) + "\n\nNewer = LlamaParser\n",
                parser("LlamaParser", 1),
            ),
            "vllm/reasoning/llama_shelf.py": (
                "from vllm.reasoning.llama_parser import LlamaParser\n",
                "",
            ),
            "vllm/reasoning/llama_own.py": (
                (
                    "from vllm.reasoning.llama_parser import LlamaParser\n\n\n"
                    "class OwnParser(LlamaParser):\n    pass\n"
                ),
                "",
            ),
        },
        features=("reasoning-parser=llama",),
        found=told("G304 review"),
    ),
]

# The specification of the linker's rules, as a table: what the donor's engine says, what the base's says, what the
# donor's model does, and what is found. Each row is tried in every way in which Python lets a name be reached: under its
# own name, another, through a module, a re-export, a subclass. A finding must not depend on which one the model's
# author chose.
"""Rows of the specification, and the forms in which each is tried."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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


A_FUNCTION = dict.fromkeys(("a subclass", "a subclass of a subclass"), "it is no class")
A_WHOLE_MODEL = {
    "an import in the function": "the name stands outside of functions",
    "an inherited method": "the model is written out",
}


def notes(*words: str) -> frozenset[str]:
    return frozenset(words)


LAYER = "class Layer:\n    def __init__(self, n):\n        self.n = n\n"
KIND = "import enum\n\n\nclass Kind(enum.Enum):\n    DENSE = 1\n"
PLATFORM = (
    "class Platform:\n    def is_rocm(self) -> bool:\n        return False\n\n\n"
    "current_platform = Platform()\n"
)

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
        found=notes("G104 blocked"),
    ),
    Row(
        code="G104",
        says="a module of the engine's core that the base lacks",
        module=POOL,
        name="size",
        donor="def size():\n    return 3\n",
        base="",
        body="return {X}()",
        found=notes("G104 blocked"),
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
        found=notes("G104 blocked"),
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
        found=notes("G201 note"),
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
        found=notes("G201 note"),
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
        found=notes("G201 note"),
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
        found=notes("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a dataclass that has fewer fields",
        name="Layer",
        donor="from dataclasses import dataclass\n\n\n@dataclass\nclass Layer:\n    n: int\n    m: int\n",
        base="from dataclasses import dataclass\n\n\n@dataclass\nclass Layer:\n    n: int\n",
        body="return {X}(3, 4).n",
        found=notes("G201 blocked"),
    ),
    Row(
        code="G201",
        says="a method that takes less",
        name="Layer",
        donor=LAYER + "    def scale(self, by):\n        return self.n * by\n",
        base=LAYER + "    def scale(self):\n        return self.n\n",
        body="return {X}(3).scale(2)",
        found=notes("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a class method that takes less",
        name="Layer",
        donor="class Layer:\n    @classmethod\n    def width(cls, of):\n        return of + 1\n",
        base="class Layer:\n    @classmethod\n    def width(cls):\n        return 1\n",
        body="return {X}.width(2)",
        found=notes("G201 note"),
        runs=True,
    ),
    Row(
        code="G201",
        says="a static method that takes less",
        name="Layer",
        donor="class Layer:\n    @staticmethod\n    def width(of):\n        return of + 1\n",
        base="class Layer:\n    @staticmethod\n    def width():\n        return 1\n",
        body="return {X}.width(2)",
        found=notes("G201 note"),
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
        found=notes("G201 blocked"),
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
        found=notes("G201 note"),
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
        found=notes("G202 note"),
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
        found=notes("G202 note"),
        runs=True,
    ),
    Row(
        code="G216",
        says="a default that differs",
        name="scale",
        donor="def scale(x, by=1):\n    return x * by\n",
        base="def scale(x, by=2):\n    return x * by\n",
        body="return {X}(2)",
        found=notes("G216 review"),
        unfit=A_FUNCTION,
    ),
    Row(
        code="G216",
        says="a constructor's default that differs",
        name="Layer",
        donor="class Layer:\n    def __init__(self, n, by=1):\n        self.n = n * by\n",
        base="class Layer:\n    def __init__(self, n, by=2):\n        self.n = n * by\n",
        body="return {X}(2).n",
        found=notes("G216 review"),
    ),
    # ── G203, G205, G215: reads ───────────────────────────────────────────────────────────────────
    Row(
        code="G203",
        says="a member that the base's parent lacks",
        name="Parent",
        donor="class Parent:\n    def tag(self):\n        return 4\n",
        base="class Parent:\n    pass\n",
        model="class OkapiForCausalLM({X}):\n    def run(self):\n        return self.tag() + 1\n",
        found=notes("G203 note"),
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
        found=notes("G203 note"),
        runs=True,
    ),
    Row(
        code="G203",
        says="a field of an object that only the engine makes",
        name="Meta",
        donor="class Meta:\n    lengths: list[int] = []\n",
        base="class Meta:\n    starts: list[int] = []\n",
        model="class OkapiForCausalLM:\n    def run(self, meta: {X}):\n        return meta.lengths\n",
        found=notes("G203 blocked"),
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
        found=notes("G203 note"),
        unfit=A_WHOLE_MODEL,
        runs=True,
    ),
    Row(
        code="G205",
        says="a switch that the base's configuration lacks",
        module="vllm.config.cache",
        name="CacheConfig",
        donor='class CacheConfig:\n    mode: str = "none"\n',
        base="class CacheConfig:\n    size: int = 1\n",
        model="class OkapiForCausalLM:\n    def run(self, config: '{X} | None' = None):\n"
        "        return (config or {X}()).mode\n",
        found=notes("G203 note"),
        found_if={},
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
        found=notes("G205 note"),
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
        found=notes("G215 blocked"),
        unfit=dict.fromkeys(
            ("a subclass", "a subclass of a subclass"), "an enumeration with members has none"
        ),
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
        found=notes("G203 note", "G204 note"),
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
        found=notes("G218 review"),
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
        found=notes("G219 blocked"),
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
        found=notes("G201 note", "G220 blocked"),
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
        found=notes("G212 blocked"),
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
        found=notes("G206 note"),
        runs=True,
    ),
    Row(
        code="G207",
        says="a function with another number of results",
        name="parts",
        donor="def parts(x):\n    return x, x + 1\n",
        base="def parts(x):\n    return x, x + 1, x + 2\n",
        body="a, b = {X}(3)\nreturn a + b",
        found=notes("G207 note"),
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
        found=notes("G207 note"),
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
        found=notes("G201 note", "G213 review"),
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
        found=notes("G201 note", "G213 review"),
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
        found=notes("G217 review"),
        runs=True,
    ),
]

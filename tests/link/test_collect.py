"""What a module's code asks for, found without running it."""

from collections.abc import Iterator

import pytest

from linking import uses_of
from vllm_graft.link.uses import CallUse, ModuleUses, NameUse, OperatorUse, ReadUse

ENGINE = {
    "vllm/__init__.py": "",
    "vllm/envs.py": "PORT: int = 1\n",
    "vllm/config.py": (
        "class Cache:\n    mode: str\n    size: int\n\n\n"
        "class Config:\n    cache: Cache\n    maybe: 'Cache | None'\n"
        "    def current(self) -> 'Config': ...\n"
        "    @property\n    def own(self) -> Cache: ...\n\n\n"
        "def current_config() -> Config: ...\n"
        "SHARED: Config = make()\n"
    ),
    "vllm/layers.py": (
        "import torch.nn as nn\n\n\n"
        "class Layer(nn.Module):\n"
        "    def __init__(self, size, *, bias=False): ...\n"
        "    def forward(self, x): ...\n"
        "    def load(self, param): ...\n"
        "    @classmethod\n    def build(cls, size): ...\n\n\n"
        "class Op(nn.Module):\n"
        "    def forward(self, *args, **kwargs): ...\n"
        "    def forward_native(self, x): ...\n"
        "    def forward_cuda(self, x, y): ...\n\n\n"
        "def make(size, *rest, **more) -> Layer: ...\n"
    ),
    "vllm/parts/__init__.py": "from .one import thing\n",
    "vllm/parts/one.py": "def thing(a): ...\n",
}
IMPORTS = (
    "import functools\nimport torch\nimport vllm.envs as envs\nimport vllm.parts.one\n"
    "from vllm import config as configs\n"
    "from vllm.config import Cache, Config, SHARED, current_config\n"
    "from vllm.layers import Layer, Op, make\n"
    "from .parts import thing\n"
)


def collect(text: str) -> ModuleUses:
    return uses_of({**ENGINE, "vllm/model.py": IMPORTS + text}, "vllm.model")


def reads(text: str) -> set[str]:
    return {
        f"{use.receiver.name}.{use.attribute} {use.through}"
        for use in collect(text).uses
        if isinstance(use, ReadUse)
    }


def calls(text: str) -> list[str]:
    return [
        f"{use.receiver} {use.callee.name}.{use.member}({use.positional}"
        f"{''.join(f', {k.name}={k.value}' for k in use.keywords)}"
        f"{', *' if use.has_star else ''}{', **' if use.has_double_star else ''})"
        for use in collect(text).uses
        if isinstance(use, CallUse)
    ]


def named(text: str, owner: str) -> Iterator[NameUse]:
    return (
        use for use in collect(text).uses if isinstance(use, NameUse) and use.owner.name == owner
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(c: Config):\n    c.cache.mode", {"Config.cache instance", "Cache.mode instance"}),
        ("def f(c: 'Config | None'):\n    c.cache", {"Config.cache instance"}),
        ("def f(c: Config):\n    c.maybe.size", {"Config.maybe instance", "Cache.size instance"}),
        ("def f(c: Config):\n    c.own.size", {"Config.own instance", "Cache.size instance"}),
        ("def f():\n    current_config().cache", {"Config.cache instance"}),
        (
            "def f():\n    c = current_config().current()\n    c.cache",
            {"Config.current instance", "Config.cache instance"},
        ),
        (
            "def f(c=None):\n    (c or current_config()).cache",
            {"Config.cache instance"},
        ),
        ("def f():\n    SHARED.cache.mode", {"Config.cache instance", "Cache.mode instance"}),
        (
            "def f():\n    configs.SHARED.cache",
            {"Config.cache instance"},
        ),
        (
            (
                "class K:\n    def __init__(self, c: Config):\n        self.c = c\n"
                "    def f(self):\n        return self.c.cache"
            ),
            {"K.c self", "Config.cache instance"},
        ),
        (
            (
                "class K:\n    def __init__(self, c: Config):\n        cache = c.cache\n"
                "        self.cache = cache\n    def f(self):\n        return self.cache.mode"
            ),
            {"Config.cache instance", "K.cache self", "Cache.mode instance"},
        ),
        (
            "class K(Layer):\n    def f(self):\n        return super().load, self.load",
            {"K.load super", "K.load self"},
        ),
        ("def f():\n    return [c.cache for c in g()]", set()),
        ("def f(c: list[Config]):\n    c.cache", set()),
        ("def f(c: Config | Cache):\n    c.cache", set()),
        ("def f(c: Config):\n    c = other()\n    c.cache", {"Config.cache instance"}),
        ("def f(c):\n    c = current_config()\n    c = other()\n    c.cache", set()),
        ("def f(c: Config):\n    def g():\n        return c.cache", {"Config.cache instance"}),
        ("def f(c: Config):\n    return lambda c: c.cache", set()),
        ("def f(c: Config):\n    c.cache = 1", set()),
    ],
)
def test_a_read_is_seen_where_the_type_of_its_object_is_known(
    text: str, expected: set[str]
) -> None:
    assert reads(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    Layer(3, bias=True)", ["construct Layer.__init__(1, bias=True)"]),
        ("def f(a, b):\n    make(1, *a, x=2, **b)", [" make.(1, x=2, *, **)"]),
        ("def f():\n    Layer.build(3)", ["class Layer.build(1)"]),
        (
            "def f():\n    layer = make(3)\n    layer(5)",
            [" make.(1)", "instance Layer.forward(1)"],
        ),
        (
            (
                "class K:\n    def __init__(self):\n        self.op = Op()\n"
                "    def f(self):\n        self.op(1, 2)"
            ),
            [
                "construct Op.__init__(0)",
                "instance Op.forward_native(2)",
                "instance Op.forward_cuda(2)",
            ],
        ),
        (
            (
                "class K(Layer):\n    def __init__(self):\n        super().__init__(1)\n"
                "        super(K, self).load(2)"
            ),
            ["super K.__init__(1)", "super K.load(1)"],
        ),
        ("def f():\n    thing(1)", [" thing.(1)"]),
        ("def f():\n    vllm.parts.one.thing(1)", [" thing.(1)"]),
        ("def f():\n    from vllm.parts import thing as t\n    t(1)", [" thing.(1)"]),
        ("def f():\n    import vllm.layers as l\n    l.make(1)", [" make.(1)"]),
        ("def f(make):\n    make(1)", []),
        (
            "def f():\n    return functools.partial(make, 1, a=2)",
            [" make.(1, a=2, *, **)"],
        ),
        (
            "from functools import partial\ndef f():\n    return partial(Layer, bias=True)",
            ["construct Layer.__init__(0, bias=True, *, **)"],
        ),
    ],
)
def test_a_call_is_seen_with_what_it_passes(text: str, expected: list[str]) -> None:
    assert calls(text) == expected


def test_the_names_that_a_call_is_unpacked_into_are_counted() -> None:
    uses = collect("def f():\n    a, b = make(1)\n    c, *d = make(2)\n    e = make(3)\n").uses
    assert [use.unpacked for use in uses if isinstance(use, CallUse)] == [2, 0, 0]


def test_attributes_through_an_aliased_module_are_names() -> None:
    assert [
        (u.target.dotted, u.written) for u in named("def f():\n    return envs.PORT\n", "f")
    ] == [("vllm.envs.PORT", "envs.PORT")]


def test_a_name_in_an_annotation_is_a_type() -> None:
    uses = named("def f(a: 'list[Cache]', b: Config = SHARED): ...\n", "f")
    assert {(use.target.name, use.as_type) for use in uses} == {
        ("Cache", True),
        ("Config", True),
        ("SHARED", False),
    }


def test_a_name_that_a_function_binds_is_its_own() -> None:
    assert not list(named("def f():\n    Cache = 1\n    return Cache\n", "f"))


def test_a_use_knows_its_definition_and_its_member() -> None:
    text = "class K(Layer):\n    kind = Cache\n    def f(self):\n        return Config\n"
    uses = [u for u in collect(text).uses if isinstance(u, NameUse) and u.owner.name == "K"]
    assert {(u.target.name, u.owner.member) for u in uses} == {
        ("Layer", ""),
        ("Cache", "kind"),
        ("Config", "f"),
    }


def test_a_use_knows_the_conditions_around_it() -> None:
    text = (
        "def f(a):\n    if a:\n        if b:\n            return Cache\n"
        "    else:\n        return Config\n    return Layer if c else Op\n"
    )
    guards = {use.target.name: use.guard for use in named(text, "f")}
    assert guards == {"Cache": "a and b", "Config": "not (a)", "Layer": "c", "Op": "not (c)"}


def test_operators_are_seen_with_their_namespace() -> None:
    text = (
        "def f(x):\n    if x:\n        torch.ops.vllm.gather(x)\n    torch.ops._C.add.default(x)\n"
    )
    assert [
        (use.namespace, use.name, use.guard)
        for use in collect(text).uses
        if isinstance(use, OperatorUse)
    ] == [("vllm", "gather", "x"), ("_C", "add", "")]


def test_registrations_are_seen() -> None:
    text = (
        "def impl(x): ...\n"
        'direct_register_custom_op(op_name="one", op_func=impl)\n'
        'direct_register_custom_op("two", impl)\n'
        '@CustomOp.register("three")\nclass Three(Op):\n    pass\n'
        "direct_register_custom_op(op_name=name, op_func=impl)\n"
    )
    assert {(r.kind, r.name, r.function) for r in collect(text).registrations} == {
        ("operator", "one", "impl"),
        ("operator", "two", "impl"),
        ("custom-op", "three", "Three"),
    }

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.link.scopes import flatten, global_names
from vllm_graft.link.summary import ModuleSummary, absolute_module, summarize
from vllm_graft.link.symbols import Definition


def names(text: str) -> set[str]:
    return set(global_names(ast.parse(text)))


def definition(text: str, name: str) -> Definition:
    return summary(text).definitions[name]


def summary(text: str, *, module: str = "vllm.a.b", is_package: bool = False) -> ModuleSummary:
    return summarize(ast.parse(text), module=module, path="", is_package=is_package)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a, *b, c=D, **e):\n    return a + b + c + e + g", {"D", "g"}),
        ("def f():\n    x = y\n    return x", {"y"}),
        ("def f():\n    global x\n    x = 1\n    return x", {"x"}),
        ("def f():\n    with a as b, c as (d, e):\n        return b + d + e", {"a", "c"}),
        ("def f():\n    for i, (j, *k) in l:\n        return i + j + k", {"l"}),
        ("def f():\n    try:\n        a()\n    except E as e:\n        return e", {"a", "E"}),
        ("def f():\n    import m.n as o, p.q\n    return o + p", set()),
        (
            "def f(x):\n    match x:\n        case [a, *b] | {'k': a, **b}:\n            return a + b",
            set(),
        ),
        ("def f(x):\n    match x:\n        case K(a) as b:\n            return a + b", {"K"}),
        ("def f():\n    if (n := g()):\n        return n", {"g"}),
        ("def f():\n    return [i + j for i in a for j in b if c]", {"a", "b", "c"}),
        ("def f():\n    return lambda x, y=z: x + y + w", {"z", "w"}),
        ("def f():\n    def g():\n        return h\n    return g", {"h"}),
        ("def f(a: 'A', b: list['B']) -> 'C':\n    pass", {"A", "B", "C"}),
        ("@d(e)\nclass K(P, metaclass=M):\n    x: T = v", {"d", "e", "P", "M", "T", "v"}),
        ("class K:\n    x = 1\n    y = x\n    def f(self):\n        return x", {"x"}),
        ("x: 'not valid (' = 1", {"x"}),
        ("def f():\n    return len(x)", {"x"}),
        (
            "async def f():\n    async with a as b:\n        async for c in d:\n            b(c)",
            {"a", "d"},
        ),
    ],
)
def test_a_name_is_global_where_no_function_around_it_binds_it(
    text: str, expected: set[str]
) -> None:
    assert names(text) == expected


def test_what_stands_under_a_condition_carries_it() -> None:
    body = ast.parse(
        "if TYPE_CHECKING:\n    a = 1\nelif x:\n    b = 1\nelse:\n    c = 1\n"
        "try:\n    d = 1\nexcept E:\n    e = 1\nelse:\n    f = 1\nfinally:\n    g = 1\n"
        "if typing.TYPE_CHECKING:\n    h = 1\n"
    ).body
    guards = {ast.unparse(item.node)[0]: item.guard for item in flatten(body)}
    assert guards == {
        "a": "TYPE_CHECKING",
        "b": "x",
        "c": "not (x)",
        "d": "try",
        "e": "except",
        "f": "try",
        "g": "",
        "h": "TYPE_CHECKING",
    }


@pytest.mark.parametrize(
    ("module", "kind", "level", "target", "expected"),
    [
        ("vllm.a.b", "module", 0, "torch.nn", "torch.nn"),
        ("vllm.a.b", "module", 1, "c", "vllm.a.c"),
        ("vllm.a.b", "module", 1, None, "vllm.a"),
        ("vllm.a.b", "module", 2, "c.d", "vllm.c.d"),
        ("vllm.a", "package", 1, "c", "vllm.a.c"),
        ("vllm.a", "package", 2, "c", "vllm.c"),
        ("vllm.a", "package", 2, None, "vllm"),
    ],
)
def test_a_relative_import_counts_from_its_package(
    module: str, kind: str, level: int, target: str | None, expected: str
) -> None:
    found = absolute_module(module, is_package=kind == "package", level=level, target=target)
    assert found == expected


def test_a_fallback_does_not_replace_the_real_thing() -> None:
    text = (
        "try:\n    from vllm.fast import run\nexcept ImportError:\n    def run(): ...\n"
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    )
    found = summary(text).definitions
    assert (found["run"].kind, found["run"].target_module) == ("import", "vllm.fast")
    assert found["torch"].kind == "import"


def test_a_stand_in_at_run_time_does_not_replace_the_type() -> None:
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from vllm.config import VllmConfig\nelse:\n    VllmConfig = object\n"
    )
    assert definition(text, "VllmConfig").target_module == "vllm.config"


def test_overloads_are_not_the_function() -> None:
    text = (
        "from typing import overload\n"
        "@overload\ndef f(a: int) -> int: ...\n"
        "@overload\ndef f(a: str) -> str: ...\n"
        "def f(a, b=1):\n    return a\n"
    )
    assert [p.name for p in definition(text, "f").parameters] == ["a", "b"]


def test_parameters_keep_their_kinds_defaults_and_annotations() -> None:
    found = definition("def f(a, /, b: int, c=2, *d, e, f=None, **g): ...", "f").parameters
    assert [(p.name, p.kind, p.default, p.annotation) for p in found] == [
        ("a", "positional", None, None),
        ("b", "either", None, "int"),
        ("c", "either", "2", None),
        ("d", "varargs", None, None),
        ("e", "keyword", None, None),
        ("f", "keyword", "None", None),
        ("g", "varkeywords", None, None),
    ]


CLASS = """
class K(P[int], Q):
    size: int = 3
    a = b = 1
    if VERSION:
        def late(self): ...
    class Inner:
        pass
    def __init__(self, n):
        self.n = n
        self.x, (self.y, *self.z) = n
        self.w: int = 1
        if n:
            self.v += 1
        other.u = 1
    @property
    def p(self) -> int:
        return self.n
    @p.setter
    def p(self, value):
        self.hidden = value
    @classmethod
    def c(cls):
        return cls.s()
    @staticmethod
    def s(): ...
    @functools.cached_property
    def cached(self): ...
    @overload
    def o(self, a: int): ...
    def o(self, a): ...
    def stub(self):
        "Says what it would do."
        raise NotImplementedError
"""


def test_members_are_what_the_body_and_the_methods_bind() -> None:
    members = definition(CLASS, "K").members
    kinds = {name: member.kind for name, member in members.items()}
    assert kinds == {
        "size": "attribute",
        "a": "attribute",
        "b": "attribute",
        "late": "method",
        "Inner": "attribute",
        "__init__": "method",
        "n": "instance",
        "x": "instance",
        "y": "instance",
        "z": "instance",
        "w": "instance",
        "v": "instance",
        "p": "property",
        "c": "classmethod",
        "s": "staticmethod",
        "cached": "property",
        "o": "method",
        "stub": "method",
    }
    assert {name for name, member in members.items() if member.is_stub} == {
        "late",
        "s",
        "cached",
        "o",
        "stub",
    }
    assert members["p"].returns == "int"
    assert (members["size"].annotation, members["size"].default) == ("int", "3")
    assert members["c"].self_calls == {"s"}
    assert members["p"].self_reads == {"n"}


def test_a_setter_belongs_to_its_property() -> None:
    assert definition(CLASS, "K").members["p"].line == 16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = _b = 1", {"a"}),
        ("a = _b = 1\n__all__ = ['_b']", {"_b"}),
        ("a = _b = 1\n__all__ = ('a',)\n__all__ += ['_b']", {"a", "_b"}),
        ("a = _b = 1\n__all__ = ['a', *more]", {"a", "_b"}),
        ("a = _b = 1\n__all__ = other.__all__\n__all__ += ['a']", {"a", "_b"}),
    ],
)
def test_a_star_import_is_given_what_all_says(text: str, expected: set[str]) -> None:
    assert {n for n in ("a", "_b") if summary(text).gives_to_star(n)} == expected


def test_a_lazy_map_is_read_where_the_module_serves_it() -> None:
    text = (
        "MODULES = {'A': 'vllm.x.a', 'B': '.b:B', 'C': 'torch', 'D': 4}\n"
        "def __getattr__(name): ...\n"
    )
    assert summary(text, module="vllm.x", is_package=True).lazy == {
        "A": "vllm.x.a",
        "B": "vllm.x.b",
    }
    assert summary(text.partition("def")[0], module="vllm.x", is_package=True).lazy == {}


def test_a_value_bound_by_unpacking_is_a_definition() -> None:
    found = summary("a, (b, c) = f()\nd[e] = 1\nx += 1\n").definitions
    assert {"a", "b", "c", "x"} == set(found)


@given(st.integers(1, 4), st.integers(1, 4))
def test_a_relative_import_never_leaves_its_root(depth: int, level: int) -> None:
    module = ".".join(["vllm", *"abcdefg"[:depth]])
    found = absolute_module(module, is_package=False, level=min(level, depth), target="t")
    assert found.startswith("vllm")

import pytest

from linking import index_of
from vllm_graft.link.index import Found, Index

FILES = {
    "vllm/__init__.py": (
        "MODULE_ATTRS = {'LLM': '.entrypoints.llm:LLM'}\ndef __getattr__(name):\n    ...\n"
    ),
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/llm.py": "class LLM:\n    pass\n",
    "vllm/envs.py": "PORT: int = 1\n",
    "vllm/layers/__init__.py": (
        "from .linear import Linear, Linear as Dense\n"
        "from vllm.layers.star import *\n"
        "from . import norm\n"
        "__all__ = ['Linear']\n"
    ),
    "vllm/layers/linear.py": "class Linear:\n    pass\n\n\n_hidden = 1\n",
    "vllm/layers/norm.py": "def norm(): ...\n",
    "vllm/layers/star.py": (
        "from torch import nn\n"
        "from vllm.layers.deep import *\n"
        "__all__ = ['shown', '_special', 'deep']\n"
        "def shown(): ...\n"
        "def kept(): ...\n"
        "def _special(): ...\n"
    ),
    "vllm/layers/deep.py": "def deep(): ...\n\n\ndef _private(): ...\n",
    "vllm/ring/__init__.py": "from vllm.ring.one import thing\n",
    "vllm/ring/one.py": "from vllm.ring import thing\n",
    "vllm/use.py": (
        "import vllm.envs as envs\n"
        "import vllm.layers.norm\n"
        "import torch.nn as nn\n"
        "from torch import Tensor\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from vllm.layers.linear import Linear\nelse:\n    Linear = object\n"
        "try:\n    from vllm.layers.norm import norm as fast\nexcept ImportError:\n    fast = None\n"
        "if nn:\n    def twice(): ...\nelse:\n    def twice(a): ...\n"
    ),
    "vllm/family.py": (
        "import torch.nn as nn\n"
        "from vllm.layers.linear import Linear\n"
        "from typing import Generic\n\n\n"
        "class A(nn.Module):\n    def f(self): ...\n    def g(self): ...\n\n\n"
        "class B(A):\n    def f(self): ...\n\n\n"
        "class C(A, Generic[T]):\n    def g(self): ...\n\n\n"
        "class D(B, C[int]):\n    pass\n\n\n"
        "class E(D, Linear):\n    h: int\n\n\n"
        "class Loop(Pool):\n    pass\n\n\n"
        "class Pool(Loop):\n    pass\n"
    ),
}


@pytest.fixture(scope="module")
def index() -> Index:
    return index_of(FILES)


def found(index: Index, module: str, name: str) -> Found:
    result = index.resolve(module, name)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("vllm.layers", "Linear", "vllm.layers.linear.Linear"),
        ("vllm.layers", "Dense", "vllm.layers.linear.Linear"),
        ("vllm.layers", "norm", "vllm.layers.norm"),
        ("vllm.layers", "linear", "vllm.layers.linear"),
        ("vllm.layers", "shown", "vllm.layers.star.shown"),
        ("vllm.layers", "_special", "vllm.layers.star._special"),
        ("vllm.layers", "deep", "vllm.layers.deep.deep"),
        ("vllm", "LLM", "vllm.entrypoints.llm.LLM"),
        ("vllm", "envs", "vllm.envs"),
        ("vllm.use", "envs", "vllm.envs"),
        ("vllm.use", "vllm", "vllm"),
        ("vllm.use", "Linear", "vllm.layers.linear.Linear"),
        ("vllm.use", "fast", "vllm.layers.norm.norm"),
        ("vllm.use", "twice", "vllm.use.twice"),
    ],
)
def test_a_name_is_followed_to_where_it_is_defined(
    index: Index, module: str, name: str, expected: str
) -> None:
    assert found(index, module, name).dotted == expected


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vllm.layers", "kept"),  # __all__ of the module that is starred does not have it
        ("vllm.star_of_nothing", "x"),
        ("vllm.layers", "_private"),
        ("vllm.layers", "nowhere"),
        ("vllm.ring", "thing"),
    ],
)
def test_a_name_that_python_would_not_find_is_not_found(
    index: Index, module: str, name: str
) -> None:
    assert index.resolve(module, name) is None


def test_a_name_from_outside_is_the_import_that_brings_it(index: Index) -> None:
    tensor = found(index, "vllm.use", "Tensor").definition
    assert (tensor.kind, tensor.target_module, tensor.target_name) == ("import", "torch", "Tensor")


@pytest.mark.parametrize(
    ("expression", "expected", "rest"),
    [
        ("envs.PORT", "vllm.envs.PORT", ()),
        ("vllm.layers.norm.norm", "vllm.layers.norm.norm", ()),
        ("vllm.layers.Linear.weight", "vllm.layers.linear.Linear", ("weight",)),
        ("envs.MISSING", "vllm.envs", ("MISSING",)),
    ],
)
def test_a_chain_is_followed_through_modules(
    index: Index, expression: str, expected: str, rest: tuple[str, ...]
) -> None:
    reached = index.resolve_dotted("vllm.use", expression)
    assert reached is not None
    assert (reached[0].dotted, reached[1]) == (expected, rest)


def test_ancestors_come_in_the_order_of_python(index: Index) -> None:
    ancestry = index.ancestry(found(index, "vllm.family", "E"))
    assert [c.name for c in ancestry.classes] == ["E", "D", "B", "C", "A", "Linear"]
    assert ancestry.outside == ("torch.nn.Module", "typing.Generic")


def test_a_member_is_the_nearest_ancestors(index: Index) -> None:
    child = found(index, "vllm.family", "D")
    providers = {name: index.member(child, name) for name in ("f", "g", "nothing")}
    assert {n: p[0].name if p else None for n, p in providers.items()} == {
        "f": "B",
        "g": "C",
        "nothing": None,
    }


def test_a_class_descends_from_its_ancestors_only(index: Index) -> None:
    a, b, c = (found(index, "vllm.family", name) for name in "ABC")
    assert index.descends(b, a)
    assert not index.descends(b, c)


def test_classes_that_inherit_from_one_another_end(index: Index) -> None:
    assert {c.name for c in index.ancestry(found(index, "vllm.family", "Loop")).classes} == {
        "Loop",
        "Pool",
    }


def test_definers_finds_classes_and_functions_by_their_own_lines(index: Index) -> None:
    assert [f.dotted for f in index.definers("Linear", "class")] == ["vllm.layers.linear.Linear"]
    assert [f.dotted for f in index.definers("deep", "function")] == ["vllm.layers.deep.deep"]
    assert not list(index.definers("Linear", "function"))

